"""The clipped policy gradient (PPO, arXiv 1707.06347) with clip-higher, dual clip, truncated importance sampling and a k3 KL.

Per token, with r the ratio to the chosen policy and A the advantage: ``-min(r A, clip(r, 1 - low, 1 + high) A)``; for A < 0 at
most ``-dual A``; times ``min(proximal / sampler, cap)`` where the ratio is to the proximal policy; plus ``kl_coef`` times
``exp(ref - new) - (ref - new) - 1``.
"""

import torch
from torch import Tensor

from sanderling.train.credit_config import PpoConfig, RatioTo
from sanderling.train.losses.contract import LossInputs, Metrics

_LIMIT = 20.0
"""Log-ratios are clamped to this size, so that one outlier is large but finite."""


class Ppo:
    """The loss for one configuration."""

    def __init__(self, config: PpoConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError when the rows lack what the configuration needs."""
        config, advantages = self.config, tokens.need("advantages")
        ratio = (tokens.logprobs - self._anchor(tokens)).clamp(-_LIMIT, _LIMIT).exp()
        clipped = ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
        loss = torch.maximum(-ratio * advantages, -clipped * advantages)
        is_clipped = (-clipped * advantages) > (-ratio * advantages)
        if config.dual_clip is not None:
            loss = torch.where(advantages < 0, torch.minimum(loss, -config.dual_clip * advantages), loss)
        loss = loss * self._importance(tokens)
        metrics: Metrics = {"ratio": ratio.detach(), "clipped": is_clipped.float()}
        if config.kl_coef > 0:
            gap = (tokens.need("reference") - tokens.logprobs).clamp(-_LIMIT, _LIMIT)
            kl = gap.exp() - gap - 1.0
            loss = loss + config.kl_coef * kl
            metrics["kl_reference"] = kl.detach()
        return (tokens.weights * loss).sum(), {**metrics, **sampler_gap(tokens)}

    def _anchor(self, tokens: LossInputs) -> Tensor:
        if self.config.ratio_to is RatioTo.SAMPLER:
            return tokens.need("sampler")
        return tokens.logprobs.detach() if tokens.proximal is None else tokens.proximal

    def _importance(self, tokens: LossInputs) -> Tensor | float:
        """Truncated importance weight of the proximal policy against the sampler; without gradient."""
        if self.config.ratio_to is RatioTo.SAMPLER or self.config.importance_cap is None:
            return 1.0
        gap = (self._anchor(tokens) - tokens.need("sampler")).clamp(-_LIMIT, _LIMIT)
        return gap.exp().clamp(max=self.config.importance_cap)


def sampler_gap(tokens: LossInputs) -> Metrics:
    """How far the model being trained is from the sampler: the k3 estimate of KL, and the mean absolute difference."""
    if tokens.sampler is None:
        return {}
    gap = (tokens.logprobs.detach() - tokens.sampler).clamp(-_LIMIT, _LIMIT)
    return {"kl_sampler": gap.exp() - gap - 1.0, "sampler_gap": gap.abs()}
