"""Supervised training, and ``sanderling train sft`` from end to end: rows, checks, batches, checkpoints, resuming.

The order of rows depends on the seed and epoch alone, so a run that was killed continues from its last checkpoint to the very
same weights, bit for bit. The rows of one trajectory are never in two batches. In a team every rank calls, and rank 0 writes.
A run goes on with the data, model and settings it was begun with, or is refused; what only changes rounding may differ.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.text import counted_as
from sanderling.data.importing import find_places, open_trajectories
from sanderling.policy.model_directory import check_model, positions_of, read_model_config
from sanderling.runs.files import locked
from sanderling.runs.progress import Report
from sanderling.runs.stages import RunRecord, content_hash, model_files
from sanderling.train.checkpoint import (
    CHECKPOINTS,
    checkpoints,
    final_dtype,
    last_step,
    load_state,
    merge_adapter,
    open_model,
    reads_weights,
    save_checkpoint,
    save_model,
)
from sanderling.train.config import Aggregation, Precision, SftConfig, SupervisedConfig
from sanderling.train.fit import (
    Changes,
    Devices,
    Plan,
    devices_here,
    estimate,
    load_of,
    lora_parameters,
    read_shape,
    shorter,
    with_advice,
    with_changes,
)
from sanderling.train.launch import Job, Launch, check_parallel, speaks
from sanderling.train.metrics import METRICS, MetricsLog, OnProgress, check_watchers
from sanderling.train.row_source import ListSource, ParquetSource, RowIndex, Survey, holds_rows, index_rows, write_rows
from sanderling.train.rows import Encoding, IntArray, Limit, Row, sft

if TYPE_CHECKING:
    import torch

    from sanderling.train.team import Team


ADAPTER, MODEL = "adapter", "model"


def batches(lengths: IntArray, config: SupervisedConfig, epoch: int) -> list[list[int]]:
    """One epoch's optimizer batches: in order, each closed by its last trajectory or the one that reaches its tokens."""
    order = np.arange(len(lengths))
    if config.shuffle:
        order = np.random.default_rng((config.seed, epoch)).permutation(len(lengths))
    most = config.batch_trajectories or config.batch_tokens
    found: list[list[int]] = []
    filled = most
    for index in order.tolist():
        if filled >= most:
            found.append([])
            filled = 0
        found[-1].append(index)
        filled += 1 if config.batch_trajectories else int(lengths[index])
    return found


def schedule(lengths: IntArray, config: SupervisedConfig) -> list[list[int]]:
    """Every optimizer batch of the run, in order, ``max_steps`` applied."""
    return [batch for epoch in range(config.epochs) for batch in batches(lengths, config, epoch)][: config.max_steps]


def final_dir(config: SupervisedConfig, out_dir: Path) -> Path:
    """Where a run puts what it has trained: a model, or with LoRA an adapter."""
    return out_dir / (ADAPTER if config.lora.rank else MODEL)


def is_finished(config: SupervisedConfig, out_dir: Path) -> bool:
    """Whether the run in a directory has come to its end."""
    return (final_dir(config, out_dir) / ("adapter_config.json" if config.lora.rank else "config.json")).is_file()


def check_rows(survey: Survey, model_dir: Path) -> None:
    """Raises UserError when the model in a directory is not whole, or rows cannot be trained on with it."""
    if not survey.rows:
        raise UserError("There are no rows to train on: check the data and the length limit that rows were made with.")
    if not survey.trained_tokens:
        raise UserError(f"None of the {survey.rows:,} rows has a token to train: check the loss masks of the trajectories.")
    check_model(model_dir)
    if survey.tokenizer is not None and survey.tokenizer != (own := load_tokenizer(model_dir).fingerprint):
        raise UserError(
            f"The rows are ids of tokenizer {survey.tokenizer}, the model's is {own}: make the rows again from the "
            "trajectories with the model's tokenizer."
        )
    positions = positions_of(read_model_config(model_dir))
    if positions is not None and survey.longest > positions:
        raise UserError(
            f"The longest row has {survey.longest:,} tokens, the model has {positions:,} positions: "
            f"set data.max_tokens={positions} (data.overlong says what becomes of longer ones), or choose another model."
        )


def run_sft(
    config: SupervisedConfig,
    rows: Sequence[Row] | ParquetSource,
    model_dir: Path,
    out_dir: Path,
    progress: OnProgress | None = None,
    team: "Team | None" = None,
    device: "torch.device | str" = "cpu",
) -> bool:
    """Train the model at ``model_dir`` on every row and write what it became, ``out_dir/metrics.jsonl`` and checkpoints.

    Killed and called again with the same arguments, it continues from the last checkpoint; once finished, it does nothing and
    returns False. Raises UserError when there are no rows, no model, or a step is not finite.
    """
    from sanderling.train.team import SOLO
    from sanderling.train.trainer import Trainer

    team = team or SOLO
    source = ListSource(rows) if isinstance(rows, Sequence) else rows
    if reads_weights(team):
        check_rows(source.survey, model_dir)
    plan = schedule(source.lengths, config)
    final, root = final_dir(config, out_dir), out_dir / CHECKPOINTS
    finished, last = team.gather((is_finished(config, out_dir), next(reversed(checkpoints(root)), None)))[0]
    if finished:
        return False
    model = open_model(config, model_dir, last, team)
    if not team.sharded:
        model.to(device)
    total = config.trainer.total_steps or len(plan)
    trainer = Trainer(model, config.trainer.model_copy(update={"total_steps": total}), team)
    if last is not None:
        trainer.load_state(load_state(last))
    log = MetricsLog(out_dir / METRICS, resume_step=trainer.steps) if team.rank == 0 else None
    while trainer.steps < len(plan):
        metrics = trainer.step([row for index in plan[trainer.steps] for row in source[index]], sft)
        if log is not None:
            log.append({"step": trainer.steps, **metrics})
        if progress is not None:
            progress(trainer.steps, metrics)
        if trainer.steps % config.save_every == 0 and trainer.steps < len(plan):
            weights, state = trainer.weights(), trainer.state()
            if team.rank == 0:
                save_checkpoint(root, trainer.steps, model, state, model_dir, config.keep, weights)
    if not config.lora.rank:
        model.to(final_dtype(model_dir))  # it is trained no more
    weights = trainer.weights()
    if team.rank == 0:
        save_model(model, final, model_dir, weights=weights)
    team.gather(None)
    return True


def plan_sft(config: SftConfig, devices: Devices, row_tokens: int | None = None) -> Plan:
    """What a run of these settings takes, and what makes it fit where it does not. Raises UserError.

    ``row_tokens``: the longest row, where the settings allow it; None: their limit.
    """
    if config.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape = read_shape(config.model)
    made = any(map(holds_rows, config.data.files))  # before, with limits of their own: no setting makes these rows shorter

    def planned(some: Devices, changes: Changes) -> Plan:
        tried = with_changes(config, changes)
        longest = row_tokens if made and row_tokens else _longest(tried, row_tokens)
        check_parallel(tried.parallel, some.count, shape)
        adapters = lora_parameters(shape, tried.lora.rank) if tried.lora.rank else None
        load = load_of(tried.trainer, tried.parallel, some.count, longest, adapters)
        # A batch is closed by the trajectory that reaches its tokens.
        tokens = longest * tried.batch_trajectories if tried.batch_trajectories else tried.batch_tokens - 1 + longest
        return Plan(shape, load, some, estimate(shape, tried.trainer, load), tokens)

    plan = planned(devices, {})
    rows = [] if made else shorter(plan.load.row_tokens, "data.max_tokens", "trainer", config.trainer)
    lora: list[Changes] = [] if config.lora.rank else [{"lora.rank": 16}]
    return with_advice(plan, config.trainer, "trainer", (rows, lora, [*lora, *rows]), planned)


def _longest(config: SftConfig, row_tokens: int | None) -> int:
    if limits := [limit for limit in (row_tokens, config.data.max_tokens) if limit]:
        return min(limits)
    if not config.data.profile:
        raise UserError("Nothing says how long rows are: give --row-tokens, or --set data.max_tokens or data.profile.")
    return get_profile(config.data.profile).budgets.max_context_tokens


ROWS = "rows.parquet"
_FREE = (
    "title", "model", "data.files", "save_every", "keep", "merge", "parallel.", "trainer.memory.", "trainer.logit_chunk",
    "watch",
)  # fmt: skip
"""Settings that may differ when a run goes on: paths (their content may not) and what only says how the work is done."""
_PARTS = "number of parts that batches are dealt into"


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    config: SftConfig
    out: Path
    processes: int = 1
    fresh: bool = False


@dataclass(frozen=True)
class Prepared:
    """What every process has to know in order to train."""

    order: Order
    model: Path
    index: RowIndex


def run_sft_command(order: Order, report: Report) -> None:
    """Train, or go on training, until the model lies in its directory. Raises UserError."""
    config = order.config

    def begin(processes: int) -> Job[Prepared] | None:
        job = prepare(order, report, processes)
        if job is None:
            return None
        steps, done = len(schedule(job.index.lengths, config)), last_step(order.out / CHECKPOINTS)
        again = f" Goes on after step {done:,}." if done else ""
        survey = job.index.survey
        report.say(
            f"{len(job.index.lengths):,} trajectories in {survey.rows:,} rows; {survey.tokens:,} tokens, "
            f"{survey.trained_tokens:,} trained; the longest row has {survey.longest:,}; {steps:,} steps.{again}"
        )
        return Job(job, config.title, steps, done, config.watch, config.model_dump(mode="json"))

    bfloat16 = config.trainer.precision is Precision.BFLOAT16
    trained = Launch(order.out, config.parallel, bfloat16, order.processes).run(begin, _train, _figures, report)
    if speaks():
        with locked(order.out):
            _conclude(order, report, trained=trained)


def _train(team: Any, device: Any, job: Prepared, watch: OnProgress | None) -> None:
    run_sft(job.order.config, ParquetSource(job.index), job.model, job.order.out, watch, team, device)


def _figures(lines: Sequence[Mapping[str, Any]]) -> str:
    last = lines[-1]
    return f"loss {last['loss']:.3f}, lr {last['lr']:.1e}, {last['tokens_per_second']:,.0f} tokens/s"


def prepare(order: Order, report: Report, processes: int, look: Callable[[], Devices] = devices_here) -> Prepared | None:
    """Make rows, check everything, and write the record; None when the run is finished. Raises UserError."""
    config, out, model = order.config, order.out, order.config.model
    if model is None:
        raise UserError("There is no model to train: give --model, a local Hugging Face directory.")
    check_watchers(config.watch)
    check_model(model)
    check_parallel(config.parallel, processes, read_shape(model) if config.parallel.context > 1 else None)
    ready = _hold_rows(config.data.files)
    if not ready and not config.data.profile:
        raise UserError("Trajectories need a profile to become tokens: give --profile (data.profile), such as dr-venus-4b.")
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
    job = Prepared(order, model, index_rows(files))
    check_rows(job.index.survey, model)
    _check_rate(config, len(schedule(job.index.lengths, config)))
    _check_fit(job, processes, look())
    record.write(config, inputs)
    return job


def _check_rate(config: SftConfig, steps: int) -> None:
    """Raises UserError where nothing would be learnt, since no step is beyond a warm-up that begins with the rate 0."""
    from sanderling.train.trainer import lr_at

    trainer = config.trainer.model_copy(update={"total_steps": config.trainer.total_steps or steps})
    if not any(lr_at(step, trainer) for step in range(steps)):
        raise UserError(
            f"The run is {counted_as(steps, 'step')}, in which the learning rate is still 0: give more data or "
            "max_steps, or set trainer.warmup_from_zero=false."
        )


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
    encoding = Encoding(load_tokenizer(model), profile, data.train_newline)
    limit = Limit(data.max_tokens or profile.budgets.max_context_tokens, data.overlong)
    order.out.mkdir(parents=True, exist_ok=True)
    counts = write_rows(order.out / ROWS, (one for file in data.files for one in open_trajectories(file)), encoding, limit)
    missing = counts.left_out()
    parts = [f"{counts.trajectories:,} trajectories made {counts.rows:,} rows"]
    parts += [f"{count:,} {reason.replace('_', ' ')}" for reason, count in missing.items() if count]
    parts += [f"{counts.split:,} split"] if counts.split else []
    report.say(", ".join(parts) + (f" (which: {ROWS}.left-out.jsonl)" if any(missing.values()) else "") + ".")


def _check_fit(job: Prepared, processes: int, devices: Devices) -> None:
    """Warn, with what may help, where the longest row is too much for a GPU; not of a model whose sizes are not understood."""
    config, survey = job.order.config, job.index.survey
    if not devices.gpus:
        return
    # A pass is no larger than the largest batch.
    largest = max(int(job.index.lengths[batch].sum()) for batch in schedule(job.index.lengths, config))
    config = with_changes(config, {"trainer.micro_batch_tokens": min(config.trainer.micro_batch_tokens, largest)})
    with suppress(UserError):
        if sentence := plan_sft(config, replace(devices, count=processes), survey.longest).sentence.removesuffix("."):
            warnings.warn(f"{sentence} (an estimate; the longest row has {survey.longest:,} tokens): going on.", stacklevel=2)


def _inputs(config: SftConfig, processes: int) -> dict[str, Any]:
    """What stands for the content of all that is read; and how batches are dealt, where the loss depends on that."""
    model = model_files(config.model) if config.model else []
    inputs: dict[str, Any] = {
        "data": [[place.name, content_hash(place.path)] for place in find_places(config.data.files)],
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
        save_model(merge_adapter(base, final, final_dtype(base)), model, base)
    profile = config.data.profile or "PROFILE"
    report.say(
        f"The model is in {model}: ask it with sanderling ask QUESTION --world WORLD --model {model} --profile {profile}."
    )
