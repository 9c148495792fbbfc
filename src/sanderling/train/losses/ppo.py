"""The clipped policy gradient (PPO, arXiv 1707.06347), with clip-higher, dual clip, and decoupled from the sampler by name.

Per token, with r the ratio to the chosen policy and A the advantage: ``-min(r A, clip(r, 1 - low, 1 + high) A)``; for A < 0 at
most ``-dual A``. With ``ratio_to = proximal`` it is decoupled PPO: clipped to the weights before the batch's first update, and
weighted by proximal over sampler (`corrections`).
"""

from torch import Tensor

from sanderling.train.credit_config import PpoConfig
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.policy import clipped_surrogate, reduced
from sanderling.train.losses.ratios import bounded, log_ratio


class Ppo:
    """The loss for one configuration."""

    def __init__(self, config: PpoConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError when the rows lack what the configuration needs."""
        config = self.config
        ratio = bounded(log_ratio(tokens, config.ratio_to)).exp()
        clip = config.clip_low, config.clip_high, config.dual_clip
        loss, clipped = clipped_surrogate(ratio, tokens.need("advantages"), *clip)
        return reduced(tokens, config, loss, ratio, clipped)
