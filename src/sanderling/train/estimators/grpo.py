"""GRPO (arXiv 2402.03300): the outcome's z-score within the group, the same for every turn of a trajectory."""

import numpy as np

from sanderling.train.contract import TurnTable
from sanderling.train.credit_config import Deviation, GrpoConfig
from sanderling.train.estimators.groups import Components, outcome_credit, outcomes, z_scores


def grpo(table: TurnTable, config: GrpoConfig) -> Components:
    """Advantages [K] in parts; groups whose outcomes are all equal get 0 (before format penalties)."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        advantage[members] = z_scores(found.outcome[members], ddof=config.deviation is Deviation.SAMPLE)
    return outcome_credit(table, found, advantage, config.penalty_weight)
