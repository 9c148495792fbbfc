"""How the ratios of a step are distributed: shares of tokens by bin, beside the mean that a loss reports. Wraps any loss.

Shares are per-token zeros and ones, so that their means over micro-batches, ranks and updates are what they should be.
"""

from itertools import pairwise

from torch import Tensor

from sanderling.train.losses.contract import Loss, LossInputs, Metrics

EDGES = (0.0, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, float("inf"))
"""Roughly even in the logarithm around 1, with the usual clips among them."""
FAR = (0.5, 2.0)


class WithRatioBins:
    """A loss that reports, for the ``ratio`` among its metrics, the share of tokens in each bin, and outside ``FAR``."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """The loss itself, unchanged."""
        value, metrics = self.loss(tokens)
        ratio = metrics.get("ratio")
        return value, metrics if ratio is None else {**metrics, **ratio_bins(ratio)}


def ratio_bins(ratio: Tensor) -> Metrics:
    """``ratio_0.8_0.95`` and its like, lower edge included; ``ratio_far``: below 1/2 or above 2."""
    bins = {f"ratio_{low:g}_{high:g}": ((ratio >= low) & (ratio < high)).float() for low, high in pairwise(EDGES)}
    return {**bins, "ratio_far": ((ratio < FAR[0]) | (ratio > FAR[1])).float()}
