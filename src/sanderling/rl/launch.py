"""``sanderling train rl`` from end to end: what is prepared, sampled, trained and said, stage by stage.

Everything is checked before torch is imported; then one process acts and trains, or several that were started by torchrun or
are started here. A stage begins with the model that the one before it selected; where it has a band of difficulty, that model
attempts every question first. Killed at any moment, the same command goes on; once finished, it says so. Rank 0 alone writes
models and speaks.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.data.questions import read_questions, write_questions
from sanderling.policy.contract import Policy, PolicyOutageError, WeightSync
from sanderling.policy.load import open_policy
from sanderling.rl.act import NAME, opened_acting, server_of
from sanderling.rl.config import Placement, RlRecipe, Stage, stages_of
from sanderling.rl.contract import Ask, rule_score
from sanderling.rl.curriculum import Band, BandSettings, Try, by_difficulty
from sanderling.rl.denoise import RIGHT_ABOVE
from sanderling.rl.prepare import Job, Look, Order, Prepared, prepare
from sanderling.rl.queue import META, answered
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.train.encoding import Encoding
from sanderling.train.fit import devices_here
from sanderling.train.metrics import open_watcher, read_metrics
from sanderling.train.parallel.launch import Place, opened_team, torchrun_place
from sanderling.train.parallel.workers import Task, run_tasks, run_team

if TYPE_CHECKING:
    from sanderling.train.metrics import Progress

METRICS, MODEL, SELECTION = "metrics.jsonl", "model", "selection.jsonl"
DIFFICULTY, ATTEMPTS = "difficulty", "attempts.jsonl"
ALARM = "alarm_"
"""How the names of alarms begin in metrics."""
_AT_ONCE = 64
"""Attempts at questions under way together, where nothing else is said."""
_MOST_UNTOLD = 0.05
"""Share of questions that may be left out for want of verdicts: some are never judged, however often the command is run."""


def run_rl_command(order: Order, report: Report, look: Look = devices_here) -> None:
    """Train, or go on training, until the last stage's model lies in its directory. Raises UserError."""
    place = torchrun_place()
    if place is not None and order.processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is not None and place.size > 1:
        _with_others(order, report, place, look)
        return
    with locked(order.out):
        prepared = prepare(order, order.processes, look)
        for job in _jobs(prepared, report):
            if order.processes > 1:
                _in_processes(job, report)
            else:
                with _watched(job, report) as watch:
                    _run(Place(), None, job, watch)
        _conclude(prepared, report)


def run_simple(order: Order, report: Report) -> None:
    """``--simple``: the loop that fits on a page (`rl_loop`), over everything that a run would be checked for."""
    from sanderling.rl.rl_loop import run, settings_of

    if order.processes > 1:
        raise UserError("The simple loop is one process: leave --processes or --simple out.")
    stages = stages_of(order.recipe)
    if len(stages) > 1:
        raise UserError("The simple loop has one stage: leave --simple out, or give a recipe without stages.")
    settings_of(order.recipe, stages[0])  # refuses what it does not have before --fresh deletes anything
    with locked(order.out):
        prepared = prepare(order, 1)
        (stage,) = prepared.stages
        with report.task(order.recipe.title, stage.rl.steps) as advance:
            run(
                prepared.order.recipe,
                stage,
                prepared.questions[stage.name],
                order.out,
                lambda line: advance(1, f"reward {line['reward']:.2f}"),
            )
        _conclude(prepared, report)


def is_finished(job: Job) -> bool:
    """Whether a stage's model is there."""
    return (job.directory / MODEL / "config.json").is_file()


def _jobs(prepared: Prepared, report: Report) -> Iterator[Job]:
    """The stages that are not finished, each once the one before it is; their questions are sorted first."""
    order, model = prepared.order, prepared.order.recipe.model
    if model is None:
        raise ValueError("the model was to be checked before")
    for stage in prepared.stages:
        directory = stage.directory(order.out)
        job = Job(order, stage, model, tuple(prepared.questions[stage.name]), tuple(prepared.held_out))
        if not is_finished(job):
            directory.mkdir(parents=True, exist_ok=True)
            kept = band_of(order.recipe, stage, job.questions, model, directory, report)
            done = len(read_metrics(directory / METRICS))
            rl, where = stage.rl, f"Stage {stage.name}: " if stage.name else ""
            again = f" Goes on after step {done:,}." if done else ""
            report.say(
                f"{where}{len(kept):,} questions, {rl.questions_per_step} a step with {rl.group_size} rollouts each, "
                f"{rl.steps:,} steps from {model}.{again}"
            )
            yield Job(order, stage, model, tuple(kept), job.held_out)
        model = directory / MODEL


# -- processes -------------------------------------------------------------------------------------------------------------


def _with_others(order: Order, report: Report, place: Place, look: Look) -> None:
    """As one of torchrun's processes: rank 0 prepares each stage, and all run it."""
    with opened_team(order.recipe.parallel, place, None, bfloat16=order.bfloat16) as (team, device):
        first = team.rank == 0
        with locked(order.out) if first else nullcontext():
            prepared = prepare(order, place.size, look) if first else None
            jobs = _jobs(prepared, report) if prepared is not None else None
            while (job := team.gather(next(jobs, None) if jobs is not None else None)[0]) is not None:
                with _watched(job, report) if first else nullcontext() as watch:
                    asyncio.run(_run_in(team, device, job, watch))
            if prepared is not None:
                _conclude(prepared, report)


def _in_processes(job: Job, report: Report) -> None:
    """In processes of this machine that are started here, and that end with this one."""
    with _bar(job, report) as follow:
        run_team(_as_worker, (job,), job.order.processes, follow)
        follow()


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    with _views(job) if rank == 0 else nullcontext() as watch:
        _run(Place(rank, size, rank, size), meeting, job, watch)


def _run(place: Place, meeting: Path | None, job: Job, watch: "Callable[[Progress], None] | None") -> None:
    order = job.order
    with opened_team(order.recipe.parallel, place, meeting, bfloat16=order.bfloat16) as (team, device):
        asyncio.run(_run_in(team, device, job, watch))


async def _run_in(team: Any, device: Any, job: Job, watch: "Callable[[Progress], None] | None") -> None:
    """One stage, in one process of the run."""
    from sanderling.rl.run import run_rl

    recipe, stage, directory = job.order.recipe, job.stage, job.directory
    every = (*job.questions, *job.held_out)
    async with opened_acting(recipe, stage, every, job.model, directory, team) as acting:
        try:
            await run_rl(
                stage.rl,
                job.questions,
                acting.connect,
                Encoding(load_tokenizer(job.model), stage.profile),
                job.model,
                directory,
                held_out=job.held_out,
                progress=watch,
                team=team,
                device=device,
            )
        except PolicyOutageError as error:  # of a turn it is a rollout's ending; here the sampler took no weights
            gone = f"The sampler could not be handed the weights ({str(error).removesuffix('.')})"
            raise UserError(f"{gone}: see that it runs, and the same command goes on where this one stopped.") from error


# -- how hard questions are ------------------------------------------------------------------------------------------------


def band_of(
    recipe: RlRecipe, stage: Stage, questions: Sequence[Question], model_dir: Path, directory: Path, report: Report
) -> list[Question]:
    """The questions that a stage asks: all, or those of its band, measured once. Raises UserError when none is left.

    Attempts have the stage's own sampling and budgets, and are made in a process that is gone, with its memory, before training
    begins; killed, it goes on.
    """
    settings = stage.difficulty
    if settings is None:
        return list(questions)
    place = directory / DIFFICULTY
    kept = place / f"{Band.KEPT.value}.jsonl"
    if not kept.is_file():
        place.mkdir(parents=True, exist_ok=True)
        title = f"Difficulty{f', stage {stage.name}' if stage.name else ''}"
        with report.task(title, len(questions) * settings.attempts) as advance:
            read = 0

            def follow() -> None:
                nonlocal read
                if (file := place / ATTEMPTS).is_file():
                    with file.open("rb") as lines:
                        lines.seek(read)
                        new = lines.read()
                    read += len(new)
                    advance(new.count(b"\n"))

            task = Task(_measure, (recipe, stage, list(questions), model_dir, place))
            run_tasks([task], 1, follow)
            follow()
        sort_questions(questions, settings, place)
    found = read_questions(kept) if kept.stat().st_size else []
    band = f"right {settings.least_right} to {settings.most_right} times of {settings.attempts}"
    untold = (place / f"{Band.UNTOLD.value}.jsonl").read_bytes().count(b"\n")
    open_ones = f"; of {untold:,} nobody could tell" if untold else ""
    report.say(f"{len(found):,} of {len(questions):,} questions are {band}{open_ones}: the others are left out ({place}).")
    if not found:
        raise UserError(f"With {model_dir} no question is {band}: give others, or another model.")
    return found


def _measure(recipe: RlRecipe, stage: Stage, questions: list[Question], model_dir: Path, place: Path) -> None:
    """In a process of its own."""
    asyncio.run(_attempts(recipe, stage, questions, model_dir, place))


async def _attempts(recipe: RlRecipe, stage: Stage, questions: Sequence[Question], model_dir: Path, place: Path) -> None:
    """Attempt every question, or go on with that; all attempts at one are begun next to each other."""
    assert stage.difficulty is not None
    store, rl = TrajectoryStore(place / ATTEMPTS), stage.rl
    store.prepare()
    at_once = recipe.sampler.sessions or _AT_ONCE
    async with AsyncExitStack() as stack:
        acting = await stack.enter_async_context(opened_acting(recipe, stage, questions, model_dir, place, Place()))
        actor = acting.over(*await _beginner(recipe, stage, model_dir, place, at_once, stack))
        asks = [Ask(question, rl.seed, attempt) for question in questions for attempt in range(stage.difficulty.attempts)]
        room = asyncio.Semaphore(at_once)
        await answered(asks, store, actor, actor.score or rule_score(rl.outcome), rl, room, at_once)


async def _beginner(
    recipe: RlRecipe, stage: Stage, model_dir: Path, place: Path, at_once: int, closing: AsyncExitStack
) -> tuple[Policy, WeightSync]:
    """The model that the stage begins with: here, or on the server, which is handed its weights first."""
    import torch

    from sanderling.policy.weight_sync import InPlace
    from sanderling.train.checkpoint import load_model

    if stage.rl.pipeline.placement is not Placement.SERVED:
        policy: Any = open_policy(str(model_dir), device="cuda" if torch.cuda.is_available() else "cpu", max_batch=at_once)
        return policy, InPlace(policy)
    policy, server = server_of(recipe, model_dir, place, closing)
    await server.publish(load_model(model_dir).state_dict(), 0)
    return policy, server


def sort_questions(questions: Sequence[Question], settings: BandSettings, place: Path) -> None:
    """Write every band to its file, the kept one last: it says that all is done. Raises UserError for open ones."""
    tries = {trajectory.id: _try_of(trajectory) for trajectory in TrajectoryStore(place / ATTEMPTS)}
    bands, _ = by_difficulty(questions, tries.values(), settings, NAME)
    if len(bands[Band.UNTOLD]) > _MOST_UNTOLD * len(questions):
        raise UserError(
            f"{len(bands[Band.UNTOLD]):,} of {len(questions):,} questions have too many attempts without a verdict, for want "
            "of a judge or a tool: run the same command again."
        )
    for band in sorted(bands, key=lambda band: band is Band.KEPT):
        write_questions(place / f"{band.value}.jsonl", bands[band])


def _try_of(trajectory: Trajectory) -> Try:
    outcome = trajectory.meta[META]["outcome"]
    length, turns = len(trajectory.token_ids() or ()), sum(1 for _ in trajectory.turns())
    return Try(trajectory.question.id, None if outcome is None else outcome > RIGHT_ABOVE, length, turns)


# -- what a person sees ----------------------------------------------------------------------------------------------------


@contextmanager
def _watched(job: Job, report: Report) -> "Iterator[Callable[[Progress], None]]":
    """A bar that follows the steps of this process, and the views that were asked for."""
    with _bar(job, report) as follow, _views(job) as log:

        def on_progress(progress: "Progress") -> None:
            log(progress)
            follow()

        yield on_progress


@contextmanager
def _bar(job: Job, report: Report) -> Iterator[Callable[[], None]]:
    """A bar that follows a stage's metrics."""
    name, file = job.stage.name, job.directory / METRICS
    lines = read_metrics(file)
    seen = lines[-1]["step"] if lines else 0
    title = f"{job.order.recipe.title}{f', stage {name}' if name else ''}"
    with report.task(title, job.stage.rl.steps, start=seen) as advance:

        def follow() -> None:
            nonlocal seen
            lines = read_metrics(file)
            if lines and lines[-1]["step"] != seen:
                advance(lines[-1]["step"] - seen, figures(lines))
                seen = lines[-1]["step"]

        yield follow


@contextmanager
def _views(job: Job) -> "Iterator[Callable[[Progress], None]]":
    """The views of the run that were asked for; opened where rank 0 is."""
    recipe, done = job.order.recipe, len(read_metrics(job.directory / METRICS))
    with ExitStack() as stack:
        settings = recipe.model_dump(mode="json")
        views = [stack.enter_context(closing(open_watcher(name, job.directory, settings, done))) for name in recipe.watch]

        def log(progress: "Progress") -> None:
            for view in views:
                view.log(progress.step, progress.metrics)

        yield log


def figures(lines: Sequence[Mapping[str, Any]]) -> str:
    """The last step's line: reward, groups with signal, age in updates, the trainer's share of time that it did not wait."""
    last = lines[-1]
    parts = [f"reward {last.get('reward', 0.0):.2f}"]
    held_out = next((line["held_out"] for line in reversed(lines) if "held_out" in line), None)
    if held_out is not None:
        parts.append(f"held out {held_out:.2f}")
    parts.append(f"signal {last.get('groups_with_signal', 0.0):.0%}")
    parts.append(f"age {last.get('age', 0.0):.1f}")
    if last.get("seconds"):
        parts.append(f"learning {1 - last.get('wait_seconds', 0.0) / last['seconds']:.0%}")
    alarms = [name.removeprefix(ALARM) for name, value in last.items() if name.startswith(ALARM) and value]
    return ", ".join(parts) + (f"; ALARM: {', '.join(alarms)}" if alarms else "")


def chosen(stage: Stage, measured: Sequence[Mapping[str, Any]]) -> str:
    """Which model held-out questions have chosen; empty where nothing was measured."""
    if not measured:
        return ""
    best = max(measured, key=lambda line: line["held_out"])  # the first of several, as it was kept
    where = f"Stage {stage.name}: held-out" if stage.name else "Held-out"
    if best["step"] == 0:
        return (
            f"{where} questions chose the model that training began with ({best['held_out']:.1%} right): none of the "
            f"{stage.rl.steps:,} steps led to a better one."
        )
    began = f", {measured[0]['held_out']:.1%} before any" if measured[0]["step"] == 0 else ""
    return (
        f"{where} questions chose the model after step {best['step']:,} of {stage.rl.steps:,} "
        f"({best['held_out']:.1%} right{began})."
    )


def _conclude(prepared: Prepared, report: Report) -> None:
    """Say where the model is and what to do with it."""
    order = prepared.order
    for stage in prepared.stages:
        if sentence := chosen(stage, read_metrics(stage.directory(order.out) / SELECTION)):
            report.say(sentence)
    model = prepared.stages[-1].directory(order.out) / MODEL
    profile, worlds = order.recipe.profile, order.recipe.worlds
    world = str(worlds[0]) if len(worlds) == 1 else "WORLD"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world {world} --model {model} --profile {profile}."
    )
