"""How far two judges agree, and how far answers are as sure as they are right, against what textbooks and others compute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.evaluate.agreement import bin_of, calibration, has_known_scale
from sanderling.judge.book import agreement

VERDICTS = st.none() | st.booleans()


def test_agreement_against_the_textbook() -> None:
    """20 both yes, 15 both no, 5 and 10 apart: kappa 0.4, the example that textbooks print."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement([*pairs, (None, True), (None, None), (True, None)])
    assert (found.scored, found.first_unscored, found.second_unscored) == (50, 2, 1)
    assert found.agreed == 0.7 and found.kappa == pytest.approx(0.4)


@pytest.mark.parametrize("pairs", [[], [(True, True)] * 3, [(None, True)]])
def test_agreement_without_contrast_has_no_kappa(pairs: list[tuple[bool | None, bool | None]]) -> None:
    assert agreement(pairs).kappa is None


def test_calibration_against_the_closed_form() -> None:
    """Three bins by hand: |95 - 50| of 2 answers, |40 - 100| of 1, |100 - 0| of 1."""
    found = calibration([(95.0, True), (95.0, False), (40.0, True), (100.0, False), (None, True), (0.9, True), (50.0, None)])
    assert [(one.answers, one.confidence, one.right) for one in found.bins if one.answers] == [
        (1, 40.0, 100.0), (3, pytest.approx(290 / 3), pytest.approx(100 / 3)),
    ]  # fmt: skip
    assert found.error == pytest.approx((60 + 3 * abs(290 / 3 - 100 / 3)) / 4)
    assert (found.answers, found.left_out) == (4, 2)


def test_the_last_bin_counts() -> None:
    """Others leave it out: an agent that is always sure and always wrong would be called well calibrated."""
    found = calibration([(100.0, False)] * 120)
    assert found.error == 100.0 and found.bins[-1].answers == 120


@pytest.mark.parametrize(
    ("confidence", "known", "number"),
    [(0.0, True, 0), (0.9, False, 0), (1.0, False, 0), (1.5, True, 0), (10.0, True, 1), (99.9, True, 9), (100.0, True, 9),
     (100.5, False, 9), (-1.0, False, 0)],
)  # fmt: skip
def test_bins_and_scale(confidence: float, known: bool, number: int) -> None:
    assert has_known_scale(confidence) is known and bin_of(confidence) == number


@given(st.lists(st.tuples(st.none() | st.floats(0, 100), VERDICTS)), st.integers(1, 20))
def test_no_answer_is_lost(answers: list[tuple[float | None, bool | None]], bins: int) -> None:
    found = calibration(answers, bins=bins)
    assert found.answers + found.left_out == sum(correct is not None for _, correct in answers)
    assert found.answers == sum(one.answers for one in found.bins) and len(found.bins) == bins
    assert found.error is None if not found.answers else 0.0 <= (found.error or 0.0) <= 100.0


def test_one_bin_is_the_distance_of_the_means_and_none_is_refused() -> None:
    answers = [(80.0, True), (60.0, False), (30.0, True)]
    assert calibration(answers, bins=1).error == pytest.approx(abs(170 / 3 - 200 / 3))
    with pytest.raises(ValueError, match="0 bins"):
        calibration(answers, bins=0)
