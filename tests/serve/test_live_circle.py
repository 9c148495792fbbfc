"""The circle: a served world is researched as the live web is, the record becomes a world, and both are compared with it."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sanderling.agent.places import PlaceConfig, opened_places
from sanderling.cli.ask import ask
from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.core.types import Ending, ToolStatus
from sanderling.policy.contract import ScriptedPolicy
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.tools.recording import read_recording
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
from sanderling.world.live import LIVE_WEB

FILM = "https://en.example/wiki/Alien_(film)"
BEES = "https://b.example/x?y=1&z=a%2Fb"
SERVE = "from sanderling.cli.main import main; main()"


def turn(tool: str, **arguments: object) -> str:
    return f"<think>Look.</think>\n<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


TURNS = [
    turn("search", query=["ridley scott film", "honey"]),
    turn("visit", url=[FILM], goal="who plays Ripley"),
    turn("visit", url=["https://no.example/"], goal="nothing"),
    turn("search", query=["外星人"]),
    "<think>Known.</think>\n<answer>Sigourney Weaver</answer>",
]


@pytest.fixture
def served(tmp_path, pages):
    """A world in a directory, and the base URL of a server of it."""
    build_world(tmp_path / "a", pages, name="small", source="test")
    command = [sys.executable, "-c", SERVE, "world", "serve", str(tmp_path / "a"), "--port", "0", "--token-env", "THE_KEY"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"THE_KEY": "k"})
    try:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)", process.stderr.readline())
        assert found
        yield tmp_path / "a", found[1]
    finally:
        process.kill()
        process.communicate()


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_from_a_served_world_to_a_recorded_one_and_back(tmp_path, served, monkeypatch):
    world, url = served
    policy = ScriptedPolicy(lambda messages, key: TURNS[key.turn], "list")
    (tmp_path / "config.json").write_text("{}")  # as a model's directory has it
    monkeypatch.setattr("sanderling.agent.opening.open_policy", lambda model, **how: policy)
    monkeypatch.setenv("SERPER_API_KEY", "k")
    monkeypatch.setenv("JINA_API_KEY", "k")
    log = tmp_path / "calls.jsonl"
    sets = [f"agent.search_url={url}", f"agent.reader_url={url}"]
    where = {"web": True, "sets": sets, "record": log, "out": tmp_path / "asked.jsonl"}
    ask("Who plays Ripley?", model=str(tmp_path), profile="literesearcher-4b", **where)
    (done,) = TrajectoryStore(tmp_path / "asked.jsonl")
    assert done.ending is Ending.ANSWERED and done.world == LIVE_WEB
    calls = list(read_recording(log))
    assert [call.parts for call in calls] == [(ToolStatus.OK,) * 2, (ToolStatus.OK,), (ToolStatus.NOT_FOUND,), (ToolStatus.OK,)]
    assert all(call.latency_s > 0 and call.elapsed_s > 0 for call in calls)  # real seconds, not a world's

    run("build", "recorded", "--from", log, "--out", tmp_path / "b")
    recorded = open_world(tmp_path / "b")
    page = recorded.page(FILM)
    assert page is not None and "Sigourney Weaver" in page.text and recorded.page(BEES) is not None
    run("fidelity", world, "--against", log, "--out", tmp_path / "report")  # the record of a world, against that world
    compared = json.loads((tmp_path / "report" / "fidelity.json").read_text())["compared"]
    assert compared["label"] == "not known to be held out"
    found = {figure["name"]: figure["value"] for figure in compared["figures"]}
    assert [found[name] for name in ("overlap", "visit_held")] == [1.0, 0.5]


async def test_serper_itself_wants_a_key(monkeypatch):
    monkeypatch.delenv("SERPER_API_KEY", raising=False)
    with pytest.raises(UserError, match="SERPER_API_KEY"):
        async with opened_places(PlaceConfig(web=True), get_profile("tiny")):
            pass
