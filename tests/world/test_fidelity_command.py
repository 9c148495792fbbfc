"""`sanderling world fidelity`: refuses what was built in, labels the upper bound, and says what it cannot show."""

import json

import pytest
from fidelity_fakes import extract, results, trajectory
from typer.testing import CliRunner

from sanderling.cli.world import app
from sanderling.core.errors import UserError

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


def test_impossible_options(recordings, tmp_path):
    world = tmp_path / "w"
    run("build", "recorded", "--from", recordings, "--out", world, "--hold-out", 0.4)
    with pytest.raises(UserError, match="p: "):
        run("fidelity", world, "--against", recordings, "--out", tmp_path / "o", "--set", "p=1")
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
