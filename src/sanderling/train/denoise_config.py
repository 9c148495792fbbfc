"""How rewards are denoised, as data: importable without torch. What each filter does stands in `denoise`.

Source: AgentCPM-Explore (arXiv 2602.06485), whose three kinds of filter these are; names and defaults are ours.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Place(StrEnum):
    """What a trajectory that is not trained on still does."""

    OUT = "out"
    """Nothing: it is out of its group's statistics, too."""
    BASELINE = "baseline"
    """Its outcome counts in its group's mean and spread."""


class Section(BaseModel):
    """A frozen section that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ExtremeConfig(Section):
    """Trajectories that say more of the budget than of the policy."""

    over_long: bool = False
    """Those that ended for want of context, turns or time, or were asked for their answer then and gave none."""
    keep_over_long: int = Field(default=0, ge=0)
    """How many of a group's ``over_long`` ones are kept all the same, chosen by seed; never one past a bound in numbers."""
    most_tokens: int | None = Field(default=None, ge=1)
    """Longest branch in tokens."""
    most_turns: int | None = Field(default=None, ge=1)
    least_turns: int = Field(default=0, ge=0)
    """Right answers after at most so many turns are trivially short (0: none is)."""
    repetition: bool = False
    """Those that the loop ended for repeating themselves."""
    most_repeated: int | None = Field(default=None, ge=0)
    """Turns whose very text the trajectory has said before, at most."""
    place: Place = Place.OUT


class FormatConfig(Section):
    """Turns that break the grammar or repeat themselves."""

    no_positive_credit: bool = False
    """A turn that breaks the grammar keeps negative credit and gets no positive one."""
    repeated: bool = False
    """The same for a turn whose text the trajectory has said before."""


class DenoiseConfig(Section):
    """Everything off: outages alone are left out, and groups of which too little is left."""

    extreme: ExtremeConfig = ExtremeConfig()
    format: FormatConfig = FormatConfig()
    drop_flat: bool = False
    """Groups whose outcomes do not differ are dropped and replaced by others (dynamic sampling, arXiv 2503.14476)."""
    least_spread: float = Field(default=0.0, ge=0, le=1)
    """A group is flat when its best and worst outcome, from 0 to 1, differ by less (AgentCPM-Explore: 0.1) or not at all."""
    most_groups: float = Field(default=4.0, ge=1)
    """Groups finished for a step at most, in multiples of the step's; then it goes on with what has signal."""
    least_scored: float = Field(default=0.75, ge=0, le=1)
    """Share of a group's rollouts that has to be scored; with less it is left out whole, and another is made in its place: who
    met no outage is no fair sample where outages are many."""
    outage_wait_s: float = Field(default=5.0, ge=0)
    """Seconds before such a rollout is tried again, doubled each time."""
    outage_retries: int = Field(default=2, ge=0)
    """How often a rollout that met an outage is tried again (with an episode journal it goes on where it was); then its group
    goes on without it."""
    judge_patience_s: float = Field(default=600.0, ge=0)
    """Seconds that a rollout waits for a judge who is not reached; then the run stops, and the same command goes on."""
