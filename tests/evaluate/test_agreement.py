"""Kappa of two judges over a run, against statsmodels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa  # pyright: ignore[reportMissingTypeStubs]

from sanderling.judge.book import agreement


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
