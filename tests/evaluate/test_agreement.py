"""Two judges over a run, and confidence against verdicts: figures against statsmodels and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa  # pyright: ignore[reportMissingTypeStubs]

from sanderling.evaluate.agreement import agreement_of, calibration
from sanderling.judge.book import agreement

Pair = tuple[str, bool | None, bool | None]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2))
def test_kappa_is_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    table = np.zeros((2, 2))
    for first, second in pairs:
        table[int(first), int(second)] += 1
    found = agreement(pairs).kappa
    if found is None:
        assert len({first for first, _ in pairs}) == len({second for _, second in pairs}) == 1
    else:
        assert found == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-12)


def textbook(attempts: int = 1) -> list[Pair]:
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    return [(f"q{at}", *pair) for at, pair in enumerate(pairs) for _ in range(attempts)]


def test_figures_of_the_textbooks_example() -> None:
    found = agreement_of(textbook())
    assert (found.kappa, found.agreed, found.questions) == (pytest.approx(0.4), 0.7, 50)
    assert (found.first_average, found.second_average) == pytest.approx((0.5, 0.6))
    # The asymptotic interval of statsmodels is 0.4 ± 0.25; the bootstrap's has to be near it, and not the same.
    assert found.kappa_interval == pytest.approx((0.15, 0.65), abs=0.04)
    assert found.agreed_interval is not None and found.agreed_interval.low < 0.7 < found.agreed_interval.high
    assert agreement_of(textbook()[::-1]) == found, "in any order"
    eight = agreement_of(textbook(8))
    assert (eight.kappa_interval, eight.agreed_interval) == (found.kappa_interval, found.agreed_interval), (
        "copies of a question's verdicts say no more: questions are drawn, not attempts"
    )


@pytest.mark.filterwarnings("error")
def test_unscored_verdicts_are_counted_apart_and_what_rests_on_nothing_has_no_interval() -> None:
    found = agreement_of([*textbook(), ("q0", None, True), ("q90", None, None), ("q91", True, None)])
    assert (found.first_unscored, found.second_unscored, found.questions) == (2, 1, 50)
    assert found.kappa_interval == agreement_of(textbook()).kappa_interval
    cases: list[tuple[list[Pair], float | None]] = [
        ([], None),
        ([("q", None, True)], None),
        ([("q", True, True), ("q", False, False)], 1.0),
        ([("a", True, True), ("b", True, True)], 1.0),
    ]
    for pairs, agreed in cases:
        alone = agreement_of(pairs)
        assert alone.agreed == agreed and alone.kappa_interval is None
    half = agreement_of([("a", True, True), ("b", False, False)])
    assert half.kappa == 1.0 and half.kappa_interval == (1.0, 1.0), "draws without a kappa are left out"


def test_confidence_against_how_many_are_right() -> None:
    found = calibration([(95.0, True), (95.0, False), (None, True), (0.7, True), (101.0, True), (50.0, None)])
    assert (found.answers, found.left_out, found.error) == (2, 3, pytest.approx(45.0))
    assert [one.answers for one in found.bins][-1] == 2 and found.bins[-1].right == 50.0
    assert calibration([]).error is None
