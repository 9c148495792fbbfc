"""GSPO (arXiv 2507.18071), in its form for advantages of single tokens: one ratio for a row, clipped like PPO's.

``s = exp(mean over the row of log policy - log anchor)`` and, per token, ``s_t = sg(s) * exp(log p - sg(log p))``: its value is
s, its gradient ``s * grad log p``. Where a row's advantages are all equal this is the gradient of s itself. (A factor written
``log p / sg(log p)`` also has the value 1, and the gradient's sign the wrong way round, since log p is negative.)
"""

from torch import Tensor

from sanderling.train.credit_config import GspoConfig
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.policy import clipped_surrogate, reduced
from sanderling.train.losses.ratios import bounded, log_ratio, row_sums


class Gspo:
    """The loss for one configuration."""

    def __init__(self, config: GspoConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError for what rows lack, UserError where rows are not whole."""
        config = self.config
        total, count = row_sums(tokens, log_ratio(tokens, config.ratio_to).detach())
        ratio = bounded(total / count).exp() * (tokens.logprobs - tokens.logprobs.detach()).exp()
        loss, clipped = clipped_surrogate(ratio, tokens.need("advantages"), config.clip_low, config.clip_high)
        return reduced(tokens, config, loss, ratio, clipped)
