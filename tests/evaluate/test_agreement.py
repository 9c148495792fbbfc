"""Two judges over a run, and confidence against verdicts: figures against statsmodels and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa  # pyright: ignore[reportMissingTypeStubs]

from sanderling.evaluate.agreement import BINS, Pair, agreement_of, calibration_of
from sanderling.judge.book import agreement

VERDICTS = st.booleans() | st.none()


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
    return [Pair(f"q{at}", *pair) for at, pair in enumerate(pairs) for _ in range(attempts)]


def test_figures_of_the_textbooks_example() -> None:
    found = agreement_of(textbook(), seed=0)
    assert (found.kappa, found.agreed, found.questions) == (pytest.approx(0.4), 0.7, 50)
    assert (found.first_average, found.second_average) == (0.5, 0.6)
    assert found.kappa_interval is not None and found.agreed_interval is not None
    # The asymptotic interval of statsmodels is 0.4 ± 0.25; the bootstrap's has to be near it, and not the same.
    assert found.kappa_interval.low == pytest.approx(0.15, abs=0.04) and found.kappa_interval.high == pytest.approx(
        0.65, abs=0.04
    )
    assert found.agreed_interval.low < 0.7 < found.agreed_interval.high


def test_more_attempts_at_the_same_questions_say_no_more() -> None:
    """Copies of a question's verdicts leave the interval as it is: questions are drawn, not attempts."""
    one, eight = agreement_of(textbook(), seed=3), agreement_of(textbook(8), seed=3)
    assert one.kappa_interval == eight.kappa_interval and one.agreed_interval == eight.agreed_interval


def test_order_and_seed() -> None:
    pairs = textbook()
    assert agreement_of(pairs, seed=1) == agreement_of(pairs[::-1], seed=1) != agreement_of(pairs, seed=2)


def test_unscored_verdicts_are_counted_apart() -> None:
    pairs = [*textbook(), Pair("q0", None, True), Pair("q90", None, None), Pair("q91", True, None)]
    found = agreement_of(pairs, seed=0)
    assert (found.first_unscored, found.second_unscored, found.questions) == (2, 1, 50)
    assert found.kappa_interval == agreement_of(textbook(), seed=0).kappa_interval


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("pairs", "agreed"),
    [
        ([], None),
        ([Pair("q", None, True)], None),
        ([Pair("q", True, True), Pair("q", False, False)], 1.0),
        ([Pair("a", True, True), Pair("b", True, True)], 1.0),
    ],
)
def test_what_rests_on_nothing_has_no_interval(pairs: list[Pair], agreed: float | None) -> None:
    found = agreement_of(pairs, seed=0)
    assert found.agreed == agreed and found.kappa_interval is None


@pytest.mark.filterwarnings("error")
def test_draws_without_a_kappa_are_left_out() -> None:
    """Of two questions that each judge calls all right and all wrong, half of the draws have one of them twice."""
    found = agreement_of([Pair("a", True, True), Pair("b", False, False)], seed=0)
    assert found.kappa == 1.0 and found.kappa_interval == (1.0, 1.0)


def test_the_interval_covers_what_it_should() -> None:
    """60 questions, judges that agree in kappa 0.6 by construction: of 200 seeded runs about 95% cover it."""
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(200):
        truth = rng.random(60) < 0.5
        other = np.where(rng.random(60) < 0.2, ~truth, truth)  # 20% apart, evenly: agreement 0.8 against 0.5 by chance
        pairs = [Pair(f"q{at}", bool(truth[at]), bool(other[at])) for at in range(60)]
        interval = agreement_of(pairs, seed=seed)
        assert interval.kappa_interval is not None
        covered += interval.kappa_interval.low <= 0.6 <= interval.kappa_interval.high
    assert abs(covered - 190) <= 4 * (200 * 0.95 * 0.05) ** 0.5, "within four standard errors"


@given(st.lists(st.tuples(st.sampled_from("abc"), VERDICTS, VERDICTS)))
@settings(max_examples=30, deadline=None)
def test_figures_hold_together(rows: list[tuple[str, bool | None, bool | None]]) -> None:
    found = agreement_of([Pair(*row) for row in rows], seed=0)
    assert found.both + found.neither + found.first_only + found.second_only + sum(
        a is None or b is None for _, a, b in rows
    ) == len(rows)
    if found.kappa_interval is not None:
        assert -1.0 <= found.kappa_interval.low <= found.kappa_interval.high <= 1.0
    assert found.first_average is None or 0.0 <= found.first_average <= 1.0


@pytest.mark.filterwarnings("error")
def test_the_errors_interval() -> None:
    rng = np.random.default_rng(0)
    claims = [(f"q{at}", float(claim), bool(rng.random() < claim / 100)) for at, claim in enumerate(rng.uniform(5, 100, 400))]
    found = calibration_of(claims, seed=0)
    assert found.error_interval is not None and found.error is not None
    assert 0.0 < found.error_interval.low <= found.error <= found.error_interval.high < 15.0
    assert calibration_of(claims[::-1], seed=0) == found
    assert calibration_of([("q", *claim[1:]) for claim in claims], seed=0).error_interval is None
    assert calibration_of([("q", None, True)], seed=0).left_out == 1
    sure = calibration_of([(f"q{at}", 100.0, False) for at in range(20)], seed=0)
    assert sure.error_interval == (100.0, 100.0) and len(sure.bins) == BINS
