"""What estimators share: a table's trajectories, z-scores within groups, and what becomes of the parts of an advantage.

Legend: K turns, N trajectories. Unscored trajectories take part in no statistic and receive no credit; those that are scored
and not trained on take part and receive none.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sanderling.core.plugins import Chosen
from sanderling.rl.credit.table import TurnTable
from sanderling.train.contract import BoolArray, FloatArray, IntArray

EPS = 1e-6
FLAT = 1e-9
"""A spread below this is rounding: the values are taken as equal."""


class Estimating(Chosen):
    """What every estimator can be set."""

    penalty_weight: float = Field(default=1.0, ge=0)
    """Weight of a turn's format penalty."""

    @property
    def needs_gain(self) -> bool:
        """Whether turns need information gain."""
        return False

    @property
    def least_group(self) -> int:
        """Fewest rollouts of a question that can teach anything but form: one has nothing to be compared with."""
        return 2


@dataclass(frozen=True)
class Components:
    """An advantage in its parts, [K] each; their sum is the advantage."""

    outcome: FloatArray
    gain: FloatArray
    penalty: FloatArray

    @property
    def total(self) -> FloatArray:
        """The advantages."""
        return self.outcome + self.gain + self.penalty


@dataclass(frozen=True)
class Outcomes:
    """The table's N trajectories, in order of first appearance by index."""

    of_turn: IntArray
    """[K] which trajectory (0 to N-1) each turn belongs to."""
    group: IntArray
    outcome: FloatArray
    scored: BoolArray

    def groups(self) -> Iterator[IntArray]:
        """The scored trajectories of each group that has any."""
        for group in np.unique(self.group):
            members = np.flatnonzero((self.group == group) & self.scored)
            if members.size:
                yield members


def outcomes(table: TurnTable) -> Outcomes:
    """One entry for each trajectory of the table."""
    _, first, of_turn = np.unique(table.trajectory, return_index=True, return_inverse=True)
    return Outcomes(of_turn.astype(np.int64), table.group[first], table.outcome[first], table.scored[first])


def differ(values: FloatArray) -> bool:
    """Whether the values say anything: false where all are equal, a single one included."""
    return values.size > 1 and float(np.ptp(values)) > FLAT


def z_scores(values: FloatArray, ddof: int = 0) -> FloatArray:
    """``(x - mean) / (std + eps)``; exactly zero where the values do not differ."""
    if not differ(values):
        return np.zeros_like(values)
    return (values - values.mean()) / (values.std(ddof=ddof) + EPS)


def outcome_credit(table: TurnTable, found: Outcomes, advantage: FloatArray, weight: float) -> Components:
    """Parts of an estimator that gives every turn its trajectory's ``advantage`` [N], and its own format penalty."""
    return Components(advantage[found.of_turn], np.zeros(len(table)), weight * table.penalty)


def settled(table: TurnTable, parts: Components) -> Components:
    """The parts with no credit left where none is due: on unscored or untrained turns, and positive credit on capped ones."""
    none = ~(table.scored & table.trained) | (table.capped & (parts.total > 0))
    return Components(*(np.where(none, 0.0, part) for part in (parts.outcome, parts.gain, parts.penalty)))
