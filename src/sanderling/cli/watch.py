"""Watching an episode in the terminal: reasoning dim as it comes, then calls, results in brief, and the answer in a panel.

A view of the loop's events; it changes nothing about the episode. Text from outside is never read as markup, and its control
characters never reach the terminal.
"""

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from sanderling.agent.events import CallsMade, Ended, Event, Observed, TextDelta, TurnRejected, TurnStarted
from sanderling.core.record import Trajectory
from sanderling.core.text import visible
from sanderling.core.types import Ending, ToolStatus

_OPEN, _CLOSE = "<think>", "</think>"
_PREVIEW_CHARS = 240
_URLS = 3


class Watcher:
    """Prints events as they come: ``agent.run(..., on_event=Watcher(console))``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text, self._shown = "", 0  # of the turn; how much of its reasoning is on the screen
        self._mid_line = False

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._started(event)
            case TextDelta():
                self._stream(event.text)
            case TurnRejected():
                self._line(Text(f"tried again: {event.reason.replace('_', ' ')}", style="yellow"))
            case CallsMade():
                for call in event.calls:
                    arguments = "  ".join(f"{_brief(key)}: {_brief(value)}" for key, value in call.arguments.items())
                    self._line(Text.assemble((f"→ {_brief(call.name)}", "bold cyan"), f"  {arguments}"))
            case Observed():
                self._observed(event)
            case Ended():
                self._ended(event.trajectory)

    def _started(self, event: TurnStarted) -> None:
        self._text, self._shown = "", 0
        self._line(Text())
        what = "last turn: the answer is asked for" if event.forced else f"turn {event.turn + 1}"
        again = f", attempt {event.retry + 1}" if event.retry else ""
        self._console.rule(Text(f"{what}{again} · {event.prompt_tokens:,} tokens", style="blue"), align="left", style="blue")

    def _observed(self, event: Observed) -> None:
        for outcome in event.outcomes:
            style = "green" if outcome.status is ToolStatus.OK else "yellow"
            self._line(Text(f"← {_brief(outcome.name)}: {outcome.status.value}, {len(outcome.provenance)} pages", style=style))
            for url in outcome.provenance[:_URLS]:
                self._line(Text(f"    {_brief(url)}", style="cyan"))
        self._line(Text(_brief(event.text), style="dim italic" if event.outcomes else "yellow"))

    def _ended(self, trajectory: Trajectory) -> None:
        self._line(Text())
        turns = len(list(trajectory.turns()))
        ending = trajectory.ending or Ending.CANCELLED
        tail = f"{ending.value.replace('_', ' ')} · {turns} turns · {trajectory.seconds:.1f} s"
        body = Text(visible(trajectory.answer or "No answer."), style="" if trajectory.answer else "red")
        if trajectory.detail:
            body.append(f"\n\n{visible(trajectory.detail)}", style="dim")
        style = "green" if ending.has_answer else "red"
        self._console.print(Panel(body, title="answer", subtitle=tail, border_style=style))

    def _stream(self, piece: str) -> None:
        """Show what of the reasoning is new. A tag that may just be beginning is held back."""
        self._text += piece
        text = self._text.lstrip()
        reasoning = "" if _OPEN.startswith(text) else text.removeprefix(_OPEN).partition(_CLOSE)[0]
        tag = reasoning.rfind("<")
        if tag >= 0 and _CLOSE.startswith(reasoning[tag:]):
            reasoning = reasoning[:tag]
        if new := reasoning[self._shown :]:
            self._console.print(Text(visible(new), style="dim"), end="", soft_wrap=True)
            self._shown, self._mid_line = len(reasoning), not new.endswith("\n")

    def _line(self, text: Text) -> None:
        """A line of its own, whatever was streamed before it."""
        if self._mid_line:
            self._console.print()
            self._mid_line = False
        self._console.print(text, soft_wrap=True)


def _brief(value: object) -> str:
    """A value on one short line."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = visible(" ".join(text.split()))
    return line if len(line) <= _PREVIEW_CHARS else line[: _PREVIEW_CHARS - 1] + "…"
