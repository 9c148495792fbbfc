"""Estimators of credit: pure functions of a turn table, one small file each, and the literal table of those a recipe names."""

from functools import partial

from sanderling.train.contract import Estimator
from sanderling.train.credit_config import DrGrpoConfig, EstimatorConfig, GrpoConfig, IgpoConfig, LeaveOneOutConfig
from sanderling.train.estimators.dr_grpo import dr_grpo
from sanderling.train.estimators.grpo import grpo
from sanderling.train.estimators.igpo import igpo
from sanderling.train.estimators.leave_one_out import leave_one_out

ESTIMATORS = {GrpoConfig: grpo, DrGrpoConfig: dr_grpo, LeaveOneOutConfig: leave_one_out, IgpoConfig: igpo}


def build_estimator(config: EstimatorConfig) -> Estimator:
    """The estimator that a configuration describes."""
    return partial(ESTIMATORS[type(config)], config=config)
