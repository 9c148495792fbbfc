"""What a judge said of a trajectory, as it stands in the record. Knows no judge."""

from enum import StrEnum

from sanderling.core.record import Trajectory
from sanderling.judge.verdict import META_KEY


class Standing(StrEnum):
    """Whether a trajectory was judged, and how."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNSCORED = "unscored"
    """Judged, but nobody could tell: an outage, or no accepted answer."""
    NOT_JUDGED = "not judged"


def standing(trajectory: Trajectory) -> Standing:
    """How a trajectory stands."""
    verdict = trajectory.meta.get(META_KEY)
    if not isinstance(verdict, dict):
        return Standing.NOT_JUDGED
    match verdict.get("correct"):
        case True:
            return Standing.CORRECT
        case False:
            return Standing.INCORRECT
    return Standing.UNSCORED
