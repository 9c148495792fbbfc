"""Estimators of credit: pure functions of a turn table, with their settings, and the literal table of those a recipe names."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from sanderling.rl.credit.groups import Components
from sanderling.rl.credit.igpo import IgpoConfig, igpo
from sanderling.rl.credit.outcome import (
    DrGrpoConfig,
    GrpoConfig,
    LeaveOneOutConfig,
    dr_grpo,
    grpo,
    leave_one_out,
)
from sanderling.rl.credit.table import TurnTable
from sanderling.train.contract import FloatArray

EstimatorConfig = Annotated[GrpoConfig | DrGrpoConfig | LeaveOneOutConfig | IgpoConfig, Field(discriminator="kind")]
ESTIMATORS: dict[type, Any] = {GrpoConfig: grpo, DrGrpoConfig: dr_grpo, LeaveOneOutConfig: leave_one_out, IgpoConfig: igpo}


@dataclass(frozen=True)
class Credit:
    """One configured estimator."""

    config: EstimatorConfig

    def components(self, table: TurnTable) -> Components:
        """Advantages in their parts: of the outcome, of information gain, of format penalties."""
        return ESTIMATORS[type(self.config)](table, self.config)

    def __call__(self, table: TurnTable) -> FloatArray:
        """Advantages [K]: the sum of the parts."""
        return self.components(table).total


def build_estimator(config: EstimatorConfig) -> Credit:
    """The estimator that a configuration describes."""
    return Credit(config)
