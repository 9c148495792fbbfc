"""What a person sees of an episode on the terminal: its turns as they come, and the answer with its sources.

Text from outside is neither markup nor control characters there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from sanderling.agent.loop import CallGoesOn, CallsMade, Ended, Event, Observed, TextDelta, TurnRejected, TurnStarted
from sanderling.core.observations import Extract, read_result
from sanderling.core.profiles import ListedPage
from sanderling.core.record import REPORT, NodeKind, Trajectory
from sanderling.core.text import counted_as, visible
from sanderling.core.types import Ending, ToolStatus
from sanderling.judge.citations import DOUBTS, CitedAnswer, Files, Numbering, Source, cite, found_so_far, no_files
from sanderling.judge.support import Support

_PREVIEW_CHARS, _URLS, _QUOTES = 240, 5, 2


class Watcher:
    """Prints an episode's events as they come; text from outside is neither markup nor control characters there."""

    def __init__(self, console: Console, left: Callable[[], str] = str) -> None:
        """``left``: what is left to spend, in words; empty where nothing limits it."""
        self._console, self._left = console, left
        self._text, self._shown = "", 0  # of the turn; how much of its reasoning is on the screen
        self._mid_line = False
        self._found: dict[str, set[str]] = {"search": set(), "visit": set()}  # addresses

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._text, self._shown = "", 0
                self.line(Text())
                what = "last turn: the answer is asked for" if event.forced else f"turn {event.turn + 1}"
                again = f", attempt {event.retry + 1}" if event.retry else ""
                self._console.rule(Text(f"{what}{again} · {self._so_far(event)}", style="blue"), align="left", style="blue")
            case TextDelta():
                self._stream(event.text)
            case TurnRejected():
                self.line(Text(f"tried again: {event.reason.replace('_', ' ')}", style="yellow"))
            case CallsMade():
                for call in event.calls:
                    arguments = "  ".join(f"{brief(key)}: {brief(value)}" for key, value in call.arguments.items())
                    self.line(Text.assemble((f"→ {brief(call.name)}", "bold cyan"), f"  {arguments}"))
            case CallGoesOn():
                self.line(Text(f"  {brief(event.tool)}: {brief(event.text)}", style="dim"))
            case Observed():
                self._observed(event)
            case Ended():
                self.line(Text())

    def _so_far(self, event: TurnStarted) -> str:
        """What the turn begins with: tokens, pages, and what is left."""
        found, read = len(self._found["search"] | self._found["visit"]), len(self._found["visit"])
        told = [f"{event.prompt_tokens:,} tokens"] + ([f"{counted_as(found, 'page')} found, {read} read"] if found else [])
        return " · ".join([*told, *([f"left: {left}"] if (left := self._left()) else [])])

    def _observed(self, event: Observed) -> None:
        titles = titles_in(event)
        for outcome in event.outcomes:
            style = "green" if outcome.status is ToolStatus.OK else "yellow"
            pages = dict.fromkeys(outcome.provenance)
            self.line(Text(f"← {brief(outcome.name)}: {outcome.status.value}, {counted_as(len(pages), 'page')}", style=style))
            self._found.get(outcome.role, set()).update(pages)
            for url in list(pages)[:_URLS]:
                self.line(
                    Text.assemble("    ", (brief(titles.get(url, "")), ""), " " if url in titles else "", (brief(url), "cyan"))
                )
        is_listed = [outcome.role == "search" and outcome.status is ToolStatus.OK for outcome in event.outcomes]
        if not is_listed or not all(is_listed):
            self.line(Text(brief(event.text), style="dim italic" if event.outcomes else "yellow"))

    def _stream(self, piece: str) -> None:
        """Show what of the reasoning is new. A tag that may just be beginning is held back."""
        self._text += piece
        text = self._text.lstrip()
        reasoning = "" if "<think>".startswith(text) else text.removeprefix("<think>").partition("</think>")[0]
        for tag in ("<answer>", "<tool_call>"):
            reasoning = reasoning.partition(tag)[0]
        tag = reasoning.rfind("<")
        if tag >= 0 and any(one.startswith(reasoning[tag:]) for one in ("</think>", "<answer>", "<tool_call>")):
            reasoning = reasoning[:tag]
        if new := reasoning[self._shown :]:
            self._console.print(Text(visible(new), style="dim"), end="", soft_wrap=True)
            self._shown, self._mid_line = len(reasoning), not new.endswith("\n")

    def line(self, text: Text) -> None:
        if self._mid_line:
            self._console.print()
            self._mid_line = False
        self._console.print(text, soft_wrap=True)


_UNSURE = {Support.PARTLY: "yellow", Support.NOT_FOUND: "red"}


def shown_answer(trajectory: Trajectory, console: Console, beside: Console, files: Files = no_files) -> None:
    """Print an answer with its sources, and how it came about: on a terminal in one frame, else on the console ``beside``."""
    turns = sum(node.kind is NodeKind.TURN and not node.rejected for node in trajectory.own())
    ending = trajectory.ending or Ending.CANCELLED
    tail = f"{ending.value.replace('_', ' ')} · {counted_as(turns, 'turn')} · {trajectory.seconds:.1f} s"
    part = None
    if REPORT in trajectory.question.meta:
        from sanderling.agent.writing import kind_of  # which answers do without

        part = kind_of(trajectory)
    below: list[Text] = []
    if part is not None and not part.is_read and trajectory.answer is not None:  # a plan: there is nothing to check
        body = Text(visible(trajectory.answer))
    elif (cited := cite(trajectory, Numbering(files))) is not None:
        body, below = cited_text(cited), [*source_lines(cited.sources), Text(cited.checked, style="dim")]
    else:
        body, found = Text("No answer.", style="red"), found_so_far(trajectory, files)
        below = [Text("Found so far:", style="bold"), *source_lines(found)] if found else []
    if console.is_terminal:
        if trajectory.detail:
            body.append(f"\n\n{visible(trajectory.detail)}", style="dim")
        style = "green" if ending.has_answer else "red"
        console.print(Panel(body, title="answer" if part is None else part.value, subtitle=tail, border_style=style))
    else:
        console.print(body, end="\n\n", soft_wrap=True)
    for line in below:
        console.print(line, soft_wrap=True)
    if not console.is_terminal:
        told = "\n".join(filter(None, (visible(trajectory.detail), tail)))
        beside.print(Text(told, style="dim"), soft_wrap=True)


def cited_text(cited: CitedAnswer) -> Text:
    """An answer with its references; what is not supported is marked where it stands."""
    text = Text()
    for sentence in cited.sentences:
        style = _UNSURE.get(sentence.support, "") if sentence.support else ""
        text.append(visible(str(sentence)), style=style)
        if style:
            text.append(f" ({DOUBTS[sentence.support]})" if sentence.support else "", style=f"{style} italic")
    text.rstrip()
    return text


def source_lines(sources: Iterable[Source]) -> Iterator[Text]:
    """Pages with what each says; a terminal that knows links opens those that are files."""
    for source in sources:
        yield Text.assemble((f"[{source.number}] ", "bold"), visible(source.title) or visible(source.url))
        yield Text.assemble("    ", (visible(source.place), f"cyan link {source.link}" if source.file else "cyan"))
        for said in source.quotes[:_QUOTES]:
            yield Text(f"    “{brief(said)}”", style="dim")


def titles_in(event: Observed) -> dict[str, str]:
    """The titles of the pages that results list, by address, in whichever layout."""
    reading = read_result(event.text, event.outcomes)
    told: list[ListedPage | Extract] = [*reading.extracts, *(hit for block in reading.blocks for hit in block.hits)]
    return {page.url: page.title for page in told if page.title}


def files_of(several: Iterable[Sequence[Path]]) -> Files:
    """Where the documents lie that questions were asked of; of each its folders."""
    given = [folders for folders in several if folders]
    if not given:
        return no_files
    from sanderling.world.disk.documents import files_in  # which a world does without

    return files_in(given)


def first_line(text: str) -> str:
    """Of a question; those for the parts of a report have more, for the model."""
    return visible(text.strip().partition("\n")[0])


def brief(value: object) -> str:
    """A value from outside on one line."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = visible(" ".join(text.split()))
    return line if len(line) <= _PREVIEW_CHARS else line[: _PREVIEW_CHARS - 1] + "…"
