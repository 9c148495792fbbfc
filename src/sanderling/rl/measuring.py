"""What is asked of the model before a step's credit: information gains, and proximal log-probabilities where a loss reads them.

All under the version that the step updates, and each trajectory in one pass: where both are wanted the same pass gives both.
Collective in a team, and handed the same on every rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sanderling.core.record import Trajectory, turn_indices
from sanderling.rl.config import RlConfig
from sanderling.rl.gain import gains_and_logprobs, information_gains
from sanderling.rl.rows import rl_rows
from sanderling.rl.sifting import Sifted
from sanderling.train.contract import FloatArray, Row
from sanderling.train.encoding import Encoding
from sanderling.train.packed.logprobs import TokenLogprobs
from sanderling.train.packed.scorer import ModelScorer
from sanderling.train.parallel.team import Team
from sanderling.train.trainer import Trainer, row_logprobs


@dataclass(frozen=True)
class Measured:
    """What the model said of a step's trajectories."""

    gains: list[list[float | None] | None]
    """For each rollout its turns' gains; None: not measured."""
    proximal: dict[str, list[FloatArray]] = field(default_factory=dict)
    """By trajectory, for each of its rows [T]; empty: not asked, or not yet."""


def measure(sifted: Sequence[Sifted], config: RlConfig, encoding: Encoding, trainer: Trainer, team: Team) -> Measured:
    """Gains of every rollout that counts, and proximal log-probabilities where they come in the same pass."""
    gains: list[list[float | None] | None] = [None] * len(sifted)
    if config.gain is None:
        return Measured(gains)
    counted = [index for index, one in enumerate(sifted) if one.outcome is not None]
    trajectories = [sifted[index].ended.trajectory for index in counted]
    scorer = ModelScorer.of(trainer.scored, config.trainer, team)
    proximal: dict[str, list[FloatArray]] = {}
    if needs_proximal(config):
        rows = [_rows(trajectory, encoding) for trajectory in trajectories]
        found, logprobs = gains_and_logprobs(trajectories, rows, encoding.tokenizer, scorer, config.gain)
        proximal = {trajectory.id: own for trajectory, own in zip(trajectories, logprobs, strict=True)}
    else:
        found = information_gains(trajectories, encoding.tokenizer, scorer, config.gain)
    for index, values in zip(counted, found, strict=True):
        gains[index] = values
    return Measured(gains, proximal)


def needs_proximal(config: RlConfig) -> bool:
    """Whether rows bring the log-probabilities before the step's first update.

    With one update a step the weights that are updated are the proximal policy, and losses know that.
    """
    return config.loss.needs_proximal and config.updates_per_step > 1


def with_proximal(rows: list[Row], measured: Measured, config: RlConfig, trainer: Trainer) -> list[Row]:
    """Rows with proximal log-probabilities, where the loss reads them."""
    if not rows or not needs_proximal(config):
        return rows
    if not measured.proximal:
        found = trainer.logprobs(rows)
        return [replace(row, proximal_logprobs=values) for row, values in zip(rows, found, strict=True)]
    ahead = {name: iter(own) for name, own in measured.proximal.items()}
    return [replace(row, proximal_logprobs=next(ahead[row.trajectory])) for row in rows]


def with_reference(rows: list[Row], reference: TokenLogprobs | None, config: RlConfig, team: Team) -> list[Row]:
    """Rows with the log-probabilities under a frozen model, where there is one."""
    if not rows or reference is None:
        return rows
    found = row_logprobs(reference, rows, config.trainer, team)
    return [replace(row, reference_logprobs=values) for row, values in zip(rows, found, strict=True)]


def _rows(trajectory: Trajectory, encoding: Encoding) -> list[Row]:
    """Its rows before there is any credit."""
    return rl_rows(trajectory, np.zeros(len(turn_indices(trajectory))), encoding)
