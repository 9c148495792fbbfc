"""Dr. GRPO (arXiv 2503.20783): the outcome minus its group's mean; no division, which would favour easy and hard questions."""

import numpy as np

from sanderling.train.contract import FloatArray, TurnTable
from sanderling.train.credit_config import DrGrpoConfig
from sanderling.train.estimators.groups import differ, outcomes, with_penalty


def dr_grpo(table: TurnTable, config: DrGrpoConfig) -> FloatArray:
    """Advantages [K]."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - values.mean()
    return with_penalty(advantage[found.of_turn], table, config.penalty_weight)
