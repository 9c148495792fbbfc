"""Supervised training from start to finish: seeded order, batches, checkpoints, resuming, adapters.

:func:`run_sft` is the one way in, for the command and for recipes, on rows that hold whole trajectories, with the loss on the
assistant's tokens. The order of rows depends on the seed and epoch alone, so a run that was killed continues from its last
checkpoint to the very same weights, bit for bit. The rows of one trajectory are never in two batches. In a team every rank
calls, and rank 0 writes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from sanderling.train.checkpoint import (
    checkpoints,
    final_dtype,
    load_state,
    open_model,
    reads_weights,
    save_checkpoint,
    save_model,
)
from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import Row
from sanderling.train.loss import sft
from sanderling.train.metrics import MetricsLog, open_watcher
from sanderling.train.parallel.team import SOLO, Team
from sanderling.train.row_source import ListSource, RowSource
from sanderling.train.sft.schedule import (
    CHECKPOINTS,
    METRICS,
    OnProgress,
    Progress,
    check_rows,
    final_dir,
    is_finished,
    schedule,
)
from sanderling.train.trainer import Trainer

RecordStep = Callable[[dict[str, float]], None]


@dataclass(frozen=True)
class RunResult:
    """Where a run ended."""

    model_dir: Path
    """The trained model, a plain Hugging Face directory; after LoRA the adapter, as peft has it."""
    steps: int
    trained: bool
    """False when the run had been finished before and nothing was done."""


def run_sft(
    config: SupervisedConfig,
    rows: Sequence[Row] | RowSource,
    model_dir: Path,
    out_dir: Path,
    progress: OnProgress | None = None,
    team: Team = SOLO,
    device: torch.device | str = "cpu",
) -> RunResult:
    """Train the model at ``model_dir`` on every row and write what it became, ``out_dir/metrics.jsonl`` and checkpoints.

    Killed and called again with the same arguments, it continues from the last checkpoint; once finished, it does nothing.
    Raises UserError when there are no rows, no model, or a step is not finite.
    """
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
    with _record(config, out_dir, trainer) as record:
        while trainer.steps < len(plan):
            metrics = trainer.step([row for index in plan[trainer.steps] for row in source[index]], sft)
            record(metrics)
            if progress is not None:
                progress(Progress(trainer.steps, len(plan), metrics))
            if trainer.steps % config.save_every == 0 and trainer.steps < len(plan):
                weights, state = trainer.weights(), trainer.state()
                if team.rank == 0:
                    save_checkpoint(root, trainer.steps, model, state, model_dir, config.keep, weights)
    if not config.lora.rank:
        model.to(final_dtype(config.save_dtype, model_dir))  # it is trained no more
    weights = trainer.weights()
    if team.rank == 0:
        save_model(model, final, model_dir, weights=weights)
    team.gather(None)
    return RunResult(final, len(plan), trained=True)


@contextmanager
def _record(config: SupervisedConfig, out_dir: Path, trainer: Trainer) -> Iterator[RecordStep]:
    """Writes down each step, and shows it where that was asked for. Rank 0 alone writes."""
    writes = trainer.team.rank == 0
    log = MetricsLog(out_dir / METRICS, resume_step=trainer.steps) if writes else None
    with ExitStack() as stack:
        views = [
            stack.enter_context(closing(open_watcher(name, out_dir, config.model_dump(mode="json"), trainer.steps)))
            for name in (config.watch if writes else ())
        ]

        def record(metrics: dict[str, float]) -> None:
            if log is not None:
                log.append({"step": trainer.steps, **metrics})
            for view in views:
                view.log(trainer.steps, metrics)

        yield record
