"""A guard against runs that go astray: the loss stays far above what it was.

One bad batch is nothing; several in a row, each far above the median of the steps before, are a run that will not come back. A
loss or gradient that is not finite never reaches it: the trainer refuses such a step before any weight changes. Knows numbers
and names only.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median

from sanderling.core.errors import UserError
from sanderling.train.config import GuardConfig


class DivergenceGuard:
    """Watches a run's losses; made of the losses so far, it judges as one that saw them."""

    def __init__(self, config: GuardConfig, losses: Sequence[float] = ()) -> None:
        """``losses``: those of the steps so far, oldest first."""
        self._config = config
        self._good: deque[float] = deque(maxlen=config.window)
        self._bad = 0
        for loss in losses:
            self._see(loss)

    def check(self, step: int, loss: float, rows: Sequence[str]) -> None:
        """Take note of a step's loss. Raises UserError when it was one bad step too many; ``rows`` names its batch."""
        before = median(self._good) if self._good else loss
        self._see(loss)
        if self._bad < self._config.patience:
            return
        listed = ", ".join(rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
        raise UserError(
            f"The loss was above {self._config.factor:g} times its median ({before:.4g}) for {self._bad} steps and is "
            f"{loss:.4g} in step {step}, so training stopped: begin again with a lower trainer.lr, or look at rows {listed}."
        )

    def _see(self, loss: float) -> None:
        # The first steps of a run are no measure: a median of a few jumps about.
        if len(self._good) >= min(10, self._config.window) and loss > self._config.factor * max(median(self._good), 1e-8):
            self._bad += 1
        else:
            self._bad = 0
            self._good.append(loss)
