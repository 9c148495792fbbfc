"""Bands of difficulty: arithmetic, order, and what is known too early or too late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sanderling.synth.generate import Band, BandSettings, Try, difficulty

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
