"""What passes between rollouts, credit and the trainer: arrays only; importable without torch.

Legend: B rows of an optimizer batch, T tokens, K turns, G rollouts of a group. The trainer executes rows; it does not know
which algorithm wrote their advantages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sanderling.core.record import NodeKind, Trajectory, turn_indices

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
PER_TOKEN = (
    "ids", "loss_mask", "advantages", "sampler_logprobs", "proximal_logprobs", "reference_logprobs", "versions", "turn",
)  # fmt: skip
"""The arrays of a row."""
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
class Row:
    """One branch, ready to train on. All per-token arrays are parallel to ``ids`` (T)."""

    ids: IntArray
    loss_mask: BoolArray
    """True on tokens that are trained: predicting ``ids[t]`` from ``ids[:t]``."""
    advantages: FloatArray | None = None
    """None for supervised rows."""
    sampler_logprobs: FloatArray | None = None
    proximal_logprobs: FloatArray | None = None
    reference_logprobs: FloatArray | None = None
    versions: IntArray | None = None
    turn: IntArray | None = None
    """Turn index of each sampled token, -1 elsewhere."""
    trajectory: str = ""
    group: str = ""
    weight: float = 1.0
    meta: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.ids.shape[0]
        for name in PER_TOKEN:
            values = getattr(self, name)
            if values is not None and values.shape != (size,):
                raise ValueError(f"row {self.trajectory or '?'}: {name} has shape {values.shape}, ids have {size} tokens")


@dataclass(frozen=True)
class ScoreRequest:
    """A trajectory and the continuations to score at some of its boundaries."""

    ids: Sequence[int]
    """The whole main branch."""
    cuts: Sequence[int]
    """Boundary b is the context of the first ``cuts[b]`` ids of its branch."""
    continuations: Sequence[Sequence[int]]
    """What is teacher-forced after each boundary (prefix, answer, suffix); one per cut."""
    answer_spans: Sequence[tuple[int, int]]
    """Half-open span of the answer's tokens within each continuation."""
    others: Sequence[Sequence[int]] = ()
    """Further branches of the trajectory, whole; what branches share at their beginning is computed once."""
    on: Sequence[int] | None = None
    """Each boundary's branch: 0 is ``ids``, 1 the first of ``others``, …; None: all are on ``ids``."""
    temperature: float | None = None
    """What logits are divided by; None: the temperature that the scorer was made with, at which the policy samples."""
    family: str = ""
    """Requests of one family begin alike (the rollouts of a question), so that a scorer may compute once what they share; it
    changes no number. Empty: the request has none."""


class Scorer(Protocol):
    """Teacher-forced log-probabilities under one policy version."""

    def score_many(self, requests: Sequence[ScoreRequest]) -> list[list[FloatArray]]:
        """For each request and boundary, the log-probabilities of the answer span's tokens."""
        ...


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
