"""What is done about tokens that the sampler and the trainer see differently: weights, masks and a veto, for every loss alike.

With q the trainer-to-sampler ratio of a token (proximal / sampler; without a proximal policy, present / sampler), without its
gradient: tokens count ``min(max(q, floor), cap)`` times (only with a proximal policy: a loss whose ratio is to the sampler has
that weight in it); not at all with q outside [low, high] (IcePop), in a row with any q below ``veto``, or when they have gone
too far in the direction of their advantage (AgentCPM-Explore's bounds). What is masked still counts in the loss's
normalisation, so a masked token weakens an update and changes no other token's weight.
"""

import torch
from torch import Tensor

from sanderling.train.credit_config import Level, PolicyLoss, RatioTo, SignBounds
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.ratios import anchor, bounded, row_sums


def correction(tokens: LossInputs, config: PolicyLoss, ratio: Tensor) -> tuple[Tensor, Metrics]:
    """Factor of each token's loss [N], and what was masked. ``ratio`` is the loss's own, of each token.

    Raises ValueError for rows that lack what is asked for, UserError for a veto over rows that are not whole.
    """
    settings, decoupled = config.correction, config.ratio_to is RatioTo.PROXIMAL
    ratio = ratio.detach()
    kept, vetoed = torch.ones_like(ratio, dtype=torch.bool), torch.zeros_like(ratio, dtype=torch.bool)
    weighs = decoupled and settings.weigh
    ranged = settings.low is not None or settings.high is not None
    importance = torch.ones_like(ratio)
    if weighs or ranged or settings.veto is not None or (decoupled and settings.bounds is not None):
        gap = (anchor(tokens, config.ratio_to) if decoupled else tokens.logprobs.detach()) - tokens.need("sampler")
        share = bounded(row_sums(tokens, gap)[0] if settings.level is Level.SEQUENCE else gap).exp()
        if weighs:
            importance = share.clamp(min=settings.floor or 0.0, max=settings.cap)
        if ranged:
            kept &= (share >= (settings.low or 0.0)) & (share <= (torch.inf if settings.high is None else settings.high))
        if settings.veto is not None:
            vetoed = row_sums(tokens, (bounded(gap).exp() < settings.veto).float())[0] > 0
        if decoupled:
            ratio = ratio * bounded(gap).exp()
    if settings.bounds is not None:
        kept &= ~_beyond(tokens, settings.bounds, ratio)
    weight = importance * (kept & ~vetoed)
    return weight, {"importance": importance, "masked": (~kept).float(), "vetoed": vetoed.float()}


def _beyond(tokens: LossInputs, bounds: SignBounds, ratio: Tensor) -> Tensor:
    """Tokens whose ratio to the sampler is beyond the bound on their advantage's side."""
    reach: Tensor | float = bounds.cap
    if bounds.strict:
        reach = 1.0
    elif bounds.decay is not None:
        reach = bounds.cap * (-bounds.decay * tokens.need("age").clamp(min=0.0)).exp()
    advantages = tokens.need("advantages")
    above = (ratio > 1.0 + bounds.high * reach) & (advantages > 0)
    return above | ((ratio < 1.0 - bounds.low * reach) & (advantages < 0))
