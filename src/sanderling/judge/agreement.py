"""How far two judges agree, and how far answers are as sure as they are right.

Cohen (1960): kappa = (observed - expected) / (1 - expected), where expected is the agreement of two judges who decide right and
wrong as often as these, but independently. Verdicts that one of the two could not give are counted beside, never as a
disagreement. Guo et al. (2017): answers are put in bins of equal width by the confidence that they claim; the error is the mean
distance of a bin's confidence from its share of right ones, weighted by its answers.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

BINS = 10
FEW = 100  # fewer answers than this say little of calibration


@dataclass(frozen=True)
class Agreement:
    """Two judges' verdicts on the same trajectories."""

    both: int  # both: correct
    neither: int  # both: incorrect
    first_only: int
    second_only: int
    first_unscored: int  # the first gave no verdict; the second may have
    second_unscored: int  # the first gave one, the second did not
    scored: int  # both have a verdict
    agreed: float | None  # share of those with the same verdict
    kappa: float | None
    """None where it is not defined: nothing scored by both, or both always of the one same verdict."""


def agreement(verdicts: Iterable[tuple[bool | None, bool | None]]) -> Agreement:
    """Count the pairs of two judges' verdicts."""
    counts = Counter(verdicts)
    both, neither, first_only, second_only = (
        counts[pair] for pair in ((True, True), (False, False), (True, False), (False, True))
    )
    scored = both + neither + first_only + second_only
    agreed = kappa = None
    if scored:
        agreed = (both + neither) / scored
        first, second = (both + first_only) / scored, (both + second_only) / scored
        expected = first * second + (1 - first) * (1 - second)
        kappa = None if expected == 1.0 else (agreed - expected) / (1 - expected)
    first_unscored = sum(count for (first, _), count in counts.items() if first is None)
    second_unscored = counts[True, None] + counts[False, None]
    return Agreement(both, neither, first_only, second_only, first_unscored, second_unscored, scored, agreed, kappa)


@dataclass(frozen=True)
class Bin:
    """Answers that claim about the same confidence, all in percent: from ``low`` to below ``high``, the last one with 100."""

    low: float
    high: float
    answers: int
    confidence: float | None  # mean; None without answers
    right: float | None  # share of right ones


@dataclass(frozen=True)
class Calibration:
    """What a run's confidence is worth."""

    bins: tuple[Bin, ...]
    answers: int
    left_out: int  # scored answers that claim no confidence, or one on an unknown scale
    error: float | None  # expected calibration error, in points of percent; None without answers


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
    made: list[Bin] = []
    total, gaps = sum(map(len, held)), list[float]()
    for at, found in enumerate(held):
        sure = right = None
        if found:
            sure = sum(confidence for confidence, _ in found) / len(found)
            right = 100.0 * sum(correct for _, correct in found) / len(found)
            gaps.append(len(found) * abs(sure - right))
        made.append(Bin(100.0 * at / bins, 100.0 * (at + 1) / bins, len(found), sure, right))
    return Calibration(tuple(made), total, left_out, sum(gaps) / total if total else None)


def has_known_scale(confidence: float) -> bool:
    """Whether it is a percentage for certain: what is above 0 and at most 1 may as well be a share."""
    return confidence == 0.0 or 1.0 < confidence <= 100.0


def bin_of(confidence: float, bins: int = BINS) -> int:
    """The bin's number."""
    return min(int(confidence * bins / 100.0), bins - 1)
