"""Overlap and rank-biased overlap: values by hand, an independent sum of the series, and what must hold for any lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.world.fidelity import distinct, overlap_at, rank_biased_overlap, weight_of_top

lists = st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=12)
persistence = st.floats(min_value=0.05, max_value=0.98)


def series(a, b, p: float) -> float:
    """RBO_EXT from its meaning: agreement at every depth, assumed beyond the lists, summed until nothing is left."""
    short, long = sorted((list(a), list(b)), key=len)
    s, size = len(short), len(long)
    at_s = len(set(short) & set(long[:s]))
    at_l = len(set(short) & set(long))
    total, weight = 0.0, 1.0 - p
    d = 0
    while weight > 1e-14:
        d += 1
        if d <= s:
            agreement = len(set(short[:d]) & set(long[:d])) / d
        elif d <= size:
            agreement = (len(set(short) & set(long[:d])) + at_s * (d - s) / s) / d
        else:
            agreement = (at_l - at_s) / size + at_s / s
        total += weight * agreement
        weight *= p
    return total


@pytest.mark.parametrize(
    ("a", "b", "p", "value"),
    [
        ("abc", "acb", 0.5, 0.875),  # 1/2·1 + 1/4·1/2 + 1/8·1, and 1/8·1 beyond
        ("ab", "ba", 0.5, 0.5),  # agreement 0 at depth 1, 1 from depth 2 on
        ("ab", "ac", 0.5, 0.75),  # 1 at depth 1, 1/2 from depth 2 on
        ("a", "ba", 0.5, 0.25),  # 0 at depth 1; 1/2 at depth 2 and beyond
        ("ab", "abcd", 0.9, 1.0),  # the short list agrees as far as it goes
        ("abc", "abc", 0.9, 1.0),
        ("abc", "def", 0.9, 0.0),
    ],
)
def test_values_by_hand(a, b, p, value):
    assert rank_biased_overlap(a, b, p) == pytest.approx(value, abs=1e-12)


def test_the_weights_of_the_paper():
    """Webber et al. 2010, section 4.1: with p = 0.9 the first ten ranks carry 86% of the weight."""
    assert weight_of_top(10, 0.9) == pytest.approx(0.8556, abs=1e-4)
    for d, p in ((1, 0.5), (5, 0.8), (10, 0.95)):
        weights = [(1 - p) * p ** (n - 1) * min(d, n) / n for n in range(1, 5_000)]
        # what depths beyond d weigh is shared out among their ranks: the first d of n have d/n of it
        assert weight_of_top(d, p) == pytest.approx(sum(weights), abs=1e-9)


@given(lists, lists, persistence)
def test_it_is_the_sum_of_the_series(a, b, p):
    if a and b:
        assert rank_biased_overlap(a, b, p) == pytest.approx(series(a, b, p), abs=1e-9)


@given(lists, lists, persistence, st.integers(1, 15))
def test_both_are_symmetric_and_within_bounds(a, b, p, k):
    for measure in (lambda x, y: overlap_at(x, y, k), lambda x, y: rank_biased_overlap(x, y, p)):
        value = measure(a, b)
        assert value == (pytest.approx(measure(b, a)) if value is not None else measure(b, a))
        assert (value is None) == (not a and not b)
        assert value is None or 0.0 <= value <= 1.0


@given(lists.filter(bool), persistence, st.integers(1, 15))
def test_identical_lists_agree_and_disjoint_ones_do_not(a, p, k):
    strangers = [item.upper() for item in a]
    assert overlap_at(a, a, k) == 1.0 and rank_biased_overlap(a, a, p) == pytest.approx(1.0)
    assert overlap_at(a, strangers, k) == 0.0 and rank_biased_overlap(a, strangers, p) == 0.0
    assert overlap_at(a, [], k) == 0.0 and rank_biased_overlap([], a, p) == 0.0


@given(lists.filter(bool), persistence, st.data())
def test_more_in_common_is_never_less(a, p, data):
    """A stranger in the other list replaced, in its place, by an item of the first that it lacks."""
    b = [item if data.draw(st.booleans()) else item.upper() for item in data.draw(st.permutations(a))]
    missing = [item for item in a if item not in b]
    strangers = [index for index, item in enumerate(b) if item.isupper()]
    if not missing:
        return
    better = list(b)
    better[data.draw(st.sampled_from(strangers))] = data.draw(st.sampled_from(missing))
    assert rank_biased_overlap(a, better, p) > rank_biased_overlap(a, b, p)
    assert all(overlap_at(a, better, k) >= overlap_at(a, b, k) for k in range(1, len(a) + 1))


def test_overlap_counts_within_k_only():
    assert overlap_at("abcd", "dcba", 2) == 0.0
    assert overlap_at("abcd", "dcba", 3) == pytest.approx(2 / 3)
    assert overlap_at("abcd", "dcba", 100) == 1.0
    assert overlap_at("ab", "abcd", 3) == pytest.approx(2 / 3)


def test_what_occurs_again_counts_once():
    assert distinct("abacb") == ("a", "b", "c")
    assert overlap_at("aab", "ab", 2) == 1.0
    assert rank_biased_overlap("aab", "ab", 0.9) == pytest.approx(1.0)


@pytest.mark.parametrize("p", [0.0, 1.0, -1.0, float("nan")])
def test_impossible_parameters_are_refused(p):
    with pytest.raises(ValueError, match="p is"):
        rank_biased_overlap("a", "a", p)
    with pytest.raises(ValueError, match="d is"):
        weight_of_top(1, p)
    with pytest.raises(ValueError, match="k is"):
        overlap_at("a", "a", 0)
