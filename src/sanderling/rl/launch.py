"""``sanderling train rl`` from end to end: what is prepared, sampled, trained and shown.

Everything is checked before torch is imported; then one process acts and trains, or several that were started by torchrun or
are started here. Killed at any moment, the same command goes on; once finished, it says so. Rank 0 alone writes models and
speaks.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.contract import PolicyOutageError
from sanderling.rl.act import opened_acting
from sanderling.rl.prepare import MODEL, Job, Look, Order, prepare
from sanderling.runs.files import locked
from sanderling.runs.progress import Report
from sanderling.train.encoding import Encoding
from sanderling.train.launch import Place, opened_team, run_team, torchrun_place
from sanderling.train.metrics import open_watcher, read_metrics

if TYPE_CHECKING:
    from sanderling.rl.run import OnStep

METRICS, SELECTION = "metrics.jsonl", "selection.jsonl"


def run_rl_command(order: Order, report: Report, look: Look | None = None) -> None:
    """Train, or go on training, until the model lies in its directory. Raises UserError."""
    place = torchrun_place()
    if place is not None and order.processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is not None and place.size > 1:
        _with_others(order, report, place, look)
        return
    with locked(order.out):
        job = prepare(order, order.processes, look)
        if not job.is_finished:
            _announce(job, report)
            if order.processes > 1:
                with _bar(job, report) as follow:
                    run_team(_as_worker, (job,), order.processes, follow)
                    follow()
            else:
                with _watched(job, report) as watch:
                    _run(Place(), None, job, watch)
        _conclude(job, report)


def run_simple(order: Order, report: Report) -> None:
    """``--simple``: the loop that fits on a page (`rl_loop`), over everything that a run would be checked for."""
    from sanderling.rl.rl_loop import run, settings_of

    if order.processes > 1:
        raise UserError("The simple loop is one process: leave --simple or --processes out.")
    settings_of(order.recipe)  # refuses what it does not have before --fresh deletes anything
    with locked(order.out):
        job = prepare(order, 1)
        with report.task(order.recipe.title, job.rl.steps) as advance:
            run(job, lambda line: advance(1, f"reward {line['reward']:.2f}"))
        _conclude(job, report)


def _announce(job: Job, report: Report) -> None:
    done, rl = len(read_metrics(job.out / METRICS)), job.rl
    report.say(
        f"{len(job.questions):,} questions, {rl.questions_per_step} a step with {rl.group_size} rollouts each, {rl.steps:,} "
        f"steps from {job.model}." + (f" Goes on after step {done:,}." if done else "")
    )


# -- processes -------------------------------------------------------------------------------------------------------------


def _with_others(order: Order, report: Report, place: Place, look: Look | None) -> None:
    """As one of torchrun's processes: rank 0 prepares, and all run."""
    with opened_team(order.recipe.parallel, place, None, bfloat16=order.bfloat16) as (team, device):
        first = team.rank == 0
        with locked(order.out) if first else nullcontext():
            prepared = prepare(order, place.size, look) if first else None
            job = team.gather(prepared if prepared and not prepared.is_finished else None)[0]
            if job is not None:
                if first:
                    _announce(job, report)
                with _watched(job, report) if first else nullcontext() as watch:
                    asyncio.run(_run_in(team, device, job, watch))
            if prepared is not None:
                _conclude(prepared, report)


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    with _views(job) if rank == 0 else nullcontext() as watch:
        _run(Place(rank, size, rank, size), meeting, job, watch)


def _run(place: Place, meeting: Path | None, job: Job, watch: "OnStep | None") -> None:
    order = job.order
    with opened_team(order.recipe.parallel, place, meeting, bfloat16=order.bfloat16) as (team, device):
        asyncio.run(_run_in(team, device, job, watch))


async def _run_in(team: Any, device: Any, job: Job, watch: "OnStep | None") -> None:
    """The run, in one of its processes."""
    from sanderling.rl.run import run_rl

    every = (*job.questions, *job.held_out)
    async with opened_acting(job.order.recipe, job.profile, every, job.model, job.out, team) as acting:
        try:
            await run_rl(
                job.rl,
                job.questions,
                acting.connect,
                Encoding(load_tokenizer(job.model), job.profile),
                job.model,
                job.out,
                held_out=job.held_out,
                on_step=watch,
                team=team,
                device=device,
            )
        except PolicyOutageError as error:  # of a turn it is a rollout's ending; here the sampler took no weights
            gone = f"The sampler could not be handed the weights ({str(error).removesuffix('.')})"
            raise UserError(f"{gone}: see that it runs, and the same command goes on where this one stopped.") from error


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
    """A bar that follows the run's metrics."""
    file = job.out / METRICS
    seen = len(read_metrics(file))
    with report.task(job.order.recipe.title, job.rl.steps, start=seen) as advance:

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
    recipe, done = job.order.recipe, len(read_metrics(job.out / METRICS))
    with ExitStack() as stack:
        settings = recipe.model_dump(mode="json")
        views = [stack.enter_context(closing(open_watcher(name, job.out, settings, done))) for name in recipe.watch]

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


def _conclude(job: Job, report: Report) -> None:
    """Say which model held-out questions have chosen, where the last model is and what to do with it."""
    if measured := read_metrics(job.out / SELECTION):
        best = max(measured, key=lambda line: line["held_out"])  # the first of several, as it was kept
        right = f"{best['held_out']:.1%} right, {measured[0]['held_out']:.1%} before any step"
        report.say(f"Held-out questions chose the model after step {best['step']:,} of {job.rl.steps:,} ({right}).")
    model, recipe = job.out / MODEL, job.order.recipe
    world = str(recipe.worlds[0]) if len(recipe.worlds) == 1 else "WORLD"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world {world} --model {model} --profile "
        f"{recipe.profile}."
    )
