"""Leave-one-out: a rollout's outcome against the mean of the group's others, with AgentCPM-Explore's sign constraint."""

import numpy as np
from pydantic import Field

from sanderling.rl.credit.table import Components, Estimating, TurnTable, differ, outcome_credit, outcomes


class LeaveOneOutConfig(Estimating):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    kind: str = "leave_one_out"
    right_above: float | None = None
    """Sign constraint: outcomes up to this get at most 0, those above at least 0 (AgentCPM-Explore: 0.5). None: none."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the advantage (AgentCPM-Explore's ``adv_scaling``: 1, in its scripts 2)."""


def leave_one_out(table: TurnTable, config: LeaveOneOutConfig) -> Components:
    """``scale * (o - mean of the others)``; a rollout without scored companions gets 0."""
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
