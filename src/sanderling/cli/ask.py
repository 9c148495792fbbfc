"""``sanderling ask``: research one question over a world or the live web, and watch the turns. Thin: the loop does the work.

Exit status: 0 for an answer, 1 for none, 130 after Ctrl-C. The first Ctrl-C ends the episode with a readable record, which is
stored like any other; a second one interrupts at once. With ``--out`` a journal lies beside the store while the episode is
under way: killed, stopped or met by an outage, the same command goes on where it was.
"""

import asyncio
import hashlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sanderling.agent.agent import Agent
from sanderling.agent.journal import Journal
from sanderling.cli import exits
from sanderling.cli.backend import Backend, Place, ReaderUrl, SearchUrl, Web, closing
from sanderling.cli.extractor import ExtractorCache, ExtractorChoice, ExtractorOutage, ExtractorSpec, opened_extractor
from sanderling.cli.watch import Watcher, show_retry
from sanderling.cli.world_options import Faults as Dynamics
from sanderling.cli.world_options import Pace, Search, WorldSeed
from sanderling.cli.world_options import PromptInjection as Inject
from sanderling.core.errors import UserError
from sanderling.core.profiles import PROFILES, Profile, get_profile
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import Ending, SystemClock
from sanderling.policy.contract import Policy
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore
from sanderling.tools.contract import tool_roles
from sanderling.tools.page_reader import OnOutage
from sanderling.tools.recording import open_recording, recorded_tools
from sanderling.world.dense.index import SearchMode

_DEFAULT = "tiny"
_CHOICES = ", ".join(PROFILES)


Asked = Annotated[str, typer.Argument(metavar="QUESTION", help="What to find out.")]
Model = Annotated[
    str, typer.Option("--model", help="Directory of a Hugging Face model, or an endpoint: http://host:port/v1#model.")
]
WorldDirectory = Annotated[
    Path | None, typer.Option("--world", help="Directory of a world (see sanderling world build); or --web.")
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help=f"Prompt, tools and budgets the model was trained with: {_CHOICES}; tiny by default, but not for an endpoint.",
    ),
]
MaxTurns = Annotated[int | None, typer.Option("--max-turns", min=1, help="Most turns, instead of the profile's number.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Append the trajectory to this JSONL store (see sanderling show), and go on if killed."),
]
Record = Annotated[
    Path | None,
    typer.Option("--record", help="Append every tool call, its result, status and latency to this file (JSON lines)."),
]


def ask(
    question: Asked,
    model: Model,
    world: WorldDirectory = None,
    profile: ProfileName = None,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal episodes.")] = 0,
    max_turns: MaxTurns = None,
    out: Out = None,
    dynamics: Dynamics = None,
    world_seed: WorldSeed = 0,
    mode: Search = SearchMode.LEXICAL,
    inject: Inject = 0.0,
    pace: Pace = None,
    web: Web = False,
    search_url: SearchUrl = None,
    reader_url: ReaderUrl = None,
    record: Record = None,
    extractor: ExtractorSpec = None,
    extractor_cache: ExtractorCache = None,
    extractor_outage: ExtractorOutage = OnOutage.FALL_BACK,
) -> None:
    """Research one question and watch the turns."""
    from sanderling.policy.load import is_endpoint, open_policy  # brings torch for in-process models

    question = question.encode("utf-8", errors="replace").decode()  # a terminal may hand over bytes that are not text
    if not question.strip():
        raise UserError("The question is empty: write what you want to know.")
    if profile is None and is_endpoint(model):
        raise UserError(f"Name the profile that {model} was trained with: --profile with one of {_CHOICES}.")
    chosen = limited(get_profile(profile or _DEFAULT), max_turns)
    opened = Place(world, web, search_url, reader_url, dynamics, world_seed, mode, pace, inject).open(chosen)
    store = None if out is None else TrajectoryStore(out)
    if store is not None:
        store.prepare()  # a place that cannot be written is told before the work, not after it
    log = None if record is None else open_recording(record)
    console = Console()
    policy = open_policy(model, on_retry=partial(show_retry, console))
    reader = None if extractor is None else ExtractorChoice(extractor, extractor_cache, extractor_outage)
    with _journal(out, _episode_id(question, policy, opened, chosen, seed, reader), model, console) as journal:
        episode = research(
            question, opened, policy, chosen, seed=seed, console=console, journal=journal, log=log, reader=reader
        )
        done = asyncio.run(closing(episode, policy, opened))
        if store is not None:
            store.append(done)
        if journal is not None:
            journal.stored(done)
    if done.ending is Ending.CANCELLED:
        raise typer.Exit(exits.INTERRUPTED)
    if done.answer is None:
        raise typer.Exit(exits.NO_ANSWER)


async def research(
    question: str,
    backend: Backend,
    policy: Policy,
    profile: Profile,
    *,
    seed: int = 0,
    console: Console,
    journal: Journal | None = None,
    log: JsonlLog | None = None,
    reader: ExtractorChoice | None = None,
) -> Trajectory:
    """Run the episode, printing its turns; Ctrl-C ends it with the record so far. ``log``: where calls are recorded."""
    id = _episode_id(question, policy, backend, profile, seed, reader)
    async with opened_extractor(reader, console) as extractor:
        tools = backend.tools(extractor)
        if log is not None:
            tools = recorded_tools(tools, tool_roles(profile), log, episode=id, question=question)
        with stop_on_interrupt() as stop:
            return await Agent(policy, tools, profile, SystemClock(), backend.name).run(
                Question(id=f"ask-{_digest(question)}", text=question),
                Seeds(run=seed, episode=seed),
                id=id,
                on_event=Watcher(console),
                cancel=stop,
                journal=journal,
            )


@contextmanager
def _journal(out: Path | None, id: str, model: str, console: Console) -> Iterator[Journal | None]:
    """The episode's journal beside the store; it is gone when the episode has come to a scored end."""
    from sanderling.policy.load import weights_of

    if out is None:
        yield None
        return
    place = out.with_name(f"{out.name}.{id}.run")
    with Journal(place, weights_of(model)) as journal:
        if journal.has(id):
            console.print(f"Going on with an earlier run ({place}).", style="dim", markup=False, soft_wrap=True)
        yield journal


def limited(profile: Profile, max_turns: int | None, max_context: int | None = None) -> Profile:
    """The profile with another number of turns, or of tokens of context. Raises UserError where that leaves no answer room."""
    asked = {"max_turns": max_turns, "max_context_tokens": max_context}
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        return profile
    budgets = profile.budgets.model_copy(update=given)
    if budgets.max_context_tokens <= budgets.answer_reserve_tokens:
        raise UserError(
            f"--max-context {max_context} leaves no room: {profile.name} keeps {budgets.answer_reserve_tokens} tokens for an "
            "answer, so give more than that."
        )
    return profile.model_copy(update={"budgets": budgets})


@contextmanager
def stop_on_interrupt() -> Iterator[asyncio.Event]:
    """An event that the first SIGINT sets.

    The second one cancels the task, which then ends with KeyboardInterrupt: raised wherever the program happens to be, it would
    print tracebacks of other tasks. A third one is raised there all the same.
    """
    stop, loop, task = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_cancelled = False

    def interrupted() -> None:
        nonlocal is_cancelled
        if not stop.is_set():
            stop.set()
            return
        is_cancelled = True
        loop.remove_signal_handler(signal.SIGINT)
        task.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield stop
    except asyncio.CancelledError:
        if is_cancelled:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _episode_id(
    question: str, policy: Policy, backend: Backend, profile: Profile, seed: int, reader: ExtractorChoice | None = None
) -> str:
    """The same for the same command."""
    read_by = () if reader is None else (reader.spec, reader.on_outage)
    return f"ask-{_digest(question, policy.name, backend.fingerprint, profile.name, str(seed), *read_by)}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", errors="replace")).hexdigest()[:12]
