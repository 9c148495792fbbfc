"""Semantics of the figures: unbiased, bounded, honest about what is unscored; against other programs and all subsets."""

from itertools import combinations
from math import comb, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from sanderling.evaluate import statistics
from sanderling.evaluate.figures import estimates

# Intervals and tests ------------------------------------------------------------------------------------------------------


def test_bootstrap_agrees_with_scipy_and_leaves_out_nan() -> None:
    values = np.random.default_rng(3).binomial(4, 0.4, 200) / 4
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(1))
    ours = statistics.bootstrap_interval(values, seed=0)
    assert ours == pytest.approx((theirs.confidence_interval.low, theirs.confidence_interval.high), abs=0.004)
    assert statistics.bootstrap_interval([*values, nan], seed=0) == ours != statistics.bootstrap_interval(values, seed=1)
    assert all(map(isnan, statistics.bootstrap_interval([nan], seed=0)))


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(case: tuple[int, int]) -> None:
    successes, trials = case
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert statistics.wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_edges_of_intervals() -> None:
    assert statistics.wilson_interval(0, 0) == statistics.Interval(0.0, 1.0)
    with pytest.raises(ValueError, match="trials"):
        statistics.wilson_interval(3, 2)
    assert statistics.mean_interval([0.0] * 20, seed=0) == statistics.wilson_interval(0, 20), "constant shares have a width"
    assert statistics.mean_interval([1.0] * 20, seed=0) == statistics.wilson_interval(20, 20)
    assert statistics.mean_interval([0.0, 0.5, 1.0], seed=0) == statistics.bootstrap_interval([0.0, 0.5, 1.0], seed=0)


def test_many_figures_from_one_draw_are_those_of_each() -> None:
    values = np.random.default_rng(1).binomial(4, 0.4, (150, 3)) / 4
    values[:5, 1], values[:, 2] = nan, 1.0
    found = estimates({"m": dict(enumerate(values.T))})["m"]
    assert (found[1].value, found[1].questions, found[1].too_few) == (pytest.approx(np.nanmean(values[:, 1])), 145, 5)
    assert found[0].interval == pytest.approx(statistics.bootstrap_interval(values[:, 0], seed=0), abs=1e-6), (
        "the same questions are drawn"
    )
    theirs = stats.bootstrap((values[5:, 1],), np.mean, method="percentile", rng=np.random.default_rng(1)).confidence_interval
    assert found[1].interval == pytest.approx((theirs.low, theirs.high), abs=0.008)
    assert found[2].interval == statistics.wilson_interval(150, 150)


def test_of_several_worlds_worlds_are_drawn_first_and_then_their_questions() -> None:
    """Against the definition, drawn one at a time; worlds have other numbers of questions and other levels."""
    rng = np.random.default_rng(5)
    own = {"a": rng.binomial(4, 0.9, 30) / 4, "b": rng.binomial(4, 0.5, 60) / 4, "c": rng.binomial(4, 0.7, 45) / 4}
    values, worlds = np.concatenate(list(own.values())), [name for name, of in own.items() for _ in of]

    def drawn() -> float:
        chosen = [own[name] for name in rng.choice(list(own), len(own))]
        return float(np.mean(np.concatenate([rng.choice(of, len(of)) for of in chosen])))

    expected = np.quantile([drawn() for _ in range(10_000)], (0.025, 0.975))
    found = statistics.bootstrap_interval(values, seed=0, worlds=worlds)
    assert found == pytest.approx(tuple(expected), abs=0.012)
    alone = statistics.bootstrap_interval(values, seed=0)
    assert found.low < alone.low - 0.05 and found.high > alone.high + 0.05, "worlds differ, and questions alone hide it"
    assert estimates({"m": {1: values}}, worlds)["m"][1].interval == pytest.approx(found, abs=1e-6)
    assert statistics.paired_difference(values, 0 * values, seed=0, worlds=worlds).interval == pytest.approx(found, abs=1e-6)
    assert statistics.bootstrap_interval(values, seed=0, worlds=["a"] * values.size) == alone


def test_paired_p_values_are_those_of_other_programs() -> None:
    a, b = [1.0, 0.5, 0.75, 0.25, 1.0, 0.0, 0.5, 0.9], [0.5, 0.5, 0.25, 0.5, 0.0, 0.0, 0.25, 0.1]
    exact = stats.permutation_test(
        (a, b), lambda x, y: float(np.mean(x - y)), permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert statistics.paired_difference(a, b, seed=0).p_value == pytest.approx(exact.pvalue)
    rng = np.random.default_rng(2)
    many = rng.random(60)
    more = many + rng.normal(0.05, 0.2, 60)
    found = statistics.paired_difference(more, many, seed=0)
    assert found.p_value == pytest.approx(stats.ttest_rel(more, many).pvalue, abs=0.02)
    assert found.interval.low < found.difference < found.interval.high and found.has_spread
    back = statistics.paired_difference(many, more, seed=0)
    assert (back.difference, back.p_value) == (pytest.approx(-found.difference), found.p_value)


def test_paired_difference_counts_what_it_drops_and_equal_sides_differ_in_nothing() -> None:
    found = statistics.paired_difference([1.0, nan, 0.0], [0.0, 1.0, nan], seed=0)
    assert (found.difference, found.questions, found.dropped) == (1.0, 1, 2)
    same = statistics.paired_difference([0.5, 1.0], [0.5, 1.0], seed=0)
    assert (same.difference, same.interval, same.p_value, same.has_spread) == (0.0, statistics.Interval(0.0, 0.0), 1.0, False)
    for a, b, why in (([nan], [1.0], "both sides"), ([1.0, 0.0], [1.0], "shapes")):
        with pytest.raises(ValueError, match=why):
            statistics.paired_difference(a, b, seed=0)


@given(st.integers(0, 9), st.integers(0, 5))
def test_where_each_question_was_tried_once_it_is_mcnemars_exact_test(only_a: int, only_b: int) -> None:
    a, b = [1] * only_a + [0] * only_b + [1], [0] * only_a + [1] * only_b + [1]
    theirs = mcnemar([[7, only_a], [only_b, 9]], exact=True).pvalue
    assert statistics.paired_difference(a, b, seed=0).p_value == pytest.approx(min(1.0, float(theirs)), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_statsmodels(values: list[float]) -> None:
    assert statistics.holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]))


# What k attempts are worth ------------------------------------------------------------------------------------------------


def test_pass_at_k_is_the_share_of_k_subsets_and_agrees_with_scipy() -> None:
    outcomes = [True, False, False, True, False]
    subsets = list(combinations(outcomes, 3))
    assert statistics.any_right([5], [2], 3)[0, -1] == pytest.approx(sum(map(any, subsets)) / len(subsets))
    n, c = np.array([5, 3, 0, 64]), np.array([2, 3, 0, 9])
    some, every = statistics.any_right(n, c, 64), statistics.all_right(n, c, 64)
    for q, k in np.ndindex(4, 64):
        if k + 1 > n[q]:
            assert isnan(some[q, k]) and isnan(every[q, k]), "too few scored attempts are no figure"
        else:
            assert some[q, k] == pytest.approx(1 - stats.hypergeom.pmf(0, n[q], c[q], k + 1), abs=1e-12)
            assert every[q, k] == pytest.approx(comb(c[q], k + 1) / comb(n[q], k + 1), abs=1e-12)
    assert statistics.any_right([100_000], [1], 64)[0, -1] == pytest.approx(64 / 100_000, rel=1e-9), "no binomial overflows"
    with pytest.raises(ValueError, match="correct"):
        statistics.any_right([3], [4], 1)
