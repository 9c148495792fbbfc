"""LiteResearcher's ban: a trajectory that uses a forbidden tool is dropped whole; its reasoning rests on what that said."""

from pydantic import BaseModel, ConfigDict

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason


class ForbiddenSettings(BaseModel):
    """Which tools."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ("PythonInterpreter",)
    """Names, in any case."""


def forbid_tools(trajectory: Trajectory, settings: ForbiddenSettings) -> Outcome:
    """The trajectory, unless it calls one of the tools."""
    forbidden = {name.casefold() for name in settings.tools}
    used = sorted({call.name for turn in trajectory.turns() for call in turn.calls if call.name.casefold() in forbidden})
    if not used:
        return Outcome(trajectory)
    return Outcome(None, reason=Reason.FORBIDDEN_TOOL, detail=", ".join(used))
