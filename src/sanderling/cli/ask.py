"""``sanderling ask``: research one question over a world or the live web, and watch the turns. Thin: the loop does the work.

Exit status: 0 for an answer, 1 for none, 130 after Ctrl-C. The first Ctrl-C ends the episode with a readable record, which is
stored like any other; a second one interrupts at once. With ``--out`` a journal lies beside the store while the episode is
under way: killed, stopped or met by an outage, the same command goes on where it was.
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

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.agent.opening import AskConfig, journal_identity, opened_agent, stop_on_interrupt
from sanderling.cli import exits
from sanderling.cli.options import (
    RUN,
    ConfigFile,
    Faults,
    MaxTurns,
    Model,
    ProfileName,
    Seed,
    Set,
    Web,
    Worlds,
    settings,
)
from sanderling.cli.watch import Watcher
from sanderling.core.asking import BudgetSpentError
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending
from sanderling.policy.budget import Spending
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.tools.contract import tool_roles
from sanderling.tools.page_reader import OnOutage
from sanderling.tools.recording import open_recording, recorded_tools


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to find out.")],
    model: Model = None,
    profile: ProfileName = None,
    max_turns: MaxTurns = None,
    world: Worlds = None,
    web: Web = None,
    faults: Faults = None,
    seed: Seed = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Append the trajectory here (.jsonl); go on if killed.", rich_help_panel=RUN
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Append every tool call here (.jsonl).", rich_help_panel=RUN),
    ] = None,
    file: ConfigFile = None,
    sets: Set = None,
) -> None:
    """Research one question and watch the turns."""
    given = {
        "agent.model": model,
        "agent.profile": profile,
        "agent.max_turns": max_turns,
        "agent.worlds": world,
        "agent.web": web,
        "agent.faults": faults,
        "agent.seed": seed,
        "out": out,
        "record": record,
    }
    config = settings(AskConfig, file, sets, given)
    question = question.encode("utf-8", errors="replace").decode()  # a terminal may hand over bytes that are not text
    if not question.strip():
        raise UserError("The question is empty: write what you want to know.")
    store = None if config.out is None else TrajectoryStore(config.out)
    if store is not None:
        store.prepare()  # a place that cannot be written is told before the work, not after it
    log = None if config.record is None else open_recording(config.record)
    done = asyncio.run(_ask(question, config, store, log, Console()))
    if done.ending is Ending.CANCELLED:
        raise typer.Exit(exits.INTERRUPTED)
    if done.answer is None:
        raise typer.Exit(exits.NO_ANSWER)


async def _ask(
    question: str, config: AskConfig, store: TrajectoryStore | None, log: JsonlLog | None, console: Console
) -> Trajectory:
    """Open the agent, run its episode and store it."""
    opening = opened_agent(
        config.agent,
        spending=Spending(None, config.budget),
        on_outage=OnOutage.FALL_BACK,
        on_close=partial(console.print, style="dim", markup=False, highlight=False, soft_wrap=True),
    )
    async with opening as agent:
        journal = None
        if store is not None:
            place = store.path.with_name(f"{store.path.name}.{episode_id(question, agent, config.agent.seed)}.run")
            journal = Journal(place, journal_identity(config.agent, agent))
        with journal or nullcontext():  # it is gone when the episode has come to a scored end
            done = await research(question, agent, seed=config.agent.seed, console=console, journal=journal, log=log)
            if store is not None and journal is not None:
                store.append(done)
                journal.stored(done)
    return done


async def research(
    question: str,
    agent: Agent,
    *,
    seed: int = 0,
    console: Console,
    journal: Journal | None = None,
    log: JsonlLog | None = None,
) -> Trajectory:
    """Run the episode, printing its turns; Ctrl-C ends it with the record so far. ``log``: where calls are recorded."""
    id = episode_id(question, agent, seed)
    if log is not None:
        tools = recorded_tools(agent.tools, tool_roles(agent.profile), log, episode=id, question=question)
        agent = replace(agent, tools=tools)
    with stop_on_interrupt() as stop:
        try:
            return await agent.run(
                Question(id=f"ask-{_digest(question)}", text=question),
                Seeds(run=seed, episode=seed),
                id=id,
                on_event=Watcher(console),
                cancel=stop,
                journal=journal,
            )
        except BudgetSpentError as error:
            raise UserError(f"{error} Give more with --set budget.max_tokens or budget.max_cost.") from error


def episode_id(question: str, agent: Agent, seed: int) -> str:
    """The same for the same command."""
    read_by = () if agent.reader is None else (str(agent.reader),)
    return f"ask-{_digest(question, agent.policy.name, agent.fingerprint, agent.profile.name, str(seed), *read_by)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="replace")).hexdigest()[:12]
