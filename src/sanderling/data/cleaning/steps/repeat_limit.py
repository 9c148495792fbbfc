"""LiteResearcher's filter of circling: a trajectory that makes one call too often is dropped."""

from collections import Counter

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason, Target
from sanderling.data.cleaning.signatures import signature


class RepeatLimitSettings(BaseModel):
    """How often is too often."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most: int = Field(default=3, ge=1)
    """Times that one call may be made."""
    with_goal: bool = True
    """A page read for another goal is another call."""


def limit_repeats(trajectory: Trajectory, settings: RepeatLimitSettings, target: Target) -> Outcome:
    """The trajectory, unless it makes one call more than ``most`` times."""
    made = Counter(
        signature(call, target.profile.tools, with_goal=settings.with_goal)
        for turn in trajectory.turns()
        for call in turn.calls
    )
    worst = max(made.items(), key=lambda item: item[1], default=("", 0))
    if worst[1] <= settings.most:
        return Outcome(trajectory)
    return Outcome(None, reason=Reason.REPEATED_CALLS, detail=f"{worst[1]} times {worst[0][:200]}")
