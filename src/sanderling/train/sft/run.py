"""``sanderling train sft`` from end to end: rows, checks, the record of the run, the processes, what is said.

Everything that can be known is checked before torch is imported (but for a look at the devices); then one process trains, or
several that were started by torchrun or are started here. Killed at any moment, the same command goes on; once finished, it
says so. A run goes on with the settings, data and model it was begun with, or is refused; settings that change no result beyond
rounding may differ. Rank 0 alone writes and speaks.

Example: ``run_sft_command(Order(config, Path("runs/mine")), Report(Console()))``.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.config import load_config
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.data.importing import find_places, open_trajectories
from sanderling.policy.model_directory import check_model
from sanderling.runs.locks import locked
from sanderling.runs.progress import Report
from sanderling.runs.run_record import RunRecord, content_hash, flat, model_files, unlike
from sanderling.train.config import Aggregation, Precision, SftConfig
from sanderling.train.encoding import Encoding
from sanderling.train.fit import Devices, check_fit, devices_here
from sanderling.train.metrics import check_watchers, read_metrics
from sanderling.train.parallel.launch import Place, check_parallel, opened_team, torchrun_place
from sanderling.train.parallel.workers import run_team
from sanderling.train.row_source import ParquetSource, RowCounts, RowIndex, holds_rows, index_rows, write_rows
from sanderling.train.sft.schedule import (
    CHECKPOINTS,
    METRICS,
    MODEL,
    OnProgress,
    Progress,
    check_context,
    check_rows,
    final_dir,
    is_finished,
    last_step,
    schedule,
)

ROWS = "rows.parquet"
_HANDS = "hands"
"""Where the record says into how many parts batches are dealt."""
_FREE = (
    "title", "model", "data.files", "save_every", "keep", "save_dtype", "merge", "parallel.", "trainer.memory.",
    "trainer.logit_chunk", "watch",
)  # fmt: skip
"""Settings that may differ when a run goes on: paths (their content may not) and what only says how the work is done."""
_LINGER_S = 60.0
"""How long the others get when one of the processes has failed; on CUDA they would wait for it for hours."""
Look = Callable[[], Devices]


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    config: SftConfig
    out: Path
    processes: int = 1
    anyway: bool = False
    """Whether it is tried where the plan says that it does not fit."""
    fresh: bool = False
    """Whether a run that the directory holds gives way to a new one, once its model and settings are checked."""

    @property
    def model(self) -> Path:
        """The directory that training starts from. Raises UserError."""
        if self.config.model is None:
            raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
        return self.config.model


@dataclass(frozen=True)
class Job:
    """What every process has to know in order to train."""

    order: Order
    index: RowIndex

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return len(schedule(self.index.lengths, self.order.config))

    @property
    def done(self) -> int:
        """Steps behind the last checkpoint."""
        return last_step(self.order.out / CHECKPOINTS)


def run_sft_command(order: Order, report: Report, look: Look = devices_here) -> None:
    """Train, or go on training, until the model lies in its directory. ``look`` tells the devices. Raises UserError."""
    place = torchrun_place()
    if place is not None and order.processes > 1:
        raise UserError("torchrun has started the processes already: leave --processes out.")
    if place is not None and place.size > 1:
        _run_with_others(order, report, place, look)
        return
    with locked(order.out):
        job = prepare(order, report, order.processes, look)
        if job is not None and order.processes > 1:
            _run_processes(job, report)
        elif job is not None:
            with _progress(job, report) as watch:
                _train(Place(), None, job, watch)
        _conclude(order, report, trained=job is not None)


# -- before the first step ---------------------------------------------------------------------------------------------------


def prepare(order: Order, report: Report, processes: int, look: Look = devices_here) -> Job | None:
    """Make rows, check everything, and write the record; None when the run is finished. Raises UserError."""
    config, out, model = order.config, order.out, order.model
    check_parallel(config.parallel, processes)
    check_watchers(config.watch)
    check_model(model)
    check_context(config, model)
    record, hands = record_of(out), processes // config.parallel.context
    begun = record.is_begun and not order.fresh
    if begun:
        _check_same_run(config, record)
        if is_finished(config, out):
            return None
        _check_same_parts(config, record, hands)
    elif order.fresh:
        record.check_fresh([model, *config.data.files])
    else:
        record.check_empty()
    job = Job(order, _checked_rows(order, processes, look, report, made=begun))
    record.write(_in_text(config), {**_inputs(config), _HANDS: hands})
    survey = job.index.survey
    report.say(
        f"{len(job.index.lengths):,} trajectories in {survey.rows:,} rows; {survey.tokens:,} tokens, "
        f"{survey.trained_tokens:,} trained; the longest row has {survey.longest:,}; "
        f"{job.steps:,} step{'s' * (job.steps != 1)}."
    )
    if job.done:
        report.say(f"Goes on after step {job.done:,}.")
    return job


def _checked_rows(order: Order, processes: int, look: Look, report: Report, *, made: bool) -> RowIndex:
    """The rows, checked. Of a run that gives way to a new one they are made beside it, and it is emptied once all is well."""
    config, out = order.config, order.out
    place = out.with_name(f".{out.name}.fresh") if order.fresh else out
    place.mkdir(parents=True, exist_ok=True)
    try:
        index = index_rows(_row_files(order, place, report, made=made))
        check_rows(index.survey, order.model)
        check_fit(config, index, processes, look(), anyway=order.anyway)
        if not order.fresh:
            return index
        record_of(out).empty()
        for file in place.iterdir():
            file.replace(out / file.name)
        return index_rows(_row_files(order, out, report, made=True))
    finally:
        if order.fresh:
            shutil.rmtree(place, ignore_errors=True)


def _row_files(order: Order, place: Path, report: Report, *, made: bool) -> list[Path]:
    """The files of rows to train on: those that were given, or one that is made of trajectories (``made``: before)."""
    data = order.config.data
    if _are_rows(data.files):
        return list(data.files)
    target = place / ROWS
    if not (made and target.is_file()):
        if not data.profile:
            raise UserError("Trajectories need a profile to become tokens: give --profile, such as dr-venus-4b.")
        profile = get_profile(data.profile)
        encoding, limit = Encoding(load_tokenizer(order.model), profile), data.limit(profile.budgets.max_context_tokens)
        trajectories = (one for file in data.files for one in open_trajectories(file))
        report.say(_made(write_rows(target, trajectories, encoding, limit)))
    return [target]


def _are_rows(files: Sequence[Path]) -> bool:
    """Whether files hold rows, else trajectories. Raises UserError when there are none, or some of each."""
    if not files:
        raise UserError("There is nothing to train on: name files of trajectories or of rows.")
    for file in files:
        if not file.exists():
            raise UserError(f"There is no file {file}: name files of trajectories, or of rows (.parquet).")
    ready = [holds_rows(file) for file in files]
    if any(ready) and not all(ready):
        rows = files[ready.index(True)]
        raise UserError(f"{rows} holds rows, others hold trajectories: give one kind, or make rows of the others first.")
    return all(ready)


def _made(counts: RowCounts) -> str:
    parts = [f"{counts.trajectories:,} trajectories made {counts.rows:,} rows"]
    parts += [f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.left_out().items() if count]
    which = f" (which: {ROWS}.left-out.jsonl)" if any(counts.left_out().values()) else ""
    return ", ".join([*parts, f"{counts.split:,} split"] if counts.split else parts) + which + "."


# -- what the run was begun with ---------------------------------------------------------------------------------------------


def record_of(out: Path) -> RunRecord:
    """A directory of supervised training."""
    return RunRecord(out, "sft", (ROWS, f".{ROWS}"))


def _check_same_run(config: SftConfig, record: RunRecord) -> None:
    """Raises UserError, saying what differs, when a directory holds a run with other settings, data or model."""
    before, now = flat(load_config(SftConfig, record.settings(), str(record.out))), flat(_in_text(config))
    free = _FREE if config.trainer.aggregation is Aggregation.MICRO_BATCH_MEAN else (*_FREE, "trainer.micro_batch_tokens")
    differing = [f"{key} {before.get(key)}, now {now.get(key)}" for key in unlike(before, now) if not key.startswith(free)]
    inputs = record.inputs()
    record.refuse(differing + [f"other {name}" for name, content in _inputs(config).items() if inputs.get(name) != content])


def _check_same_parts(config: SftConfig, record: RunRecord, hands: int) -> None:
    """Raises UserError when batches were dealt into other parts than ``hands`` and the loss depends on that."""
    before = record.inputs()[_HANDS]
    if config.trainer.aggregation is Aggregation.MICRO_BATCH_MEAN and before != hands:
        raise UserError(
            f"{record.out} holds a run of {before} parts a batch, now {hands}, and micro_batch_mean depends on that: "
            "start as many processes as before."
        )


def _in_text(config: SftConfig) -> SftConfig:
    """The settings with paths that can be written; paths that are no text are told apart by content only."""

    def text(path: Path) -> Path:
        return Path(str(path).encode("utf-8", "replace").decode())

    files = config.data.model_copy(update={"files": tuple(map(text, config.data.files))})
    return config.model_copy(update={"data": files, "model": config.model and text(config.model)})


def _inputs(config: SftConfig) -> dict[str, Any]:
    model = model_files(config.model) if config.model else []
    return {
        "data": [[place.name, content_hash(place.path)] for place in find_places(config.data.files).files],
        "model": [[path.name, content_hash(path)] for path in model],
    }


# -- processes ---------------------------------------------------------------------------------------------------------------


def _run_with_others(order: Order, report: Report, place: Place, look: Look) -> None:
    """As one of torchrun's processes."""
    with opened_team(order.config.parallel, place, None, bfloat16=_bfloat16(order)) as (team, device):
        first = team.rank == 0
        with locked(order.out) if first else nullcontext():
            job = team.gather(prepare(order, report, place.size, look) if first else None)[0]
            if job is not None:
                with _progress(job, report) if first else nullcontext() as watch:
                    _train_in(team, device, job, watch)
            if first:
                _conclude(order, report, trained=job is not None)


def _run_processes(job: Job, report: Report) -> None:
    """In processes of this machine that are started here, and that end with this one."""
    with _progress(job, report) as watch:

        def poll() -> None:
            lines = read_metrics(job.order.out / METRICS)
            if lines:
                watch(Progress(lines[-1]["step"], job.steps, lines[-1]))

        fewer = "with fewer --processes or parallel.kind=fsdp"
        run_team(_as_worker, (job,), job.order.processes, poll, _LINGER_S, fewer)
        poll()


def _as_worker(rank: int, size: int, meeting: Path, job: Job) -> None:
    _train(Place(rank, size, rank, size), meeting, job, None)


def _train(place: Place, meeting: Path | None, job: Job, watch: OnProgress | None) -> None:
    with opened_team(job.order.config.parallel, place, meeting, bfloat16=_bfloat16(job.order)) as (team, device):
        _train_in(team, device, job, watch)


def _train_in(team: Any, device: Any, job: Job, watch: OnProgress | None) -> None:
    from sanderling.train.sft.loop import run_sft

    run_sft(job.order.config, ParquetSource(job.index), job.order.model, job.order.out, watch, team, device)


def _bfloat16(order: Order) -> bool:
    return order.config.trainer.precision is Precision.BFLOAT16


@contextmanager
def _progress(job: Job, report: Report) -> Iterator[OnProgress]:
    """A bar that follows the steps."""
    seen = job.done
    with report.task(job.order.config.title, job.steps, start=seen) as advance:

        def on_progress(progress: Progress) -> None:
            nonlocal seen
            if progress.step > seen:
                told = progress.metrics
                speed = f"{told['tokens_per_second']:,.0f} tokens/s"
                advance(progress.step - seen, f"loss {told['loss']:.3f}, lr {told['lr']:.1e}, {speed}")
                seen = progress.step

        yield on_progress


def _conclude(order: Order, report: Report, *, trained: bool) -> None:
    """Merge where that was asked for, and say where everything is and what to do with it."""
    config, out = order.config, order.out
    final, model = final_dir(config, out), out / MODEL
    if not trained:
        report.say("This run was finished before: there is nothing left to train.")
    if config.lora.rank and not (model / "config.json").is_file():
        if not config.merge:
            report.say(f"The adapter is in {final}, in peft's files: the same command with --merge makes a whole model of it.")
            return
        from sanderling.train.adapters import merge_adapter
        from sanderling.train.checkpoint import final_dtype, save_model

        merged = merge_adapter(order.model, final, final_dtype(config.save_dtype, order.model))
        save_model(merged, model, order.model)
    profile = config.data.profile or "PROFILE"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world WORLD --model {model} --profile {profile}."
    )
