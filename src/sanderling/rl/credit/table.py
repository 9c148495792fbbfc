"""The table of turns that credit is assigned over, and what rollouts bring to it: arrays only; importable without torch.

Legend: K turns, G rollouts of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.train.contract import BoolArray, FloatArray, IntArray

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


class TurnTool(StrEnum):
    """What a turn did, for credit assignment."""

    SEARCH = "search"
    VISIT = "visit"
    BOTH = "both"
    OTHER = "other"
    ANSWER = "answer"
    MALFORMED = "malformed"


def turn_tools(trajectory: Trajectory) -> list[TurnTool]:
    """What each turn did."""
    events = {node.parent: node.events for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION}
    tools: list[TurnTool] = []
    for index in turn_indices(trajectory):
        turn, roles = trajectory.nodes[index], {event.role for event in events.get(index, ())} & {"search", "visit"}
        if not turn.calls:
            tools.append(TurnTool.MALFORMED if turn.answer is None else TurnTool.ANSWER)
        elif len(roles) == 1:
            tools.append(TurnTool(roles.pop()))
        else:
            tools.append(TurnTool.BOTH if roles else TurnTool.OTHER)
    return tools


@dataclass(frozen=True)
class TurnTable:
    """Every turn of an optimizer batch, one row each, sorted by trajectory and turn. All arrays have K rows.

    Outcome, gain and penalty are separate components; which are combined, and how, is the estimator's business.
    """

    trajectory: IntArray
    """Index of the trajectory in the batch."""
    group: IntArray
    """Index of the trajectory's group (one question's rollouts)."""
    turn: IntArray
    """0, 1, … within the trajectory."""
    tokens: IntArray
    """Sampled tokens in the turn."""
    tool: NDArray[np.str_]
    """A TurnTool."""
    outcome: FloatArray
    """The trajectory's outcome in [0, 1], repeated on each of its turns."""
    scored: BoolArray
    """False where the trajectory ended in an outage: no outcome, and out of every group statistic."""
    gain: FloatArray
    """Information gain of the turn; meaningless where ``gain_scored`` is False. Zero is a value."""
    gain_scored: BoolArray
    penalty: FloatArray
    """Format penalty of the turn, 0 or negative."""
    trained: BoolArray
    """False where the trajectory takes part in its group's statistics and receives no credit (a denoised one)."""
    capped: BoolArray
    """True where the turn gets no positive credit; negative credit is kept."""

    def __len__(self) -> int:
        return int(self.trajectory.shape[0])


class Estimator(Protocol):
    """Credit: a pure function of a table to one advantage per turn (K)."""

    def __call__(self, table: TurnTable) -> FloatArray: ...


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
