"""Losses: one small file each, and the literal table of those a recipe can name."""

from sanderling.train.credit_config import CispoConfig, GspoConfig, LossConfig, MinirlConfig, PpoConfig
from sanderling.train.losses.cispo import Cispo
from sanderling.train.losses.contract import Loss
from sanderling.train.losses.gspo import Gspo
from sanderling.train.losses.minirl import Minirl
from sanderling.train.losses.ppo import Ppo

LOSSES = {PpoConfig: Ppo, GspoConfig: Gspo, CispoConfig: Cispo, MinirlConfig: Minirl}


def build_loss(config: LossConfig) -> Loss:
    """The loss that a configuration describes."""
    return LOSSES[type(config)](config)
