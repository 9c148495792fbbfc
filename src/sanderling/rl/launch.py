"""``sanderling train rl`` from end to end: what is prepared, sampled, trained and shown, stage by stage.

Everything is checked before torch is imported; then one process acts and trains, or several that were started by torchrun or
are started here. A stage begins with the model that the one before it selected; where it has a band of difficulty, that model
attempts every question first. Killed at any moment, the same command goes on; once finished, it says so. Rank 0 alone writes
models and speaks.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import read_questions, write_questions
from sanderling.policy.contract import Policy, PolicyOutageError, WeightSync
from sanderling.policy.load import open_policy
from sanderling.rl.act import NAME, opened_acting, server_of
from sanderling.rl.config import Placement, stages_of
from sanderling.rl.contract import Ask, rule_score
from sanderling.rl.curriculum import Band, BandSettings, by_difficulty, try_of
from sanderling.rl.denoise import RIGHT_ABOVE
from sanderling.rl.prepare import MODEL, Job, Look, Order, prepare
from sanderling.rl.queue import META, answered
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.train.encoding import Encoding
from sanderling.train.launch import Place, Task, opened_team, run_tasks, run_team, torchrun_place
from sanderling.train.metrics import open_watcher, read_metrics

if TYPE_CHECKING:
    from sanderling.rl.run import OnStep

METRICS, SELECTION = "metrics.jsonl", "selection.jsonl"
DIFFICULTY, ATTEMPTS = "difficulty", "attempts.jsonl"
_AT_ONCE = 64
"""Attempts at questions under way together, where nothing else is said."""
_MOST_UNTOLD = 0.05
"""Share of questions that may be left out for want of verdicts: some are never judged, however often the command is run."""


def run_rl_command(order: Order, report: Report, look: Look | None = None) -> None:
    """Train, or go on training, until the last stage's model lies in its directory. Raises UserError."""
    place = torchrun_place()
    if place is not None and order.processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is not None and place.size > 1:
        _with_others(order, report, place, look)
        return
    with locked(order.out):
        jobs = prepare(order, order.processes, look)
        for job in _unfinished(jobs, report):
            if order.processes > 1:
                with _bar(job, report) as follow:
                    run_team(_as_worker, (job,), order.processes, follow)
                    follow()
            else:
                with _watched(job, report) as watch:
                    _run(Place(), None, job, watch)
        _conclude(jobs, report)


def run_simple(order: Order, report: Report) -> None:
    """``--simple``: the loop that fits on a page (`rl_loop`), over everything that a run would be checked for."""
    from sanderling.rl.rl_loop import run, settings_of

    stages = stages_of(order.recipe)
    if order.processes > 1 or len(stages) > 1:
        raise UserError("The simple loop is one process and has one stage: leave --simple or --processes and stages out.")
    settings_of(order.recipe, stages[0])  # refuses what it does not have before --fresh deletes anything
    with locked(order.out):
        (job,) = prepare(order, 1)
        with report.task(order.recipe.title, job.stage.rl.steps) as advance:
            run(job, lambda line: advance(1, f"reward {line['reward']:.2f}"))
        _conclude([job], report)


def _unfinished(jobs: Sequence[Job], report: Report) -> Iterator[Job]:
    """The stages that are not finished, each once the one before it is; their questions are sorted first."""
    for job in jobs:
        if job.is_finished:
            continue
        job.directory.mkdir(parents=True, exist_ok=True)
        job = replace(job, questions=tuple(band_of(job, report)))
        done, rl, name = len(read_metrics(job.directory / METRICS)), job.stage.rl, job.stage.name
        report.say(
            f"{f'Stage {name}: ' if name else ''}{len(job.questions):,} questions, {rl.questions_per_step} a step with "
            f"{rl.group_size} rollouts each, {rl.steps:,} steps from {job.model}."
            + (f" Goes on after step {done:,}." if done else "")
        )
        yield job


# -- processes -------------------------------------------------------------------------------------------------------------


def _with_others(order: Order, report: Report, place: Place, look: Look | None) -> None:
    """As one of torchrun's processes: rank 0 prepares each stage, and all run it."""
    with opened_team(order.recipe.parallel, place, None, bfloat16=order.bfloat16) as (team, device):
        first = team.rank == 0
        with locked(order.out) if first else nullcontext():
            jobs = prepare(order, place.size, look) if first else []
            unfinished = _unfinished(jobs, report)
            while (job := team.gather(next(unfinished, None))[0]) is not None:
                with _watched(job, report) if first else nullcontext() as watch:
                    asyncio.run(_run_in(team, device, job, watch))
            if first:
                _conclude(jobs, report)


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    with _views(job) if rank == 0 else nullcontext() as watch:
        _run(Place(rank, size, rank, size), meeting, job, watch)


def _run(place: Place, meeting: Path | None, job: Job, watch: "OnStep | None") -> None:
    order = job.order
    with opened_team(order.recipe.parallel, place, meeting, bfloat16=order.bfloat16) as (team, device):
        asyncio.run(_run_in(team, device, job, watch))


async def _run_in(team: Any, device: Any, job: Job, watch: "OnStep | None") -> None:
    """One stage, in one process of the run."""
    from sanderling.rl.run import run_rl

    stage, directory, every = job.stage, job.directory, (*job.questions, *job.held_out)
    async with opened_acting(job.order.recipe, stage, every, job.model, directory, team) as acting:
        try:
            await run_rl(
                stage.rl,
                job.questions,
                acting.connect,
                Encoding(load_tokenizer(job.model), stage.profile),
                job.model,
                directory,
                held_out=job.held_out,
                on_step=watch,
                team=team,
                device=device,
            )
        except PolicyOutageError as error:  # of a turn it is a rollout's ending; here the sampler took no weights
            gone = f"The sampler could not be handed the weights ({str(error).removesuffix('.')})"
            raise UserError(f"{gone}: see that it runs, and the same command goes on where this one stopped.") from error


# -- how hard questions are ------------------------------------------------------------------------------------------------


def band_of(job: Job, report: Report) -> list[Question]:
    """The questions that a stage asks: all, or those of its band, measured once. Raises UserError when none is left.

    Attempts have the stage's own sampling and budgets, and are made in a process that is gone, with its memory, before training
    begins; killed, it goes on.
    """
    settings, place = job.stage.difficulty, job.directory / DIFFICULTY
    if settings is None:
        return list(job.questions)
    kept = place / f"{Band.KEPT.value}.jsonl"
    if not kept.is_file():
        place.mkdir(parents=True, exist_ok=True)
        with report.task(f"Difficulty {job.stage.name}", len(job.questions) * settings.attempts) as advance:
            read = 0

            def follow() -> None:
                nonlocal read
                if (file := place / ATTEMPTS).is_file():
                    with file.open("rb") as lines:
                        lines.seek(read)
                        new = lines.read()
                    read += len(new)
                    advance(new.count(b"\n"))

            run_tasks([Task(_measure, (job, settings.attempts, place))], 1, follow)
            follow()
        sort_questions(job.questions, settings, place)
    found = read_questions(kept) if kept.stat().st_size else []
    band = f"right {settings.least_right} to {settings.most_right} times of {settings.attempts}"
    report.say(f"{len(found):,} of {len(job.questions):,} questions are {band}: the others are left out ({place}).")
    if not found:
        raise UserError(f"With {job.model} no question is {band}: give others, or another model.")
    return found


def _measure(job: Job, attempts: int, place: Path) -> None:
    """Attempt every question, or go on with that, in a process of its own; all attempts at one begin next to each other."""

    async def attempt() -> None:
        store, rl, recipe = TrajectoryStore(place / ATTEMPTS), job.stage.rl, job.order.recipe
        store.prepare()
        at_once = recipe.sampler.sessions or _AT_ONCE
        async with AsyncExitStack() as stack:
            opening = opened_acting(recipe, job.stage, job.questions, job.model, place, Place())
            acting = await stack.enter_async_context(opening)
            actor = acting.over(*await _beginner(job, place, at_once, stack))
            asks = [Ask(question, rl.seed, number) for question in job.questions for number in range(attempts)]
            room = asyncio.Semaphore(at_once)
            await answered(asks, store, actor, actor.score or rule_score(rl.outcome), rl, room, at_once)

    asyncio.run(attempt())


async def _beginner(job: Job, place: Path, at_once: int, closing: AsyncExitStack) -> tuple[Policy, WeightSync]:
    """The model that the stage begins with: here, or on the server, which is handed its weights first."""
    import torch

    from sanderling.policy.weight_sync import InPlace
    from sanderling.train.checkpoint import load_model

    if job.stage.rl.pipeline.placement is not Placement.SERVED:
        policy: Any = open_policy(str(job.model), device="cuda" if torch.cuda.is_available() else "cpu", max_batch=at_once)
        return policy, InPlace(policy)
    policy, server = server_of(job.order.recipe, job.model, place, closing)
    await server.publish(load_model(job.model).state_dict(), 0)
    return policy, server


def sort_questions(questions: Sequence[Question], settings: BandSettings, place: Path) -> None:
    """Write every band to its file, the kept one last: it says that all is done. Raises UserError for open ones."""
    tries = {}
    for one in TrajectoryStore(place / ATTEMPTS):
        outcome = one.meta[META]["outcome"]
        tries[one.id] = replace(try_of(one), correct=None if outcome is None else outcome > RIGHT_ABOVE)
    bands, _ = by_difficulty(questions, tries.values(), settings, NAME)
    if len(bands[Band.UNTOLD]) > _MOST_UNTOLD * len(questions):
        raise UserError(
            f"{len(bands[Band.UNTOLD]):,} of {len(questions):,} questions have too many attempts without a verdict, for want "
            "of a judge or a tool: run the same command again."
        )
    for band in sorted(bands, key=lambda band: band is Band.KEPT):
        write_questions(place / f"{band.value}.jsonl", bands[band])


# -- what a person sees ----------------------------------------------------------------------------------------------------


@contextmanager
def _watched(job: Job, report: Report) -> "Iterator[OnStep]":
    """A bar that follows the steps of this process, and the views that were asked for."""
    with _bar(job, report) as follow, _views(job) as log:

        def on_step(step: int, figures: Mapping[str, float]) -> None:
            log(step, figures)
            follow()

        yield on_step


@contextmanager
def _bar(job: Job, report: Report) -> Iterator[Callable[[], None]]:
    """A bar that follows a stage's metrics."""
    file = job.directory / METRICS
    seen = len(read_metrics(file))
    with report.task(f"{job.order.recipe.title} {job.stage.name}".rstrip(), job.stage.rl.steps, start=seen) as advance:

        def follow() -> None:
            nonlocal seen
            lines = read_metrics(file)
            if len(lines) != seen:
                advance(len(lines) - seen, shown(lines[-1]) if lines else None)
                seen = len(lines)

        yield follow


@contextmanager
def _views(job: Job) -> "Iterator[OnStep]":
    """The views of the run that were asked for; opened where rank 0 is."""
    recipe, done = job.order.recipe, len(read_metrics(job.directory / METRICS))
    with ExitStack() as stack:
        settings = recipe.model_dump(mode="json")
        views = [stack.enter_context(closing(open_watcher(name, job.directory, settings, done))) for name in recipe.watch]

        def log(step: int, figures: Mapping[str, float]) -> None:
            for view in views:
                view.log(step, figures)

        yield log


def shown(line: Mapping[str, Any]) -> str:
    """The last step's: reward, groups with signal, age in updates, and alarms."""
    alarms = ", ".join(name.removeprefix("alarm_") for name, value in line.items() if name.startswith("alarm_") and value)
    held_out = f", held out {line['held_out']:.2f}" if "held_out" in line else ""
    signal = f"signal {line.get('groups_with_signal', 0.0):.0%}, age {line.get('age', 0.0):.1f}"
    return f"reward {line.get('reward', 0.0):.2f}{held_out}, {signal}" + (f"; ALARM: {alarms}" if alarms else "")


def _conclude(jobs: Sequence[Job], report: Report) -> None:
    """Say which models held-out questions have chosen, where the last model is and what to do with it."""
    for job in jobs:
        if measured := read_metrics(job.directory / SELECTION):
            best = max(measured, key=lambda line: line["held_out"])  # the first of several, as it was kept
            stage, right = job.stage, f"{best['held_out']:.1%} right, {measured[0]['held_out']:.1%} before any step"
            report.say(
                f"{f'Stage {stage.name}: held-out' if stage.name else 'Held-out'} questions chose the model after step "
                f"{best['step']:,} of {stage.rl.steps:,} ({right})."
            )
    model, recipe = jobs[-1].directory / MODEL, jobs[-1].order.recipe
    world = str(recipe.worlds[0]) if len(recipe.worlds) == 1 else "WORLD"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world {world} --model {model} --profile "
        f"{recipe.profile}."
    )
