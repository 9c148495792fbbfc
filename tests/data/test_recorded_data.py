"""On the recorded trajectories themselves."""

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path

from recordings import ROOT, needs_recordings

from sanderling.data.importing import import_all
from sanderling.world.recorded import pages_from_trajectories

pytestmark = needs_recordings


@lru_cache(maxsize=1)
def recorded():
    return import_all(ROOT)


def contents() -> Counter[str]:
    """Every message's text, read without the importers."""
    found: Counter[str] = Counter()
    for path in sorted(Path(ROOT).rglob("*.json*")):
        text = path.read_text()
        for entry in [json.loads(text)] if path.suffix == ".json" else map(json.loads, text.splitlines()):
            for case in entry.get("cases", [entry]):
                for message in case.get("messages", case.get("steps", [])):
                    found[message.get("content", "assistant step")] += 1
    return found


def test_no_message_is_lost():
    result = recorded()
    nodes = [node for t in result.trajectories for node in t.nodes]
    given = contents()
    steps = [node for node in nodes if node.raw is not None and node.raw.get("type") == "assistant"]
    assert len(nodes) == sum(given.values()) == result.report.messages == result.report.kept == 1956
    assert Counter(node.text for node in nodes if node not in steps) == given - Counter({"assistant step": len(steps)})
    assert given["assistant step"] == len(steps) == 252
    assert (len(result.trajectories), len(result.questions)) == (116, 100)
    found = Counter(t.meta["layout"] for t in result.trajectories)
    assert found == {
        "dr-venus-sft": 5,
        "dr-venus-rl": 5,
        "literesearcher-cases": 6,
        "webdancer-chatml": 100,
    }


def test_the_recorded_world_has_the_known_size():
    pages, report = pages_from_trajectories(recorded().trajectories)
    assert report.result_lists == 787
    assert report.urls == 5704
    assert report.hits == 7198
    assert len(pages) == report.pages > 5650
    assert pages_from_trajectories(recorded().trajectories)[0] == pages
    assert any("(" in page.url for page in pages) and any("[PDF]" in page.title for page in pages)
