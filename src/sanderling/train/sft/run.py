"""``sanderling train sft`` from end to end: what is prepared, trained and said.

Rows are made and everything is checked before torch is imported; then one process trains, or several that were started by
torchrun or are started here. Killed at any moment, the same command goes on; once finished, it says so. Rank 0 alone writes and
speaks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.core.errors import UserError
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.train.metrics import read_metrics
from sanderling.train.parallel.launch import Place, opened_team, torchrun_place
from sanderling.train.parallel.workers import run_team
from sanderling.train.row_source import ParquetSource
from sanderling.train.sft.prepare import Job, Look, Order, look_here, prepare
from sanderling.train.sft.schedule import METRICS, MODEL, final_dir

if TYPE_CHECKING:
    from sanderling.train.sft.loop import OnProgress, Progress

_LINGER_S = 60.0
"""How long the others get when one of the processes has failed; on CUDA they would wait for it for hours."""


def speaks() -> bool:
    """Whether this process may print: it is alone, or the first of torchrun's."""
    place = torchrun_place()
    return place is None or place.rank == 0


def run_sft_command(order: Order, report: Report, look: Look = look_here) -> None:
    """Train, or go on training, until the model lies in its directory. ``look`` tells the devices. Raises UserError."""
    place = torchrun_place()
    if place is not None and order.processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is not None and place.size > 1:
        _with_others(order, report, place, look)
        return
    with locked(order.out):
        job = prepare(order, report, order.processes, look)
        if job is not None and order.processes > 1:
            _in_processes(job, report)
        elif job is not None:
            with _watched(job, report) as watch:
                _train(Place(), None, job, watch)
        _conclude(order, report, trained=job is not None)


def _with_others(order: Order, report: Report, place: Place, look: Look) -> None:
    """As one of torchrun's processes."""
    with opened_team(order.config.parallel, place, None, bfloat16=order.bfloat16) as (team, device):
        first = team.rank == 0
        with locked(order.out) if first else nullcontext():
            job = team.gather(prepare(order, report, place.size, look) if first else None)[0]
            if job is not None:
                with _watched(job, report) if first else nullcontext() as watch:
                    _train_in(team, device, job, watch)
            if first:
                _conclude(order, report, trained=job is not None)


def _in_processes(job: Job, report: Report) -> None:
    """In processes of this machine that are started here, and that end with this one."""
    seen = job.done
    with report.task(job.order.config.title, job.steps, start=seen) as advance:

        def poll() -> None:
            nonlocal seen
            lines = read_metrics(job.order.out / METRICS)
            if lines and lines[-1]["step"] > seen:
                advance(lines[-1]["step"] - seen, _figures(lines[-1]))
                seen = lines[-1]["step"]

        fewer = "with fewer --processes or parallel.kind=fsdp"
        run_team(_as_worker, (job,), job.order.processes, poll, _LINGER_S, fewer)
        poll()


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    _train(Place(rank, size, rank, size), meeting, job, None)


def _train(place: Place, meeting: Path | None, job: Job, watch: "OnProgress | None") -> None:
    with opened_team(job.order.config.parallel, place, meeting, bfloat16=job.order.bfloat16) as (team, device):
        _train_in(team, device, job, watch)


def _train_in(team: Any, device: Any, job: Job, watch: "OnProgress | None") -> None:
    from sanderling.train.sft.loop import run_sft

    run_sft(job.order.config, ParquetSource(job.index), job.model, job.order.out, watch, team, device)


def _conclude(order: Order, report: Report, *, trained: bool) -> None:
    """Merge where that was asked for, and say where everything is and what to do with it."""
    config, out = order.config, order.out
    final, model = final_dir(config, out), out / MODEL
    if not trained:
        report.say("This run was finished before: there is nothing left to train.")
        _say_other_dtype(order, report)
    if config.lora.rank and not (model / "config.json").is_file():
        if not config.merge or config.model is None:
            report.say(f"The adapter is in {final}, in peft's files: the same command with --merge makes a whole model of it.")
            return
        from sanderling.train.adapters import merge_adapter
        from sanderling.train.checkpoint import final_dtype, save_model

        merged = merge_adapter(config.model, final, final_dtype(config.save_dtype, config.model))
        save_model(merged, model, config.model)
    profile = config.data.profile or "PROFILE"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world WORLD --model {model} --profile {profile}."
    )


def _say_other_dtype(order: Order, report: Report) -> None:
    """Where a finished run's model is stored otherwise than is now asked for, say so, and how to have it."""
    config, model = order.config, order.out / MODEL
    if config.model is None or not (model / "config.json").is_file():
        return
    from sanderling.policy.model_directory import stored_dtype
    from sanderling.train.checkpoint import final_dtype

    found, wish = (
        str(dtype).removeprefix("torch.") for dtype in (stored_dtype(model), final_dtype(config.save_dtype, config.model))
    )
    if found != wish:
        again = "merge" if config.lora.rank else "train the steps after the last checkpoint once more and write"
        report.say(f"{model} was written in {found}, and stays so: remove it and run again to {again} it in {wish}.")


@contextmanager
def _watched(job: Job, report: Report) -> "Iterator[OnProgress]":
    """A bar that follows the steps of this process."""
    seen = job.done
    with report.task(job.order.config.title, job.steps, start=seen) as advance:

        def on_progress(progress: "Progress") -> None:
            nonlocal seen
            advance(progress.step - seen, _figures(progress.metrics))
            seen = progress.step

        yield on_progress


def _figures(metrics: dict[str, Any]) -> str:
    return f"loss {metrics['loss']:.3f}, lr {metrics['lr']:.1e}, {metrics['tokens_per_second']:,.0f} tokens/s"
