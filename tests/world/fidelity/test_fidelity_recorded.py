"""On the recorded trajectories themselves."""

import os
from pathlib import Path

import pytest

from sanderling.data.importing import import_all
from sanderling.world.fidelity import Settings, compare_searches, recorded_calls
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import Unit, built_from, pages_from_trajectories, sides, split

ROOT = os.environ.get("SANDERLING_RECORDED", "")
pytestmark = pytest.mark.skipif(
    not (ROOT and Path(ROOT).is_dir()), reason="SANDERLING_RECORDED names no directory of recorded trajectories"
)


def test_what_is_held_out_is_not_in_the_world():
    trajectories = import_all(ROOT).trajectories
    calls = recorded_calls(trajectories)
    assert (len(calls.searches), len(calls.visits), calls.trajectories) == (787, 269, 116)
    for unit in Unit:
        built, held = split(trajectories, 0.2, 0, unit)
        found = sides(trajectories, built_from(built, held, 0.2, 0, unit))
        assert (list(found.built_in), list(found.unseen), found.same_question) == (built, held, ())
    pages, _ = pages_from_trajectories(built)
    world = LocalWorld.in_memory(pages, name="recorded")
    searches = recorded_calls(held[:5]).searches + recorded_calls(built[:5]).searches
    rows = compare_searches(searches, world, lambda url: world.page(url) is not None, Settings())
    assert all(row.values["coverage"] == 1.0 for row in rows[-3:] if row.lengths_recorded)
    assert all((row.values["overlap"] or 0.0) <= (row.values["coverage"] or 0.0) + 1e-9 for row in rows)
