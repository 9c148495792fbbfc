"""Limits of length: a trajectory that is too long to be learnt from whole is dropped, since nothing is ever cut.

Characters are counted, not tokens: cleaning knows no tokenizer; `train.overlong` counts what is too long for one.
"""

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.record import Trajectory
from sanderling.data.cleaning.contract import Outcome, Reason


class LengthSettings(BaseModel):
    """The limits; 0: none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    most_turns: int = Field(default=0, ge=0)
    most_characters: int = Field(default=0, ge=0)
    """Of all messages of the main branch together."""


def limit_length(trajectory: Trajectory, settings: LengthSettings) -> Outcome:
    """The trajectory, unless it is too long."""
    turns = sum(1 for _ in trajectory.turns())
    if settings.most_turns and turns > settings.most_turns:
        return Outcome(None, reason=Reason.TOO_LONG, detail=f"{turns} turns")
    characters = sum(len(node.text) for node in trajectory.branch())
    if settings.most_characters and characters > settings.most_characters:
        return Outcome(None, reason=Reason.TOO_LONG, detail=f"{characters} characters")
    return Outcome(trajectory)
