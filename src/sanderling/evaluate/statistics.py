"""Intervals and tests over questions (bootstrap, Wilson, paired differences, Holm), and what k attempts are worth. Pure numpy.

Attempts at one question depend on each other, so the *question* is what is drawn; where questions are of several worlds, worlds
are drawn first, then as many questions in each as it has. One draw serves all figures of an evaluation.
Legend: Q questions, M figures, R resamples, K the largest k. A NaN marks a question that a figure does not rest on. At question
q ``scored[q]`` attempts could be judged and ``correct[q]`` of them were right; k are drawn of the scored ones, without
replacement: an unscored attempt (an outage) is neither right nor wrong.
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


_ENDS = ((1.0 - 0.95) / 2.0, 0.975)  # to the last digit: 0.025 is another number, and pinned figures differ in theirs
NOWHERE = Interval(float("nan"), float("nan"))
"""The interval of a figure that rests on nothing."""


def resampled_means(values: FloatArray, *, seed: int, worlds: Sequence[str] = ()) -> FloatArray:
    """Means of figures [Q, M] over drawn questions, [R, M]; a NaN is left out of a mean, and is one where none is left.

    The same seed draws the same questions, for all figures alike: differences between figures may be taken row by row.
    ``worlds``: each question's; of several, worlds are drawn too.
    """
    known = np.isfinite(values)
    # A quarter of the time of doubles; 7 digits are more than resamples have.
    columns = np.concatenate((np.where(known, values, 0.0), known), axis=1).astype(np.float32)
    questions, rng, parts = len(values), np.random.default_rng(seed), []
    for rows in _chunks(RESAMPLES, questions):
        parts.append(_times_drawn(rng, rows, questions, worlds).astype(np.float32) @ columns)
    sums, weights = np.split(np.concatenate(parts).astype(np.float64), 2, axis=1)
    return np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)


def _times_drawn(rng: np.random.Generator, rows: int, questions: int, worlds: Sequence[str]) -> IntArray:
    """How often each question is drawn, [R, Q]."""
    first = questions * np.arange(rows)[:, None]
    if len(set(worlds)) < 2:
        cells = rng.integers(0, questions, (rows, questions)) + first
        return np.bincount(cells.ravel(), minlength=rows * questions).reshape(rows, questions)
    names = np.asarray(worlds)
    members = [np.flatnonzero(names == world) for world in dict.fromkeys(worlds)]
    chosen = rng.integers(0, len(members), (rows, len(members)))
    drawn = np.zeros(rows * questions, dtype=np.int64)
    for number, own in enumerate(members):
        # A row draws from this world as often as the world was chosen for it.
        owners = np.repeat(np.arange(rows), (chosen == number).sum(axis=1))
        cells = questions * owners[:, None] + own[rng.integers(0, own.size, (owners.size, own.size))]
        drawn += np.bincount(cells.ravel(), minlength=rows * questions)
    return drawn.reshape(rows, questions)


def intervals(means: FloatArray) -> list[Interval]:
    """The 95% percentile interval of each figure, from its resampled means [R, M]."""
    found = []
    for column in means.T:
        kept = column[np.isfinite(column)]
        found.append(Interval(*map(float, np.quantile(kept, _ENDS))) if kept.size else NOWHERE)
    return found


def bootstrap_interval(values: ArrayLike, *, seed: int, worlds: Sequence[str] = ()) -> Interval:
    """95% percentile bootstrap interval of the mean of one value per question; NaN values are left out."""
    x = _finite(values)
    if x.size == 0:
        return NOWHERE
    if len(set(worlds)) > 1:
        return intervals(resampled_means(np.asarray(values, dtype=np.float64)[:, None], seed=seed, worlds=worlds))[0]
    rng = np.random.default_rng(seed)
    means = np.concatenate([x[rng.integers(0, x.size, (rows, x.size))].mean(axis=1) for rows in _chunks(RESAMPLES, x.size)])
    return intervals(means[:, None])[0]


def mean_interval(values: ArrayLike, *, seed: int) -> Interval:
    """Interval of a mean of per-question shares in [0, 1]: bootstrap, or Wilson over questions when all are 0 or all are 1."""
    x = _finite(values)
    return constant_interval(x) or bootstrap_interval(x, seed=seed)


def constant_interval(x: FloatArray) -> Interval | None:
    """Wilson's interval where all values are 0 or all are 1; else None.

    The bootstrap of constant values has no width, which would claim certainty from a handful of questions.
    """
    if x.size > 0 and (bool((x == 0.0).all()) or bool((x == 1.0).all())):
        return wilson_interval(float(x.sum()), x.size)
    return None


def wilson_interval(successes: float, trials: int) -> Interval:
    """95% Wilson score interval of a proportion; (0, 1) without trials. Raises ValueError for impossible counts."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.975)
    share = successes / trials
    scale = 1.0 + z * z / trials
    centre = (share + z * z / (2 * trials)) / scale
    half = z / scale * float(np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


# Paired comparison --------------------------------------------------------------------------------------------------------


class PairedDifference(NamedTuple):
    """How much better a is than b on the same questions."""

    difference: float  # mean of a - b
    interval: Interval  # 95% percentile bootstrap over questions, and over their worlds where there are several
    p_value: float  # two-sided sign-flip test of "no difference"
    questions: int  # pairs in the mean
    dropped: int  # pairs in which a or b has no scored attempt

    @property
    def has_spread(self) -> bool:
        """Whether the interval says anything: one difference drawn again and again has no width."""
        return self.interval.high - self.interval.low > NO_WIDTH


def paired_difference(a: ArrayLike, b: ArrayLike, *, seed: int, worlds: Sequence[str] = ()) -> PairedDifference:
    """Compare two figures of the same questions, in the same order (Q each); pairs with a NaN are dropped and counted.

    ``worlds``: each question's, for the interval. The p-value is that of sign flips of a - b: all of them for few unequal
    pairs, else a seeded sample with the observed one added, so that it is never 0. Raises ValueError when the lengths differ or
    no pair is left.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"paired figures need one value per question on both sides, got shapes {x.shape} and {y.shape}")
    delta = x - y
    kept = delta[np.isfinite(delta)]
    if kept.size == 0:
        raise ValueError("no question has a scored attempt on both sides")
    interval, p_value = bootstrap_interval(delta, seed=seed, worlds=worlds), _sign_flip_p(kept, seed)
    return PairedDifference(float(kept.mean()), interval, p_value, int(kept.size), int(delta.size - kept.size))


def _sign_flip_p(delta: FloatArray, seed: int) -> float:
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
    for rows in _chunks(RESAMPLES, unequal.size):
        signs = 1.0 - 2.0 * rng.integers(0, 2, (rows, unequal.size))
        extreme += int((np.abs(signs @ unequal) >= observed).sum())
    return (extreme + 1) / (RESAMPLES + 1)


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


# What k attempts are worth ------------------------------------------------------------------------------------------------


def any_right(scored: ArrayLike, correct: ArrayLike, most: int) -> FloatArray:
    """Unbiased pass@k [Q, K] for k = 1 … ``most``: 1 - C(n-c, k) / C(n, k), NaN where n < k (Chen et al. 2021, 2107.03374)."""
    n, c = _counts(scored, correct)
    return 1.0 - _all_drawn(n - c, n, most)


def all_right(scored: ArrayLike, correct: ArrayLike, most: int) -> FloatArray:
    """Unbiased pass^k [Q, K]: C(c, k) / C(n, k), the chance that *all* k are right."""
    n, c = _counts(scored, correct)
    return _all_drawn(c, n, most)


def _all_drawn(part: IntArray, of: IntArray, most: int) -> FloatArray:
    """The chance [Q, K] that k = 1 … ``most`` drawn of ``of`` all are among ``part`` of them; NaN where there are fewer.

    A running product, so that no binomial overflows.
    """
    before = np.arange(most)
    left = of[:, None] - before
    enough = left > 0
    factors = np.divide(np.maximum(part[:, None] - before, 0), left, out=np.zeros((of.size, most)), where=enough)
    return np.where(enough, np.cumprod(factors, axis=1), np.nan)


def _counts(scored: ArrayLike, correct: ArrayLike) -> tuple[IntArray, IntArray]:
    n, c = np.asarray(scored, dtype=np.int64), np.asarray(correct, dtype=np.int64)
    if n.shape != c.shape or bool((c < 0).any()) or bool((c > n).any()):
        raise ValueError("correct must lie within 0 .. scored, one count per question")
    return n, c
