"""Intervals and tests over questions: bootstrap, Wilson, paired differences, Holm. Pure numpy.

Attempts at one question depend on each other, so the *question* is what is drawn. One draw serves all figures of an evaluation.
Legend: Q questions, M figures, R resamples. A NaN marks a question that a figure does not rest on.
"""

from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RESAMPLES = 10_000
"""Bootstrap resamples, and sign flips where they are not enumerated."""
_CHUNK_CELLS = 4_000_000
"""Cells drawn at once: bounds memory whatever the number of questions."""
_EXACT_FLIPS = 14
"""Up to this many unequal pairs all sign flips are enumerated (2**14 of them)."""
NO_WIDTH = 1e-12
"""Equal values drawn again and again differ in their last bits alone."""


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


NOWHERE = Interval(float("nan"), float("nan"))
"""The interval of a figure that rests on nothing."""


def resampled_ratios(above: ArrayLike, below: ArrayLike, *, seed: int, resamples: int = RESAMPLES) -> FloatArray:
    """Sums of ``above`` over sums of ``below`` (both [Q, M]) over drawn questions, [R, M]; NaN where the lower sum is 0.

    The same seed draws the same questions, for all figures alike: differences between figures may be taken row by row.
    """
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    if top.shape != bottom.shape or top.ndim != 2 or not top.size:
        raise ValueError(f"needs a row per question and a column per figure on both sides, got {top.shape} and {bottom.shape}")
    # A quarter of the time of doubles; 7 digits are more than resamples have.
    columns = np.concatenate((top, bottom), axis=1).astype(np.float32)
    questions, rng, parts = top.shape[0], np.random.default_rng(seed), []
    for rows in _chunks(resamples, questions):
        cells = rng.integers(0, questions, (rows, questions)) + questions * np.arange(rows)[:, None]
        times_drawn = np.bincount(cells.ravel(), minlength=rows * questions).reshape(rows, questions)
        parts.append(times_drawn.astype(np.float32) @ columns)
    sums, weights = np.split(np.concatenate(parts).astype(np.float64), 2, axis=1)
    return np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)


def intervals(means: FloatArray, level: float = 0.95) -> list[Interval]:
    """The percentile interval of each figure, from its resampled means [R, M]."""
    tail = (1.0 - level) / 2.0
    found = []
    for column in means.T:
        kept = column[np.isfinite(column)]
        found.append(Interval(*map(float, np.quantile(kept, [tail, 1.0 - tail]))) if kept.size else NOWHERE)
    return found


def bootstrap_interval(values: ArrayLike, *, seed: int, level: float = 0.95, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap interval of the mean of one value per question; NaN values are left out."""
    x = _finite(values)
    if x.size == 0:
        return NOWHERE
    rng = np.random.default_rng(seed)
    means = np.concatenate([x[rng.integers(0, x.size, (rows, x.size))].mean(axis=1) for rows in _chunks(resamples, x.size)])
    return intervals(means[:, None], level)[0]


def mean_interval(values: ArrayLike, *, seed: int, level: float = 0.95) -> Interval:
    """Interval of a mean of per-question shares in [0, 1]: bootstrap, or Wilson over questions when all are 0 or all are 1."""
    x = _finite(values)
    return constant_interval(x, level) or bootstrap_interval(x, seed=seed, level=level)


def constant_interval(x: FloatArray, level: float = 0.95) -> Interval | None:
    """Wilson's interval where all values are 0 or all are 1; else None.

    The bootstrap of constant values has no width, which would claim certainty from a handful of questions.
    """
    if x.size > 0 and (bool((x == 0.0).all()) or bool((x == 1.0).all())):
        return wilson_interval(float(x.sum()), x.size, level=level)
    return None


def wilson_interval(successes: float, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson score interval of a proportion; (0, 1) without trials. Raises ValueError unless successes are in 0 .. trials."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    share = successes / trials
    scale = 1.0 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * float(np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


# Paired comparison --------------------------------------------------------------------------------------------------------


class PairedDifference(NamedTuple):
    """How much better a is than b on the same questions."""

    difference: float  # mean of a - b
    interval: Interval  # 95% percentile bootstrap over questions
    p_value: float  # two-sided sign-flip test of "no difference"
    questions: int  # pairs in the mean
    dropped: int  # pairs in which a or b has no scored attempt

    @property
    def has_spread(self) -> bool:
        """Whether the interval says anything: one difference drawn again and again has no width."""
        return self.interval.high - self.interval.low > NO_WIDTH


def paired_difference(a: ArrayLike, b: ArrayLike, *, seed: int, resamples: int = RESAMPLES) -> PairedDifference:
    """Compare two figures of the same questions, in the same order (Q each); pairs with a NaN are dropped and counted.

    The p-value is that of sign flips of a - b: all of them for few unequal pairs, else a seeded sample with the observed one
    added, so that it is never 0. Raises ValueError when the lengths differ or no pair is left.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"paired figures need one value per question on both sides, got shapes {x.shape} and {y.shape}")
    delta = x - y
    kept = delta[np.isfinite(delta)]
    if kept.size == 0:
        raise ValueError("no question has a scored attempt on both sides")
    interval = bootstrap_interval(kept, seed=seed, resamples=resamples)
    p_value = _sign_flip_p(kept, seed, resamples)
    return PairedDifference(float(kept.mean()), interval, p_value, int(kept.size), int(delta.size - kept.size))


def _sign_flip_p(delta: FloatArray, seed: int, resamples: int) -> float:
    """Share of sign flips whose mean is at least as far from 0 as the observed one. Equal pairs cannot flip: left out."""
    unequal = delta[delta != 0.0]
    if unequal.size == 0:
        return 1.0
    # Sums of the same numbers in another order may differ in the last bits: those are ties, not differences.
    observed = abs(float(unequal.sum())) * (1.0 - 1e-9) - 1e-12
    if unequal.size <= _EXACT_FLIPS:
        codes = np.arange(2**unequal.size)[:, None] >> np.arange(unequal.size)
        return float((np.abs((1.0 - 2.0 * (codes & 1)) @ unequal) >= observed).mean())
    rng = np.random.default_rng([seed, 1])
    extreme = 0
    for rows in _chunks(resamples, unequal.size):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (rows, unequal.size))
        extreme += int((np.abs(signs @ unequal) >= observed).sum())
    return (extreme + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The same comparisons' p-values, adjusted for there being several of them (Holm 1979), in the same order."""
    found, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[i] * (len(p_values) - rank)))
        found[i] = highest
    return found


def _finite(values: ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    return x[np.isfinite(x)]


def _chunks(rows: int, columns: int) -> Iterator[int]:
    """How many rows to draw at a time."""
    step = max(1, _CHUNK_CELLS // max(1, columns))
    return (min(step, rows - start) for start in range(0, rows, step))
