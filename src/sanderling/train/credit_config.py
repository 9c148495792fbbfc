"""How credit and losses of reinforcement learning are set up, as data: importable without torch.

One class for each loss and estimator, told apart by ``kind``. Every class is frozen and refuses unknown keys; `losses` and
`estimators` build from these. Formulas, sources and the settings of published systems: docs/rl-credit.md.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

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


class Estimating(Frozen):
    """What every estimator has."""

    penalty_weight: float = Field(default=1.0, ge=0)
    """Weight of a turn's format penalty."""

    @property
    def needs_gain(self) -> bool:
        """Whether turns need information gain."""
        return False

    @property
    def least_group(self) -> int:
        """Fewest rollouts of a question that can teach anything but form: one has nothing to be compared with."""
        return 2


class Deviation(StrEnum):
    """Which standard deviation outcomes are divided by."""

    POPULATION = "population"
    """Over n (DR-Venus)."""
    SAMPLE = "sample"
    """Over n - 1 (LiteResearcher; TRL)."""


class GrpoConfig(Estimating):
    """Outcome minus the group's mean, over the group's standard deviation (arXiv 2402.03300)."""

    kind: Literal["grpo"] = "grpo"
    deviation: Deviation = Deviation.POPULATION


class DrGrpoConfig(Estimating):
    """Outcome minus the group's mean (Dr. GRPO, arXiv 2503.20783)."""

    kind: Literal["dr_grpo"] = "dr_grpo"


class LeaveOneOutConfig(Estimating):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    kind: Literal["leave_one_out"] = "leave_one_out"
    right_above: float | None = None
    """Sign constraint: outcomes up to this get at most 0, those above at least 0 (AgentCPM-Explore: 0.5). None: none."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the advantage (AgentCPM-Explore's ``adv_scaling``: 1, in its scripts 2)."""


class IgpoMode(StrEnum):
    """How outcome and information gain are brought to one scale, and what is summed."""

    RETURNS = "returns"
    """Each turn's discounted gain-to-go, centred once per turn on the turns of the group's other trajectories; the outcome's
    z-score undiscounted. The one mode in which mere extra turns are neither paid nor punished (docs/rl-credit.md); with a gamma
    below 1, turns with gains of their own are charged for putting off a later gain, and paid for putting off a loss."""
    SCALED_SEPARATE = "scaled_separate"
    """Outcomes and gains z-scored each on its own, gains then scaled to the outcomes' size over the whole batch (DR-Venus)."""
    SEPARATE = "separate"
    JOINT = "joint"
    """z-scored together."""
    RAW = "raw"
    """Gains over their spread, no mean taken off, each for its own turns only (gamma is 0, whatever is set); the outcome's
    z-score undiscounted (DR-Venus' ``raw_ig``)."""


class Assignment(StrEnum):
    """Which turns receive a scored turn's gain."""

    CODE = "code"
    """The scored turn and all turns since the scored turn before it share one value, in which the gain counts once (DR-Venus as
    released): with gains scored on visits, the searches that led there."""
    SINCE_LAST_VISIT = "since_last_visit"
    """The scored turn and *each* search since the scored turn before it receive the gain in full (the paper, first reading)."""
    PREVIOUS_SEARCH = "previous_search"
    """The scored turn and the last search since the scored turn before it (second reading)."""
    OWN_TURN = "own_turn"


class Discount(StrEnum):
    """What a step of discounting is."""

    PER_TURN = "per_turn"
    PER_SEGMENT = "per_segment"
    """A scored turn and the unscored ones before it are one step (DR-Venus as released)."""


class PenaltyForm(StrEnum):
    """How a turn's format penalty enters."""

    OWN_TURN = "own_turn"
    """Added to that turn's advantage after everything else: in no statistic, and no other turn has it."""
    AS_RELEASED = "as_released"
    """It replaces the turn's gain, enters the gains' statistics and ends a segment, so that unscored turns before inherit it;
    on the last turn it replaces the outcome (DR-Venus as released)."""


class IgpoConfig(Estimating):
    """Information gain and outcome in the group, discounted backwards over turns (arXiv 2510.14967, 2604.19859)."""

    kind: Literal["igpo"] = "igpo"
    mode: IgpoMode = IgpoMode.RETURNS
    assignment: Assignment = Assignment.CODE
    discount: Discount = Discount.PER_TURN
    gamma: float = Field(default=1.0, ge=0, le=1)
    """1 by default in ``returns``, where less is a preference for early gains and late losses; else 0.95, as published."""
    adaptive_gamma: float | None = Field(default=None, gt=0, le=1)
    """w: a trajectory of n > 1 turns (or segments) is discounted by ``w ** (1 / n)`` instead of ``gamma``."""
    gain_weight: float = Field(default=1.0, ge=0)
    outcome_floor: float = Field(default=0.3, ge=0)
    """Scale of the gains where outcomes say little: the least mean |z| of outcomes that gains are scaled to."""
    max_scale: float = Field(default=10.0, gt=0)
    penalty_form: PenaltyForm = PenaltyForm.OWN_TURN

    @model_validator(mode="before")
    @classmethod
    def _discounted_as_published(cls, given: Any) -> Any:
        if isinstance(given, dict) and "gamma" not in given and given.get("mode", IgpoMode.RETURNS) != IgpoMode.RETURNS:
            return {**given, "gamma": 0.95}
        return given

    @property
    def needs_gain(self) -> bool:
        return True

    @property
    def least_group(self) -> int:
        """Where gains are not held against those of other rollouts, those of one rollout's turns differ, too."""
        return 2 if self.mode is IgpoMode.RETURNS else 1


EstimatorConfig = Annotated[GrpoConfig | DrGrpoConfig | LeaveOneOutConfig | IgpoConfig, Field(discriminator="kind")]
