"""Bands of difficulty: arithmetic, order, and what is known too early or too late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sanderling.core.record import Question
from sanderling.synth.generate import META, Band, BandSettings, Try, by_difficulty, difficulty

EIGHT = BandSettings()


def tries(right: int, wrong: int, unscored: int = 0, length: int = 20_000) -> list[Try]:
    results = [True] * right + [False] * wrong + [None] * unscored
    return [Try("q", correct, length, turns=4) for correct in results]


@given(st.integers(0, 8), st.integers(0, 8), st.lists(st.booleans(), max_size=8))
def test_what_is_told_early_stays_so(right, wrong, later):
    if right + wrong + len(later) > 8:
        return
    early = difficulty(tries(right, wrong), EIGHT)["band"]
    late = difficulty(tries(right + sum(later), wrong + len(later) - sum(later)), EIGHT)["band"]
    assert early == Band.UNTOLD or early == late


@pytest.mark.parametrize(
    ("length", "name"), [(0, "lt16k"), (15_999, "lt16k"), (16_000, "16k-32k"), (63_999, "48k-64k"), (64_000, "ge64k")]
)
def test_length_bands(length, name):
    assert EIGHT.length_band(length) == name


@pytest.mark.parametrize("wrong", [{"least_right": 5, "most_right": 3}, {"most_right": 9}, {"lengths": (3, 2)}, {"tries": 1}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValidationError):
        BandSettings(**wrong)


def test_questions_by_band_keep_their_order_and_say_who_measured():
    questions = [Question(id=str(n), text=f"Q{n}?", answers=("a",)) for n in range(4)]
    made = [Try(str(n), k < 3 * n, 100) for n in range(3) for k in range(8)]
    bands, rates = by_difficulty(questions, made, EIGHT, "agent")
    assert [q.id for q in bands[Band.KEPT]] == ["1", "2"] and [q.id for q in bands[Band.TOO_HARD]] == ["0"]
    assert [q.id for q in bands[Band.UNTOLD]] == ["3"]
    assert rates == {"0/8": 1, "3/8": 1, "6/8": 1, "0/0": 1}
    assert bands[Band.KEPT][0].meta[META] == {
        "agent": "agent", "attempts": 8, "band": "kept", "scored": 8, "right": 3, "length": "lt16k", "turns": 0.0,
    }  # fmt: skip
