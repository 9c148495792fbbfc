"""``sanderling train rl`` from end to end: what is prepared, sampled, trained and said, stage by stage.

Everything is checked before torch is imported; then one process acts and trains, or several that were started by torchrun or
are started here. A stage begins with the model that the one before it selected. Killed at any moment, the same command goes on;
once finished, it says so. Rank 0 alone writes models and speaks.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.contract import PolicyOutageError
from sanderling.recipes.rl.acting import opened_acting
from sanderling.recipes.rl.difficulty import band_of
from sanderling.recipes.rl.prepare import Job, Look, Order, Prepared, look_here, prepare
from sanderling.recipes.rl.shown import chosen, figures, told
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import open_watcher, read_metrics
from sanderling.train.parallel.launch import Place, opened_team, torchrun_place
from sanderling.train.parallel.workers import run_team

if TYPE_CHECKING:
    from sanderling.train.sft.loop import Progress

METRICS, MODEL, SELECTION = "metrics.jsonl", "model", "selection.jsonl"
_LINGER_S = 60.0
"""How long the others get when one of the processes has failed."""


def run_rl_command(order: Order, report: Report, look: Look = look_here) -> None:
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
            report.say(told(stage, len(kept), model, done))
            yield Job(order, stage, model, tuple(kept), job.held_out)
        model = directory / MODEL


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
        fewer = "with smaller sampler.sessions or fewer --processes from the beginning"
        run_team(_as_worker, (job,), job.order.processes, follow, _LINGER_S, fewer)
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
