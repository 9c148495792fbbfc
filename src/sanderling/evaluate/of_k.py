"""What several attempts at a question are worth: average, pass@k, pass^k, majority of k, best of k by a score. Pure numpy.

Legend: Q questions, K the largest k; at question q ``scored[q]`` attempts could be judged, ``correct[q]`` of them were right.
k attempts are drawn without replacement from the scored ones. An unscored attempt (an outage) is neither right nor wrong: no
figure counts it as zero, every figure says how many questions it rests on, and `average_at_k` bounds their effect.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sanderling.evaluate.statistics import FloatArray, IntArray, Interval

ORDERS = 256
"""Random orders of a question's attempts, where subsets are too many to take all."""
_CELLS = 2_000_000
"""Cells worked on at once: bounds memory whatever the number of questions."""


def any_right(scored: ArrayLike, correct: ArrayLike, most: int) -> FloatArray:
    """Unbiased pass@k [Q, K] for k = 1 … ``most``: 1 - C(n-c, k) / C(n, k), NaN where n < k (Chen et al. 2021, 2107.03374).

    Raises ValueError for ``most`` < 1 or impossible counts.
    """
    n, c = _counts(scored, correct)
    return 1.0 - _all_drawn(n - c, n, most)


def all_right(scored: ArrayLike, correct: ArrayLike, most: int) -> FloatArray:
    """Unbiased pass^k [Q, K]: C(c, k) / C(n, k), the chance that *all* k are right. Raises ValueError as :func:`any_right`."""
    n, c = _counts(scored, correct)
    return _all_drawn(c, n, most)


class KEstimate(NamedTuple):
    """Mean over the questions that have k scored attempts."""

    value: float  # NaN when no question has
    questions: int
    too_few: int  # questions with fewer: left out of the mean


def pass_at_k(scored: ArrayLike, correct: ArrayLike, k: int) -> KEstimate:
    """Mean unbiased pass@k. Raises ValueError."""
    return _mean_over_questions(any_right(scored, correct, k)[:, -1])


def pass_hat_k(scored: ArrayLike, correct: ArrayLike, k: int) -> KEstimate:
    """Mean unbiased pass^k. Raises ValueError."""
    return _mean_over_questions(all_right(scored, correct, k)[:, -1])


class Average(NamedTuple):
    """Mean share of right attempts (avg@k), and what it could be at worst and at best."""

    value: float  # over questions with a scored attempt; NaN without any
    bounds: Interval  # over *all* questions: every unscored attempt taken as wrong, and as right
    questions: int
    without_score: int


def average_at_k(attempts: ArrayLike, scored: ArrayLike, correct: ArrayLike) -> Average:
    """Mean share of right attempts, each question weighing the same. Raises ValueError for impossible counts."""
    n, c = _counts(scored, correct)
    m = np.asarray(attempts, dtype=np.int64)
    if m.shape != n.shape or m.size == 0 or bool((n > m).any()) or bool((m < 1).any()):
        raise ValueError("attempts must be one positive count per question, and none smaller than its scored count")
    has_score = n > 0
    value = float((c[has_score] / n[has_score]).mean()) if has_score.any() else float("nan")
    bounds = Interval(float((c / m).mean()), float(((c + m - n) / m).mean()))
    return Average(value, bounds, int(has_score.sum()), int((~has_score).sum()))


def clustered_error(scored: ArrayLike, correct: ArrayLike) -> float:
    """Standard error of the share of right ones among *all* scored attempts, questions being clusters; NaN without any.

    sqrt(Σ_q (Σ_j (s_qj - mean))²) / N, as in Miller 2024 (arXiv 2411.00640).
    """
    n, c = _counts(scored, correct)
    total = int(n.sum())
    return float(np.sqrt(((c - n * (c.sum() / total)) ** 2).sum()) / total) if total else float("nan")


def attempts_error(scored: ArrayLike, correct: ArrayLike) -> float:
    """The part of the average's standard error that further attempts at the same questions would take away.

    sqrt(mean over questions of p(1-p)/(n-1)) / sqrt(Q), over those with two scored attempts or more; NaN without any. Beside
    :func:`clustered_error` it tells whether more attempts or more questions are wanted.
    """
    n, c = _counts(scored, correct)
    n, c = n[n > 1], c[n > 1]
    share = c / n
    return float(np.sqrt((share * (1 - share) / (n - 1)).mean() / n.size)) if n.size else float("nan")


def _mean_over_questions(each: FloatArray) -> KEstimate:
    kept = each[np.isfinite(each)]
    return KEstimate(float(kept.mean()) if kept.size else float("nan"), int(kept.size), int(each.size - kept.size))


def _all_drawn(part: IntArray, of: IntArray, most: int) -> FloatArray:
    """The chance [Q, K] that k = 1 … ``most`` drawn of ``of`` all are among ``part`` of them; NaN where there are fewer.

    A running product, so that no binomial overflows.
    """
    if most < 1:
        raise ValueError(f"k is {most}: it must be at least 1")
    before = np.arange(most)
    left = of[:, None] - before
    enough = left > 0
    factors = np.divide(np.maximum(part[:, None] - before, 0), left, out=np.zeros((of.size, most)), where=enough)
    return np.where(enough, np.cumprod(factors, axis=1), np.nan)


def _counts(scored: ArrayLike, correct: ArrayLike) -> tuple[IntArray, IntArray]:
    n, c = np.asarray(scored, dtype=np.int64), np.asarray(correct, dtype=np.int64)
    if n.shape != c.shape or n.ndim != 1:
        raise ValueError(f"scored and correct need one count per question, got shapes {n.shape} and {c.shape}")
    if bool((c < 0).any()) or bool((c > n).any()):
        raise ValueError("correct must lie within 0 .. scored")
    return n, c


# One answer out of k: nobody tells which attempt was right ----------------------------------------------------------------


class Tries(NamedTuple):
    """The n scored attempts at one question."""

    right: NDArray[np.bool_]
    answer: IntArray  # attempts with the same number gave the same answer; -1: none


def tries(right: Sequence[bool], answers: Sequence[str | None]) -> Tries:
    """Attempts with their answers, by which they vote; None: no answer."""
    numbers: dict[str, int] = {}
    votes = [-1 if answer is None else numbers.setdefault(answer, len(numbers)) for answer in answers]
    return Tries(np.asarray(right, dtype=np.bool_), np.asarray(votes, dtype=np.int64))


def majority(every: Sequence[Tries], ks: Sequence[int], *, seed: int, orders: int = ORDERS) -> FloatArray:
    """For each question and k, [Q, K], the chance that the answer with most votes among k attempts is right; NaN for fewer.

    Ties share; without a vote it is 0. k = 1 and all attempts are exact; between them seeded orders are taken.
    """
    found = np.full((len(every), len(ks)), np.nan)
    alike: dict[tuple[int, int], list[int]] = {}  # questions by their numbers of attempts and of answers
    for q, one in enumerate(every):
        alike.setdefault((one.right.size, int(one.answer.max(initial=-1)) + 1), []).append(q)
    for (n, answers), places in alike.items():
        order = np.tile(np.arange(n), (orders if any(1 < k < n for k in ks) else 1, 1))
        order = np.random.default_rng([seed, n]).permuted(order, axis=1)
        step = max(1, _CELLS // max(1, order.size, order.shape[0] * answers))
        for start in range(0, len(places), step):
            part = places[start : start + step]
            right, answer = np.stack([every[q].right for q in part]), np.stack([every[q].answer for q in part])
            for column, k in enumerate(ks):
                if k == 1 and n:
                    found[part, column] = (right & (answer >= 0)).mean(axis=1)
                elif 1 < k <= n:
                    found[part, column] = _winning_share(right, answer, answers, order[:1] if k == n else order[:, :k])
    return found


def _winning_share(right: NDArray[np.bool_], answer: IntArray, answers: int, drawn: IntArray) -> FloatArray:
    """Of questions [Q] whose attempts [Q, n] gave so many answers: how right the winning answers of draws [R, k] are, [Q]."""
    questions, rows = right.shape[0], drawn.shape[0]
    if answers == 0:
        return np.zeros(questions)
    votes = answer[:, drawn]
    voted = votes >= 0
    shape = (questions, rows, answers)
    cells = (np.arange(questions * rows).reshape(questions, rows, 1) * answers + votes)[voted]
    count = np.bincount(cells, minlength=questions * rows * answers).reshape(shape)
    good = np.bincount(cells[right[:, drawn][voted]], minlength=questions * rows * answers).reshape(shape)
    wins = (count == count.max(axis=2, keepdims=True)) & (count > 0)
    return (np.where(wins, good, 0).sum(axis=2) / np.maximum(np.where(wins, count, 0).sum(axis=2), 1)).mean(axis=1)


def best_of(question: ArrayLike, right: ArrayLike, scores: ArrayLike, questions: int, ks: Sequence[int]) -> FloatArray:
    """For each question and k, [Q, K], the chance that the attempt of k with the highest score is right, exactly.

    The first three are of attempts, [A]: the question's number, and so on. Attempts with equal scores share: with b attempts
    below a group of m equals of n, the group is highest with the chance (C(b+m, k) - C(b, k)) / C(n, k). NaN for a question
    with fewer than k attempts, or with one whose score is NaN; a score of minus infinity is below all others.
    """
    number, score = np.asarray(question, dtype=np.int64), np.asarray(scores, dtype=np.float64)
    order = np.lexsort((score, number))
    number, score, worth = number[order], score[order], np.asarray(right, dtype=np.float64)[order]
    begins = np.ones(number.size, dtype=np.bool_)
    begins[1:] = (number[1:] != number[:-1]) | (score[1:] != score[:-1])
    group = np.cumsum(begins) - 1
    if group.size:  # equals share: the worth of each is the mean of its group's
        worth = (np.bincount(group, weights=worth) / np.bincount(group))[group]
    sizes = np.bincount(number, minlength=questions)
    starts = np.cumsum(sizes) - sizes
    unknown = np.bincount(number, weights=np.isnan(score), minlength=questions) > 0
    found = np.full((questions, len(ks)), np.nan)
    for n in np.unique(sizes[sizes > 0]):
        at = np.flatnonzero((sizes == n) & ~unknown)
        # [n, K]: the chance that the attempt at a rank is the highest of k.
        highest = np.diff(_all_drawn(np.arange(n + 1), np.full(n + 1, n), max(ks)), axis=0)[:, np.asarray(ks) - 1]
        found[at] = worth[starts[at][:, None] + np.arange(n)] @ highest
    return found
