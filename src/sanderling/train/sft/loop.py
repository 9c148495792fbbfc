"""Supervised training: the order of rows, batches, what is checked beforehand, checkpoints, resuming.

The order of rows depends on the seed and epoch alone, so a run that was killed continues from its last checkpoint to the very
same weights, bit for bit. The rows of one trajectory are never in two batches. In a team every rank calls, and rank 0 writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sanderling.core.chat import load_tokenizer
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import check_model, positions_of, read_model_config
from sanderling.train.checkpoint import (
    CHECKPOINTS,
    checkpoints,
    final_dtype,
    load_state,
    open_model,
    reads_weights,
    save_checkpoint,
    save_model,
)
from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import IntArray, Row
from sanderling.train.metrics import METRICS, MetricsLog, OnProgress, Progress
from sanderling.train.row_source import ListSource, ParquetSource, Survey

if TYPE_CHECKING:
    import torch

    from sanderling.train.parallel.team import Team

ADAPTER, MODEL = "adapter", "model"


@dataclass(frozen=True)
class RunResult:
    """Where a run ended."""

    model_dir: Path
    steps: int
    trained: bool


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
) -> RunResult:
    """Train the model at ``model_dir`` on every row and write what it became, ``out_dir/metrics.jsonl`` and checkpoints.

    Killed and called again with the same arguments, it continues from the last checkpoint; once finished, it does nothing.
    Raises UserError when there are no rows, no model, or a step is not finite.
    """
    from sanderling.train.loss import sft
    from sanderling.train.parallel.team import SOLO
    from sanderling.train.trainer import Trainer

    team = team or SOLO
    source = ListSource(rows) if isinstance(rows, Sequence) else rows
    if reads_weights(team):
        check_rows(source.survey, model_dir)
    plan = schedule(source.lengths, config)
    final, root = final_dir(config, out_dir), out_dir / CHECKPOINTS
    finished, last = team.gather((is_finished(config, out_dir), next(reversed(checkpoints(root)), None)))[0]
    if finished:
        return RunResult(final, len(plan), trained=False)
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
            progress(Progress(trainer.steps, len(plan), metrics))
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
    return RunResult(final, len(plan), trained=True)
