"""Supervised loss: the weighted negative log-likelihood.

With ``token_mean`` aggregation this is the mean over all trained tokens of the optimizer batch, whatever its micro-batches.
"""

from torch import Tensor

from sanderling.train.losses.contract import LossInputs, Metrics


def sft(tokens: LossInputs) -> tuple[Tensor, Metrics]:
    """``-sum(weights * logprobs)``."""
    return -(tokens.weights * tokens.logprobs).sum(), {"nll": -tokens.logprobs.detach()}
