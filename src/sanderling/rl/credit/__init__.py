"""Credit: what each turn of a step did for its outcome. A pure function of the step's turns to one advantage per turn.

An estimator is a function ``(table, config)``; its settings are of the class that ``config`` is annotated with. One of your own
goes wherever a built-in's name does, as ``file.py:name``, and may return plain advantages [K]. To these the format penalty is
added, ``penalty_weight`` times each turn's; an estimator with a use of its own for it returns `Components`:

>>> def right_or_wrong(table: TurnTable) -> FloatArray:
...     return table.outcome - 0.5
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from sanderling.core.errors import UserError
from sanderling.core.plugins import Choice
from sanderling.rl.credit.grpo import DrGrpoConfig, GrpoConfig, dr_grpo, grpo
from sanderling.rl.credit.igpo import IgpoConfig, igpo
from sanderling.rl.credit.leave_one_out import LeaveOneOutConfig, leave_one_out
from sanderling.rl.credit.table import Components, Estimating, TurnTable, masked_credit
from sanderling.train.contract import FloatArray

__all__ = ["CHOICE", "ESTIMATORS", "Credit", "DrGrpoConfig", "EstimatorConfig", "GrpoConfig", "IgpoConfig", "LeaveOneOutConfig"]

ESTIMATORS = {"grpo": grpo, "dr_grpo": dr_grpo, "leave_one_out": leave_one_out, "igpo": igpo}
CHOICE = Choice("estimator", ESTIMATORS, Estimating)
EstimatorConfig = Annotated[Estimating, CHOICE]
"""Settings of the estimator that ``kind`` names."""


@dataclass(frozen=True)
class Credit:
    """One configured estimator."""

    estimate: Callable[[TurnTable], Any]
    penalty_weight: float
    """Of the format penalty, where the estimator returns plain advantages."""

    def components(self, table: TurnTable) -> Components:
        """Advantages in their parts: of the outcome, of information gain, of format penalties; none where none is due."""
        found = self.estimate(table)
        if not isinstance(found, Components):  # a person's own estimator returned plain advantages
            found = _checked(found, table)
            found = Components(found, 0.0 * found, self.penalty_weight * table.penalty)
        return masked_credit(table, found)

    def __call__(self, table: TurnTable) -> FloatArray:
        """Advantages [K]: the sum of the parts."""
        return self.components(table).total


def _checked(advantages: Any, table: TurnTable) -> FloatArray:
    found = np.asarray(advantages, dtype=np.float64)
    if found.shape != (len(table),) or not np.isfinite(found).all():
        told = f"not finite everywhere, or of the shape {found.shape}"
        raise UserError(f"The estimator's advantages are {told}: it has to give one number for each of {len(table)} turns.")
    return found


def build_estimator(config: Estimating) -> Credit:
    """The estimator that a configuration describes."""
    return Credit(CHOICE.bound(config), config.penalty_weight)
