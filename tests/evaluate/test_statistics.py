"""Semantics of the figures: unbiased, bounded, honest about what could not be scored."""

from itertools import combinations
from math import comb, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from sanderling.evaluate.figures import Estimates
from sanderling.evaluate.of_k import all_right, any_right, attempts_error, average_at_k, clustered_error, pass_at_k, pass_hat_k
from sanderling.evaluate.statistics import (
    Interval,
    bootstrap_interval,
    holm,
    intervals,
    mean_interval,
    paired_difference,
    resampled_ratios,
    wilson_interval,
)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 40))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@st.composite
def question_counts(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    rows = draw(st.lists(st.tuples(*[st.integers(0, 8)] * 3), min_size=1, max_size=20))
    triples = [sorted(row) for row in rows]
    return [max(1, m) for _, _, m in triples], [n for _, n, _ in triples], [c for c, _, _ in triples]


@given(counts())
def test_pass_at_k_equals_the_binomial_form(case: tuple[int, int, int]) -> None:
    n, c, k = case
    assert any_right([n], [c], k)[0, -1] == pytest.approx(1 - comb(n - c, k) / comb(n, k), abs=1e-12)
    assert all_right([n], [c], k)[0, -1] == pytest.approx(comb(c, k) / comb(n, k), abs=1e-12)


def test_pass_at_k_is_the_share_of_k_subsets_with_a_right_one() -> None:
    outcomes = [True, False, False, True, False]
    subsets = list(combinations(outcomes, 3))
    assert pass_at_k([5], [2], 3).value == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_hat_k([5], [2], 2).value == pytest.approx(sum(map(all, combinations(outcomes, 2))) / comb(5, 2))


@given(counts())
def test_pass_at_k_grows_with_k_and_pass_hat_k_falls(case: tuple[int, int, int]) -> None:
    n, c, k = case
    any_of, all_of = any_right([n], [c], k)[0, -1], all_right([n], [c], k)[0, -1]
    assert -1e-12 <= all_of <= c / n + 1e-12 <= any_of + 2e-12 <= 1 + 4e-12
    if k > 1:
        assert any_right([n], [c], k - 1)[0, -1] <= any_of + 1e-12


def test_pass_at_k_does_not_overflow() -> None:
    assert pass_at_k([100_000], [1], 64).value == pytest.approx(64 / 100_000, rel=1e-9)


def test_pass_at_one_is_accuracy_and_not_any_of_k() -> None:
    assert pass_at_k([4, 4], [1, 0], 1).value == pytest.approx(0.125)


def test_questions_with_too_few_scored_are_counted_apart() -> None:
    found = pass_at_k([4, 3, 0], [0, 3, 0], 4)
    assert (found.value, found.questions, found.too_few) == (0.0, 1, 2)
    nothing = pass_at_k([0], [0], 1)
    assert isnan(nothing.value)
    assert (nothing.questions, nothing.too_few) == (0, 1)


@pytest.mark.parametrize(("scored", "correct", "k"), [([3], [4], 1), ([3], [-1], 1), ([3], [1], 0), ([3], [1, 1], 1)])
def test_impossible_counts_are_refused(scored: list[int], correct: list[int], k: int) -> None:
    with pytest.raises(ValueError, match=r"correct|k is 0"):
        pass_at_k(scored, correct, k)


@given(question_counts())
def test_average_lies_within_its_bounds(case: tuple[list[int], list[int], list[int]]) -> None:
    attempts, scored, correct = case
    found = average_at_k(attempts, scored, correct)
    assert found.questions + found.without_score == len(attempts)
    assert 0 <= found.bounds.low <= found.bounds.high <= 1
    if attempts == scored:
        assert found.bounds.low == pytest.approx(found.bounds.high)
    if found.questions:
        assert found.bounds.low - 1e-12 <= found.value <= found.bounds.high + 1e-12


def test_unscored_attempts_widen_the_bounds_and_do_not_move_the_average() -> None:
    found = average_at_k([4, 4, 4], [2, 4, 0], [1, 2, 0])
    assert found.value == pytest.approx(0.5)
    assert found.bounds == pytest.approx(Interval((1 / 4 + 2 / 4 + 0) / 3, (3 / 4 + 2 / 4 + 1) / 3))
    assert found.without_score == 1


def test_average_refuses_more_scored_than_attempted() -> None:
    with pytest.raises(ValueError, match="attempts"):
        average_at_k([1], [2], [1])


def test_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(3).binomial(4, 0.4, 200) / 4
    ours = bootstrap_interval(values, seed=0)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_bootstrap_is_seeded_and_leaves_out_nan() -> None:
    values = [0.0, 1.0, nan, 0.5, 1.0]
    assert bootstrap_interval(values, seed=5) == bootstrap_interval([0.0, 1.0, 0.5, 1.0], seed=5)
    assert bootstrap_interval(range(50), seed=5) != bootstrap_interval(range(50), seed=6)
    assert all(map(isnan, bootstrap_interval([nan], seed=0)))


def test_bootstrap_in_chunks_has_every_resample() -> None:
    values = np.random.default_rng(0).random(3_000)
    low, high = bootstrap_interval(values, seed=0, resamples=3_000)
    spread = values.std() / np.sqrt(values.size)
    assert (high - low) == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for trial in range(300):
        low, high = bootstrap_interval(rng.binomial(1, 0.4, 100), seed=trial, resamples=500)
        hits += low <= 0.4 <= high
    assert 0.90 <= hits / 300 <= 0.98


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(case: tuple[int, int]) -> None:
    successes, trials = case
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_edges() -> None:
    assert wilson_interval(0, 0) == Interval(0.0, 1.0)
    with pytest.raises(ValueError, match="trials"):
        wilson_interval(3, 2)


def test_constant_shares_still_have_a_width() -> None:
    assert mean_interval([0.0] * 20, seed=0) == wilson_interval(0, 20)
    assert mean_interval([1.0] * 20, seed=0) == wilson_interval(20, 20)
    assert mean_interval([0.0, 0.5, 1.0], seed=0) == bootstrap_interval([0.0, 0.5, 1.0], seed=0)


def test_paired_p_value_is_exact_for_few_pairs() -> None:
    a = np.array([1.0, 0.5, 0.75, 0.25, 1.0, 0.0, 0.5, 0.9])
    b = np.array([0.5, 0.5, 0.25, 0.5, 0.0, 0.0, 0.25, 0.1])
    theirs = stats.permutation_test(
        (a, b), lambda x, y: float(np.mean(x - y)), permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert paired_difference(a, b, seed=0).p_value == pytest.approx(theirs.pvalue)


def test_paired_p_value_agrees_with_a_wilcoxon_sized_sample() -> None:
    rng = np.random.default_rng(2)
    b = rng.random(60)
    a = b + rng.normal(0.05, 0.2, 60)
    found = paired_difference(a, b, seed=0)
    assert found.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=0.02)
    assert found.interval.low < found.difference < found.interval.high


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_paired_difference_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = [p[0] for p in pairs], [p[1] for p in pairs]
    forth, back = paired_difference(a, b, seed=1, resamples=200), paired_difference(b, a, seed=1, resamples=200)
    assert forth.difference == pytest.approx(-back.difference, abs=1e-12)
    assert forth.p_value == back.p_value
    assert 0 < forth.p_value <= 1
    assert forth.interval.low == pytest.approx(-back.interval.high, abs=1e-9)


def test_equal_sides_show_no_difference() -> None:
    found = paired_difference([0.5, 1.0], [0.5, 1.0], seed=0)
    assert (found.difference, found.interval, found.p_value) == (0.0, Interval(0.0, 0.0), 1.0)


def test_paired_difference_counts_what_it_drops() -> None:
    found = paired_difference([1.0, nan, 0.0], [0.0, 1.0, nan], seed=0)
    assert (found.difference, found.questions, found.dropped) == (1.0, 1, 2)
    with pytest.raises(ValueError, match="both sides"):
        paired_difference([nan], [1.0], seed=0)
    with pytest.raises(ValueError, match="shapes"):
        paired_difference([1.0, 0.0], [1.0], seed=0)


def test_no_false_alarms_beyond_the_level() -> None:
    rng = np.random.default_rng(7)
    alarms = sum(
        paired_difference(rng.binomial(4, 0.5, 60) / 4, rng.binomial(4, 0.5, 60) / 4, seed=i, resamples=300).p_value < 0.05
        for i in range(200)
    )
    assert alarms / 200 < 0.10


def test_the_tables_hold_every_k_and_agree_with_scipy() -> None:
    n, c = np.array([5, 3, 0, 64]), np.array([2, 3, 0, 9])
    some, every = any_right(n, c, 64), all_right(n, c, 64)
    assert some.shape == every.shape == (4, 64)
    for q, k in np.ndindex(4, 64):
        if k + 1 > n[q]:
            assert isnan(some[q, k]) and isnan(every[q, k])
        else:
            assert some[q, k] == pytest.approx(1 - stats.hypergeom.pmf(0, n[q], c[q], k + 1), abs=1e-12)
            assert every[q, k] == pytest.approx(stats.hypergeom.pmf(k + 1, n[q], c[q], k + 1), abs=1e-12)


@given(counts())
def test_ends_of_the_tables(case: tuple[int, int, int]) -> None:
    n, c, _ = case
    some, every = any_right([n], [c], n)[0], all_right([n], [c], n)[0]
    assert some[0] == pytest.approx(c / n) and every[0] == pytest.approx(c / n)
    assert some[-1] == pytest.approx(float(c > 0)) and every[-1] == pytest.approx(float(c == n))


def test_intervals_of_many_figures_from_one_draw_are_those_of_each() -> None:
    values = np.random.default_rng(1).binomial(4, 0.4, (150, 3)) / 4
    values[:5, 1] = nan
    values[:, 2] = 1.0
    waiting = Estimates()
    waiting.means("m", dict(enumerate(values.T)))
    found = waiting.made(seed=3)["m"]
    first, second, third = (found[place].interval for place in range(3))
    assert (found[1].value, found[1].questions, found[1].too_few) == (pytest.approx(np.nanmean(values[:, 1])), 145, 5)
    assert first == pytest.approx(bootstrap_interval(values[:, 0], seed=3), abs=1e-6), "the same questions are drawn"
    theirs = stats.bootstrap(
        (values[5:, 1],), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert second == pytest.approx((theirs.low, theirs.high), abs=0.006)
    assert third == wilson_interval(150, 150)


def test_a_ratio_is_resampled_as_one() -> None:
    rng = np.random.default_rng(2)
    seconds, right = rng.exponential(100.0, 120), rng.binomial(1, 0.5, 120).astype(float)
    (ours,) = intervals(resampled_ratios(seconds[:, None], right[:, None], seed=0))
    theirs = stats.bootstrap(
        (seconds, right), lambda a, b, axis=-1: a.sum(axis) / b.sum(axis), paired=True, vectorized=True, method="percentile",
        n_resamples=20_000, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert ours == pytest.approx((theirs.low, theirs.high), rel=0.03)
    (nothing,) = intervals(resampled_ratios(seconds[:, None], 0 * right[:, None], seed=0))
    assert all(map(isnan, nothing))
    waiting = Estimates()
    waiting.ratios("r", {"known": (seconds, right), "unknown": (seconds * nan, right), "none": (seconds, 0 * right)})
    found = waiting.made(seed=0)["r"]
    assert found["known"].interval == pytest.approx(ours) and found["known"].value == pytest.approx(seconds.sum() / right.sum())
    assert (found["unknown"].value, found["none"].value, found["none"].interval) == (None, None, None)


def test_the_clustered_error_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(4)
    scored = rng.integers(1, 6, 40)
    correct = rng.binomial(scored, rng.random(40))
    values = np.concatenate([[1.0] * c + [0.0] * (n - c) for n, c in zip(scored, correct, strict=True)])
    groups = np.repeat(np.arange(40), scored)
    fit = OLS(values, np.ones(values.size)).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
    assert clustered_error(scored, correct) == pytest.approx(float(fit.bse[0]), rel=1e-9)
    assert isnan(clustered_error([0], [0]))


def test_errors_of_equal_numbers_of_attempts_have_closed_forms() -> None:
    correct = np.array([0, 1, 4, 2, 4])
    share = correct / 4
    assert clustered_error([4] * 5, correct) == pytest.approx(share.std() / np.sqrt(5))
    assert attempts_error([4] * 5, correct) == pytest.approx(np.sqrt((share * (1 - share) / 3).sum()) / 5)
    assert isnan(attempts_error([1, 1], [0, 1])), "one attempt says nothing of how attempts differ"


@given(st.integers(0, 9), st.integers(0, 5))
def test_where_each_question_was_tried_once_it_is_mcnemars_exact_test(only_a: int, only_b: int) -> None:
    a, b = [1] * only_a + [0] * only_b + [1], [0] * only_a + [1] * only_b + [1]
    theirs = mcnemar([[7, only_a], [only_b, 9]], exact=True).pvalue
    assert paired_difference(a, b, seed=0).p_value == pytest.approx(min(1.0, float(theirs)), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(values: list[float]) -> None:
    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


def test_one_difference_at_every_question_has_no_spread() -> None:
    assert not paired_difference([0.0] * 3, [1.0] * 3, seed=0).has_spread
    assert paired_difference([0.0, 1.0, 0.0], [1.0] * 3, seed=0).has_spread


def test_nothing_to_compare_is_nothing_to_adjust() -> None:
    assert holm([]) == []
