"""REINFORCE with a capped importance weight (CISPO, arXiv 2506.13585): ``-min(r, cap) · A · log p`` with the weight detached.

Unlike a clipped ratio it never takes a token's gradient away, which matters for rare tokens at which behaviour branches.
"""

import torch
from torch import Tensor

from sanderling.train.credit_config import CispoConfig
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.policy import reduced
from sanderling.train.losses.ratios import bounded, log_ratio


class Cispo:
    """The loss for one configuration."""

    def __init__(self, config: CispoConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError when the rows lack what the configuration needs."""
        ratio = bounded(log_ratio(tokens, self.config.ratio_to)).exp()
        weight = ratio.detach().clamp(max=self.config.cap)
        loss = -weight * tokens.need("advantages") * tokens.logprobs
        value, metrics = reduced(tokens, self.config, loss, ratio, torch.zeros_like(loss.detach()))
        return value, {**metrics, "weight_capped": (ratio.detach() > self.config.cap).float()}
