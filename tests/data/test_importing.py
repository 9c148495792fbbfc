"""Files and folders as a stream: which are read, ids, what cannot be read, reports; question files; layouts from outside."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_files import DONE, SEARCH, SEEN, TALK, call, read, save
from strategies import JSON, OBJECT, TEXT

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory, encode_record, encode_trajectory
from sanderling.data.importing import Import, LeftOutWarning, open_trajectories
from sanderling.runs.jsonl import TrajectoryStore, write_trajectories

ROW = {"question": "why?", "messages": TALK}
GOOD = json.dumps(ROW)

# -- nothing is lost ------------------------------------------------------------------------------------------------------

ROLES = ["system", "user", "assistant", "tool", "human", "gpt", "function_call", "observation", "reasoning", "answer", "x"]
CALLS = JSON | st.lists(
    st.builds(call, st.sampled_from(["1", "2", 3]), st.sampled_from(["search", "f", "", None]), JSON), max_size=3
)
CONTENT = st.one_of(TEXT, JSON, st.sampled_from([SEARCH, SEEN, DONE, "</think>", '{"name": "f", "arguments": {}}']))
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(ROLES) | JSON,
        "from": st.sampled_from(ROLES),
        "content": CONTENT,
        "value": CONTENT,
        "tool_calls": CALLS,
        "function_call": CALLS,
        "tool_call_id": st.sampled_from(["1", "2", 3, None]),
        "reasoning_content": CONTENT,
        "type": st.sampled_from(["assistant", "question", "tool_response"]),
    },
)
NAMES = ["question", "answer", "gt", "meta", "system_prompt", "system", "termination", "type", "request_id", "response"]
NAMES += ["prompt", "reward_model", "extra_info", "prediction", "gaia_sample", "functions", "label"]
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON | OBJECT))
HOLDERS = ["messages", "conversations", "steps", "conversation_history", "dialog", "request", "cases"]


def recoverable(t: Trajectory) -> list[object]:
    """The messages that a trajectory's nodes hold, as far as they tell."""
    found: list[object] = []
    for node in t.nodes:
        if node.raw is None:
            found.append(node.text)
        elif node.kind is NodeKind.RAW:
            found.append(node.raw.get("message", node.raw) if set(node.raw) == {"message"} else node.raw)
        else:
            found += node.raw["messages"] if set(node.raw) == {"messages"} else [node.raw]
    return found


@given(st.sampled_from(HOLDERS), st.lists(MESSAGE | JSON, max_size=6), FIELDS)
@settings(deadline=None, max_examples=300)
def test_no_message_of_any_layout_is_lost(
    tmp_path_factory: pytest.TempPathFactory, holder: str, messages: list[Any], fields: dict[str, Any]
) -> None:
    held = {"messages": messages} if holder == "request" else [{"steps": messages}] if holder == "cases" else messages
    entry = fields | ({"response": {}} if holder == "request" else {}) | {holder: held}
    try:
        trajectories, report = read(tmp_path_factory.mktemp("i"), json.dumps([entry]))
    except UserError:
        return
    assert report.messages == report.kept + report.raw
    assert report.entries == report.trajectories + report.questions + report.unread
    for t in trajectories:
        encode_trajectory(t)
        assert sum(node.kind is NodeKind.RAW for node in t.nodes) == report.raw
        found = recoverable(t)
        prompts = len(found) - len(messages)
        assert prompts in (0, 1) or holder == "request"  # a system prompt that stood beside the messages
        for message, kept in zip(messages, found[max(0, prompts) :], strict=False):
            text = message.get("content", message.get("value")) if isinstance(message, dict) else message
            assert kept in (message, text)


@given(JSON, st.booleans())
@settings(deadline=None)
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, value: Any, lines: bool) -> None:
    more = b'\n{"question": "q", "answer": "a"}\n' if lines else b""
    try:
        _, report = read(tmp_path_factory.mktemp("j"), encode_record(value) + more, "a.jsonl")
    except UserError:
        return
    assert report.entries == report.trajectories + report.questions + report.unread


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.json", '{"x": 1}', "no recorded trajectory or question"),
        ("d.json", "junk", "no whole JSON"),
        ("e.json", b"\xff\xfe\x00", "not UTF-8"),
        ("torn.json", gzip.compress(f"[{GOOD}]".encode(), mtime=0)[:60], "ended before the end"),
        ("log.jsonl", '{"level": "info"}\n' * 5_000, "no recorded trajectory or question"),
        ("e/x.txt", "", "holds no recorded file"),
        ("none", None, "check the path"),
        ("e/x.csv", '"a"b,c\n1,2\n', "The heading of .* cannot be read"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, name: str, text: str | bytes | None, said: str) -> None:
    path = tmp_path / name if text is None else save(tmp_path / name, text)
    with pytest.raises(UserError, match=said):
        list(Import(path.parent if name.endswith(".txt") else path))


def test_a_pipe_is_refused_before_a_byte_of_it_is_lost(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a device or a pipe"):
        Import(tmp_path / "pipe")


def test_our_own_files_come_back_as_they_are(tmp_path: Path) -> None:
    imported, _ = read(tmp_path, [{"messages": TALK}, ROW], "x/a.json")
    store = TrajectoryStore(tmp_path / "own" / "t.jsonl")
    for t in imported:
        store.append(t)
    write_trajectories(tmp_path / "t.parquet", imported)
    assert tuple(Import(store.path)) == imported == tuple(Import(tmp_path / "t.parquet"))
    again = list(Import(tmp_path))
    assert len(again) == 6 and {t.id for t in again} == {t.id for t in imported}


def test_entries_that_could_not_be_read_are_handed_on_in_order_and_those_of_no_recording_are_not(tmp_path: Path) -> None:
    save(tmp_path / "a" / "x.jsonl", f'nonsense\n{GOOD}\n{{"messages": null}}\nmore')
    save(tmp_path / "a" / "y.json", '{"no": "recording"}')
    met: list[tuple[Any, ...]] = []
    reading = Import(tmp_path / "a", on_unread=lambda *told: met.append(told))
    assert [one.id for one in reading] == ["a/x#1"]
    assert met == [
        ("a/x#0", "nonsense", "unreadable_line", 1),
        ("a/x#2", {"messages": None}, "odd_entry", 1),
        ("a/x#3", "more", "unreadable_line", 1),
    ]
    assert reading.report.unread == 3
    with pytest.warns(LeftOutWarning, match="3 entries that could not be read and 1 file without a recording"):
        assert len(list(open_trajectories(tmp_path / "a"))) == 1


def test_a_layout_of_ones_own_is_asked_first(tmp_path: Path) -> None:
    source = (
        "from sanderling.data.conversation import conversation\nfrom sanderling.data.layouts import Layout\n"
        "MINE = Layout(lambda e: 'talk' in e, lambda e, id, notes: conversation(e, e['talk'], id, notes, question=e['ask']))\n"
    )
    (tmp_path / "mine.py").write_text(source)
    file = save(tmp_path / "a.jsonl", [{"ask": "Who?", "talk": TALK, "messages": []}, ROW])
    name = f"{tmp_path}/mine.py:MINE"
    first, second = Import(file, layout=name)
    assert isinstance(first, Trajectory) and isinstance(second, Trajectory)
    assert (first.question.text, len(first.nodes), first.meta["layout"]) == ("Who?", 4, name)
    assert second.meta["layout"] == "openai-messages"
    for wrong, said in (("sharegtp", "did you mean 'sharegpt'"), (f"{tmp_path}/mine.py:conversation", "is no layout")):
        with pytest.raises(UserError, match=said):
            Import(file, layout=wrong)
