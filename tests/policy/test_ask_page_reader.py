"""``reader.model``: a model behind a real server on loopback reads the pages; without it nothing is asked of anybody."""

import json
from pathlib import Path

import pytest
from scripted_server import Answer, plain, serve
from typer.testing import CliRunner

from sanderling.cli.ask import ask
from sanderling.cli.world import app
from sanderling.core.errors import UserError
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

URL = "https://w.example/kent"
TEXT = "The river Kent is 32 km long. It flows through Kendal.\n\nNothing else is known of it."
FOUND = json.dumps({"rationale": "r", "evidence": ["It flows through Kendal.", "It is deep."], "summary": "Through Kendal."})


def reply(text: str, finish: str = "stop") -> Answer:
    return plain({"choices": [{"message": {"content": text}, "finish_reason": finish}]})


@pytest.fixture
def world(tmp_path: Path) -> Path:
    build_world(tmp_path / "w", [Page(url=URL, title="Kent", text=TEXT)], name="rivers", source="test")
    return tmp_path / "w"


def visit(world: Path, *options: object):
    arguments = [
        "visit", str(world), URL, "--goal", "which town", "--set", f"reader.cache={world.parent / 'cache'}",
        *map(str, options),
    ]  # fmt: skip
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}, catch_exceptions=False)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((reply("I cannot", "length"), reply("help")), "1 unreadable"),
        ((plain({"error": {"message": "down"}}, 503, Retry_After="0.001"),) * 6, "1 unreachable"),
    ],
)
def test_what_fails_is_read_without_the_model_and_told(world: Path, answers: tuple[Answer, ...], reason: str) -> None:
    without = CliRunner().invoke(app, ["visit", str(world), URL, "--goal", "which town"], env={"COLUMNS": "300"})
    with serve(*answers) as server:
        shown = visit(world, "--set", f"reader.model={server.url}#reader")
    assert shown.stdout == without.stdout and f"read without it: {reason}\n" in shown.stderr
    assert server.answers == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("models/reader", "there is no page reader"),
        ("http://127.0.0.1:1/v1", "lacks the host or the model's name"),
        ("http://127.0.0.1:1/v1?context=5000#m", "leaves a page reader no room"),
    ],
)
def test_wrong_page_readers_are_one_sentence(world: Path, spec: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        visit(world, "--set", f"reader.model={spec}")


def test_an_episode_is_read_for_by_another_model(world: Path, tmp_path: Path) -> None:
    call = json.dumps({"name": "visit", "arguments": {"url": [URL], "goal": "which town"}})
    agent = [f"look</think>\n<tool_call>\n{call}\n</tool_call>", "so</think>\n<answer>Kendal</answer>"]
    with serve(*map(reply, agent)) as policy, serve(reply(FOUND)) as reader:
        ask(
            "Which town?", world=[world], model=f"{policy.url}#agent", profile="dr-venus-4b", out=tmp_path / "asked.jsonl",
            sets=[f"agent.reader.model={reader.url}#reader", f"agent.reader.cache={tmp_path / 'cache'}"],
        )  # fmt: skip
    assert len(reader.asked) == 1
    seen = policy.asked[1][1]["messages"][-1]["content"]
    assert "Evidence in page: \nIt flows through Kendal.\n\nSummary: \nThrough Kendal." in seen and "32 km" not in seen
    assert [trajectory.answer for trajectory in TrajectoryStore(tmp_path / "asked.jsonl")] == ["Kendal"]
