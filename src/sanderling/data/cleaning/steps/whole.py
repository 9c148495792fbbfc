"""What may be imitated at all: whole, answered, and no outage. Drops, and changes nothing.

Nothing is judged here: whether an answer is right is a judge's business.
"""

from collections import Counter

from sanderling.core.record import NodeKind, Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason


def keep_whole(trajectory: Trajectory) -> Outcome:
    """Keep what is whole and answered."""
    reason = reason_to_drop(trajectory)
    if reason is None:
        return Outcome(trajectory)
    ending = trajectory.ending.value if trajectory.ending else "ending not recorded"
    return Outcome(None, reason=reason, detail=ending)


def reason_to_drop(trajectory: Trajectory) -> Reason | None:
    """Why a record cannot be imitated; None when it can."""
    kinds = Counter(node.kind for node in trajectory.branch())
    if trajectory.ending is not None and not trajectory.ending.scored:
        return Reason.OUTAGE
    if not kinds[NodeKind.TURN]:
        return Reason.EMPTY
    if kinds[NodeKind.RAW]:
        return Reason.UNREADABLE
    return Reason.NO_ANSWER if trajectory.answer is None else None
