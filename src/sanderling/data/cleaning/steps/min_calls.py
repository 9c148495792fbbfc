"""LiteResearcher's filter of guesses: a trajectory with too few calls is dropped."""

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason


class MinCallsSettings(BaseModel):
    """How many calls a trajectory needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least: int = Field(default=2, ge=0)


def demand_calls(trajectory: Trajectory, settings: MinCallsSettings) -> Outcome:
    """The trajectory, unless it makes fewer calls than ``least``."""
    made = sum(len(turn.calls) for turn in trajectory.turns())
    if made >= settings.least:
        return Outcome(trajectory)
    return Outcome(None, reason=Reason.TOO_FEW_CALLS, detail=f"{made} calls")
