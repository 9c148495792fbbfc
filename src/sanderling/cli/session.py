"""Questions that were asked: ``history``, ``show``, ``resume``, ``export``, and ``replay`` of what was exported."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from sanderling.agent.agent import Agent
from sanderling.agent.capsule import Capsule, open_capsule, write_capsule
from sanderling.agent.capsule import replay as run_again
from sanderling.agent.evidence import Other
from sanderling.agent.opening import AskConfig, fitted
from sanderling.agent.session import LAST, Session, find_session, going_on, home, sessions
from sanderling.cli import INTERRUPTED, NO_ANSWER
from sanderling.cli import options as common
from sanderling.cli.ask import print_answer, research, run_ask
from sanderling.cli.options import RUN, argument, option, or_help, show, table
from sanderling.cli.showing import brief, files_of, first_line, shown_answer
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.record import Trajectory
from sanderling.core.text import counted_as, visible
from sanderling.core.types import Ending
from sanderling.policy.load import close_policy, open_policy
from sanderling.runs.atif import write_atif
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.jsonl import TrajectoryStore, write_trajectories
from sanderling.tools.world_tools import world_tools

_SHOWN = 20
_ANY = "A session (last: the last one), a store (.jsonl), a .parquet file, a run's directory, or another system's file."
_SESSION = "A session's id, or how it begins; last: the last one."
_MODEL = "Let this model research the same pages and searches instead."


def history(all: Annotated[bool, option("--all", f"Not only the last {_SHOWN}.")] = False) -> None:
    """List the questions that are kept, the last one first."""
    kept = sessions()
    if not kept:
        show(f"No question is kept yet. What sanderling ask is asked comes to {home()}.")
        return
    listed = table("session", "asked", "questions", "ending", ">tokens")
    for session, asked in kept if all else kept[:_SHOWN]:
        ending = asked[-1].ending.value.replace("_", " ") if asked[-1].ending else "not ended"
        ending = ending if asked[-1].is_open or not going_on(asked) else "report not finished"
        told = dict.fromkeys(one.told for one in asked)  # the parts of a report are one question
        questions = Text("\n").join(Text(("↳ " if number else "") + visible(one)) for number, one in enumerate(told))
        tokens = sum(one.tokens for one in asked)  # none where the server does not say
        listed.add_row(session.id, f"{asked[-1].at:%Y-%m-%d %H:%M}", questions, ending, f"{tokens:,}" if tokens else "")
    show(listed, f"{len(kept)} kept in {home()}. Read one with sanderling show SESSION; remove one by removing its folder.")


def show_record(
    file: Annotated[Path, argument("SESSION|FILE", _ANY)],
    id: Annotated[str | None, option("--id", "Of a file, print the trajectory with this id.")] = None,
    index: Annotated[int, option("--index", "Of a file, print the trajectory at this place, from 0.", min=0)] = 0,
    full: Annotated[bool, option("--full", "Print reasoning and observations whole.")] = False,
) -> None:
    """Print a session with its cited answers, or a trajectory of a file."""
    from sanderling.data.stats import find_trajectory, transcript  # every layout's reader, which asking does without

    console = Console()
    if file.suffix == ".capsule" and file.is_file():
        raise UserError(f"{file} is a capsule: sanderling replay {file} runs it again.")
    if file.exists() and str(file) != LAST:
        console.print(transcript(find_trajectory(file, id=id, index=index), full=full))
        return
    session = find_session(str(file))
    records = session.records()
    if full and records:
        console.print(transcript(records[-1], full=True))  # it begins with all that was before
    files = files_of(session.docs())
    for record in records if not full else ():
        console.print(Rule(Text(first_line(record.question.text)), align="left", style="blue"))
        for node in record.own():
            for call in node.calls:
                asked = "  ".join(map(brief, call.arguments.values()))
                console.print(Text(f"→ {brief(call.name)}  {asked}", style="dim"), soft_wrap=True)
        shown_answer(record, console, console, files)
    if (last := going_on(session.questions())) is not None:
        console.print(Text(f"{visible(last.told)}\nnot ended: go on with sanderling resume {session.id}", style="yellow"))


def resume(
    name: Annotated[str, argument("SESSION", f"{_SESSION} By default the last one that has not ended.")] = "",
    spend: Annotated[str | None, option("--spend", "Another limit for the answer.", "AMOUNT", common.BUDGET)] = None,
    sets: common.Set = None,
) -> None:
    """Go on with a question that was interrupted: nothing finished is done again."""
    kept = [(found, found.questions()) for found in [find_session(name)]] if name else sessions()
    going = [(session, last) for session, asked in kept for last in [going_on(asked)] if last is not None]
    if not going and name:
        raise UserError(f"Session {name} has ended: sanderling show {name} prints it, ask --continue asks on.")
    if not going:
        raise UserError("Every question that is kept has ended: sanderling history lists them.")
    session, last = going[0]
    origin = f"session {session.id}"
    config = or_help(lambda sets: load_config(AskConfig, last.settings, origin, sets, {"spend": spend}), sets)
    show(f"Session {session.id}: {first_line(last.told)}", error=True)
    run_ask(last.told, config, session)


class To(StrEnum):
    """What a session is exported to."""

    CAPSULE = "capsule"
    MD = "md"
    HTML = "html"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ATIF = "atif"


def export(
    name: Annotated[str, argument("SESSION|FILE", _ANY)],
    to: Annotated[To, option("--to", "capsule: one file with all that was read, which can be replayed.")] = To.CAPSULE,
    out: Annotated[Path | None, option("--out", "By default named after the session, here.", "FILE", RUN)] = None,
) -> None:
    """Write a session, or a file's trajectories: a capsule, to read (md, html), records (jsonl, parquet), for others (atif)."""
    session, records = _named(name)
    id = Path(name).stem if session is None else session.id
    path = out or Path(f"{id}.{to.value}")
    check_places([Path(name) if session is None else session.directory], [path])
    if to is To.CAPSULE:
        if session is None:
            raise UserError(f"{name} is no session: a capsule is made of one (sanderling history lists them).")
        manifest = write_capsule(session, path)
        held = (
            f"{counted_as(len(records), 'question')}, and the whole text of {counted_as(len(manifest['pages']), 'page')} read"
        )
        show(f"{path}: {held}. Whoever has it can run sanderling replay {path}")
        return
    if to in (To.JSONL, To.PARQUET):
        if path.suffix != f".{to.value}":
            raise UserError(f"{path} is no name for --to {to.value}: end it in .{to.value}.")
        write_trajectories(path, records)
    elif to is To.ATIF:
        # The last record of a session holds the whole conversation.
        write_atif(path, records if session is None else records[-1:], "" if session is None else session.id)
    else:
        from sanderling.judge.written import as_written

        replace_file(path, as_written(records, f".{to.value}", files_of([] if session is None else session.docs())))
    show(str(path))


def _named(name: str) -> tuple[Session | None, list[Trajectory]]:
    """A session with its records, or a file's trajectories. Raises UserError where there are none."""
    if name != LAST and Path(name).exists():
        from sanderling.data.importing import open_trajectories

        if not (found := list(open_trajectories(Path(name)))):
            raise UserError(f"{name} holds no trajectory yet: give a file that holds one.")
        return None, found
    session = find_session(name)
    if not (records := session.records()):
        raise UserError(f"Session {session.id} has no answer yet: run sanderling resume {session.id} first.")
    return session, records


def replay(
    file: Annotated[Path, argument("CAPSULE", "A file that sanderling export --to capsule wrote.")],
    model: Annotated[str | None, option("--model", _MODEL, "MODEL", common.AGENT)] = None,
    profile: common.ProfileName = None,
    out: Annotated[Path | None, option("--out", "With --model: append its trajectories here (.jsonl).", "FILE", RUN)] = None,
) -> None:
    """Run a capsule's loop again, without a socket, and see that the record comes out the same."""
    capsule = open_capsule(file)
    pages, searches = len(capsule.pages), sum(one["tool"] == "search" for one in capsule.replies)
    show(f"{file}: every byte is as it was made (pages: {pages}, searches: {searches}).", error=model is not None)
    if model is not None:
        store = None if out is None else TrajectoryStore(out)
        if store is not None:
            store.prepare()
        done = asyncio.run(_by_another(capsule, model, profile, store))
        if done.answer is None:
            raise typer.Exit(INTERRUPTED if done.ending is Ending.CANCELLED else NO_ANSWER)
        return
    same = True
    for again in asyncio.run(run_again(capsule)):
        turns = sum(1 for node in again.record.own() if node.role == "assistant")
        show(first_line(again.record.question.text))
        show(f"  {turns} turns again, {again.calls} calls made again over what was kept")
        if again.taken:
            show(
                f"  {again.taken} calls whose results stand for themselves: a tool or a page reader that is not in the capsule"
            )
        for one in again.differences:
            show(f"  differs: {one}")
        same = same and not again.differences
        show("  the same record, bit for bit" if not again.differences else "  not the same record")
    if not same:
        raise typer.Exit(NO_ANSWER)


async def _by_another(capsule: Capsule, model: str, profile: str | None, store: TrajectoryStore | None) -> Trajectory:
    """Let another model answer the same questions over the same evidence; its last record."""
    policy = open_policy(model)
    done: list[Trajectory] = []
    try:
        spoken = fitted(get_profile(profile) if profile else capsule.profile(), policy.context_length)
        places = Other(capsule.records[0].world, capsule.replies, capsule.pages)
        agent = Agent(policy, world_tools(places, spoken), spoken, world=places.name)
        for number, record in enumerate(capsule.records):
            before = done[-1] if capsule.before(number) is not None else None
            done.append(await research(record.question, agent, seed=record.seeds.run, before=before))
            if store is not None:
                store.append(done[-1])
            print_answer(done[-1])
            if done[-1].ending is None or not done[-1].ending.scored:
                break
    finally:
        await close_policy(policy)
    for tool, asked in dict.fromkeys(places.absent):
        told = "searched otherwise, answered from the capsule's pages" if tool == "search" else "not in the capsule"
        show(f"{told}: {asked}", error=True)
    if not places.absent:
        show("All that it asked for is in the capsule.", error=True)
    return done[-1]
