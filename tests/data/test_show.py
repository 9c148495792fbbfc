import io
import json

import pytest
from hypothesis import given, settings
from import_files import save as write
from rich.console import Console
from strategies import trajectories
from test_jsonl import make

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Ending, Role, ToolCall, ToolStatus
from sanderling.data.show import find_trajectory, render
from sanderling.runs.jsonl import TrajectoryStore


def printed(draw) -> str:
    out = io.StringIO()
    draw(Console(file=out, width=120, force_terminal=False))
    return out.getvalue()


def shown(trajectory: Trajectory, **options) -> str:
    return printed(lambda console: console.print(render(trajectory, **options)))


def shown_file(path, **options) -> str:
    return shown(find_trajectory(path, **options))


def turn(parent, text="…", **fields) -> Node:
    return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text=text, **fields)


HITS = [{"title": f"Title {n}", "url": f"https://x.org/{n}", "snippet": "[bold]words[/bold]"} for n in range(8)]
SEEN = "<tool_response>\n" + json.dumps([{"query": "a", "web_page_info_list": HITS}]) + "\n</tool_response>"


def whole() -> Trajectory:
    search = ToolCall(name="search", arguments={"query": ["[red]a[/red]"]})
    event = ToolEvent(name="search", role="search", status=ToolStatus.TIMEOUT)
    nodes = (
        Node(parent=None, role=Role.SYSTEM, kind=NodeKind.SYSTEM, text="the system prompt"),
        Node(parent=0, role=Role.USER, kind=NodeKind.QUESTION, text="why?"),
        turn(1, text="garbled attempt", rejected=True, problems=("no_action",)),
        turn(1, think="let me think", calls=(search,), token_ids=(1, 2, 3)),
        Node(parent=3, role=Role.USER, kind=NodeKind.OBSERVATION, text=SEEN, events=(event,)),
        turn(4, text="x" * 700 + "\x1b[2Jend", problems=("stray_text",), answer="42"),
        turn(3, text="reset"),
    )
    question = Question(id="q", text="why?", answers=("42", "forty-two"))
    return Trajectory(id="t", question=question, nodes=nodes, leaf=5, ending=Ending.ANSWERED, answer="42", model="m")


def test_everything_worth_reading_is_there():
    text = shown(whole())
    for expected in (
        "why?",
        "accepted: 42 | forty-two",
        "turn 1 · 3 tokens",
        "let me think",
        '→ search(query=["[red]a[/red]"])',
        "8 results, search: timeout",
        "Title 4  https://x.org/4",
        "odd: stray_text",
        "characters more)",
        "answered",
        "2 turns, 1 searches, 0 visits, 1 rejected attempts",
    ):
        assert expected in text
    assert "the system prompt" not in text and "Title 5" not in text and "garbled attempt" not in text


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize(("outcome", "said"), [(1.0, "1"), (0.0, "0"), (2 / 3, "0.667"), (None, "unscored")])
def test_a_rollout_says_what_it_was_scored(outcome, said, trained):
    meta = {"rl": {"group": 3, "attempt": 0, "outcome": outcome}} if trained else {"held_out": outcome, "held_out_attempt": 0}
    lines = [line.strip("│ ").split() for line in shown(whole().model_copy(update={"meta": meta})).splitlines()]
    assert ["outcome", said] in lines
    assert not any(line[:1] == ["outcome"] for line in map(str.split, shown(whole()).replace("│", " ").splitlines()))


def test_full_shortens_nothing():
    text = shown(whole(), full=True)
    assert "the system prompt" in text and "more)" not in text and "[bold]words[/bold]" in text.replace("\n", "")
    assert text.count("x") >= 700


@given(trajectories())
@settings(max_examples=40, deadline=None)
def test_any_record_can_be_printed(trajectory):
    assert shown(trajectory).encode("utf-8").strip()
    assert len(shown(trajectory, full=True).encode("utf-8")) > 0


def test_bad_files_are_one_sentence(tmp_path):
    store = TrajectoryStore(tmp_path / "s.jsonl")
    store.append(make("first"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "noise.jsonl").write_bytes(bytes(range(256)))
    write(tmp_path / "q.jsonl", '{"question": "Q?", "answer": "A"}\n')
    for path, options, message in (
        (tmp_path / "none.jsonl", {}, "no file"),
        (tmp_path / "folder", {}, "holds no recorded file"),
        (tmp_path / "empty.jsonl", {}, "holds 0 trajectories"),
        (tmp_path / "noise.jsonl", {}, "no recorded trajectory"),
        (tmp_path / "q.jsonl", {}, "questions and no trajectories"),
        (store.path, {"id": "frist"}, "did you mean 'first'"),
        (store.path, {"index": 1}, "holds 1 trajectories"),
    ):
        with pytest.raises(UserError, match=message):
            shown_file(path, **options)
