"""``sanderling ask``: research one question and watch the turns; ``sanderling show``: read a recorded episode.

Exit status: 0 for an answer, 1 for none, 130 after Ctrl-C, of which the first ends the episode with a readable record. With
``--out`` keeps a journal beside the store meanwhile. If interrupted, run the same command again to resume.
"""

import asyncio
import hashlib
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.agent.loop import CallsMade, Ended, Event, Observed, TextDelta, TurnRejected, TurnStarted
from sanderling.agent.opening import AskConfig, journal_identity, opened_agent, stop_on_interrupt
from sanderling.cli import INTERRUPTED, NO_ANSWER
from sanderling.cli import options as common
from sanderling.cli.options import RUN, argument, option, settings
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.text import visible
from sanderling.core.types import BudgetSpentError, Ending, ToolStatus
from sanderling.policy.budget import Spending
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.tools.contract import OnOutage, tool_roles
from sanderling.tools.recording import open_recording, recorded_tools

_PREVIEW_CHARS, _URLS = 240, 3
_ANY = "A store (.jsonl), a .parquet file, a run's directory, or a recorded file of another system."


def show(
    file: Annotated[Path, argument("FILE", _ANY)],
    id: Annotated[str | None, option("--id", "Print the trajectory with this id.")] = None,
    index: Annotated[int, option("--index", "Print the trajectory at this place, from 0.", min=0)] = 0,
    full: Annotated[bool, option("--full", "Print reasoning and observations whole.")] = False,
) -> None:
    """Print a trajectory: question, turns, observations in short, answer, ending, usage."""
    from sanderling.data.stats import find_trajectory, transcript  # every layout's reader, which asking does without

    Console().print(transcript(find_trajectory(file, id=id, index=index), full=full))


def ask(
    question: Annotated[str, argument("QUESTION", "What to find out.")],
    model: common.Model = None,
    profile: common.ProfileName = None,
    world: common.Worlds = None,
    web: common.Web = None,
    faults: common.Faults = None,
    seed: common.Seed = None,
    out: Annotated[
        Path | None, option("--out", "Append the trajectory here (.jsonl); an interrupted episode resumes.", "FILE", RUN)
    ] = None,
    record: Annotated[Path | None, option("--record", "Append every tool call here (.jsonl).", "FILE", RUN)] = None,
    file: common.ConfigFile = None,
    sets: common.Set = None,
) -> None:
    """Research one question and watch the turns."""
    given = {"model": model, "profile": profile, "worlds": world, "web": web, "faults": faults, "seed": seed}
    given = {f"agent.{key}": value for key, value in given.items()} | {"out": out, "record": record}
    config = settings(AskConfig, file, sets, given)
    question = question.encode("utf-8", errors="replace").decode()  # a terminal may hand over bytes that are not text
    if not question.strip():
        raise UserError("The question is empty: write what you want to know.")
    store = None if config.out is None else TrajectoryStore(config.out)
    if store is not None:
        store.prepare()  # a place that cannot be written is told before the work, not after it
    log = None if config.record is None else open_recording(config.record)
    done = asyncio.run(_ask(question, config, store, log))
    if done.ending is Ending.CANCELLED:
        raise typer.Exit(INTERRUPTED)
    if done.answer is None:
        raise typer.Exit(NO_ANSWER)


async def _ask(question: str, config: AskConfig, store: TrajectoryStore | None, log: JsonlLog | None) -> Trajectory:
    console = Console()
    tell = partial(console.print, style="dim", markup=False, highlight=False, soft_wrap=True)
    how = {"spending": Spending(None, config.budget), "on_outage": OnOutage.FALL_BACK, "on_close": tell}
    async with opened_agent(config.agent, **how) as agent:
        journal, seed = None, config.agent.seed
        if store is not None:
            place = store.path.with_name(f"{store.path.name}.{episode_id(question, agent, seed)}.run")
            journal = Journal(place, journal_identity(config.agent, agent))
        with journal or nullcontext():  # it is gone when the episode has come to a scored end
            done = await research(question, agent, seed=seed, console=console, journal=journal, log=log)
            if store is not None and journal is not None:
                store.append(done)
                journal.stored(done)
    return done


async def research(
    question: str, agent: Agent, *, console: Console, seed: int = 0, journal: Journal | None = None, log: JsonlLog | None = None
) -> Trajectory:
    """Run the episode, printing its turns; Ctrl-C ends it with the record so far. ``log``: where calls are recorded."""
    id = episode_id(question, agent, seed)
    if log is not None:
        tools = recorded_tools(agent.tools, tool_roles(agent.profile), log, episode=id, question=question)
        agent = replace(agent, tools=tools)
    asked, seeds = Question(id=f"ask-{_digest(question)}", text=question), Seeds(run=seed, episode=seed)
    with stop_on_interrupt() as stop:
        try:
            return await agent.run(asked, seeds, id=id, on_event=Watcher(console), cancel=stop, journal=journal)
        except BudgetSpentError as error:
            raise UserError(f"{error} Give more with --set budget.max_tokens or budget.max_cost.") from error


def episode_id(question: str, agent: Agent, seed: int) -> str:
    """The same for the same command."""
    read_by = () if agent.reader is None else (str(agent.reader),)
    return f"ask-{_digest(question, agent.policy.name, agent.fingerprint, agent.profile.name, str(seed), *read_by)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="replace")).hexdigest()[:12]


class Watcher:
    """Prints an episode's events as they come; text from outside is neither markup nor control characters there."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text, self._shown = "", 0  # of the turn; how much of its reasoning is on the screen
        self._mid_line = False

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._text, self._shown = "", 0
                self._line(Text())
                what = "last turn: the answer is asked for" if event.forced else f"turn {event.turn + 1}"
                again = f", attempt {event.retry + 1}" if event.retry else ""
                head = Text(f"{what}{again} · {event.prompt_tokens:,} tokens", style="blue")
                self._console.rule(head, align="left", style="blue")
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
        reasoning = "" if "<think>".startswith(text) else text.removeprefix("<think>").partition("</think>")[0]
        tag = reasoning.rfind("<")
        if tag >= 0 and "</think>".startswith(reasoning[tag:]):
            reasoning = reasoning[:tag]
        if new := reasoning[self._shown :]:
            self._console.print(Text(visible(new), style="dim"), end="", soft_wrap=True)
            self._shown, self._mid_line = len(reasoning), not new.endswith("\n")

    def _line(self, text: Text) -> None:
        if self._mid_line:
            self._console.print()
            self._mid_line = False
        self._console.print(text, soft_wrap=True)


def _brief(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = visible(" ".join(text.split()))
    return line if len(line) <= _PREVIEW_CHARS else line[: _PREVIEW_CHARS - 1] + "…"
