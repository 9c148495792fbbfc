"""Losses of reinforcement learning: per-token log-probabilities to a weighted sum, each beside its settings.

A loss is a function ``(tokens, config)``; its settings are of the class that ``config`` is annotated with. One of your own
goes wherever a built-in's name does, as ``file.py:name``, and returns each token's loss [N], to which weights, correction and
KL are applied here; or, as a built-in's does, a weighted sum with what is reported. A policy loss is made of a ratio to the
policy that the settings name, its own formula, the correction for what sampler and trainer see differently, and a KL to a
reference. Weights arrive normalised over the whole optimizer batch, so losses of micro-batches add up; every figure is a
per-token value.

Formulas, sources and the settings of published systems: docs/rl.md. Importable without torch: tensors bring their
methods.
"""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.plugins import Choice, Chosen

if TYPE_CHECKING:
    from torch import Tensor

    from sanderling.train.rows import Loss, LossInputs, Metrics

LIMIT = 20.0  # log-ratios beyond this size enter with this size: exp(20) is 5e8, and float32 overflows at exp(88.7)


class RatioTo(StrEnum):
    """Which policy a loss's ratio is taken to."""

    SAMPLER = "sampler"  # the distribution that was sampled from
    PROXIMAL = "proximal"
    """The trainer's weights before the batch's first update; where rows bring none, the present ones (ratio 1). What lies
    between them and the sampler is then a detached weight (decoupled PPO, arXiv 2110.00641, 2505.24298)."""


class CorrectionConfig(Frozen):
    """What is done about tokens that the sampler and the trainer see differently. All of it is without gradient."""

    cap: float | None = Field(default=2.0, gt=0)
    """Largest trainer-to-sampler weight (truncated importance sampling). The weight exists only with
    ``ratio_to = proximal``: a ratio to the sampler is that weight already."""
    low: float | None = Field(default=None, ge=0)  # tokens with a smaller trainer-to-sampler ratio are masked (IcePop)
    high: float | None = Field(default=None, gt=0)
    """Tokens with a larger one are masked."""
    veto: float | None = Field(default=None, gt=0)
    """A row with a token whose ratio is below this is masked whole (LiteResearcher: 1e-4)."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high: no ratio lies between them")
        return self


class PolicyLoss(Chosen):
    """What every policy-gradient loss can be set."""

    ratio_to: RatioTo = RatioTo.SAMPLER  # the policy that ratios are taken to
    correction: CorrectionConfig = CorrectionConfig()
    kl_coef: float = Field(default=0.0, ge=0)
    """Weight of the KL to the reference model (k3: exp(-d) + d - 1 with d = log policy - log reference)."""
    kl_limit: float | None = Field(default=None, gt=0)
    """Most that a token's estimate may be, without gradient beyond (verl, and so DR-Venus: 10); None: no limit."""

    @property
    def needs_reference(self) -> bool:
        """Whether rows need ``reference_logprobs``."""
        return self.kl_coef > 0


# -- the losses ----------------------------------------------------------------------------------------------------------


class PpoConfig(PolicyLoss):
    """The clipped policy gradient: PPO with its one-sided and dual clips; decoupled with ``ratio_to = proximal``."""

    kind: str = "ppo"
    clip_low: float = Field(default=0.2, ge=0, lt=1)  # ratios are clipped below 1 - clip_low
    clip_high: float = Field(default=0.28, ge=0)  # and above 1 + clip_high (clip-higher: arXiv 2503.14476)
    dual_clip: float | None = Field(default=None, gt=1)
    """Bound on the loss of tokens with negative advantage, in multiples of it (arXiv 1912.09729)."""


def ppo(tokens: "LossInputs", config: PpoConfig) -> "tuple[Tensor, Metrics]":
    """PPO (arXiv 1707.06347): per token, with r the ratio and A the advantage, ``-min(r A, clip(r, 1 - low, 1 + high) A)``.

    For A < 0 at most ``-dual A``. With ``ratio_to = proximal`` clipped to the weights before the batch's first update, and
    weighted by proximal over sampler.
    """
    ratio = _ratio(tokens, config.ratio_to)
    loss, clipped = _clipped(ratio, tokens.need("advantages"), config.clip_low, config.clip_high, config.dual_clip)
    return _reduced(tokens, config, ratio, loss, clipped=clipped)


def _clipped(
    ratio: "Tensor", advantages: "Tensor", low: float, high: float, dual: float | None = None
) -> "tuple[Tensor, Tensor]":
    """PPO's loss of each token, and where a clip took the gradient away."""
    plain, clipped = -ratio * advantages, -ratio.clamp(1.0 - low, 1.0 + high) * advantages
    loss, is_clipped = plain.maximum(clipped), clipped > plain
    if dual is not None:
        bound = -dual * advantages
        is_clipped = is_clipped | ((advantages < 0) & (loss > bound))
        loss = loss.minimum(bound).where(advantages < 0, loss)
    return loss, is_clipped


class GspoConfig(PolicyLoss):
    """One ratio for a whole row, the geometric mean of its tokens' (GSPO, arXiv 2507.18071), clipped like PPO's."""

    kind: str = "gspo"
    clip_low: float = Field(default=3e-4, ge=0, lt=1)  # as PPO's, for a row's ratio
    clip_high: float = Field(default=4e-4, ge=0)  # a row's ratio moves far less than a token's: the paper's value


def gspo(tokens: "LossInputs", config: GspoConfig) -> "tuple[Tensor, Metrics]":
    """Per token ``sg(s) * exp(log p - sg(log p))``, s the row's ratio, clipped like PPO's.

    Its gradient is ``s * grad log p``. (With ``log p / sg(log p)``, as AgentRL has it, its sign is inverted.)
    """
    gap = tokens.logprobs.detach() - _anchor(tokens, config.ratio_to)
    ratio = bounded(_row_mean(tokens, gap)).exp() * (tokens.logprobs - tokens.logprobs.detach()).exp()
    loss, clipped = _clipped(ratio, tokens.need("advantages"), config.clip_low, config.clip_high)
    return _reduced(tokens, config, ratio, loss, clipped=clipped)


class CispoConfig(PolicyLoss):
    """REINFORCE with a capped, detached importance weight (CISPO, arXiv 2506.13585): no token loses its gradient."""

    kind: str = "cispo"
    most: float = Field(default=2.0, gt=0)  # largest importance weight


def cispo(tokens: "LossInputs", config: CispoConfig) -> "tuple[Tensor, Metrics]":
    """``-sg(min(r, most)) · A · log p``: unlike a clip it leaves rare tokens, at which behaviour branches, their gradient."""
    ratio = _ratio(tokens, config.ratio_to)
    loss = -ratio.detach().clamp(max=config.most) * tokens.need("advantages") * tokens.logprobs
    return _reduced(tokens, config, ratio, loss)


class MinirlConfig(PolicyLoss):
    """REINFORCE with the detached ratio as it is, and tokens dropped beyond bounds (AgentCPM-Explore's MINIRL)."""

    kind: str = "minirl"
    least: float = Field(default=0.2, ge=0)
    """A token with a negative advantage is dropped below this ratio to the sampler (AgentRL: 0.2; ``strict_in_bound``: 0.8)."""
    most: float = Field(default=2.2, gt=0)  # one with a positive advantage is dropped above it (2.2; 1.3)


def minirl(tokens: "LossInputs", config: MinirlConfig) -> "tuple[Tensor, Metrics]":
    """``-sg(r) · A · log p``: nothing is clipped; a token that has gone too far in its advantage's direction is dropped."""
    ratio, advantages = _ratio(tokens, config.ratio_to), tokens.need("advantages")
    so_far = ratio.detach()
    if config.ratio_to is RatioTo.PROXIMAL:
        so_far = so_far * bounded(_anchor(tokens, config.ratio_to) - tokens.need("sampler")).exp()
    beyond = ((so_far > config.most) & (advantages > 0)) | ((so_far < config.least) & (advantages < 0))
    return _reduced(tokens, config, ratio, -ratio.detach() * advantages * tokens.logprobs, beyond=beyond)


LOSSES = {"ppo": ppo, "gspo": gspo, "cispo": cispo, "minirl": minirl}
CHOICE = Choice("loss", LOSSES, PolicyLoss)
LossConfig = Annotated[PolicyLoss, CHOICE]  # settings of the loss that ``kind`` names


def build_loss(config: PolicyLoss) -> "Loss":
    """The loss that a configuration describes.

    It raises ValueError for rows that lack what is asked for, UserError where whole rows are compared and are not there.
    """
    chosen = CHOICE.bound(config)

    def loss(tokens: "LossInputs") -> "tuple[Tensor, Metrics]":
        found, given = chosen(tokens), tokens.logprobs
        if isinstance(found, tuple):
            return found
        if getattr(found, "shape", None) != given.shape:
            got = f"a tensor of shape {tuple(found.shape)}" if hasattr(found, "shape") else type(found).__name__
            raise UserError(
                f"The loss {config.kind} returned {got}: it has to be each token's loss, unweighted, of shape "
                f"{tuple(given.shape)}, or a weighted sum and a dict of what is reported."
            )
        if given.requires_grad and not found.requires_grad:
            if bool(found.any()):
                raise UserError(f"The loss {config.kind} has no gradient: make it of tokens.logprobs, undetached.")
            found = found + 0.0 * given  # of a micro-batch without anything to learn
        return _reduced(tokens, config, _ratio(tokens, config.ratio_to), found)

    return loss


# -- what they are made of -----------------------------------------------------------------------------------------------


def _anchor(tokens: "LossInputs", to: RatioTo) -> "Tensor":
    """Log-probabilities under the policy that ratios are taken to, without gradient. Raises ValueError where rows lack it."""
    if to is RatioTo.SAMPLER:
        return tokens.need("sampler")
    return tokens.logprobs.detach() if tokens.proximal is None else tokens.proximal


def _ratio(tokens: "LossInputs", to: RatioTo) -> "Tensor":
    return bounded(tokens.logprobs - _anchor(tokens, to)).exp()


def bounded(gap: "Tensor") -> "Tensor":
    """The log-ratio within the limit. Its gradient passes: a clamp's would vanish exactly where the policy is furthest off."""
    return gap + (gap.clamp(-LIMIT, LIMIT) - gap).detach()


def _reduced(
    tokens: "LossInputs",
    config: PolicyLoss,
    ratio: "Tensor",
    loss: "Tensor",
    *,
    clipped: "Tensor | None" = None,
    beyond: "Tensor | None" = None,
) -> "tuple[Tensor, Metrics]":
    """The weighted sum of corrected losses and the KL, and what every policy loss reports.

    What is masked (``beyond`` among it) still counts in the loss's normalisation: it weakens an update and changes no other
    token's weight. ``clipped``: where the formula took the gradient away.
    """
    none = ratio.detach().new_zeros(ratio.shape).bool()
    clipped = none if clipped is None else clipped
    importance, masked, vetoed = correction(tokens, config)
    masked = masked | (none if beyond is None else beyond)
    factor = importance * ~(masked | vetoed)
    # A masked token's loss may be anything: zero times infinity would not be zero.
    loss = loss.where(factor > 0, 0.0) * factor
    shares = {"clipped": clipped, "masked": masked, "vetoed": vetoed, "stopped": clipped | masked | vetoed}
    metrics: Metrics = {"ratio": ratio.detach(), "importance": importance, **{key: one.float() for key, one in shares.items()}}
    if config.kl_coef > 0:
        gap = bounded(tokens.logprobs - tokens.need("reference"))
        kl = (-gap).exp() + gap - 1.0
        if config.kl_limit is not None:
            kl = kl.clamp(max=config.kl_limit)
        metrics["kl_reference"] = kl.detach()
        loss = loss + config.kl_coef * kl
    if tokens.sampler is not None:  # k3 of KL(sampler || model), and absolute differences
        gap = tokens.logprobs.detach() - tokens.sampler
        near = bounded(gap)
        metrics |= {"kl_sampler": near.exp() - near - 1.0, "sampler_gap": gap.abs()}
    return (tokens.weights * loss).sum(), metrics


def correction(tokens: "LossInputs", config: PolicyLoss) -> "tuple[Tensor, Tensor, Tensor]":
    """The importance weight of each token [N], and which are masked and vetoed.

    With q the trainer-to-sampler ratio of a token (proximal / sampler; without a proximal policy, present / sampler), without
    its gradient: tokens count ``min(q, cap)`` times (only with a proximal policy); not at all with q outside [low, high], or in
    a row with any q below ``veto``. Raises ValueError for rows without the sampler's log-probabilities where they are needed,
    UserError for a veto over rows that are not whole.
    """
    settings, decoupled = config.correction, config.ratio_to is RatioTo.PROXIMAL
    present = tokens.logprobs.detach()
    importance, none = present.new_ones(present.shape), present.new_zeros(present.shape).bool()
    masked = vetoed = none
    ranged = settings.low is not None or settings.high is not None
    if decoupled or ranged or settings.veto is not None:
        share = bounded((_anchor(tokens, config.ratio_to) if decoupled else present) - tokens.need("sampler")).exp()
        if decoupled:
            importance = share if settings.cap is None else share.clamp(max=settings.cap)
        if ranged:
            masked = (share < (settings.low or 0.0)) | (share > (math.inf if settings.high is None else settings.high))
        if settings.veto is not None:
            vetoed = _row_mean(tokens, (share < settings.veto).float()) > 0
    return importance, masked, vetoed


def _row_mean(tokens: "LossInputs", values: "Tensor") -> "Tensor":
    """For each token the mean over its row's trained tokens. Raises UserError where rows are not whole."""
    rows = tokens.sequence
    if rows is None:
        raise UserError(
            "GSPO and a veto are over whole rows, and here several devices share each row: set parallel.context to 1, or "
            "choose another loss and leave rl.loss.correction.veto out."
        )
    count = int(rows.max()) + 1 if rows.numel() else 0
    totals = values.new_zeros(count).index_add(0, rows, values)
    return (totals / rows.bincount(minlength=count))[rows]
