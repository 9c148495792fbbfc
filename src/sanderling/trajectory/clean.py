"""Cleaning, first form: what may be imitated at all. Every record that is left out has a reason, and is counted.

Nothing is judged here: whether an answer is right is a judge's business. Knows no model.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sanderling.trajectory.record import NodeKind, Trajectory


class Dropped(StrEnum):
    """Why a record is left out."""

    OUTAGE = "outage"
    """It ended in an outage or was stopped: not the agent's doing."""
    NO_ANSWER = "no_answer"
    """Nothing was answered, so there is no end to imitate."""
    UNREADABLE = "unreadable"
    """It holds an imported message nobody could classify."""
    EMPTY = "empty"
    """The policy said nothing."""


@dataclass(frozen=True)
class Cleaned:
    """What is left, and why the rest is not."""

    kept: list[Trajectory]
    dropped: dict[Dropped, list[str]]
    """Ids by reason."""


def clean(trajectories: Iterable[Trajectory]) -> Cleaned:
    """Keep what is whole and answered, in order."""
    kept: list[Trajectory] = []
    dropped: dict[Dropped, list[str]] = {}
    for trajectory in trajectories:
        reason = reason_to_drop(trajectory)
        if reason is None:
            kept.append(trajectory)
        else:
            dropped.setdefault(reason, []).append(trajectory.id)
    return Cleaned(kept, dropped)


def reason_to_drop(trajectory: Trajectory) -> Dropped | None:
    """Why a record cannot be imitated; None when it can."""
    kinds = Counter(node.kind for node in (trajectory.branch() if trajectory.leaf is not None else []))
    if trajectory.ending is not None and not trajectory.ending.scored:
        return Dropped.OUTAGE
    if not kinds[NodeKind.TURN]:
        return Dropped.EMPTY
    if kinds[NodeKind.RAW]:
        return Dropped.UNREADABLE
    if trajectory.answer is None:
        return Dropped.NO_ANSWER
    return None
