"""Files and folders as a stream: which are read, ids, what cannot be read, reports; question files; layouts from outside."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_files import DONE, SEARCH, SEEN, TALK, call, called, codes, kinds, read
from made_files import save
from strategies import JSON, OBJECT, TEXT

from sanderling.core.chat import unwrap
from sanderling.core.errors import UserError
from sanderling.core.observations import read_link, read_observation
from sanderling.core.record import NodeKind, Question, Trajectory, encode_record
from sanderling.data.importing import Import, LeftOutWarning, open_trajectories
from sanderling.data.messages import read_message
from sanderling.data.questions import read_questions, write_questions
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
@settings(max_examples=2 * settings.default.max_examples)
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
        encode_record(t)
        assert sum(node.kind is NodeKind.RAW for node in t.nodes) == report.raw
        found = recoverable(t)
        prompts = len(found) - len(messages)
        assert prompts in (0, 1) or holder == "request"  # a system prompt that stood beside the messages
        for message, kept in zip(messages, found[max(0, prompts) :], strict=False):
            text = message.get("content", message.get("value")) if isinstance(message, dict) else message
            assert kept in (message, text) or unwrap(str(kept)) == text


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


def test_a_file_of_our_own_questions_is_read_whole_and_of_talks_what_was_asked(tmp_path: Path) -> None:
    question = Question(id="q1", text="Where?", answers=("Oslo",))
    write_questions(tmp_path / "q.jsonl", [question])
    with (tmp_path / "q.jsonl").open("a") as file:
        file.write('\n{"id": "q2"}\n')
    with pytest.raises(UserError, match=r"Line 3 of .*q\.jsonl is no question \(text: Field required\): mend or remove it"):
        read_questions(tmp_path / "q.jsonl")
    halved = [question.model_copy(update={"text": "Where is \ud800?"})]  # as is left of an emoji that was cut
    write_questions(tmp_path / "halved.jsonl", halved)
    assert read_questions(tmp_path / "halved.jsonl") == halved
    (talk,) = read(tmp_path, [{"messages": TALK}], "x/a.json")[0]
    silent = talk.model_copy(update={"id": "silent", "question": question.model_copy(update={"text": ""})})
    write_trajectories(tmp_path / "t.parquet", [talk, silent])
    assert read_questions(tmp_path / "t.parquet") == [talk.question]
    write_trajectories(tmp_path / "t.parquet", [silent])
    with pytest.raises(UserError, match="holds no question: give a file of questions"):
        read_questions(tmp_path / "t.parquet")
    write_questions(tmp_path / "none.jsonl", [])
    with pytest.raises(UserError, match=r"none\.jsonl holds no question: give a file of questions"):
        read_questions(tmp_path / "none.jsonl")


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


# -- messages -------------------------------------------------------------------------------------------------------------

ODD_MESSAGES = [
    None, "text", 3, [], {}, {"role": "user"}, {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
    {"role": "narrator", "content": "be nice"}, {"role": ["user"], "content": "x"},
    {"role": "user", "content": [{"type": "image", "url": "x"}]}, {"type": "assistant", "think": 3},
    {"type": "assistant", "tool_calls": [{"queries": []}]}, {"type": "memory", "content": "x"},
]  # fmt: skip
STEPS = [
    {"type": "question", "content": "Question:why?"},
    {"type": "assistant", "think": "hm", "tool_calls": [{"name": "search", "queries": ["a", 'b"']}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "", "tool_calls": [{"name": "visit", "urls": ["u"], "goal": "g"}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "ok", "tool_calls": [], "answer": "42"},
]


@pytest.mark.parametrize("odd", ODD_MESSAGES)
@pytest.mark.parametrize("field", ["messages", "steps"])
def test_what_is_not_understood_is_kept_raw(tmp_path: Path, odd: Any, field: str) -> None:
    before: list[Any] = TALK if field == "messages" else STEPS
    (t,), report = read(tmp_path, {"cases": [{field: [*before, odd]}]})
    last = t.nodes[-1]
    assert len(t.nodes) == len(before) + 1 == report.messages
    assert last.kind is NodeKind.RAW and last.raw == (odd if isinstance(odd, dict) else {"message": odd})
    assert report.raw == 1 and all(report.examples[code] for code in report.odd)


KEYS = ["type", "role", "content", "text", "value", "id", "tool_calls", "output", "from"]
WORDS = st.sampled_from(["human", "assistant", "user", "tool", "tool_result", "tool_use", "reasoning", "text"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner | WORDS, max_size=5),
    max_leaves=12,
)


@given(VALUES)
def test_any_value_is_one_message(value: Any) -> None:
    assert read_message(value).original == value


def test_sharegpt_with_calls_of_their_own(tmp_path: Path) -> None:
    bare = '{"name": "search", "arguments": {"query": ["b"]}}'
    says = [("human", "why?"), ("gpt", SEARCH), ("observation", SEEN), ("function_call", bare), ("observation", "x")]
    says += [("function_call", "no json"), ("stranger", "who?"), ("gpt", "42")]
    (t,), report = read(tmp_path, {"conversations": [{"from": who, "value": text} for who, text in says], "system": "sys"})
    assert kinds(t) == ["system", "question", "turn", "observation", "turn", "observation", "turn", "raw", "turn"]
    assert called(t) == [("search", {"query": ["a"]}), ("search", {"query": ["b"]})] and t.answer == "42"
    assert {"odd_tool_calls": 1, "answer_without_tags": 1, "unknown_role": 1}.items() <= codes(report).items()


def test_content_in_parts_is_joined_and_what_is_no_text_left_out(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "why"}, {"type": "image_url", "image_url": "u"}, "?"]
    (t,), report = read(tmp_path, {"messages": [{"role": "user", "content": parts}, *TALK[1:]]})
    assert t.question.text == "why?" and t.nodes[0].raw == {"role": "user", "content": parts}
    assert codes(report) == {"content_in_parts": 1, "parts_left_out": 1}


# -- Observations as systems recorded them: links, wrappers, truncated lists -------------------------------------------------


def wrapped(body: str) -> str:
    return f"<tool_response>\n{body}\n</tool_response>"


@pytest.mark.parametrize(
    ("line", "title", "url"),
    [
        ("[Alien](https://en.wikipedia.org/wiki/Alien_(film))", "Alien", "https://en.wikipedia.org/wiki/Alien_(film)"),
        ("[DDT](https://x.org/Titan_(DDT)_(b))", "DDT", "https://x.org/Titan_(DDT)_(b)"),
        ("[a](https://x.org/S0031-6997(24)00721-X/fulltext)", "a", "https://x.org/S0031-6997(24)00721-X/fulltext"),
        ("[[PDF] Manual](https://x.org/m.pdf)", "[PDF] Manual", "https://x.org/m.pdf"),
        ("[[Discussion][Breed] Is it ...](https://x.org/a)", "[Discussion][Breed] Is it ...", "https://x.org/a"),
        ("[Final [HD Remaster]](https://x.org/v?a=1)", "Final [HD Remaster]", "https://x.org/v?a=1"),
        ("[cut off [PDF ...](https://x.org/a)", "cut off [PDF ...", "https://x.org/a"),
        ("[odd ] title](https://x.org/a)", "odd ] title", "https://x.org/a"),
        ("[smile :)](https://x.org/:))", "smile :)", "https://x.org/:)"),
        ("[a](https://x.org/a_(b)", "a", "https://x.org/a_(b"),
        ("[](https://x.org/a)", "", "https://x.org/a"),
        ("[T](https://x.org/Health_ Estimates)", "T", "https://x.org/Health_ Estimates"),
        ("[T](https://x.org/a) trailing words", "T", "https://x.org/a"),
    ],
)
def test_links_keep_brackets_and_parentheses(line, title, url):
    assert read_link(line) == (title, url)


@given(st.text())
def test_unwrap_undoes_the_wrapper_exactly(text):
    assert unwrap(wrapped(text)) == text


PIECES = ["[", "]", "(", ")", "](", "1. [", "\n", "\n=======\n", "x", '"', ",", '{"query": ', '"web_page_info_list": [']
PIECES += ["A Google search for '", "' found 1 results:\n\n## Web Results\n"]
PIECES += ["The useful information in ", " for user goal ", " as follows: \n"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_reading_never_raises(text):
    read_observation(text)
    read_observation("[" + text)


def test_a_truncated_list_yields_every_whole_entry():
    lists = [
        {"query": f'q{i} "x"', "web_page_info_list": [{"title": "t", "url": f"https://x.org/{i}{j}"} for j in range(3)]}
        for i in range(2)
    ]
    body = json.dumps(lists)
    for cut in range(2, len(body) - 1):
        part = body[:cut]
        reading = read_observation(wrapped(part))
        assert reading.problems[0] == "truncated_results"
        found = [hit.url for block in reading.blocks for hit in block.hits]
        assert found == [f"https://x.org/{i}{j}" for i in range(2) for j in range(3)][: part.count('"}')]


@pytest.mark.parametrize("line", ["[no link]", "[empty]()", "no bracket", "[", "", "[a](unclosed"])
def test_what_is_no_link_is_none(line):
    assert read_link(line) is None
