"""MINIRL (AgentCPM-Explore): ``-sg(r) · A · log p``, the policy gradient with its importance weight as it is.

Nothing is clipped; tokens whose ratio has gone too far in the direction of their advantage are dropped (`corrections`).
"""

import torch
from torch import Tensor

from sanderling.train.credit_config import MinirlConfig
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.policy import reduced
from sanderling.train.losses.ratios import bounded, log_ratio


class Minirl:
    """The loss for one configuration."""

    def __init__(self, config: MinirlConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError when the rows lack what the configuration needs."""
        ratio = bounded(log_ratio(tokens, self.config.ratio_to)).exp()
        loss = -ratio.detach() * tokens.need("advantages") * tokens.logprobs
        return reduced(tokens, self.config, loss, ratio, torch.zeros_like(loss.detach()))
