"""Dr. GRPO (arXiv 2503.20783): the outcome minus its group's mean; no division, which would favour easy and hard questions."""

import numpy as np

from sanderling.train.contract import TurnTable
from sanderling.train.credit_config import DrGrpoConfig
from sanderling.train.estimators.groups import Components, differ, outcome_credit, outcomes


def dr_grpo(table: TurnTable, config: DrGrpoConfig) -> Components:
    """Advantages [K] in parts."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - values.mean()
    return outcome_credit(table, found, advantage, config.penalty_weight)
