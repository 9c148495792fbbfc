"""What a set is made of: counted exactly where it is small, to three digits where it is large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.data.stats import Distribution, script_of


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_sums_are_exact_and_the_rest_to_three_digits(values: list[int]) -> None:
    found = Distribution()
    for value in values:
        found.add(value)
    assert found.number == len(values) and found.total == sum(values)
    middle = sorted(values)[(len(values) + 1) // 2 - 1]
    assert found.quantile(0.5) == pytest.approx(middle, rel=0.006)
    assert found.quantile(1.0) == found.most == pytest.approx(max(values), rel=0.006)
    assert sum(found.binned([0, found.most // 2 + 1, found.most + 1])) == len(values)


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Who won?", "Latin"),
        ("Ærø og Ålesund", "Latin"),
        ("谁赢了？", "Chinese"),
        ("東京はどこ?", "Japanese"),
        ("ﾄｳｷｮｳ", "Japanese"),
        ("누가 이겼나", "Korean"),
        ("Кто победил?", "Cyrillic"),
        ("من فاز", "Arabic"),
        ("ใครชนะ", "Thai"),
        ("谁写了 Peer Gynt, the play of the century?", "Latin"),
        ("12 + 3?", "no letters"),
        ("", "no letters"),
        ("\U00010330\U00010331", "another script"),
    ],
)
def test_scripts_by_their_letters(text: str, script: str) -> None:
    assert script_of(text) == script
