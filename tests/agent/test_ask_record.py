"""``sanderling ask --record``: the agent's own calls become a world, a replay and a reference from the command line."""

import asyncio
import io
import json
from pathlib import Path

import pytest
import typer
from loop_fakes import call, fake_profile
from rich.console import Console
from typer.testing import CliRunner

from sanderling.cli.ask import ask, research
from sanderling.cli.backend import world_backend
from sanderling.cli.world import REPLAY_FILE, app
from sanderling.core.errors import UserError
from sanderling.policy.contract import PolicyOutageError
from sanderling.policy.scripted import ListPolicy, ScriptedPolicy
from sanderling.tools.recording import open_recording, read_recording, trajectories_of
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld
from sanderling.world.recorded import ReplayTable
from sanderling.world.store import build_world, open_world

PAGES = [
    Page(url="https://w.example/kent", title="Kent", text="# Kent\nThe river Kent flows through Kendal."),
    Page(url="https://w.example/eden", title="Eden", text="# Eden\nThe river Eden flows through Carlisle."),
]
WORLD = LocalWorld.in_memory(PAGES, name="rivers")
RIVERS = world_backend(WORLD, fake_profile())
ANSWER = "<think>Known.</think>\n<answer>The Kent</answer>"


def asked(path: Path, question: str, query: str) -> None:
    turns = ["<think>" + call(query, think="Look."), ANSWER]
    log = open_recording(path)
    console = Console(file=io.StringIO())
    asyncio.run(research(question, RIVERS, ListPolicy(turns), fake_profile(), console=console, log=log))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_what_an_agent_did_becomes_a_world_a_replay_and_a_reference(tmp_path):
    log = tmp_path / "calls.jsonl"
    asked(log, "Which river?", "river Kendal")
    asked(log, "Which town?", "river Carlisle")
    first, second = read_recording(log)
    assert (first.question, first.ordinal, second.question) == ("Which river?", 0, "Which town?")
    world = tmp_path / "w"
    run("build", "recorded", "--from", log, "--out", world)
    assert open_world(world).page("https://w.example/kent") is not None
    table = ReplayTable.load(world / REPLAY_FILE)
    assert table.lookup("search", first.arguments) == first.text
    run("fidelity", world, "--against", log, "--out", tmp_path / "report", "--built-in")
    (part,) = json.loads((tmp_path / "report" / "fidelity.json").read_text())["parts"]
    assert (part["trajectories"], part["questions"], part["searches"]) == (2, 2, 2)
    assert {figure["name"]: figure["value"] for figure in part["figures"]}["coverage"] == 1.0


def test_a_recording_of_outages_alone_builds_nothing(tmp_path):
    log = tmp_path / "calls.jsonl"
    asked(log, "Which river?", "river Kendal")
    line = json.loads(log.read_text())
    log.write_text(json.dumps(line | {"outage": "refused", "status": "outage"}) + "\n")
    with pytest.raises(UserError, match="no call that returned"):
        run("build", "recorded", "--from", log, "--out", tmp_path / "w")


def test_an_episode_that_goes_on_records_each_call_once(tmp_path, monkeypatch):
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    (tmp_path / "model").mkdir()
    troubles = {1: PolicyOutageError("down")}

    def reply(messages, key):
        if key.turn in troubles:
            raise troubles.pop(key.turn)
        return "<think>" + call(f"river {key.turn}") if key.turn < 2 else ANSWER

    def again() -> None:
        where = {"world": tmp_path / "world", "out": tmp_path / "asked.jsonl", "record": tmp_path / "calls.jsonl"}
        ask("Which river?", model=str(tmp_path / "model"), **where)

    monkeypatch.setattr("sanderling.policy.load.open_policy", lambda model, on_retry: ScriptedPolicy(reply))
    with pytest.raises(typer.Exit):
        again()
    again()
    calls = list(read_recording(tmp_path / "calls.jsonl"))
    assert [(call.ordinal, call.arguments) for call in calls] == [(n, {"query": [f"river {n}"]}) for n in (0, 1)]
    (run_of_both,) = trajectories_of(calls)
    assert run_of_both.question.text == "Which river?"


def test_a_place_that_cannot_be_recorded_to_is_told_before_the_work(tmp_path, monkeypatch):
    build_world(tmp_path / "world", PAGES, name="rivers", source="test")
    opened: list[str] = []
    monkeypatch.setattr("sanderling.policy.load.open_policy", opened.append)
    for place in (tmp_path, tmp_path / "world" / "manifest.json", Path("/dev/null")):
        with pytest.raises(UserError, match="choose another place"):
            ask("Which river?", world=tmp_path / "world", model="m", record=place)
    assert opened == []
