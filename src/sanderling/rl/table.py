"""The table of turns that credit is assigned over: a step's rollouts as arrays. Importable without torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sanderling.agent.turns import signature
from sanderling.core.record import NodeKind, Trajectory, turn_indices
from sanderling.train.rows import BoolArray, FloatArray, IntArray


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


def calls_made(trajectory: Trajectory) -> Iterator[tuple[str, ...]]:
    """What was done before each turn, and after the last: the calls of each turn, or what it wrote where none was run.

    Rollouts of a group that did the same have read the same in worlds of files, which answer equal calls with equal pages.
    """
    run = {node.parent for node in trajectory.nodes if node.kind is NodeKind.OBSERVATION}
    made: tuple[str, ...] = ()
    yield made
    for index in turn_indices(trajectory):
        turn = trajectory.nodes[index]
        made = (*made, " ".join(map(signature, turn.calls)) if index in run else turn.text)
        yield made


@dataclass(frozen=True)
class TurnTable:
    """Every turn of an optimizer batch, one row each, sorted by trajectory and turn. All arrays have K rows.

    Outcome, gain and penalty are separate components; which are combined, and how, is the estimator's business.
    """

    trajectory: IntArray  # index of the trajectory in the batch
    group: IntArray  # index of the trajectory's group (one question's rollouts)
    turn: IntArray  # 0, 1, … within the trajectory
    state: IntArray  # turns of one group that the same calls led to have the same number
    tokens: IntArray  # sampled tokens in the turn
    tool: NDArray[np.str_]  # a TurnTool
    outcome: FloatArray  # the trajectory's outcome in [0, 1], repeated on each of its turns
    scored: BoolArray  # False where the trajectory ended in an outage: no outcome, and out of every group statistic
    gain: FloatArray  # information gain of the turn; meaningless where ``gain_scored`` is False. Zero is a value
    gain_scored: BoolArray
    penalty: FloatArray  # format penalty of the turn, 0 or negative
    trained: BoolArray
    """False where the trajectory receives no credit. With an outcome it still counts in its group (`rollouts.Place`)."""
    capped: BoolArray  # True where the turn gets no positive credit; negative credit is kept

    def __len__(self) -> int:
        return int(self.trajectory.shape[0])


_KINDS = {"tool": np.str_, **dict.fromkeys(("outcome", "gain", "penalty"), np.float64)}
_KINDS |= dict.fromkeys(("scored", "gain_scored", "trained", "capped"), np.bool_)


@dataclass(frozen=True)
class Graded:
    """A trajectory and its reward; per-turn sequences follow :func:`sanderling.core.record.turn_indices`."""

    trajectory: Trajectory
    group: int  # one question may have several groups in a step
    outcome: float | None  # None: unscored
    penalties: Sequence[float]
    capped: Sequence[bool]  # turns that get no positive credit
    left_out: str | None = None
    """Why it is not trained on and receives no credit; its outcome, where it has one, counts in its group."""
    gains: Sequence[float | None] | None = None  # None, whole or for a turn: no gain was scored there


def build_table(batch: Sequence[Graded]) -> TurnTable:
    """The table. Raises ValueError when per-turn sequences have the wrong length."""
    rows: list[tuple[Any, ...]] = []
    groups: dict[int, int] = {}
    states: dict[tuple[int, tuple[str, ...]], int] = {}
    for number, one in enumerate(batch):
        indices, tools = turn_indices(one.trajectory), turn_tools(one.trajectory)
        group = groups.setdefault(one.group, len(groups))
        gains = [None] * len(indices) if one.gains is None else one.gains
        before = list(calls_made(one.trajectory))[:-1]
        each = zip(indices, tools, gains, one.penalties, one.capped, before, strict=True)
        for turn, (index, tool, gain, penalty, cap, made) in enumerate(each):
            state = states.setdefault((group, made), len(states))
            tokens = len(one.trajectory.nodes[index].token_ids or ())
            reward = (one.outcome or 0.0, one.outcome is not None, gain or 0.0, gain is not None, penalty)
            rows.append((number, group, turn, state, tokens, tool, *reward, one.left_out is None, cap))
    names = list(TurnTable.__dataclass_fields__)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    kinds = [_KINDS.get(name, np.int64) for name in names]
    return TurnTable(*(np.array(values, dtype=kind) for values, kind in zip(columns, kinds, strict=True)))
