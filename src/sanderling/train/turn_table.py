"""Trajectories of an optimizer batch to the table of their turns, which estimators read. Knows no estimator and no model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sanderling.core.record import Trajectory, turn_indices, turn_tools
from sanderling.train.contract import TurnTable


@dataclass(frozen=True)
class Graded:
    """A trajectory and what reward said of it; per-turn sequences follow :func:`sanderling.core.record.turn_indices`."""

    trajectory: Trajectory
    outcome: float | None
    """None: unscored."""
    penalties: Sequence[float]
    gains: Sequence[float | None] | None = None
    """None, whole or for a turn: no gain was scored there."""
    trained: bool = True
    """False: its outcome counts in its group, and it receives no credit."""
    capped: Sequence[bool] | None = None
    """Turns that get no positive credit; None: none."""
    group: int | None = None
    """Which group it belongs to; None: that of its question. One question may have several groups in a step."""


def build_table(batch: Sequence[Graded]) -> TurnTable:
    """The table. Raises ValueError when per-turn sequences have the wrong length."""
    columns: dict[str, list[float]] = {name: [] for name in _COLUMNS}
    tools: list[str] = []
    groups: dict[int | str, int] = {}
    for number, graded in enumerate(batch):
        trajectory = graded.trajectory
        indices = turn_indices(trajectory)
        gains = [None] * len(indices) if graded.gains is None else graded.gains
        capped = [False] * len(indices) if graded.capped is None else graded.capped
        if not len(indices) == len(gains) == len(graded.penalties) == len(capped):
            raise ValueError(
                f"trajectory {trajectory.id}: {len(indices)} turns, {len(gains)} gains, {len(graded.penalties)} penalties, "
                f"{len(capped)} caps"
            )
        name = trajectory.question.id if graded.group is None else graded.group
        group = groups.setdefault(name, len(groups))
        tools += turn_tools(trajectory)
        for turn, (index, gain, penalty, cap) in enumerate(zip(indices, gains, graded.penalties, capped, strict=True)):
            values = (
                *(number, group, turn, len(trajectory.nodes[index].token_ids or ())),
                *(graded.outcome or 0.0, graded.outcome is not None, gain or 0.0, gain is not None, penalty),
                *(graded.trained, cap),
            )
            for name, value in zip(_COLUMNS, values, strict=True):
                columns[name].append(value)
    arrays = {name: np.array(columns[name], dtype=dtype) for name, dtype in _COLUMNS.items()}
    return TurnTable(**arrays, tool=np.array(tools, dtype=np.str_))


_COLUMNS = {
    "trajectory": np.int64,
    "group": np.int64,
    "turn": np.int64,
    "tokens": np.int64,
    "outcome": np.float64,
    "scored": np.bool_,
    "gain": np.float64,
    "gain_scored": np.bool_,
    "penalty": np.float64,
    "trained": np.bool_,
    "capped": np.bool_,
}
