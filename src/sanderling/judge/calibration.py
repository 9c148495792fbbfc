"""How far answers are as sure as they are right: shares by confidence, and the expected calibration error. Pure.

Guo et al., "On calibration of modern neural networks" (2017): answers are put in bins of equal width by the confidence that
they claim; the error is the mean distance of a bin's confidence from its share of right ones, weighted by its answers. Every
bin counts, the last and the small ones too. Confidence is in percent; what is above 0 and at most 1 may as well be a share,
so that it is left out and counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass

BINS = 10
FEW = 100
"""Fewer answers than this say little."""


@dataclass(frozen=True)
class Bin:
    """Answers that claim about the same confidence."""

    low: float
    """Percent; the bin goes from here to below ``high``, the last one up to and with 100."""
    high: float
    answers: int
    confidence: float | None
    """Mean, percent; None without answers."""
    right: float | None
    """Share of right ones, percent."""


@dataclass(frozen=True)
class Calibration:
    """What a run's confidence is worth."""

    bins: tuple[Bin, ...]
    answers: int
    left_out: int
    """Scored answers that claim no confidence, or one on an unknown scale."""

    @property
    def error(self) -> float | None:
        """Expected calibration error, in points of percent; None without answers."""
        if not self.answers:
            return None
        return sum(one.answers * abs(one.confidence - one.right) for one in self.bins if one.confidence is not None
                   and one.right is not None) / self.answers  # fmt: skip

    @property
    def is_few(self) -> bool:
        """Whether there are too few answers to rely on."""
        return self.answers < FEW


def calibration(answers: Iterable[tuple[float | None, bool | None]], *, bins: int = BINS) -> Calibration:
    """From pairs of confidence (percent) and verdict; unscored ones do not count. Raises ValueError for less than one bin."""
    if bins < 1:
        raise ValueError(f"{bins} bins")
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    left_out = 0
    for confidence, correct in answers:
        if correct is None:
            continue
        if confidence is None or not has_known_scale(confidence):
            left_out += 1
        else:
            held[bin_of(confidence, bins)].append((confidence, correct))
    made = tuple(_bin(100.0 * at / bins, 100.0 * (at + 1) / bins, found) for at, found in enumerate(held))
    return Calibration(made, sum(one.answers for one in made), left_out)


def has_known_scale(confidence: float) -> bool:
    """Whether it is a percentage for certain."""
    return confidence == 0.0 or 1.0 < confidence <= 100.0


def bin_of(confidence: float, bins: int = BINS) -> int:
    """The bin's number."""
    return min(int(confidence * bins / 100.0), bins - 1)


def _bin(low: float, high: float, found: list[tuple[float, bool]]) -> Bin:
    if not found:
        return Bin(low, high, 0, None, None)
    count = len(found)
    return Bin(low, high, count, sum(one for one, _ in found) / count, 100.0 * sum(right for _, right in found) / count)
