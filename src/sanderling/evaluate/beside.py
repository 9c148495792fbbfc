"""What is known of a run beside its attempts' trajectories: prices, verdicts in full, scores, the guard's counts.

Any of it may be missing. Knows no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sanderling.evaluate.judged import JudgedAttempt
from sanderling.evaluate.result import GuardFigures
from sanderling.policy.budget import Prices


@dataclass(frozen=True)
class Beside:
    """What stands beside the attempts of a run."""

    prices: Prices | None = None
    """Of the agent's tokens; None: nobody said."""
    guard: GuardFigures | None = None
    looked_for: bool = True
    """Whether its questions are looked for in what was read: not where they were made from pages."""
    judged: Sequence[JudgedAttempt] = ()
    scores: Mapping[str, Mapping[tuple[str, int], float]] = field(default_factory=dict)
    """Further scores of attempts, by name, for the best of several."""


NOTHING = Beside()
