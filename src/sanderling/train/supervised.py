"""Supervised training from start to finish: seeded order, batches by tokens, checkpoints, resuming. Used by `sft`.

The order of rows depends on the seed and epoch alone, so a run that was killed continues from its last checkpoint to the very
same weights, bit for bit. The rows of one trajectory are never in two batches. Knows no text: it is handed rows by number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from sanderling.errors import UserError
from sanderling.train.checkpoint import checkpoints, load_model, load_state, save_checkpoint, save_model
from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import IntArray, Row
from sanderling.train.losses.sft import sft
from sanderling.train.metrics import MetricsLog
from sanderling.train.trainer import Trainer


class RowSource(Protocol):
    """Trajectories by number, each as its rows (a forked one has several), with their lengths known beforehand."""

    @property
    def lengths(self) -> IntArray:
        """Tokens of each trajectory's rows."""
        ...

    def __getitem__(self, index: int) -> Sequence[Row]: ...


@dataclass(frozen=True)
class Progress:
    """What a step reports to whoever watches."""

    step: int
    total_steps: int
    metrics: dict[str, float]


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class RunResult:
    """Where a run ended."""

    model_dir: Path
    """The trained model, a plain Hugging Face directory."""
    steps: int
    trained: bool
    """False when the run had been finished before and nothing was done."""


def batches(lengths: IntArray, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """One epoch's optimizer batches: a seeded permutation, each closed by the trajectory that reaches ``batch_tokens``."""
    order = np.random.default_rng((seed, epoch)).permutation(len(lengths))
    found: list[list[int]] = []
    tokens = batch_tokens
    for index in order.tolist():
        if tokens >= batch_tokens:
            found.append([])
            tokens = 0
        found[-1].append(index)
        tokens += int(lengths[index])
    return found


def schedule(lengths: IntArray, config: SupervisedConfig) -> list[list[int]]:
    """Every optimizer batch of the run, in order, ``max_steps`` applied."""
    plan: list[list[int]] = []
    for epoch in range(config.epochs):
        plan.extend(batches(lengths, config.batch_tokens, config.seed, epoch))
    return plan[: config.max_steps]


def run_supervised(
    config: SupervisedConfig, source: RowSource, model_dir: Path, out_dir: Path, progress: OnProgress | None = None
) -> RunResult:
    """Train the model at ``model_dir`` on every row and write ``out_dir/model``, ``out_dir/metrics.jsonl`` and checkpoints.

    Killed and called again with the same arguments, it continues from the last checkpoint; once finished, it does nothing.
    Raises UserError when there are no rows, no model, or a step is not finite.
    """
    if len(source.lengths) == 0:
        raise UserError("There are no rows to train on: check the data and the length limit that rows were made with.")
    plan = schedule(source.lengths, config)
    final = out_dir / "model"
    if (final / "config.json").is_file():
        return RunResult(final, len(plan), trained=False)
    root = out_dir / "checkpoints"
    last = next(reversed(checkpoints(root)), None)
    torch.manual_seed(config.seed)
    model = load_model(last or model_dir)
    total = config.trainer.total_steps or len(plan)
    trainer = Trainer(model, config.trainer.model_copy(update={"total_steps": total}))
    if last is not None:
        trainer.load_state(load_state(last))
    log = MetricsLog(out_dir / "metrics.jsonl", resume_step=trainer.steps)
    while trainer.steps < len(plan):
        metrics = trainer.step(_rows(source, plan[trainer.steps]), sft)
        log.append({"step": trainer.steps, **metrics})
        if progress is not None:
            progress(Progress(trainer.steps, len(plan), metrics))
        if trainer.steps % config.save_every == 0 and trainer.steps < len(plan):
            save_checkpoint(root, trainer.steps, model, trainer.state(), model_dir, config.keep)
    save_model(model, final, model_dir)
    return RunResult(final, len(plan), trained=True)


def _rows(source: RowSource, indices: Sequence[int]) -> list[Row]:
    return [row for index in indices for row in source[index]]
