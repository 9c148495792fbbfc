"""How training is set up, as data: importable without torch.

Every class is frozen and refuses unknown keys. Nothing here builds anything; `trainer`, `supervised` and `rl` read these.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Packing(StrEnum):
    """How rows of different lengths share one forward pass. Both are exact: no row ever sees another."""

    VARLEN = "varlen"
    """Rows one behind the other without padding; attention runs row by row, everything else over all tokens at once."""
    PADDED = "padded"
    """Rows of similar length side by side, padded on the right, where causal attention never looks."""


class OptimizerKind(StrEnum):
    """Which rule turns gradients into updates."""

    ADAMW = "adamw"
    MUON = "muon"
    """Muon for the hidden matrices, AdamW for everything else: in pre-training it needs far fewer tokens."""


class Precision(StrEnum):
    """In what matrices are multiplied, the head included. Weights, optimizer and softmax are float32 either way."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    """Automatic mixed precision."""


class Schedule(StrEnum):
    """What the learning rate does after warm-up."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class Aggregation(StrEnum):
    """How per-token losses become one number, over the whole optimizer batch, however it is cut into micro-batches."""

    TOKEN_MEAN = "token_mean"
    """Every trained token counts the same (times its row's weight)."""
    TRAJECTORY_MEAN = "trajectory_mean"
    """Every trajectory counts the same (times its row's weight), however long it is and however many rows it has."""


class TrainerConfig(BaseModel):
    """One optimizer and how a step is executed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    optimizer: OptimizerKind = OptimizerKind.ADAMW
    lr: float = Field(default=1e-5, gt=0)
    """AdamW's."""
    muon_lr: float = Field(default=0.02, gt=0)
    """Muon's. Both follow the schedule."""
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    """Not applied to norms and biases (tensors of fewer than two dimensions)."""
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest global gradient norm."""
    warmup_steps: int = Field(default=0, ge=0)
    total_steps: int | None = Field(default=None, ge=1)
    """Where a linear or cosine schedule ends; the supervised runs fill it in themselves."""
    schedule: Schedule = Schedule.CONSTANT
    final_lr_share: float = Field(default=0.0, ge=0, le=1)
    """The share of ``lr`` at which a linear or cosine schedule ends."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Most tokens in one forward pass, padding included; a single longer row is still run, alone."""
    packing: Packing = Packing.VARLEN
    precision: Precision = Precision.FLOAT32
    aggregation: Aggregation = Aggregation.TOKEN_MEAN
    temperature: float = Field(default=1.0, gt=0)
    """Logits are divided by it before log-probabilities are taken: the temperature the rollouts were sampled at."""
    entropy: bool = False
    """Whether the policy's entropy at trained positions is measured (never trained)."""
    gradient_checkpointing: bool = False
    logit_chunk: int = Field(default=16_000_000, ge=1)
    """Most logits (positions times vocabulary) that exist at once."""


class SupervisedConfig(BaseModel):
    """A supervised run: rows in seeded order, epoch after epoch."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trainer: TrainerConfig = TrainerConfig()
    epochs: int = Field(default=1, ge=1)
    batch_tokens: int = Field(default=32_768, ge=1)
    """Tokens of an optimizer batch: it is closed by the row that reaches this many."""
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after this many optimizer steps."""
    save_every: int = Field(default=100, ge=1)
    """Steps between checkpoints."""
    keep: int = Field(default=1, ge=1)
    """Checkpoints that stay."""
    seed: int = Field(default=0, ge=0)


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
