"""Losses of reinforcement learning: per-token log-probabilities and weights to one scalar, each beside its settings.

A loss is a function ``(tokens, config)``; its settings are of the class that ``config`` is annotated with. One of your own goes
wherever a built-in's name does, as ``file.py:name``. What a policy loss is made of: a ratio to the policy that the settings
name, its own formula, the correction for what sampler and trainer see differently, and a KL to a reference. Weights arrive
normalised over the whole optimizer batch, so losses of micro-batches add up; every figure is a per-token value.

Formulas, sources and the settings of published systems: docs/rl-credit.md. Importable without torch: tensors bring their
methods.
"""

import math
from enum import StrEnum
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, field_validator, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import Choice, Chosen

if TYPE_CHECKING:
    from torch import Tensor

    from sanderling.train.contract import Loss, LossInputs, Metrics

LIMIT = 20.0
"""Log-ratios beyond this size enter with this size: exp(20) is 5e8, and float32 overflows at exp(88.7)."""
EDGES = (0.0, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, float("inf"))
"""Of the bins of ratios: roughly even in the logarithm around 1, with the usual clips among them."""
FAR = (0.5, 2.0)


# -- what every policy loss can be set ------------------------------------------------------------------------------------


class RatioTo(StrEnum):
    """Which policy a loss's ratio is taken to."""

    SAMPLER = "sampler"
    """The distribution that was sampled from."""
    PROXIMAL = "proximal"
    """The trainer's weights before the batch's first update; where rows bring none, the present ones (ratio 1). What lies
    between them and the sampler is then a detached weight (decoupled PPO, arXiv 2110.00641, 2505.24298)."""


class Level(StrEnum):
    """Of what a trainer-to-sampler ratio is taken: a token, or the product over a row's trained tokens."""

    TOKEN = "token"
    SEQUENCE = "sequence"


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
    """Smallest such weight; with ``cap`` 1 and ``floor`` 1 there is none, and masks and veto stay."""
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


class PolicyLoss(Chosen):
    """What every policy-gradient loss can be set."""

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


# -- the losses ----------------------------------------------------------------------------------------------------------


class PpoConfig(PolicyLoss):
    """The clipped policy gradient: PPO with its one-sided and dual clips; decoupled with ``ratio_to = proximal``."""

    kind: str = "ppo"
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: float = Field(default=0.28, ge=0)
    """Larger than ``clip_low``: clip-higher (DAPO, arXiv 2503.14476)."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound on the loss of tokens with negative advantage, in units of the advantage (arXiv 1912.09729)."""


def ppo(tokens: "LossInputs", config: PpoConfig) -> "tuple[Tensor, Metrics]":
    """PPO (arXiv 1707.06347): per token, with r the ratio and A the advantage, ``-min(r A, clip(r, 1 - low, 1 + high) A)``.

    For A < 0 at most ``-dual A``. With ``ratio_to = proximal`` clipped to the weights before the batch's first update, and
    weighted by proximal over sampler (:func:`correction`).
    """
    ratio = bounded(log_ratio(tokens, config.ratio_to)).exp()
    clip = config.clip_low, config.clip_high, config.dual_clip
    return _reduced(tokens, config, ratio, *clipped_surrogate(ratio, tokens.need("advantages"), *clip))


class GspoConfig(PolicyLoss):
    """One ratio for a whole row: the geometric mean of its tokens' ratios (GSPO, arXiv 2507.18071), clipped like PPO's."""

    kind: str = "gspo"
    clip_low: float = Field(default=3e-4, ge=0, lt=1)
    clip_high: float = Field(default=4e-4, ge=0)
    """Sequence ratios move far less than tokens' do: these are the paper's."""


def gspo(tokens: "LossInputs", config: GspoConfig) -> "tuple[Tensor, Metrics]":
    """GSPO in its form for advantages of single tokens: one ratio for a row, clipped like PPO's.

    ``s = exp(mean over the row of log policy - log anchor)`` and, per token, ``s_t = sg(s) * exp(log p - sg(log p))``: its
    value is s, its gradient ``s * grad log p``. (A factor written ``log p / sg(log p)`` also has the value 1, and the
    gradient's sign the wrong way round, since log p is negative.)
    """
    total, count = row_sums(tokens, log_ratio(tokens, config.ratio_to).detach())
    ratio = bounded(total / count).exp() * (tokens.logprobs - tokens.logprobs.detach()).exp()
    clipped = clipped_surrogate(ratio, tokens.need("advantages"), config.clip_low, config.clip_high)
    return _reduced(tokens, config, ratio, *clipped)


class CispoConfig(PolicyLoss):
    """REINFORCE with a capped, detached importance weight (CISPO, arXiv 2506.13585): no token loses its gradient."""

    kind: str = "cispo"
    cap: float = Field(default=2.0, gt=0)
    """Largest importance weight."""


def cispo(tokens: "LossInputs", config: CispoConfig) -> "tuple[Tensor, Metrics]":
    """``-min(r, cap) · A · log p``: unlike a clip it leaves rare tokens, at which behaviour branches, their gradient."""
    ratio = bounded(log_ratio(tokens, config.ratio_to)).exp()
    loss = -ratio.detach().clamp(max=config.cap) * tokens.need("advantages") * tokens.logprobs
    value, metrics = _reduced(tokens, config, ratio, loss)
    return value, {**metrics, "weight_capped": (ratio.detach() > config.cap).float()}


class MinirlConfig(PolicyLoss):
    """REINFORCE with the detached ratio as it is, and tokens dropped beyond bounds (AgentCPM-Explore's MINIRL)."""

    kind: str = "minirl"
    correction: CorrectionConfig = CorrectionConfig(bounds=SignBounds())
    """Has these bounds also where only others of its fields are set. Without any
    (``bounds=None``, which only Python can say) nothing caps the ratio."""

    @field_validator("correction")
    @classmethod
    def _bounded(cls, correction: CorrectionConfig) -> CorrectionConfig:
        given = "bounds" in correction.model_fields_set
        return correction if given else correction.model_copy(update={"bounds": SignBounds()})


def minirl(tokens: "LossInputs", config: MinirlConfig) -> "tuple[Tensor, Metrics]":
    """``-sg(r) · A · log p``: nothing is clipped; tokens whose ratio has gone too far are dropped (:func:`correction`)."""
    ratio = bounded(log_ratio(tokens, config.ratio_to)).exp()
    return _reduced(tokens, config, ratio, -ratio.detach() * tokens.need("advantages") * tokens.logprobs)


LOSSES = {"ppo": ppo, "gspo": gspo, "cispo": cispo, "minirl": minirl}
CHOICE = Choice("loss", LOSSES, PolicyLoss)
LossConfig = Annotated[PolicyLoss, CHOICE]
"""Settings of the loss that ``kind`` names."""


def build_loss(config: PolicyLoss) -> "Loss":
    """The loss that a configuration describes.

    It raises ValueError for rows that lack what is asked for, UserError where whole rows are compared and are not there.
    """
    chosen = CHOICE.bound(config)

    def loss(tokens: "LossInputs") -> "tuple[Tensor, Metrics]":
        found = chosen(tokens)
        return found if isinstance(found, tuple) else ((tokens.weights * found).sum(), {})  # of a person's own, each token's

    return loss


# -- what they are made of -----------------------------------------------------------------------------------------------


def clipped_surrogate(
    ratio: "Tensor", advantages: "Tensor", low: float, high: float, dual: float | None = None
) -> "tuple[Tensor, Tensor]":
    """``-min(r A, clip(r, 1 - low, 1 + high) A)``, for A < 0 at most ``-dual A``; and 1.0 where that took the gradient away."""
    plain, clipped = -ratio * advantages, -ratio.clamp(1.0 - low, 1.0 + high) * advantages
    loss, is_clipped = plain.maximum(clipped), clipped > plain
    if dual is not None:
        bound = -dual * advantages
        is_clipped = is_clipped | ((advantages < 0) & (loss > bound))
        loss = loss.minimum(bound).where(advantages < 0, loss)
    return loss, is_clipped.float()


def _reduced(
    tokens: "LossInputs", config: PolicyLoss, ratio: "Tensor", loss: "Tensor", clipped: "Tensor | None" = None
) -> "tuple[Tensor, Metrics]":
    """The weighted sum of corrected losses and the KL, and what every policy loss reports; ``ratio`` with its gradient."""
    factor, seen = correction(tokens, config, ratio)
    # A masked token's loss may be anything: zero times infinity would not be zero.
    loss = loss.where(factor > 0, 0.0) * factor
    clipped = ratio.new_zeros(ratio.shape) if clipped is None else clipped
    metrics: Metrics = {"ratio": ratio.detach(), "clipped": clipped, **seen}
    if config.kl_coef > 0:
        kl = kl_estimate(tokens.logprobs - tokens.need("reference"), config.kl_form)
        metrics["kl_reference"] = kl.detach()
        loss = loss + config.kl_coef * (kl * ratio if config.kl_weighted else kl)
    if tokens.sampler is not None:  # k3 of KL(sampler || model), absolute differences, tokens beyond the limit
        gap = tokens.logprobs.detach() - tokens.sampler
        near = bounded(gap)
        metrics |= {"kl_sampler": near.exp() - near - 1.0, "sampler_gap": gap.abs(), "outlier": (gap.abs() > LIMIT).float()}
    return (tokens.weights * loss).sum(), metrics


def correction(tokens: "LossInputs", config: PolicyLoss, ratio: "Tensor") -> "tuple[Tensor, Metrics]":
    """The factor of each token's loss [N], for every loss alike, and what was masked. ``ratio`` is the loss's own.

    With q the trainer-to-sampler ratio of a token (proximal / sampler; without a proximal policy, present / sampler), without
    its gradient: tokens count ``min(max(q, floor), cap)`` times (only with a proximal policy); not at all with q outside [low,
    high], in a row with any q below ``veto``, or beyond the sign's bounds. What is masked still counts in the loss's
    normalisation, so a masked token weakens an update and changes no other token's weight. Raises ValueError for rows that lack
    what is asked for, UserError for a veto over rows that are not whole.
    """
    settings, decoupled = config.correction, config.ratio_to is RatioTo.PROXIMAL
    ratio = ratio.detach()
    kept, vetoed = ratio.new_ones(ratio.shape).bool(), ratio.new_zeros(ratio.shape).bool()
    importance = ratio.new_ones(ratio.shape)
    ranged = settings.low is not None or settings.high is not None
    if decoupled or ranged or settings.veto is not None:
        gap = (_anchor(tokens, config.ratio_to) if decoupled else tokens.logprobs.detach()) - tokens.need("sampler")
        share = bounded(row_sums(tokens, gap)[0] if settings.level is Level.SEQUENCE else gap).exp()
        if decoupled:
            importance = share.clamp(min=settings.floor or 0.0, max=settings.cap)
            ratio = ratio * bounded(gap).exp()
        if ranged:
            kept &= (share >= (settings.low or 0.0)) & (share <= (math.inf if settings.high is None else settings.high))
        if settings.veto is not None:
            vetoed = row_sums(tokens, (bounded(gap).exp() < settings.veto).float())[0] > 0
    if settings.bounds is not None:
        kept &= ~_beyond(tokens, settings.bounds, ratio)
    weight = importance * (kept & ~vetoed)
    return weight, {"importance": importance, "masked": (~kept).float(), "vetoed": vetoed.float()}


def _beyond(tokens: "LossInputs", bounds: SignBounds, ratio: "Tensor") -> "Tensor":
    """Tokens whose ratio to the sampler is beyond the bound on their advantage's side."""
    reach: Tensor | float = 1.0 if bounds.strict else bounds.cap
    if bounds.decay is not None:
        reach = bounds.cap * (-bounds.decay * tokens.need("age").clamp(min=0.0)).exp()
    advantages = tokens.need("advantages")
    above = (ratio > 1.0 + bounds.high * reach) & (advantages > 0)
    return above | ((ratio < 1.0 - bounds.low * reach) & (advantages < 0))


def kl_estimate(gap: "Tensor", form: KlForm) -> "Tensor":
    """Of KL(policy || reference), from ``gap`` = log policy - log reference of sampled tokens."""
    gap = bounded(gap)
    half_square, k3 = 0.5 * gap.square(), (-gap).exp() + gap - 1.0
    straight = half_square + (k3 - half_square).detach()
    return {KlForm.K1: gap, KlForm.K2: half_square, KlForm.K3: k3, KlForm.K3_STRAIGHT: straight}[form]


def log_ratio(tokens: "LossInputs", to: RatioTo) -> "Tensor":
    """Log policy minus log of the policy that the configuration names, with gradient. Raises ValueError where rows lack it."""
    return tokens.logprobs - _anchor(tokens, to)


def _anchor(tokens: "LossInputs", to: RatioTo) -> "Tensor":
    """Log-probabilities under the policy that ratios are taken to, without gradient."""
    if to is RatioTo.SAMPLER:
        return tokens.need("sampler")
    return tokens.logprobs.detach() if tokens.proximal is None else tokens.proximal


def row_sums(tokens: "LossInputs", values: "Tensor") -> "tuple[Tensor, Tensor]":
    """For each token the sum of ``values`` over its row's trained tokens, and their number.

    Raises UserError where rows are not whole.
    """
    rows = tokens.sequence
    if rows is None:
        raise UserError(
            "This loss compares whole rows, and here several devices share each row: set parallel.context to 1, or choose a "
            "loss of single tokens without a veto."
        )
    count = int(rows.max()) + 1 if rows.numel() else 0
    totals = values.new_zeros(count).index_add(0, rows, values)
    return totals[rows], rows.bincount(minlength=count)[rows].to(values.dtype)


def bounded(gap: "Tensor") -> "Tensor":
    """The log-ratio within the limit. Its gradient passes: a clamp's would vanish exactly where the policy is furthest off."""
    return gap + (gap.clamp(-LIMIT, LIMIT) - gap).detach()


# -- what is watched beside the loss -------------------------------------------------------------------------------------


class Watching:
    """A loss that also reports how ratios are distributed, which tokens it stops, and fresh tokens' gap to the sampler."""

    def __init__(self, loss: "Loss") -> None:
        self.loss = loss

    def __call__(self, tokens: "LossInputs") -> "tuple[Tensor, Metrics]":
        """The loss itself, unchanged; ``stopped``: nothing was learnt from the token, whatever the loss calls it."""
        value, metrics = self.loss(tokens)
        found = [metrics[name] for name in ("clipped", "masked", "vetoed") if name in metrics]
        stopped = {"stopped": reduce(lambda one, other: one.maximum(other), found)} if found else {}
        return value, {**metrics, **ratio_bins(metrics), **stopped, **fresh_gap(tokens)}


def ratio_bins(metrics: "Metrics") -> "Metrics":
    """Of the loss's ``ratio``: ``ratio_0.8_0.95`` and its like, lower edge included; ``ratio_far``: below 1/2 or above 2."""
    if "ratio" not in metrics:
        return {}
    ratio = metrics["ratio"]
    bins = {f"ratio_{low:g}_{high:g}": ((ratio >= low) & (ratio < high)).float() for low, high in pairwise(EDGES)}
    return {**bins, "ratio_far": ((ratio < FAR[0]) | (ratio > FAR[1])).float()}


def fresh_gap(tokens: "LossInputs") -> "Metrics":
    """``fresh``: the very weights that are updated sampled the token; ``fresh_gap``: its gap to the sampler then, else 0.

    Nor may any before it in its row be older: a sampler keeps their keys, which are then of other weights than the trainer's.
    """
    if tokens.sampler is None or tokens.age is None:
        return {}
    older, sequence = tokens.age > 0, tokens.sequence
    if sequence is not None and len(older):
        order = sequence.argsort(stable=True)
        counted = older[order].cumsum(0)
        _, sizes = sequence[order].unique_consecutive(return_counts=True)
        before = counted[sizes.cumsum(0) - 1].roll(1)
        before[0] = 0
        older = counted.clone()
        older[order] = counted - before.repeat_interleave(sizes, output_size=len(order))
    fresh = (older == 0).float()
    return {"fresh": fresh, "fresh_gap": (tokens.logprobs.detach() - tokens.sampler).abs() * fresh}
