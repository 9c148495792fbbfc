"""What a loss is: a function of :class:`LossInputs` to a scalar to be minimised, and per-token figures.

A loss knows neither models nor batches. Weights arrive normalised over the whole optimizer batch, so losses of micro-batches
simply add up. The trainer reports each figure's mean over the batch's trained tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LossInputs:
    """The N trained tokens of a micro-batch; every tensor but ``sequence`` is float32 [N]."""

    logprobs: Tensor
    """Under the model being trained; the only one with a gradient."""
    weights: Tensor
    advantages: Tensor | None = None
    sampler: Tensor | None = None
    """Log-probabilities under the distribution the token was sampled from."""
    proximal: Tensor | None = None
    """Under the trainer's own weights before this batch's first update."""
    reference: Tensor | None = None
    sequence: Tensor | None = None
    """int64 [N]: which row of the micro-batch each token belongs to; rows are whole."""
    age: Tensor | None = None
    """Updates between the version that sampled the token and the weights being trained."""

    def need(self, name: str) -> Tensor:
        """The named tensor. Raises ValueError when the rows did not bring it."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"this loss needs {name}, and the rows have none")
        return value


Metrics = dict[str, Tensor]
"""Per-token values [N] by name; the trainer reports their mean over the batch."""
Loss = Callable[[LossInputs], tuple[Tensor, Metrics]]


def sft(tokens: LossInputs) -> tuple[Tensor, Metrics]:
    """The weighted negative log-likelihood: with ``token_mean`` the mean over all trained tokens of the optimizer batch."""
    return -(tokens.weights * tokens.logprobs).sum(), {"nll": -tokens.logprobs.detach()}
