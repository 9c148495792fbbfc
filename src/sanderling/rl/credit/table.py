"""The table of turns that credit is assigned over, and what estimators share. Arrays only; importable without torch.

Legend: K turns, N trajectories, G rollouts of a group. Unscored trajectories take part in no statistic and receive no credit;
those that are scored and not trained on take part and receive none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sanderling.core.plugins import Chosen
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


@dataclass(frozen=True)
class Graded:
    """A trajectory and what reward said of it; per-turn sequences follow :func:`sanderling.core.record.turn_indices`."""

    trajectory: Trajectory
    outcome: float | None
    """None: unscored."""
    penalties: Sequence[float]
    gains: Sequence[float | None] | None = None
    """None, whole or for a turn: no gain was scored there."""
    left_out: str | None = None
    """Why it is not trained on and receives no credit; its outcome, where it has one, counts in its group."""
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
                *(graded.left_out is None, cap),
            )
            for name, value in zip(_COLUMNS, values, strict=True):
                columns[name].append(value)
    arrays = {name: np.array(columns[name], dtype=dtype) for name, dtype in _COLUMNS.items()}
    return TurnTable(**arrays, tool=np.array(tools, dtype=np.str_))


# -- what estimators share -----------------------------------------------------------------------------------------------

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
    """An advantage in its parts, [K] each."""

    outcome: FloatArray
    gain: FloatArray
    penalty: FloatArray

    @property
    def total(self) -> FloatArray:
        """The advantages: their sum."""
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


def outcome_credit(table: TurnTable, config: Estimating, of: Callable[[FloatArray], FloatArray]) -> Components:
    """Parts of an estimator that gives every turn its trajectory's advantage, and its own format penalty.

    ``of``: advantages of a group's outcomes; where these do not differ they are 0.
    """
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        if differ(found.outcome[members]):
            advantage[members] = of(found.outcome[members])
    return Components(advantage[found.of_turn], np.zeros(len(table)), config.penalty_weight * table.penalty)


def masked_credit(table: TurnTable, parts: Components) -> Components:
    """The parts with no credit left where none is due: on unscored or untrained turns, and positive credit on capped ones."""
    none = ~(table.scored & table.trained) | (table.capped & (parts.total > 0))
    return Components(*(np.where(none, 0.0, part) for part in (parts.outcome, parts.gain, parts.penalty)))
