"""LiteResearcher's filter of broken tools: a trajectory with too many failed calls is dropped.

A call failed when its tool said so, or, where only its text was recorded, when that is a notice of failure. A search that found
nothing did not fail.
"""

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason
from sanderling.data.cleaning.outcomes import failed_calls
from sanderling.data.cleaning.rounds import take_apart


class ToolErrorsSettings(BaseModel):
    """How many failures are borne."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most: int = Field(default=2, ge=0)


def limit_errors(trajectory: Trajectory, settings: ToolErrorsSettings) -> Outcome:
    """The trajectory, unless more than ``most`` of its calls failed."""
    failed = sum(sum(failed_calls(one)) for one in take_apart(trajectory).rounds)
    if failed <= settings.most:
        return Outcome(trajectory)
    return Outcome(None, reason=Reason.TOOL_ERRORS, detail=f"{failed} failed calls")
