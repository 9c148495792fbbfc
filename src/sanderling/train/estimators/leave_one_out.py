"""Leave-one-out (RLOO, arXiv 2402.14740): the outcome minus the mean of the group's other scored rollouts.

AgentCPM-Explore adds a sign constraint (a wrong answer is never encouraged, a right one never discouraged) and a factor.
"""

import numpy as np

from sanderling.train.contract import TurnTable
from sanderling.train.credit_config import LeaveOneOutConfig
from sanderling.train.estimators.groups import Components, differ, outcome_credit, outcomes


def leave_one_out(table: TurnTable, config: LeaveOneOutConfig) -> Components:
    """Advantages [K] in parts; a rollout without scored companions gets 0."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - (values.sum() - values) / (members.size - 1)
    if config.right_above is not None:
        right = found.outcome > config.right_above
        advantage = np.where(right, np.maximum(advantage, 0.0), np.minimum(advantage, 0.0))
    return outcome_credit(table, found, config.scale * advantage, config.penalty_weight)
