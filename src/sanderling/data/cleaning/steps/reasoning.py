"""LiteResearcher's demand of reasoning: a trajectory that calls a tool without having thought is dropped."""

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason, Target
from sanderling.data.cleaning.turn_text import read_turn


class ReasoningSettings(BaseModel):
    """What counts as thinking."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    least_characters: int = Field(default=1, ge=1)
    """Length of reasoning below which there is none."""


def demand_reasoning(trajectory: Trajectory, settings: ReasoningSettings, target: Target) -> Outcome:
    """The trajectory, unless it calls a tool without reasoning before."""
    for place, turn in enumerate(trajectory.turns(), start=1):
        if turn.calls and len((read_turn(turn, target.profile).think or "").strip()) < settings.least_characters:
            return Outcome(None, reason=Reason.NO_REASONING, detail=f"turn {place}")
    return Outcome(trajectory)
