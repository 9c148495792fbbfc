"""REINFORCE with a capped importance weight (CISPO, arXiv 2506.13585): ``-min(r, cap) · A · log p`` with the weight detached.

Unlike a clipped ratio it never takes a token's gradient away, which matters for rare tokens at which behaviour branches.
"""

from torch import Tensor

from sanderling.train.credit_config import CispoConfig
from sanderling.train.losses.contract import LossInputs, Metrics
from sanderling.train.losses.ppo import sampler_gap


class Cispo:
    """The loss for one configuration."""

    def __init__(self, config: CispoConfig) -> None:
        self.config = config

    def __call__(self, tokens: LossInputs) -> tuple[Tensor, Metrics]:
        """Weighted sum over tokens. Raises ValueError when the rows lack advantages or sampler log-probabilities."""
        ratio = (tokens.logprobs.detach() - tokens.need("sampler")).clamp(-20.0, 20.0).exp()
        weight = ratio.clamp(max=self.config.cap)
        loss = -weight * tokens.need("advantages") * tokens.logprobs
        metrics: Metrics = {"ratio": ratio, "clipped": (ratio > self.config.cap).float()}
        return (tokens.weights * loss).sum(), {**metrics, **sampler_gap(tokens)}
