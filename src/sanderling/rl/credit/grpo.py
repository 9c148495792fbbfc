"""GRPO and Dr. GRPO: a rollout's outcome against its group's mean, the same credit for every turn."""

from enum import StrEnum

from sanderling.rl.credit.table import Components, Estimating, TurnTable, outcome_credit, z_scores


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
    """``(o - mean) / (std + eps)``."""
    ddof = config.deviation is Deviation.SAMPLE
    return outcome_credit(table, config, lambda outcomes: z_scores(outcomes, ddof))


def dr_grpo(table: TurnTable, config: DrGrpoConfig) -> Components:
    """``o - mean``."""
    return outcome_credit(table, config, lambda outcomes: outcomes - outcomes.mean())
