"""What policy losses share: the clipped surrogate, the KL to a reference, and how per-token losses become a scalar."""

import torch
from torch import Tensor

from sanderling.train.credit_config import KlForm, PolicyLoss
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.corrections import correction
from sanderling.train.losses.ratios import LIMIT, bounded


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, low: float, high: float, dual: float | None = None
) -> tuple[Tensor, Tensor]:
    """``-min(r A, clip(r, 1 - low, 1 + high) A)``, for A < 0 at most ``-dual A``; and 1.0 where that took the gradient away."""
    plain, clipped = -ratio * advantages, -ratio.clamp(1.0 - low, 1.0 + high) * advantages
    loss = torch.maximum(plain, clipped)
    is_clipped = clipped > plain
    if dual is not None:
        bound = -dual * advantages
        is_clipped = is_clipped | ((advantages < 0) & (loss > bound))
        loss = torch.where(advantages < 0, torch.minimum(loss, bound), loss)
    return loss, is_clipped.float()


def reduced(tokens: LossInputs, config: PolicyLoss, loss: Tensor, ratio: Tensor, clipped: Tensor) -> tuple[Tensor, Metrics]:
    """The weighted sum of corrected losses and the KL, and what every policy loss reports; ``ratio`` with its gradient."""
    factor, seen = correction(tokens, config, ratio)
    # A masked token's loss may be anything: zero times infinity would not be zero.
    loss = torch.where(factor > 0, loss, 0.0) * factor
    metrics: Metrics = {"ratio": ratio.detach(), "clipped": clipped, **seen}
    if config.kl_coef > 0:
        kl = kl_estimate(tokens.logprobs - tokens.need("reference"), config.kl_form)
        metrics["kl_reference"] = kl.detach()
        loss = loss + config.kl_coef * (kl * ratio if config.kl_weighted else kl)
    return (tokens.weights * loss).sum(), {**metrics, **sampler_gap(tokens)}


def kl_estimate(gap: Tensor, form: KlForm) -> Tensor:
    """Of KL(policy || reference), from ``gap`` = log policy - log reference of sampled tokens."""
    gap = bounded(gap)
    if form is KlForm.K1:
        return gap
    half_square = 0.5 * gap.square()
    if form is KlForm.K2:
        return half_square
    k3 = (-gap).exp() + gap - 1.0
    return k3 if form is KlForm.K3 else half_square + (k3 - half_square).detach()


def sampler_gap(tokens: LossInputs) -> Metrics:
    """How far the model is from the sampler: k3 of KL(sampler || model), absolute differences, tokens beyond the limit."""
    if tokens.sampler is None:
        return {}
    gap = tokens.logprobs.detach() - tokens.sampler
    near = bounded(gap)
    return {"kl_sampler": near.exp() - near - 1.0, "sampler_gap": gap.abs(), "outlier": (gap.abs() > LIMIT).float()}
