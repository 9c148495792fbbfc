"""``sanderling train sft`` from end to end: what is checked, prepared, trained and said.

Rows are made and everything is checked before torch is imported; then one process trains, or several that were started by
torchrun or are started here. Killed at any moment, the same command goes on; once finished, it says so. Rank 0 alone writes and
speaks.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanderling.errors import UserError
from sanderling.policy.model_files import check_model
from sanderling.recipes.progress import Advance, Report
from sanderling.recipes.sft.record import check_same_run, is_begun, write_record
from sanderling.recipes.sft.rows import prepare_rows
from sanderling.recipes.stages import locked
from sanderling.recipes.workers import run_team
from sanderling.train.checkpoint_places import last_step
from sanderling.train.config import Precision
from sanderling.train.launch import Place, check_parallel, opened_team, torchrun_place
from sanderling.train.metrics import read_metrics
from sanderling.train.row_source import ParquetSource, RowIndex, index_rows
from sanderling.train.sft_checks import check_rows
from sanderling.train.sft_config import SftConfig
from sanderling.train.supervised_plan import CHECKPOINTS, METRICS, MODEL, final_dir, is_finished, schedule
from sanderling.train.watchers import check_watchers

if TYPE_CHECKING:
    from sanderling.train.supervised import OnProgress, Progress
    from sanderling.train.team import Team


@dataclass(frozen=True)
class Job:
    """What every process has to know."""

    config: SftConfig
    out: Path
    model: Path
    index: RowIndex

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return len(schedule(self.index.lengths, self.config))


def speaks() -> bool:
    """Whether this process may print: it is alone, or the first of torchrun's."""
    place = torchrun_place()
    return place is None or place.rank == 0


def run_sft_command(config: SftConfig, out: Path, report: Report, processes: int = 1) -> None:
    """Train, or go on training, until the model lies in ``out``. Raises UserError."""
    place = torchrun_place()
    if place is not None and processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is None and processes > 1:
        _in_processes(config, out, report, processes)
    else:
        _in_this_process(config, out, report, place or Place())


def _in_this_process(config: SftConfig, out: Path, report: Report, place: Place) -> None:
    """As the only process, or as one of torchrun's."""
    if place.size == 1:
        with locked(out):
            job = _prepare(config, out, report, 1)
            if job is not None:
                _as_rank(place, None, job, report)
            _conclude(config, out, report, trained=job is not None)
        return
    with opened_team(config.parallel.kind, place, None, bfloat16=_bfloat16(config)) as (team, device):
        first = team.rank == 0
        with locked(out) if first else nullcontext():
            job = team.gather(_prepare(config, out, report, place.size) if first else None)[0]
            if job is not None:
                with _watched(report, job) if first else nullcontext() as watch:
                    _train(job, team, device, watch)
            if first:
                _conclude(config, out, report, trained=job is not None)


def _in_processes(config: SftConfig, out: Path, report: Report, processes: int) -> None:
    """In processes of this machine that are started here, and that end with this one."""
    with locked(out):
        job = _prepare(config, out, report, processes)
        if job is not None:
            with _bar(report, job) as advance:
                seen = last_step(out / CHECKPOINTS)

                def poll() -> None:
                    nonlocal seen
                    lines = read_metrics(out / METRICS)
                    if lines and lines[-1]["step"] > seen:
                        advance(lines[-1]["step"] - seen, _figures(lines[-1]))
                        seen = lines[-1]["step"]

                run_team(_as_worker, (job,), processes, poll)
                poll()
        _conclude(config, out, report, trained=job is not None)


def _prepare(config: SftConfig, out: Path, report: Report, processes: int) -> Job | None:
    """Everything that can be known before the first step; None when the run is finished. Raises UserError."""
    if config.model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    check_parallel(config.parallel.kind, processes)
    check_watchers(config.watch)
    check_model(config.model)
    check_same_run(config, out)
    if is_begun(out) and is_finished(config, out):
        return None
    index = index_rows(prepare_rows(config, out, report, made=is_begun(out)))
    check_rows(index.survey, config.model)
    job = Job(config, out, config.model, index)
    write_record(config, out)
    survey = index.survey
    report.say(
        f"{len(index.lengths):,} trajectories, {survey.rows:,} rows, {survey.tokens:,} tokens ({survey.trained_tokens:,} "
        f"trained); the longest row has {survey.longest:,}; {job.steps:,} steps."
    )
    done = last_step(out / CHECKPOINTS)
    if done:
        report.say(f"Goes on after step {done:,}.")
    return job


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    place = Place(rank, size, rank, size)
    with opened_team(job.config.parallel.kind, place, meeting, bfloat16=_bfloat16(job.config)) as (team, device):
        _train(job, team, device, None)


def _as_rank(place: Place, meeting: Path | None, job: Job, report: Report) -> None:
    with (
        opened_team(job.config.parallel.kind, place, meeting, bfloat16=_bfloat16(job.config)) as (team, device),
        _watched(report, job) as watch,
    ):
        _train(job, team, device, watch)


def _train(job: Job, team: "Team", device: Any, watch: "OnProgress | None") -> None:
    from sanderling.train.sft import run_sft

    run_sft(job.config, ParquetSource(job.index), job.model, job.out, watch, team, device)


def _bfloat16(config: SftConfig) -> bool:
    return config.trainer.precision is Precision.BFLOAT16


def _conclude(config: SftConfig, out: Path, report: Report, *, trained: bool) -> None:
    """Merge where that was asked for, and say where everything is."""
    final, model = final_dir(config, out), out / MODEL
    if config.lora.rank and config.merge and not (model / "config.json").is_file() and config.model is not None:
        from sanderling.train.adapters import merge_adapter
        from sanderling.train.checkpoint import save_model

        save_model(merge_adapter(config.model, final), model, config.model)
    elif not trained:
        report.say("This run was finished before: nothing was done.")
    if config.lora.rank and not (model / "config.json").is_file():
        report.say(f"The adapter is in {final}, in peft's files: the same command with --merge makes a whole model of it.")
        return
    profile = f" --profile {config.data.profile}" if config.data.profile else ""
    report.say(f"The model is in {model}: ask it with sanderling ask QUESTION --world WORLD --model {model}{profile}.")


@contextmanager
def _watched(report: Report, job: Job) -> "Iterator[OnProgress]":
    """A bar that follows the steps of this process."""
    with _bar(report, job) as advance:
        seen = last_step(job.out / CHECKPOINTS)

        def on_progress(progress: "Progress") -> None:
            nonlocal seen
            advance(progress.step - seen, _figures(progress.metrics))
            seen = progress.step

        yield on_progress


@contextmanager
def _bar(report: Report, job: Job) -> Iterator[Advance]:
    with report.task(job.config.title, job.steps, start=last_step(job.out / CHECKPOINTS)) as advance:
        yield advance


def _figures(metrics: dict[str, Any]) -> str:
    return f"loss {metrics['loss']:.3f}, lr {metrics['lr']:.1e}, {metrics['tokens_per_second']:,.0f} tokens/s"
