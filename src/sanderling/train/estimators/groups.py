"""What estimators share: a table's trajectories, z-scores within groups, and the format penalty of a turn.

Legend: K turns, N trajectories. Unscored trajectories take part in no statistic and receive no credit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sanderling.train.contract import BoolArray, FloatArray, IntArray, TurnTable

EPS = 1e-6
FLAT = 1e-9
"""A spread below this is rounding: the values are taken as equal."""


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


def z_scores(values: FloatArray) -> FloatArray:
    """``(x - mean) / (population std + eps)``; exactly zero where the values do not differ."""
    if not differ(values):
        return np.zeros_like(values)
    centred = values - values.mean()
    return centred / (centred.std() + EPS)


def with_penalty(advantages: FloatArray, table: TurnTable, weight: float) -> FloatArray:
    """Advantages plus each turn's own format penalty, at most 0 on capped turns; 0 on what is unscored or not trained."""
    credit = advantages + weight * table.penalty
    credit = np.where(table.capped, np.minimum(credit, 0.0), credit)
    return np.where(table.scored & table.trained, credit, 0.0)
