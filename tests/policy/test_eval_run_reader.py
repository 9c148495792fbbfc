"""``sanderling eval run`` with a model that reads the pages, and with other budgets than the profile's."""

import json
from pathlib import Path

import pytest
from billing_server import Say, billing
from typer.testing import CliRunner, Result

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.result import EvalResult
from sanderling.world.contract import Page
from sanderling.world.disk.building import build_world

KENT, QUIZ = "https://w.example/kent", "https://quiz.example/1"
ASKED = "Through which town in the north of England does the river Kent flow on its way?"
READ = json.dumps({"rationale": "r", "evidence": ["It flows through Kendal."], "summary": "Through Kendal."})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A world with a page that gives the question away, and the question."""
    pages = [
        Page(url=KENT, title="Kent", text="The river Kent is 32 km long.\n\nIt flows through Kendal."),
        Page(url=QUIZ, title="Quiz", text=f"{ASKED} Kendal."),
    ]
    build_world(tmp_path / "w", pages, name="rivers", source="test")
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": "1", "question": ASKED, "answer": "Kendal"}) + "\n")
    return tmp_path


def agent(messages: list[dict[str, str]], before: int) -> str:
    """Visits both pages, then says what it read."""
    if not any(message["role"] == "assistant" for message in messages):
        call = {"name": "visit", "arguments": {"url": [KENT, QUIZ], "goal": "which town"}}
        return f"<think>look</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
    read = "Through Kendal." in messages[-1]["content"]
    return f"<think>so</think>\n<answer>{'Kendal' if read else 'unknown'}</answer>"


def run(place: Path, url: str, *more: object) -> Result:
    arguments = ["run", "jsonl", place / "q.jsonl", "--world", place / "w", "--model", f"{url}#m", "--judge", "exact"]
    wanted = [*arguments, "--out", place / "run", "--set", f"agent.reader.cache={place / 'cache'}", *more]
    return CliRunner().invoke(app, [*map(str, wanted)], env={"COLUMNS": "200"})


def reading(*replies: str | int) -> Say:
    """Says these, the last one again and again."""
    left = list(replies)
    return lambda messages, before: left.pop(0) if len(left) > 1 else left[0]


def test_a_model_reads_what_the_guard_lets_through(place: Path) -> None:
    with billing(agent) as server, billing(reading(READ)) as reader:
        done = run(place, server.url, "--profile", "dr-venus-4b", "--set", f"agent.reader.model={reader.url}#reader")
        assert done.exit_code == 0 and "avg@1 100.0%" in done.output, done.output
        shown = " ".join(message["content"] for messages in reader.asked for message in messages)
        assert len(reader.asked) == 1 and "32 km" in shown
        assert ASKED not in shown, "a page that gives the question away is hidden before a model reads it"
        other = run(place, server.url, "--profile", "dr-venus-4b", "--set", f"agent.reader.model={reader.url}#another")
        none = run(place, server.url, "--profile", "dr-venus-4b")
    for refused in (other, none):
        assert isinstance(refused.exception, UserError) and "made with other settings (reader was" in str(refused.exception)


@pytest.mark.parametrize(("outage", "ending", "code"), [("refuse", Ending.TOOL_OUTAGE, 3), ("fall-back", Ending.ANSWERED, 0)])
def test_a_reader_that_is_away_is_no_weak_agent(place: Path, outage: str, ending: Ending, code: int) -> None:
    options = ["--profile", "dr-venus-4b", "--set", f"agent.reader.on_outage={outage}"]
    with billing(agent) as server, billing(reading(503)) as reader:
        done = run(place, server.url, *options, "--set", f"agent.reader.model={reader.url}?retries=0#reader")
    assert done.exit_code == code, done.output
    assert EvalResult.load(place / "run" / "result.json").endings == {ending: 1}
