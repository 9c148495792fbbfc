"""``sanderling train sft`` from end to end: rows, checks, the record of the run, training, what a person is told.

Everything that can be known is checked before torch is imported, but for a look at the devices. A run goes on with the data,
model and settings it was begun with, or is refused; settings that change no result beyond rounding may differ.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.data.importing import find_places, open_trajectories
from sanderling.policy.model_directory import check_model
from sanderling.runs.progress import Report
from sanderling.runs.run_record import RunRecord, content_hash, model_files
from sanderling.train.checkpoint import CHECKPOINTS, last_step
from sanderling.train.config import Aggregation, Precision, SftConfig
from sanderling.train.encoding import Encoding
from sanderling.train.fit import Devices, devices_here, plan_sft, with_changes
from sanderling.train.metrics import OnProgress, check_watchers
from sanderling.train.parallel import launch
from sanderling.train.parallel.launch import Launch, check_parallel
from sanderling.train.row_source import ParquetSource, RowIndex, holds_rows, index_rows, write_rows
from sanderling.train.sft.loop import MODEL, check_rows, final_dir, is_finished, run_sft, schedule
from sanderling.train.shape import read_shape

ROWS = "rows.parquet"
_FREE = (
    "title", "model", "data.files", "save_every", "keep", "merge", "parallel.", "trainer.memory.", "trainer.logit_chunk",
    "watch",
)  # fmt: skip
"""Settings that may differ when a run goes on: paths (their content may not) and what only says how the work is done."""
_PARTS = "number of parts that batches are dealt into"
Look = Callable[[], Devices]


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    config: SftConfig
    out: Path
    processes: int = 1
    anyway: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Job:
    """What every process has to know in order to train."""

    order: Order
    model: Path
    index: RowIndex


def run_sft_command(order: Order, report: Report, look: Look = devices_here) -> None:
    """Train, or go on training, until the model lies in its directory. ``look`` tells the devices. Raises UserError."""
    config = order.config

    def jobs(processes: int) -> Iterator[launch.Job[Job]]:
        job = prepare(order, report, processes, look)
        if job is not None:
            steps, done = len(schedule(job.index.lengths, config)), last_step(order.out / CHECKPOINTS)
            again = f" Goes on after step {done:,}." if done else ""
            survey = job.index.survey
            report.say(
                f"{len(job.index.lengths):,} trajectories in {survey.rows:,} rows; {survey.tokens:,} tokens, "
                f"{survey.trained_tokens:,} trained; the longest row has {survey.longest:,}; {steps:,} steps.{again}"
            )
            yield launch.Job(job, order.out, config.title, steps, done, config.watch, config.model_dump(mode="json"))
        _conclude(order, report, trained=job is not None)

    bfloat16 = config.trainer.precision is Precision.BFLOAT16
    Launch(order.out, config.parallel, bfloat16, order.processes).run(jobs, _train, _figures, report)


def _train(team: Any, device: Any, job: Job, watch: OnProgress | None) -> None:
    run_sft(job.order.config, ParquetSource(job.index), job.model, job.order.out, watch, team, device)


def _figures(lines: Sequence[Mapping[str, Any]]) -> str:
    last = lines[-1]
    return f"loss {last['loss']:.3f}, lr {last['lr']:.1e}, {last['tokens_per_second']:,.0f} tokens/s"


def prepare(order: Order, report: Report, processes: int, look: Look = devices_here) -> Job | None:
    """Make rows, check everything, and write the record; None when the run is finished. Raises UserError."""
    config, out, model = order.config, order.out, order.config.model
    if model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    check_watchers(config.watch)
    check_model(model)
    _check_parallel(config, processes)
    ready = _hold_rows(config.data.files)
    if not ready and not config.data.profile:
        raise UserError("Trajectories need a profile to become tokens: give --profile, such as dr-venus-4b.")
    record, inputs = RunRecord(out, "sft", (ROWS, f".{ROWS}")), _inputs(config, processes)
    begun = record.is_begun and not order.fresh
    if begun:
        free = _FREE if _PARTS in inputs else (*_FREE, "trainer.micro_batch_tokens")
        record.check_same(config, inputs, lambda key: key.startswith(free))
        if is_finished(config, out):
            return None
    elif order.fresh:
        record.check_fresh([model, *config.data.files])
        record.empty()
    else:
        record.check_empty()
    files = list(config.data.files) if ready else [out / ROWS]
    if not ready and not (begun and (out / ROWS).is_file()):
        _make_rows(order, model, report)
    job = Job(order, model, index_rows(files))
    check_rows(job.index.survey, model)
    _check_fit(job, processes, look())
    record.write(config, inputs)
    return job


def _hold_rows(files: Sequence[Path]) -> bool:
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


def _make_rows(order: Order, model: Path, report: Report) -> None:
    data, profile = order.config.data, get_profile(order.config.data.profile)
    encoding, limit = Encoding(load_tokenizer(model), profile), data.limit(profile.budgets.max_context_tokens)
    order.out.mkdir(parents=True, exist_ok=True)
    counts = write_rows(order.out / ROWS, (one for file in data.files for one in open_trajectories(file)), encoding, limit)
    missing = counts.left_out()
    parts = [f"{counts.trajectories:,} trajectories made {counts.rows:,} rows"]
    parts += [f"{count:,} {reason.replace('_', ' ')}" for reason, count in missing.items() if count]
    parts += [f"{counts.split:,} split"] if counts.split else []
    report.say(", ".join(parts) + (f" (which: {ROWS}.left-out.jsonl)" if any(missing.values()) else "") + ".")


def _check_parallel(config: SftConfig, processes: int) -> None:
    ranks = config.parallel.context
    check_parallel(config.parallel, processes, read_shape(config.model) if ranks > 1 and config.model else None)


def _check_fit(job: Job, processes: int, devices: Devices) -> None:
    """Raises UserError with what would help when the longest row is too much for a GPU; ``--anyway`` makes it a warning.

    A model whose sizes are not known may still be trained.
    """
    config, survey = job.order.config, job.index.survey
    try:
        if not devices.gpus or not read_shape(job.model).parameters:
            return
    except UserError:
        return
    # A pass is no larger than the largest batch.
    largest = max(int(job.index.lengths[batch].sum()) for batch in schedule(job.index.lengths, config))
    config = with_changes(config, {"trainer.micro_batch_tokens": min(config.trainer.micro_batch_tokens, largest)})
    sentence = plan_sft(config, replace(devices, count=processes), survey.longest).sentence.removesuffix(".")
    if sentence and not job.order.anyway:
        raise UserError(f"{sentence}; --anyway tries it, since this is an estimate (longest row: {survey.longest:,} tokens).")
    if sentence:
        warnings.warn(f"{sentence}; going on all the same.", stacklevel=2)


def _inputs(config: SftConfig, processes: int) -> dict[str, Any]:
    """What stands for the content of all that is read; and how batches are dealt, where the loss depends on that."""
    model = model_files(config.model) if config.model else []
    inputs: dict[str, Any] = {
        "data": [[place.name, content_hash(place.path)] for place in find_places(config.data.files).files],
        "model": [[path.name, content_hash(path)] for path in model],
    }
    if config.trainer.aggregation is Aggregation.MICRO_BATCH_MEAN:
        inputs[_PARTS] = processes // config.parallel.context
    return inputs


def _conclude(order: Order, report: Report, *, trained: bool) -> None:
    """Merge where that was asked for, and say where everything is and what to do with it."""
    config, out = order.config, order.out
    final, model, base = final_dir(config, out), out / MODEL, config.model or Path()
    if not trained:
        report.say("This run was finished before: there is nothing left to train.")
    if config.lora.rank and not (model / "config.json").is_file():
        if not config.merge:
            report.say(f"The adapter is in {final}, in peft's files: the same command with --merge makes a whole model of it.")
            return
        from sanderling.train.adapters import merge_adapter
        from sanderling.train.checkpoint import final_dtype, save_model

        save_model(merge_adapter(base, final, final_dtype(base)), model, base)
    profile = config.data.profile or "PROFILE"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world WORLD --model {model} --profile {profile}."
    )
