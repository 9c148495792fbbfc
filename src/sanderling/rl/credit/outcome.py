"""Credit from outcomes alone, the same for every turn of a trajectory: GRPO, Dr. GRPO, leave-one-out, with their settings."""

from enum import StrEnum
from typing import Literal

import numpy as np
from pydantic import Field

from sanderling.rl.credit.groups import Components, Estimating, differ, outcome_credit, outcomes, z_scores
from sanderling.rl.credit.table import TurnTable


class Deviation(StrEnum):
    """Which standard deviation outcomes are divided by."""

    POPULATION = "population"
    """Over n (DR-Venus)."""
    SAMPLE = "sample"
    """Over n - 1 (LiteResearcher; TRL)."""


class GrpoConfig(Estimating):
    """Outcome minus the group's mean, over the group's standard deviation (arXiv 2402.03300)."""

    kind: Literal["grpo"] = "grpo"
    deviation: Deviation = Deviation.POPULATION


class DrGrpoConfig(Estimating):
    """Outcome minus the group's mean (Dr. GRPO, arXiv 2503.20783)."""

    kind: Literal["dr_grpo"] = "dr_grpo"


class LeaveOneOutConfig(Estimating):
    """Outcome minus the mean of the group's other rollouts (RLOO, arXiv 2402.14740)."""

    kind: Literal["leave_one_out"] = "leave_one_out"
    right_above: float | None = None
    """Sign constraint: outcomes up to this get at most 0, those above at least 0 (AgentCPM-Explore: 0.5). None: none."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the advantage (AgentCPM-Explore's ``adv_scaling``: 1, in its scripts 2)."""


def grpo(table: TurnTable, config: GrpoConfig) -> Components:
    """Advantages [K] in parts; groups whose outcomes are all equal get 0 (before format penalties)."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        advantage[members] = z_scores(found.outcome[members], ddof=config.deviation is Deviation.SAMPLE)
    return outcome_credit(table, found, advantage, config.penalty_weight)


def dr_grpo(table: TurnTable, config: DrGrpoConfig) -> Components:
    """Advantages [K] in parts."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - values.mean()
    return outcome_credit(table, found, advantage, config.penalty_weight)


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
