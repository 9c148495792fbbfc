"""Estimators of credit: pure functions of a turn table, one small file each, and the literal table of those a recipe names."""

from dataclasses import dataclass

from sanderling.train.contract import FloatArray, TurnTable
from sanderling.train.credit_config import DrGrpoConfig, EstimatorConfig, GrpoConfig, IgpoConfig, LeaveOneOutConfig
from sanderling.train.estimators.dr_grpo import dr_grpo
from sanderling.train.estimators.groups import Components
from sanderling.train.estimators.grpo import grpo
from sanderling.train.estimators.igpo import igpo
from sanderling.train.estimators.leave_one_out import leave_one_out

ESTIMATORS = {GrpoConfig: grpo, DrGrpoConfig: dr_grpo, LeaveOneOutConfig: leave_one_out, IgpoConfig: igpo}


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
