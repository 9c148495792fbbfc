"""Everything that can be done and known before the first step: rows, checks, the record of the run.

Torch is imported only to look at the devices.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import check_model
from sanderling.runs.progress import Report
from sanderling.train.config import Precision
from sanderling.train.fit import Devices, check_fit, devices_here
from sanderling.train.metrics import check_watchers
from sanderling.train.parallel.launch import check_parallel
from sanderling.train.row_source import RowIndex, index_rows
from sanderling.train.sft.checks import check_context, check_rows
from sanderling.train.sft.record import check_same_parts, check_same_run, record_of, write_record
from sanderling.train.sft.rows import prepare_rows
from sanderling.train.sft.schedule import CHECKPOINTS, is_finished, last_step, schedule
from sanderling.train.sft.settings import SftConfig

Look = Callable[[], Devices]


def look_here() -> Devices:
    """The devices of the machine; how fast they are is not asked."""
    return devices_here()


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    config: SftConfig
    out: Path
    processes: int = 1
    change: bool = False
    """Whether a run is to go on with other settings than it was begun with."""
    anyway: bool = False
    """Whether it is tried where the plan says that it does not fit."""
    fresh: bool = False
    """Whether a run that the directory holds gives way to a new one, once its model and settings are checked."""

    @property
    def bfloat16(self) -> bool:
        return self.config.trainer.precision is Precision.BFLOAT16


@dataclass(frozen=True)
class Job:
    """What every process has to know in order to train."""

    order: Order
    model: Path
    index: RowIndex

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return len(schedule(self.index.lengths, self.order.config))

    @property
    def done(self) -> int:
        """Steps behind the last checkpoint."""
        return last_step(self.order.out / CHECKPOINTS)


def prepare(order: Order, report: Report, processes: int, look: Look = look_here) -> Job | None:
    """Make rows, check everything, and write the record; None when the run is finished. Raises UserError.

    ``look`` tells which devices there are.
    """
    config, out = order.config, order.out
    if config.model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    check_parallel(config.parallel, processes)
    check_watchers(config.watch)
    check_model(config.model)
    check_context(config, config.model)
    begun, hands = record_of(out).is_begun and not order.fresh, processes // config.parallel.context
    if begun:
        check_same_run(config, out, change=order.change)
    elif order.fresh:
        record_of(out).check_fresh([config.model, *config.data.files])
    else:
        record_of(out).check_empty()
    if begun and is_finished(config, out):
        return None
    if begun:
        check_same_parts(config, out, hands, change=order.change)
    index = _rows(order, processes, look, report, made=begun)
    write_record(config, out, hands)
    job, survey = Job(order, config.model, index), index.survey
    report.say(
        f"{len(index.lengths):,} trajectories in {survey.rows:,} rows; {survey.tokens:,} tokens, {survey.trained_tokens:,} "
        f"trained; the longest row has {survey.longest:,}; {job.steps:,} step{'s' * (job.steps != 1)}."
    )
    if job.done:
        report.say(f"Goes on after step {job.done:,}.")
    return job


def _rows(order: Order, processes: int, look: Look, report: Report, *, made: bool) -> RowIndex:
    """The rows, checked. Of a run that gives way to a new one they are made beside it, and it is emptied once all is well."""
    config, out = order.config, order.out
    if config.model is None:
        raise ValueError("the model was to be checked before")
    place = out.with_name(f".{out.name}.fresh") if order.fresh else out
    place.mkdir(parents=True, exist_ok=True)
    try:
        index = index_rows(prepare_rows(config, place, report, made=made))
        check_rows(index.survey, config.model)
        check_fit(config, index, processes, look(), anyway=order.anyway)
        if not order.fresh:
            return index
        record_of(out).empty()
        for file in place.iterdir():
            file.replace(out / file.name)
        return index_rows(prepare_rows(config, out, report, made=True))
    finally:
        if order.fresh:
            shutil.rmtree(place, ignore_errors=True)
