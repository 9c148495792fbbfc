"""How credit and losses of reinforcement learning are set up, as data: importable without torch.

One class for each loss and estimator, told apart by ``kind``. Every class is frozen and refuses unknown keys; `losses` and
`estimators` build from these.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class RatioTo(StrEnum):
    """Which policy the clipped ratio is taken to."""

    SAMPLER = "sampler"
    """The distribution that was sampled from."""
    PROXIMAL = "proximal"
    """The trainer's weights before the batch's first update; where rows bring none, the present ones (ratio 1)."""


class PpoConfig(BaseModel):
    """The clipped policy gradient: PPO, its one-sided and dual clips, and truncated importance sampling."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["ppo"] = "ppo"
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: float = Field(default=0.28, ge=0)
    """Larger than ``clip_low``: clip-higher (DAPO, arXiv 2503.14476)."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound on the loss of tokens with negative advantage, in units of the advantage (arXiv 1912.09729)."""
    ratio_to: RatioTo = RatioTo.SAMPLER
    importance_cap: float | None = Field(default=2.0, gt=0)
    """With ``ratio_to = proximal``: cap on the trainer-to-sampler ratio that weights each token. None: no such weight."""
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the k3 estimate of KL to the reference model."""


class CispoConfig(BaseModel):
    """REINFORCE with a capped, detached importance weight (CISPO, arXiv 2506.13585): no token loses its gradient."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["cispo"] = "cispo"
    cap: float = Field(default=2.0, gt=0)
    """Largest importance weight."""


LossConfig = Annotated[PpoConfig | CispoConfig, Field(discriminator="kind")]


class GrpoConfig(BaseModel):
    """Outcome minus the group's mean, over the group's standard deviation (arXiv 2402.03300)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["grpo"] = "grpo"
    penalty_weight: float = Field(default=1.0, ge=0)
    """Weight of a turn's format penalty, added to that turn's advantage."""


class DrGrpoConfig(BaseModel):
    """Outcome minus the group's mean (Dr. GRPO, arXiv 2503.20783)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["dr_grpo"] = "dr_grpo"
    penalty_weight: float = Field(default=1.0, ge=0)


class LeaveOneOutConfig(BaseModel):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["leave_one_out"] = "leave_one_out"
    penalty_weight: float = Field(default=1.0, ge=0)


class IgpoMode(StrEnum):
    """How outcome and information gain are brought to one scale."""

    SCALED_SEPARATE = "scaled_separate"
    """Each normalised on its own; gains then scaled to the outcomes' size over the whole batch (DR-Venus)."""
    SEPARATE = "separate"
    JOINT = "joint"
    """Normalised together."""


class Assignment(StrEnum):
    """Which turns receive a scored turn's gain."""

    SINCE_LAST_SCORED = "since_last_scored"
    """The scored turn and all turns since the scored turn before it: with gains scored on visits, the searches that led
    there."""
    OWN_TURN = "own_turn"


class Discount(StrEnum):
    """What a step of discounting is."""

    PER_TURN = "per_turn"
    PER_SEGMENT = "per_segment"
    """The turns that share a gain are one step (DR-Venus's released code)."""


class IgpoConfig(BaseModel):
    """Information gain and outcome, normalised in the group, discounted backwards over turns (arXiv 2510.14967, 2604.19859)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["igpo"] = "igpo"
    mode: IgpoMode = IgpoMode.SCALED_SEPARATE
    assignment: Assignment = Assignment.SINCE_LAST_SCORED
    discount: Discount = Discount.PER_TURN
    gamma: float = Field(default=0.95, ge=0, le=1)
    gain_weight: float = Field(default=1.0, ge=0)
    outcome_floor: float = Field(default=0.3, ge=0)
    """Scale of the gains where outcomes say little: the least mean |z| of outcomes that gains are scaled to."""
    max_scale: float = Field(default=10.0, gt=0)
    penalty_weight: float = Field(default=1.0, ge=0)


EstimatorConfig = Annotated[GrpoConfig | DrGrpoConfig | LeaveOneOutConfig | IgpoConfig, Field(discriminator="kind")]
