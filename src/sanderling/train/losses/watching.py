"""What a run watches of its ratios and of its sampler, beside the means that a loss reports. Wraps any loss.

Everything is a per-token value, so that its mean over micro-batches, ranks and updates is what it should be.
"""

from itertools import pairwise

import torch
from torch import Tensor

from sanderling.train.losses.contract import Loss, LossInputs, Metrics

EDGES = (0.0, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, float("inf"))
"""Roughly even in the logarithm around 1, with the usual clips among them."""
FAR = (0.5, 2.0)


class Watching:
    """A loss that also reports how ratios are distributed, which tokens it stops, and fresh tokens' gap to the sampler."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """The loss itself, unchanged."""
        value, metrics = self.loss(tokens)
        return value, {**metrics, **ratio_bins(metrics), **stopped(metrics), **fresh_gap(tokens)}


def stopped(metrics: Metrics) -> Metrics:
    """``stopped``: whatever the loss calls it, nothing was learnt from the token: ``clipped``, ``masked`` or ``vetoed``."""
    found = [metrics[name] for name in ("clipped", "masked", "vetoed") if name in metrics]
    return {"stopped": torch.stack(found).amax(dim=0)} if found else {}


def ratio_bins(metrics: Metrics) -> Metrics:
    """Of the loss's ``ratio``: ``ratio_0.8_0.95`` and its like, lower edge included; ``ratio_far``: below 1/2 or above 2."""
    if "ratio" not in metrics:
        return {}
    ratio = metrics["ratio"]
    bins = {f"ratio_{low:g}_{high:g}": ((ratio >= low) & (ratio < high)).float() for low, high in pairwise(EDGES)}
    return {**bins, "ratio_far": ((ratio < FAR[0]) | (ratio > FAR[1])).float()}


def fresh_gap(tokens: LossInputs) -> Metrics:
    """``fresh``: the very weights that are updated sampled the token; ``fresh_gap``: its gap to the sampler then, else 0.

    Nor may any before it in its row be older: a sampler keeps their keys, which are then of other weights than the trainer's.
    """
    if tokens.sampler is None or tokens.age is None:
        return {}
    fresh = (_older_so_far(tokens.age, tokens.sequence) == 0).float()
    return {"fresh": fresh, "fresh_gap": (tokens.logprobs.detach() - tokens.sampler).abs() * fresh}


def _older_so_far(age: Tensor, sequence: Tensor | None) -> Tensor:
    """Tokens of the row, up to and with each, that older weights sampled; without rows each token is looked at alone."""
    if sequence is None or not len(age):
        return age > 0
    order = torch.argsort(sequence, stable=True)
    counted = (age > 0)[order].cumsum(0)
    _, sizes = torch.unique_consecutive(sequence[order], return_counts=True)
    last = counted[sizes.cumsum(0) - 1]
    before = torch.cat([last.new_zeros(1), last[:-1]])
    found = torch.empty_like(counted)
    found[order] = counted - before.repeat_interleave(sizes, output_size=len(age))
    return found
