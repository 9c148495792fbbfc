"""The ways that are compared score the same, and the page says what the figures say."""

import json
from typing import Any

import pytest


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(request.config.rootpath / "benchmarks"))
    import information_gain

    return information_gain


def test_all_ways_give_the_same_scores(bench: Any) -> None:
    found = bench.measure(bench.Case.of(96, 6), bench.model(), 1)
    assert set(found["largest_gap_nats"]) == {"naive", "padded", "slices"}
    assert max(found["largest_gap_nats"].values()) < 1e-4
    assert found["boundaries_run"]["naive"] == 6, "of a short trajectory all boundaries are run"


def test_what_is_run_of_a_long_one_stands_for_all(bench: Any) -> None:
    case = bench.Case.of(65_536, 200)
    for way in ("naive", "padded"):
        some = case.some(way)
        step = 200 // len(some)
        assert len(some) > 1 and some == list(range(some[0], 200, step))
        # No part of the trajectory is favoured: the mean length is that of all.
        assert sum(case.cuts[at] for at in some) / len(some) == pytest.approx(sum(case.cuts) / 200, rel=0.01)


def test_the_page_is_made_of_the_figures(bench: Any, request: pytest.FixtureRequest) -> None:
    results = request.config.rootpath / "benchmarks" / "results"
    record = json.loads((results / "information_gain.json").read_text(encoding="utf-8"))
    assert (results / "information_gain.md").read_text(encoding="utf-8") == bench.told(record)
