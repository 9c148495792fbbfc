"""Majority and best-of-k against every subset there is."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanderling.evaluate.of_k import any_right, best_of, majority, tries
from sanderling.evaluate.statistics import FloatArray

Attempt = tuple[str | None, bool]


def best(right: list[bool], scores: list[float], ks: Sequence[int]) -> FloatArray:
    """The best of k of one question."""
    return best_of([0] * len(right), right, scores, 1, ks)[0]


ATTEMPTS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans()).map(lambda one: (one[0], one[1] and one[0] is not None)),
    min_size=1,
    max_size=7,
)


def voted(drawn: tuple[Attempt, ...]) -> float:
    """What the majority of some attempts is worth; ties share."""
    votes = Counter(answer for answer, _ in drawn if answer is not None)
    winners = {answer for answer, count in votes.items() if count == max(votes.values())}
    return fmean(right for answer, right in drawn if answer in winners) if winners else 0.0


@given(ATTEMPTS)
@settings(deadline=None, max_examples=60)
def test_majority_is_the_mean_over_all_subsets(attempts: list[Attempt]) -> None:
    n = len(attempts)
    ks = range(1, n + 1)
    one = tries([right for _, right in attempts], [answer for answer, _ in attempts])
    (found,) = majority([one], ks, seed=0, orders=4_000)
    for k in ks:
        expected = fmean(map(voted, combinations(attempts, k)))
        assert found[k - 1] == pytest.approx(expected, abs=1e-12 if k in (1, n) else 0.05)


@given(ATTEMPTS, st.permutations(["a", "b", "c"]))
@settings(deadline=None)
def test_the_names_of_answers_do_not_matter(attempts: list[Attempt], names: list[str]) -> None:
    renamed = dict(zip("abc", names, strict=True))
    right = [right for _, right in attempts]
    ours = majority([tries(right, [a for a, _ in attempts])], [1, 2, 3], seed=5)
    theirs = majority([tries(right, [renamed[a] if a else None for a, _ in attempts])], [1, 2, 3], seed=5)
    np.testing.assert_array_equal(ours, theirs)


def test_a_majority_of_the_wrong_is_wrong_and_few_attempts_say_nothing() -> None:
    one = tries([True, False, False], ["x", "y", "y"])
    found, nothing = majority([one, tries([], [])], [1, 3, 4], seed=0)
    assert found[0] == pytest.approx(1 / 3) and found[1] == 0.0 and np.isnan(found[2])
    assert np.isnan(nothing).all()
    assert majority([tries([False, False], [None, None])], [2], seed=0) == [[0.0]]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1, max_size=7))
@settings(deadline=None)
def test_best_of_is_the_mean_over_all_subsets(attempts: list[tuple[bool, int]]) -> None:
    n = len(attempts)
    found = best([right for right, _ in attempts], [score for _, score in attempts], range(1, n + 2))
    for k in range(1, n + 1):
        worth = []
        for drawn in combinations(attempts, k):
            top = max(score for _, score in drawn)
            # Ties share among all attempts with that score: the draw does not tell them apart.
            worth.append(fmean(right for right, score in attempts if score == top))
        assert found[k - 1] == pytest.approx(fmean(worth), abs=1e-12)
    assert np.isnan(found[n])


def test_a_score_that_knows_reaches_pass_at_k_and_one_that_does_not_the_average() -> None:
    right = [True, False, False, True, False]
    np.testing.assert_allclose(best(right, right, [1, 2, 3, 4, 5]), any_right([5], [2], 5)[0])
    np.testing.assert_allclose(best(right, [0.5] * 5, [1, 3, 5]), [0.4] * 3)


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=6), min_size=1, max_size=6), st.randoms())
@settings(deadline=None)
def test_many_questions_at_once_are_those_of_each(every: list[list[tuple[bool, int]]], dice: Random) -> None:
    """Whatever their numbers of attempts, and in whatever order attempts stand."""
    rows = [(q, right, float(score)) for q, attempts in enumerate(every) for right, score in attempts]
    dice.shuffle(rows)
    numbers, right, scores = ([row[place] for row in rows] for place in range(3))
    found = best_of(numbers, right, scores, len(every), [1, 2, 4])
    for q, attempts in enumerate(every):
        alone = best([right for right, _ in attempts], [score for _, score in attempts], [1, 2, 4])
        np.testing.assert_allclose(found[q], alone)


def test_an_unknown_score_leaves_its_question_out_and_the_lowest_is_chosen_last() -> None:
    minus = float("-inf")
    numbers, right, scores = [0, 0, 1, 1, 1], [True, False, True, False, False], [1.0, float("nan"), 0.5, minus, minus]
    found = best_of(numbers, right, scores, 3, [1, 2, 3])
    assert np.isnan(found[0]).all() and np.isnan(found[2]).all()
    np.testing.assert_allclose(found[1], [1 / 3, 2 / 3, 1.0])
