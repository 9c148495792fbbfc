"""`sanderling world fidelity`: refuses what was built in, labels the upper bound, and says what it cannot show."""

import json

import pytest
from fidelity_fakes import extract, results, trajectory
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.evaluate.fidelity import by_question, distance, lengths, measures
from sanderling.evaluate.fidelity_run import BUILT_IN, LIMITS, UNSEEN
from sanderling.world.contract import Page
from sanderling.world.disk.store import build_world
from sanderling.world.fidelity import VisitRow

HOSTILE = "<script>alert(1)</script>"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def recordings(tmp_path):
    """A directory of twenty trajectories in a known layout; three pages are met by all."""
    place = tmp_path / "recorded"
    place.mkdir()
    for number in range(20):
        urls = [f"https://site{n}.example/page" for n in range(3)] + [f"https://only{number}.example/x"]
        search = results((f"topic{number} sea bird", [(url, f"bird of the sea {HOSTILE} {url}") for url in urls]))
        said = [search, extract(urls[0], "a bird of the sea, seen")]
        nodes = trajectory(f"t{number}", f"question {number}", *said).nodes
        messages = [{"role": "system", "content": "s"}]
        call = '<tool_call>\n{"name": "search", "arguments": {"query": ["x"]}}\n</tool_call>'
        messages += [{"role": node.role.value, "content": node.text if node.role.value == "user" else call} for node in nodes]
        data = {"question": f"question {number}", "messages": messages, "gt": "x"}
        (place / f"{number:02}.json").write_text(json.dumps(data))
    return place


def report(place):
    return json.loads((place / "fidelity.json").read_text())


def test_held_out_and_upper_bound(recordings, tmp_path):
    world, out = tmp_path / "w", tmp_path / "out"
    run("build", "recorded", "--from", recordings, "--out", world, "--hold-out", 0.4, "--seed", 1)
    run("fidelity", world, "--against", recordings, "--out", out, "--built-in", "--k", 3)
    found = report(out)
    unseen, built_in = found["parts"]
    assert (unseen["label"], built_in["label"]) == (UNSEEN, BUILT_IN)
    assert unseen["trajectories"] + built_in["trajectories"] == 20 and 3 <= unseen["trajectories"] <= 13
    figures = {figure["name"]: figure for figure in unseen["figures"]}
    assert figures["coverage"]["value"] == 1.0 and figures["coverage"]["n"] == unseen["searches"]
    low, high = figures["overlap"]["interval"]
    assert low <= figures["overlap"]["value"] <= high
    assert found["limits"] == list(LIMITS) and found["settings"]["k"] == 3
    page = (out / "fidelity.html").read_text()
    assert all(limit.replace("'", "&#39;") in page for limit in LIMITS)
    assert "upper bound" in page and HOSTILE not in page
    assert "site0" not in page + json.dumps(found), "figures only: no address, no recorded text"


def test_what_was_built_in_is_refused(recordings, tmp_path):
    world = tmp_path / "w"
    run("build", "recorded", "--from", recordings, "--out", world)
    with pytest.raises(UserError, match="All 20 trajectories were built into this world"):
        run("fidelity", world, "--against", recordings, "--out", tmp_path / "out")
    run("fidelity", world, "--against", recordings, "--out", tmp_path / "out", "--built-in")
    (only,) = report(tmp_path / "out")["parts"]
    assert only["label"] == BUILT_IN
    assert "only the upper bound" in report(tmp_path / "out")["remarks"][0]
    (world / "built_from.json").unlink()
    with pytest.raises(UserError, match="build it again"):
        run("fidelity", world, "--against", recordings, "--out", tmp_path / "out", "--built-in")


@pytest.mark.parametrize("by_way_of", ["recordings", "world"])
def test_trajectories_that_are_added_later_are_not_held_out(recordings, tmp_path, by_way_of):
    """Whether they come as they are or in a world that was built from them."""
    world, out = tmp_path / "w", tmp_path / "out"
    run("build", "recorded", "--from", recordings, "--out", world, "--hold-out", 0.4, "--seed", 1)
    added = f"recorded:{recordings}"
    if by_way_of == "world":
        run("build", "from", added, "--out", tmp_path / "other")
        added = str(tmp_path / "other")
    run("add", world, added)
    refused = CliRunner().invoke(app, ["fidelity", str(world), "--against", str(recordings), "--out", str(out)])
    assert isinstance(refused.exception, UserError) and "All 20 trajectories were built into" in str(refused.exception)


def test_a_world_that_was_added_to_is_compared_with_a_remark(recordings, tmp_path):
    world, out, more = tmp_path / "w", tmp_path / "out", tmp_path / "more.jsonl"
    run("build", "recorded", "--from", recordings, "--out", world, "--hold-out", 0.4, "--seed", 1)
    more.write_text(json.dumps({"url": "https://new.example/1", "title": "New", "text": "A new page about birds."}))
    run("add", world, more)
    run("fidelity", world, "--against", recordings, "--out", out)
    found = report(out)
    assert [part["label"] for part in found["parts"]] == [UNSEEN] and "other sources too" in found["remarks"][0]


def test_a_world_of_other_pages_has_no_list_and_says_so(recordings, tmp_path):
    build_world(tmp_path / "w", [Page(url="https://site0.example/page", title="t", text="bird")], name="w", source="jsonl x")
    run("fidelity", tmp_path / "w", "--against", recordings, "--out", tmp_path / "out")
    found = report(tmp_path / "out")
    assert "nothing shows" in found["remarks"][0]
    figures = {figure["name"]: figure["value"] for figure in found["parts"][0]["figures"]}
    assert figures["coverage"] == 0.25 and figures["found_of_held"] == 1.0 and figures["visit_failed_world"] == 0.0


def test_impossible_options(recordings, tmp_path):
    world = tmp_path / "w"
    run("build", "recorded", "--from", recordings, "--out", world, "--hold-out", 0.4)
    with pytest.raises(UserError, match="--p is 1"):
        run("fidelity", world, "--against", recordings, "--out", tmp_path / "o", "--p", 1)
    with pytest.raises(UserError, match="There is no"):
        run("fidelity", world, "--against", tmp_path / "none", "--out", tmp_path / "o")
    (tmp_path / "file").write_text("")
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(UserError, match="is no recording"):
        run("fidelity", world, "--against", tmp_path / "note.txt", "--out", tmp_path / "o")
    with pytest.raises(UserError, match="--out"):
        run("fidelity", world, "--against", recordings, "--out", tmp_path / "file")
    with pytest.raises(UserError, match="cannot be held out"):
        run("build", "recorded", "--from", recordings, "--out", tmp_path / "x", "--hold-out", 1)


def test_distributions():
    found = lengths([3, 3, 7, 40])
    assert (found.n, found.mean, found.quantiles["0.5"]) == (4, 13.25, 5.0)
    assert found.cumulative[:3] == (0.0, 0.5, 0.75) and found.cumulative[8] == 1.0
    assert lengths([]).cumulative == ()
    assert distance([1, 2, 3], [1, 2, 3]) == 0.0 and distance([1, 2], [3, 4]) == 1.0 and distance([], [1]) is None
    assert distance([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5


def test_one_value_has_no_interval():
    row = VisitRow("q", {"extract_jaccard": 0.25}, ToolStatus.OK, ToolStatus.OK)
    one = {figure.name: figure for figure in measures([], [row], seed=0)}["extract_jaccard"]
    assert (one.n, one.value, one.interval, one.interval_by_question) == (1, 0.25, None, None)


def test_questions_are_resampled_whole():
    import numpy as np

    groups, values = ["a"] * 50 + ["b"] * 50, np.array([0.0] * 50 + [1.0] * 50)
    assert by_question(groups, values, seed=0) == (0.0, 1.0)
    low, high = by_question(groups, np.zeros(100), seed=0)
    assert low == 0.0 and high > 0.5, "two questions are no certainty"
    assert by_question(["a", "a"], np.array([0.0, 1.0]), seed=0) is None
