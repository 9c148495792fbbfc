"""How losses of reinforcement learning are set up, as data: importable without torch.

One class for each loss, told apart by ``kind``; `losses` has what they describe. Formulas, sources and the settings of
published systems: docs/rl-credit.md.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from sanderling.core.config import Frozen


class RatioTo(StrEnum):
    """Which policy a loss's ratio is taken to."""

    SAMPLER = "sampler"
    """The distribution that was sampled from."""
    PROXIMAL = "proximal"
    """The trainer's weights before the batch's first update; where rows bring none, the present ones (ratio 1). What lies
    between them and the sampler is then a detached weight (decoupled PPO, arXiv 2110.00641, 2505.24298)."""


class Level(StrEnum):
    """Of what a trainer-to-sampler ratio is taken."""

    TOKEN = "token"
    SEQUENCE = "sequence"
    """The product over a row's trained tokens."""


class SignBounds(Frozen):
    """AgentCPM-Explore's mask: a token is dropped when its ratio has gone too far in the direction its advantage asks for.

    Dropped: ``r > 1 + high * cap * d`` with A > 0, and ``r < 1 - low * cap * d`` with A < 0.
    """

    low: float = Field(default=0.2, ge=0)
    high: float = Field(default=0.3, ge=0)
    cap: float = Field(default=4.0, gt=0)
    strict: bool = False
    """d = 1 / cap: the bounds are those of the clip."""
    decay: float | None = Field(default=None, ge=0)
    """d = exp(-decay * age), age in updates between the token's version and now. With neither, d = 1."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.strict and self.decay is not None:
            raise ValueError("strict bounds do not decay: set strict or decay, not both")
        return self


class CorrectionConfig(Frozen):
    """What is done about tokens that the sampler and the trainer see differently. All of it is without gradient."""

    cap: float | None = Field(default=2.0, gt=0)
    """Largest trainer-to-sampler weight (truncated importance sampling); None: no limit. The weight exists only with
    ``ratio_to = proximal``: a ratio to the sampler is that weight already."""
    floor: float | None = Field(default=None, ge=0)
    """Smallest such weight."""
    weigh: bool = True
    """False: no such weight at all; masks and veto stay."""
    low: float | None = Field(default=None, ge=0)
    high: float | None = Field(default=None, gt=0)
    """Tokens whose trainer-to-sampler ratio lies outside [low, high] are masked (IcePop)."""
    level: Level = Level.TOKEN
    """Of what cap, floor, low and high are."""
    veto: float | None = Field(default=None, gt=0)
    """A row with any token whose ratio is below this is masked whole (LiteResearcher: 1e-4)."""
    bounds: SignBounds | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for lower, upper in (("floor", "cap"), ("low", "high")):
            below, above = getattr(self, lower), getattr(self, upper)
            if below is not None and above is not None and below > above:
                raise ValueError(f"{lower} is above {upper}: no ratio lies between them")
        return self


class KlForm(StrEnum):
    """Estimates of KL(policy || reference) from sampled tokens, with d = log policy - log reference."""

    K1 = "k1"
    """d. In a loss its gradient has mean zero unless ``kl_weighted``."""
    K2 = "k2"
    """d²/2: on-policy, the gradient of the true KL."""
    K3 = "k3"
    """exp(-d) + d - 1: never negative; on-policy, the gradient of the reverse, KL(reference || policy)."""
    K3_STRAIGHT = "k3_straight"
    """The value of k3 with the gradient of k2."""


class PolicyLoss(Frozen):
    """What every policy-gradient loss has."""

    ratio_to: RatioTo = RatioTo.SAMPLER
    correction: CorrectionConfig = CorrectionConfig()
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the KL to the reference model."""
    kl_form: KlForm = KlForm.K3
    kl_weighted: bool = False
    """Multiply the KL by the loss's ratio, with its gradient: unbiased off-policy (TRL's ``use_bias_correction_kl``)."""

    @property
    def needs_proximal(self) -> bool:
        """Whether rows of more than one update a batch need ``proximal_logprobs``."""
        return self.ratio_to is RatioTo.PROXIMAL

    @property
    def needs_reference(self) -> bool:
        """Whether rows need ``reference_logprobs``."""
        return self.kl_coef > 0


class PpoConfig(PolicyLoss):
    """The clipped policy gradient: PPO with its one-sided and dual clips; decoupled with ``ratio_to = proximal``."""

    kind: Literal["ppo"] = "ppo"
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: float = Field(default=0.28, ge=0)
    """Larger than ``clip_low``: clip-higher (DAPO, arXiv 2503.14476)."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound on the loss of tokens with negative advantage, in units of the advantage (arXiv 1912.09729)."""


class GspoConfig(PolicyLoss):
    """One ratio for a whole row: the geometric mean of its tokens' ratios (GSPO, arXiv 2507.18071), clipped like PPO's."""

    kind: Literal["gspo"] = "gspo"
    clip_low: float = Field(default=3e-4, ge=0, lt=1)
    clip_high: float = Field(default=4e-4, ge=0)
    """Sequence ratios move far less than tokens' do: these are the paper's."""


class CispoConfig(PolicyLoss):
    """REINFORCE with a capped, detached importance weight (CISPO, arXiv 2506.13585): no token loses its gradient."""

    kind: Literal["cispo"] = "cispo"
    cap: float = Field(default=2.0, gt=0)
    """Largest importance weight."""


class MinirlConfig(PolicyLoss):
    """REINFORCE with the detached ratio as it is, and tokens dropped beyond bounds (AgentCPM-Explore's MINIRL)."""

    kind: Literal["minirl"] = "minirl"
    correction: CorrectionConfig = CorrectionConfig(bounds=SignBounds())
    """Has these bounds also where only others of its fields are set. Without any
    (``bounds=None``, which only Python can say) nothing caps the ratio."""

    @field_validator("correction")
    @classmethod
    def _bounded(cls, correction: CorrectionConfig) -> CorrectionConfig:
        said = "bounds" in correction.model_fields_set
        return correction if said else correction.model_copy(update={"bounds": SignBounds()})


LossConfig = Annotated[PpoConfig | GspoConfig | CispoConfig | MinirlConfig, Field(discriminator="kind")]
