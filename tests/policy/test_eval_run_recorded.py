"""``sanderling eval run world`` over a world of recorded trajectories: what the recording lacks is counted and told."""

import json
import re
from pathlib import Path

import pytest
from billing_server import billing
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.cli.world import app as world_app
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role, ToolCall
from sanderling.evaluate.recorded_calls import recording_of, share_told
from sanderling.evaluate.result import EvalResult, RecordedShare
from sanderling.runs.jsonl import TrajectoryStore

FOUND = [
    {"query": "tidal flats", "web_page_info_list": [{"title": "Flats", "url": "https://w.example/flats", "snippet": "mud"}]}
]


def recorded(id: str, question: Question) -> Trajectory:
    """One search, and its answer."""
    call = ToolCall(name="search", arguments={"query": ["tidal flats"]})
    nodes = (
        Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=question.text),
        Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="…", calls=(call,)),
        Node(parent=1, role=Role.USER, kind=NodeKind.OBSERVATION, text=f"<tool_response>{json.dumps(FOUND)}</tool_response>"),
        Node(parent=2, role=Role.ASSISTANT, kind=NodeKind.TURN, text="<answer>mud</answer>", answer="mud"),
    )
    return Trajectory(id=id, question=question, nodes=nodes, leaf=3, ending=Ending.ANSWERED, answer="mud")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded")
    store = TrajectoryStore(root / "from" / "t.jsonl")
    store.path.parent.mkdir()
    for place, answers in enumerate([("mud",), ("sand",), ()]):
        store.append(
            recorded(str(place), Question(id=f"q{place}", text=f"What are flats number {place} made of?", answers=answers))
        )
    done = CliRunner().invoke(world_app, ["build", "recorded", "--from", str(root / "from"), "--out", str(root / "world")])
    assert done.exit_code == 0, done.output
    return root / "world"


def agent(messages: list[dict[str, str]], before: int) -> str:
    """Asks a recorded query with one that is none, visits the recorded page and one that is none, answers."""
    calls = [
        {"name": "search", "arguments": {"query": ["tidal flats", "tidal  flats"]}},
        {"name": "visit", "arguments": {"url": ["http://W.example/flats/#page=1", "https://w.example/none"], "goal": "mud"}},
    ]
    turn = sum(message["role"] == "assistant" for message in messages)
    if turn < len(calls):
        return f"<think>look</think>\n<tool_call>\n{json.dumps(calls[turn])}\n</tool_call>"
    return "<think>so</think>\n<answer>mud</answer>"


def test_what_the_recording_lacks_is_told(world: Path, tmp_path: Path) -> None:
    run, report = tmp_path / "run", tmp_path / "report"
    with billing(agent) as server:
        wanted = [
            "run",
            "world",
            world,
            "--world",
            world,
            "--model",
            f"{server.url}#m",
            "--profile",
            "dr-venus-4b",
            "--out",
            run,
        ]
        done = CliRunner().invoke(app, [*map(str, wanted), "--attempts", "2"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "avg@2 50.0%" in said, "the question without an accepted answer is not among the world's questions"
    told = "it holds 4 of 8 queries (50.0%) and 4 of 8 visited addresses (50.0%)"
    assert f"The world is a recording: {told}" in said
    assert EvalResult.load(run / "result.json").recorded == RecordedShare(
        queries=8, queries_recorded=4, addresses=8, addresses_recorded=4
    )
    compared = CliRunner().invoke(app, ["report", str(run), "--out", str(report)], env={"COLUMNS": "200"})
    assert told in " ".join(compared.output.split()) and told in (report / "report.md").read_text()
    again = CliRunner().invoke(app, ["judge", str(run), "--judge", "contains"], env={"COLUMNS": "200"})
    assert told in " ".join(again.output.split()), "judged again, the share is the same"


def test_another_attempt_of_one_name_counts_in_the_place_of_the_first(world: Path) -> None:
    recording = recording_of(world)
    assert recording is not None
    question = Question(id="q", text="?")
    unfinished = Trajectory(id="a", question=question, nodes=(), leaf=None, ending=Ending.POLICY_OUTAGE)
    finished = recorded("a", question)
    assert recording.share([unfinished, finished]) == recording.share([finished])
    assert recording.share([finished]) == RecordedShare(queries=1, queries_recorded=1, addresses=0, addresses_recorded=0)
    none = recording.share([])
    assert none == RecordedShare(queries=0, queries_recorded=0, addresses=0, addresses_recorded=0)
    assert re.match(r"it holds 0 of 0 queries and 0 of 0 visited addresses;", share_told(none))


def test_other_worlds_are_no_recordings(tmp_path: Path) -> None:
    assert recording_of(tmp_path) is None
