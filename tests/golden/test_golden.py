"""The code still does what it did on the day the goldens were made; see `goldens.py`."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("goldens", Path(__file__).with_name("goldens.py"))
assert SPEC and SPEC.loader
goldens = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(goldens)


@pytest.mark.parametrize("area", goldens.areas())
def test_an_area_is_as_it_was(area: str) -> None:
    assert goldens.differences(area) == []


def test_goldens_are_the_committed_ones() -> None:
    assert goldens.SUMS.read_text(encoding="utf-8") == goldens.sums()
