"""Leave-one-out: a rollout's outcome against the mean of the group's others, with AgentCPM-Explore's sign constraint."""

import numpy as np
from pydantic import Field

from sanderling.rl.credit.table import Components, Estimating, TurnTable, outcome_credit
from sanderling.train.contract import FloatArray


class LeaveOneOutConfig(Estimating):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    kind: str = "leave_one_out"
    right_above: float | None = None
    """Sign constraint: outcomes up to this get at most 0, those above at least 0 (AgentCPM-Explore: 0.5). None: none."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the advantage (AgentCPM-Explore's ``adv_scaling``: 1, in its scripts 2)."""


def leave_one_out(table: TurnTable, config: LeaveOneOutConfig) -> Components:
    """``scale * (o - mean of the others)``."""

    def advantage(outcomes: FloatArray) -> FloatArray:
        found = config.scale * (outcomes - (outcomes.sum() - outcomes) / (outcomes.size - 1))
        if config.right_above is None:
            return found
        return np.where(outcomes > config.right_above, np.maximum(found, 0.0), np.minimum(found, 0.0))

    return outcome_credit(table, config, advantage)
