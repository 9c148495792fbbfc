"""Figures of an evaluation, from counts: pass@k, its relatives, intervals and paired comparisons. Pure numpy.

Legend: Q questions; at question q ``attempts[q]`` were made, ``scored[q]`` of them could be judged, ``correct[q]`` were right.
An unscored attempt (an outage) is neither right nor wrong: it never counts as a zero, and it is never dropped silently:
every figure says how many questions it rests on, and :func:`average_at_k` bounds what the unscored could have changed.
The question is the unit of resampling, because attempts at one question are not independent of each other.
Knows nothing of trajectories, models or judges.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RESAMPLES = 10_000
"""Bootstrap resamples, and sign flips where they are not enumerated."""
_CHUNK_CELLS = 4_000_000
"""Cells drawn at once: bounds memory at 32 MB whatever the number of questions."""
_EXACT_FLIPS = 14
"""Up to this many unequal pairs, all sign flips are enumerated (2**14 of them)."""


class Interval(NamedTuple):
    """A closed interval."""

    low: float
    high: float


@dataclass(frozen=True)
class KEstimate:
    """Mean over questions of a figure that needs k scored attempts at each."""

    value: float
    """NaN when no question has k scored attempts."""
    questions: int
    """Questions with at least k scored attempts: those in the mean."""
    too_few: int
    """Questions with fewer: left out of the mean, and counted here."""


@dataclass(frozen=True)
class Average:
    """Mean share of right attempts (avg@k), and what it could be at worst and at best."""

    value: float
    """Mean over questions with a scored attempt of correct / scored; NaN when there is none."""
    bounds: Interval
    """Over *all* questions: every unscored attempt taken as wrong, and as right. Contains ``value``."""
    questions: int
    without_score: int
    """Questions without a single scored attempt."""


@dataclass(frozen=True)
class PairedDifference:
    """How much better a is than b on the same questions."""

    difference: float
    """Mean of a - b."""
    interval: Interval
    """95% percentile bootstrap over questions."""
    p_value: float
    """Two-sided sign-flip test of "no difference"."""
    questions: int
    """Pairs in the mean."""
    dropped: int
    """Pairs in which a or b has no scored attempt."""


def pass_at_k_each(scored: ArrayLike, correct: ArrayLike, k: int) -> FloatArray:
    """Unbiased pass@k of each question (Q): 1 - C(n-c, k) / C(n, k), NaN where n < k.

    As the product of (1 - k / i) over i in n-c+1 .. n, so that no binomial overflows (Chen et al. 2021, arXiv 2107.03374).
    Raises ValueError for k < 1 or impossible counts.
    """
    n, c = _counts(scored, correct, k)
    return np.array([_pass_at_k(int(ni), int(ci), k) for ni, ci in zip(n, c, strict=True)], dtype=np.float64)


def pass_hat_k_each(scored: ArrayLike, correct: ArrayLike, k: int) -> FloatArray:
    """Unbiased pass^k of each question (Q): C(c, k) / C(n, k), the chance that k attempts are *all* right; NaN where n < k.

    Raises ValueError for k < 1 or impossible counts.
    """
    n, c = _counts(scored, correct, k)
    steps = np.arange(k, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.maximum(c[:, None] - steps, 0.0) / (n[:, None] - steps)
    return np.where(n >= k, factors.prod(axis=1), np.nan)


def pass_at_k(scored: ArrayLike, correct: ArrayLike, k: int) -> KEstimate:
    """Mean unbiased pass@k over the questions with k scored attempts; the others are counted apart."""
    return _mean_over_questions(pass_at_k_each(scored, correct, k))


def pass_hat_k(scored: ArrayLike, correct: ArrayLike, k: int) -> KEstimate:
    """Mean unbiased pass^k over the questions with k scored attempts; the others are counted apart."""
    return _mean_over_questions(pass_hat_k_each(scored, correct, k))


def average_at_k(attempts: ArrayLike, scored: ArrayLike, correct: ArrayLike) -> Average:
    """Mean share of right attempts, each question weighing the same, with bounds for the unscored.

    Raises ValueError for impossible counts (correct > scored > attempts, no attempt, no question).
    """
    n, c = _counts(scored, correct, 1)
    m = np.asarray(attempts, dtype=np.int64)
    if m.shape != n.shape or m.size == 0 or bool((n > m).any()) or bool((m < 1).any()):
        raise ValueError("attempts must be one positive count per question, and none smaller than its scored count")
    has_score = n > 0
    value = float((c[has_score] / n[has_score]).mean()) if has_score.any() else float("nan")
    bounds = Interval(float((c / m).mean()), float(((c + m - n) / m).mean()))
    return Average(value, bounds, int(has_score.sum()), int((~has_score).sum()))


def bootstrap_interval(values: ArrayLike, *, seed: int, level: float = 0.95, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap interval of the mean of one value per question (Q); NaN values are left out.

    The same seed gives the same interval. Without values: (NaN, NaN).
    """
    x = _finite(values)
    if x.size == 0:
        return Interval(float("nan"), float("nan"))
    rng = np.random.default_rng(seed)
    means = np.concatenate([x[rng.integers(0, x.size, (rows, x.size))].mean(axis=1) for rows in _chunks(resamples, x.size)])
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def wilson_interval(successes: float, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson score interval of a proportion; (0, 1) without trials. Keeps a width at 0% and 100%, where a bootstrap has none.

    Raises ValueError when successes are not within 0 .. trials.
    """
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


def mean_interval(values: ArrayLike, *, seed: int, level: float = 0.95) -> Interval:
    """Interval of a mean of per-question shares in [0, 1]: bootstrap, or Wilson over questions when all are 0 or all are 1.

    The bootstrap of constant values has no width, which would claim certainty from a handful of questions.
    """
    x = _finite(values)
    if x.size > 0 and (bool((x == 0.0).all()) or bool((x == 1.0).all())):
        return wilson_interval(float(x.sum()), x.size, level=level)
    return bootstrap_interval(x, seed=seed, level=level)


def paired_difference(a: ArrayLike, b: ArrayLike, *, seed: int, resamples: int = RESAMPLES) -> PairedDifference:
    """Compare two figures of the same questions, in the same order (Q each); pairs with a NaN are dropped and counted.

    Interval: bootstrap over questions of a - b. p-value: sign flips of a - b (all of them for few unequal pairs, else a seeded
    sample with the observed one added, so that it is never 0). Raises ValueError when the lengths differ or no pair is left.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"paired figures need one value per question on both sides, got shapes {x.shape} and {y.shape}")
    delta = x - y
    kept = delta[np.isfinite(delta)]
    if kept.size == 0:
        raise ValueError("no question has a scored attempt on both sides")
    interval = bootstrap_interval(kept, seed=seed, resamples=resamples)
    return PairedDifference(
        float(kept.mean()), interval, _sign_flip_p(kept, seed, resamples), int(kept.size), int(delta.size - kept.size)
    )


def _pass_at_k(n: int, c: int, k: int) -> float:
    if n < k:
        return float("nan")
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def _counts(scored: ArrayLike, correct: ArrayLike, k: int) -> tuple[IntArray, IntArray]:
    n, c = np.asarray(scored, dtype=np.int64), np.asarray(correct, dtype=np.int64)
    if n.shape != c.shape or n.ndim != 1:
        raise ValueError(f"scored and correct need one count per question, got shapes {n.shape} and {c.shape}")
    if bool((c < 0).any()) or bool((c > n).any()):
        raise ValueError("correct must lie within 0 .. scored")
    if k < 1:
        raise ValueError(f"k is {k}: it must be at least 1")
    return n, c


def _mean_over_questions(each: FloatArray) -> KEstimate:
    kept = each[np.isfinite(each)]
    value = float(kept.mean()) if kept.size else float("nan")
    return KEstimate(value, int(kept.size), int(each.size - kept.size))


def _finite(values: ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    return x[np.isfinite(x)]


def _chunks(rows: int, columns: int) -> Iterator[int]:
    step = max(1, _CHUNK_CELLS // max(1, columns))
    for start in range(0, rows, step):
        yield min(step, rows - start)


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
