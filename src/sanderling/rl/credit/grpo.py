"""GRPO and Dr. GRPO: a rollout's outcome against its group's mean, the same credit for every turn."""

from enum import StrEnum

import numpy as np

from sanderling.rl.credit.table import Components, Estimating, TurnTable, differ, outcome_credit, outcomes, z_scores


class Deviation(StrEnum):
    """Which standard deviation outcomes are divided by."""

    POPULATION = "population"
    """Over n (DR-Venus)."""
    SAMPLE = "sample"
    """Over n - 1 (LiteResearcher; TRL)."""


class GrpoConfig(Estimating):
    """Outcome minus the group's mean, over the group's standard deviation (arXiv 2402.03300)."""

    kind: str = "grpo"
    deviation: Deviation = Deviation.POPULATION


class DrGrpoConfig(Estimating):
    """Outcome minus the group's mean (Dr. GRPO, arXiv 2503.20783)."""

    kind: str = "dr_grpo"


def grpo(table: TurnTable, config: GrpoConfig) -> Components:
    """``(o - mean) / (std + eps)``; groups whose outcomes are all equal get 0 (before format penalties)."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        advantage[members] = z_scores(found.outcome[members], ddof=config.deviation is Deviation.SAMPLE)
    return outcome_credit(table, found, advantage, config.penalty_weight)


def dr_grpo(table: TurnTable, config: DrGrpoConfig) -> Components:
    """``o - mean``."""
    found = outcomes(table)
    advantage = np.zeros(len(found.outcome))
    for members in found.groups():
        values = found.outcome[members]
        if differ(values):
            advantage[members] = values - values.mean()
    return outcome_credit(table, found, advantage, config.penalty_weight)
