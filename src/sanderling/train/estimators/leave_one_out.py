"""Leave-one-out (RLOO, arXiv 2402.14740): the outcome minus the mean of the group's other scored rollouts."""

import numpy as np

from sanderling.train.contract import FloatArray, TurnTable
from sanderling.train.credit_config import LeaveOneOutConfig
from sanderling.train.estimators.groups import differ, outcomes, with_penalty


def leave_one_out(table: TurnTable, config: LeaveOneOutConfig) -> FloatArray:
    """Advantages [K]; a rollout without scored companions gets 0."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - (values.sum() - values) / (members.size - 1)
    return with_penalty(advantage[found.of_turn], table, config.penalty_weight)
