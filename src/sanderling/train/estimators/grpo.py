"""GRPO (arXiv 2402.03300): the outcome's z-score within the group, the same for every turn of a trajectory."""

import numpy as np

from sanderling.train.contract import FloatArray, TurnTable
from sanderling.train.credit_config import GrpoConfig
from sanderling.train.estimators.groups import outcomes, with_penalty, z_scores


def grpo(table: TurnTable, config: GrpoConfig) -> FloatArray:
    """Advantages [K]; groups whose outcomes are all equal get 0 (before format penalties)."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        advantage[members] = z_scores(found.outcome[members])
    return with_penalty(advantage[found.of_turn], table, config.penalty_weight)
