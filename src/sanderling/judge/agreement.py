"""How far two judges agree: Cohen's kappa and the confusion of their verdicts. Pure.

Cohen, "A coefficient of agreement for nominal scales" (1960): kappa = (observed - expected) / (1 - expected), where expected is
the agreement of two judges who say yes and no as often as these, but independently. Verdicts that one of the two could not give
are counted beside, never as a disagreement.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Agreement:
    """Two judges' verdicts on the same trajectories."""

    both: int
    """Both said correct."""
    neither: int
    """Both said incorrect."""
    first_only: int
    second_only: int
    first_unscored: int
    """The first gave no verdict; the second may have."""
    second_unscored: int
    """The first gave one, the second did not."""

    @property
    def scored(self) -> int:
        """Trajectories on which both have a verdict."""
        return self.both + self.neither + self.first_only + self.second_only

    @property
    def agreed(self) -> float | None:
        """Share of those on which they say the same."""
        return (self.both + self.neither) / self.scored if self.scored else None

    @property
    def kappa(self) -> float | None:
        """None where it is not defined: nothing scored by both, or both always say the one same word."""
        if not self.scored:
            return None
        first, second = (self.both + self.first_only) / self.scored, (self.both + self.second_only) / self.scored
        expected = first * second + (1 - first) * (1 - second)
        return None if expected == 1.0 else ((self.both + self.neither) / self.scored - expected) / (1 - expected)


def agreement(verdicts: Iterable[tuple[bool | None, bool | None]]) -> Agreement:
    """Count the pairs of two judges' verdicts."""
    counts = Counter(verdicts)
    return Agreement(
        both=counts[True, True],
        neither=counts[False, False],
        first_only=counts[True, False],
        second_only=counts[False, True],
        first_unscored=sum(count for (first, _), count in counts.items() if first is None),
        second_unscored=sum(count for (first, second), count in counts.items() if first is not None and second is None),
    )
