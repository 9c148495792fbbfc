import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import JSON, TEXT

from sanderling.core.errors import UserError
from sanderling.core.parse import parse_turn
from sanderling.core.record import NodeKind, encode_trajectory, question_id
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.data.importers import Layout, detect, import_file, import_tree

SEARCH = '<think>\nhm\n</think>\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
SEEN = "<tool_response>\n[]\n</tool_response>"
DONE = "<think>\nok\n</think>\n<answer>\n42\n</answer>"


def chat(*contents: str) -> list[dict]:
    roles = ["system", "user", *["assistant", "user"] * len(contents)]
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]


def write(path, value) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


MESSAGES = chat("sys", "why?", SEARCH, SEEN, DONE)


def test_dr_venus_sft(tmp_path):
    path = write(tmp_path / "dr" / "0000.json", {"question": "why?", "messages": MESSAGES, "gt": "42<|answer_split|>forty-two"})
    (t,) = import_file(path).trajectories
    assert t.id == "dr/0000#0" and t.ending is None and t.answer == "42"
    assert t.question.answers == ("42", "forty-two")
    assert [node.kind for node in t.nodes] == ["system", "question", "turn", "observation", "turn"]
    assert [message.content for message in t.messages()] == [message["content"] for message in MESSAGES]
    assert t.nodes[2].calls[0].arguments == {"query": ["a"]} and t.nodes[2].think == "hm"
    assert [(event.name, event.role, event.status) for event in t.nodes[3].events] == [("search", "search", ToolStatus.EMPTY)]
    assert all(node.token_ids is None for node in t.nodes)


@pytest.mark.parametrize(
    ("fields", "messages", "ending"),
    [
        ({"request_id": "r", "finished": True}, MESSAGES, Ending.ANSWERED),
        ({"request_id": "r", "finished": False}, MESSAGES, None),
        ({"request_id": "r", "finished": True}, chat("s", "q", SEARCH, SEEN), None),
        ({"request_id": "r", "finished": True}, chat("s", "q", SEARCH, "answer now", DONE), Ending.ANSWERED_AT_BUDGET),
        ({"termination": "answered"}, MESSAGES, Ending.ANSWERED),
        ({"termination": "answered_max_steps"}, MESSAGES, Ending.ANSWERED_AT_BUDGET),
        ({"termination": "timeout"}, MESSAGES, Ending.TIME_LIMIT),
        ({"termination": "who knows"}, MESSAGES, None),
        ({}, MESSAGES, None),
    ],
)
def test_dr_venus_endings(tmp_path, fields, messages, ending):
    result = import_file(write(tmp_path / "a.json", {"messages": messages, **fields}))
    (t,) = result.trajectories
    assert t.ending is ending
    assert t.question.text == messages[1]["content"] and t.question.answers == ()
    assert t.meta["fields"] == fields
    odd = {oddity.code for oddity in result.report.odd}
    assert ("unknown_termination" in odd) == (fields.get("termination") == "who knows")


def test_rollouts_of_one_question_share_its_id(tmp_path):
    rows = "\n".join(json.dumps({"request_id": str(n), "messages": MESSAGES}) for n in range(3))
    found = import_file(write(tmp_path / "x" / "r.jsonl", rows)).trajectories
    assert [t.id for t in found] == ["x/r#0", "x/r#1", "x/r#2"]
    assert len({t.question.id for t in found}) == 1


def test_webdancer(tmp_path):
    told = "Tools:\n<tool_call>\n{...}\n</tool_call>\n\nUser: Who\nwas it?"
    row = {"type": "chatml", "messages": chat("sys", told, SEARCH, SEEN, DONE), "answer": [["42", "x"]], "tag": "t"}
    result = import_file(write(tmp_path / "w.jsonl", json.dumps(row) + "\n\n" + json.dumps(row | {"answer": None}) + "\n"))
    first, second = result.trajectories
    assert first.question.text == "Who\nwas it?" and first.question.answers == ("42", "x") and second.question.answers == ()
    assert first.nodes[1].text == told
    assert first.meta == {"layout": "webdancer-chatml", "fields": {"type": "chatml", "tag": "t"}}


def test_questions(tmp_path):
    result = import_file(write(tmp_path / "q.jsonl", '{"question": "Q?", "answer": 1805, "tag": "t"}\n{"nothing": 1}\n'))
    (question,) = result.questions
    assert (question.text, question.answers, question.meta) == ("Q?", ("1805",), {"tag": "t"})
    assert [(oddity.code, oddity.count) for oddity in result.report.odd] == [("odd_entry", 1)]


STEPS = [
    {"type": "question", "content": "Question:why?"},
    {"type": "assistant", "think": "hm", "tool_calls": [{"name": "search", "queries": ["a", 'b"']}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "", "tool_calls": [{"name": "visit", "urls": ["u"], "goal": "g"}], "answer": None},
    {"type": "tool_response", "content": SEEN},
    {"type": "assistant", "think": "ok", "tool_calls": [], "answer": "42"},
]


def test_literesearcher_turns_are_rebuilt(tmp_path):
    case = {"id": 7, "benchmark": "B", "question": "why?", "reference_answer": "42", "final_answer": "42", "steps": STEPS}
    result = import_file(write(tmp_path / "c.json", {"benchmark": "B", "cases": [case]}))
    (t,) = result.trajectories
    assert (t.question.id, t.question.text, t.question.answers, t.answer) == (question_id("why?"), "why?", ("42",), "42")
    body = '{"name": "search", "arguments": {"query": ["a", "b\\""]}}'
    assert t.nodes[1].text == f"<think>\nhm\n</think>\n\n<tool_call>\n{body}\n</tool_call>"
    assert t.nodes[3].calls[0].arguments == {"url": ["u"], "goal": "g"}
    assert t.nodes[5].text == "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"
    assert [node.raw for node in t.nodes if node.kind is NodeKind.TURN] == [STEPS[1], STEPS[3], STEPS[5]]
    for node in t.turns():
        parsed = parse_turn(node.text)
        assert (parsed.calls, parsed.answer, parsed.problems) == (node.calls, node.answer, ())
    assert result.report.odd == ()


ODD_MESSAGES = [
    None,
    "text",
    3,
    [],
    {},
    {"role": "user"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
    {"role": "narrator", "content": "be nice"},
    {"role": ["user"], "content": "x"},
    {"role": "user", "content": [{"type": "image", "url": "x"}]},
    {"type": "assistant", "think": 3},
    {"type": "assistant", "tool_calls": [{"queries": []}]},
    {"type": "memory", "content": "x"},
]


@pytest.mark.parametrize("odd", ODD_MESSAGES)
@pytest.mark.parametrize("field", ["messages", "steps"])
def test_what_is_not_understood_is_kept_raw(tmp_path, odd, field):
    entry = {"messages": [*MESSAGES, odd]} if field == "messages" else {"cases": [{"steps": [*STEPS, odd]}]}
    result = import_file(write(tmp_path / "a.json", entry))
    (t,) = result.trajectories
    last = t.nodes[-1]
    assert len(t.nodes) == len(MESSAGES if field == "messages" else STEPS) + 1
    assert last.kind is NodeKind.RAW and last.raw == (odd if isinstance(odd, dict) else {"message": odd})
    assert (result.report.messages, result.report.raw) == (len(t.nodes), 1)
    assert result.report.kept + result.report.raw == result.report.messages
    assert len(result.report.odd) >= 1 and all(oddity.example for oddity in result.report.odd)


def test_odd_but_understood_messages_keep_what_the_node_does_not_hold(tmp_path):
    tool = {"role": "tool", "content": "[]", "name": "search"}
    parts = {"role": "assistant", "content": [{"type": "text", "text": SEARCH[:10]}, {"type": "text", "text": SEARCH[10:]}]}
    late = {"role": "user", "content": "hurry up"}
    result = import_file(write(tmp_path / "a.json", {"messages": [*chat("s", "q"), parts, tool, late]}))
    nodes = result.trajectories[0].nodes
    assert [node.kind for node in nodes[2:]] == ["turn", "observation", "hint"]
    assert nodes[2].text == SEARCH and nodes[2].raw == parts
    assert nodes[3].role is Role.USER and nodes[3].raw == tool
    codes = {oddity.code for oddity in result.report.odd}
    assert codes == {"content_in_parts", "bare_user_message"}


MESSAGE = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["system", "user", "assistant", "tool", "x"]) | JSON, "content": TEXT | JSON}
)


@given(st.lists(MESSAGE | JSON, max_size=6), st.sampled_from(["messages", "steps"]))
def test_any_messages_give_as_many_nodes_that_a_store_can_hold(tmp_path_factory, messages, field):
    path = tmp_path_factory.mktemp("i") / "a.json"
    result = import_file(write(path, {"messages": messages} if field == "messages" else {"cases": [{"steps": messages}]}))
    (t,) = result.trajectories
    assert len(t.nodes) == len(messages) == result.report.messages
    encode_trajectory(t)


def test_detect_and_bad_files(tmp_path):
    assert detect(write(tmp_path / "a.json", {"messages": MESSAGES, "gt": "42"})) is Layout.DR_VENUS_SFT
    assert (
        detect(write(tmp_path / "b.json", "\ufeff" + json.dumps({"cases": [{"steps": STEPS}]}))) is Layout.LITERESEARCHER_CASES
    )
    with pytest.raises(UserError, match="no recorded trajectory"):
        detect(write(tmp_path / "c.json", '{"x": 1}'))
    with pytest.raises(UserError, match="no recorded trajectory"):
        detect(write(tmp_path / "d.json", "junk"))
    (tmp_path / "e.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="no recorded trajectory"):
        detect(tmp_path / "e.json")
    with pytest.raises(UserError, match="check the path"):
        detect(tmp_path / "none.json")


def test_unreadable_lines_are_told_and_the_rest_is_kept(tmp_path):
    row = json.dumps({"messages": MESSAGES, "type": "chatml"})
    result = import_file(write(tmp_path / "w" / "a.jsonl", f"{row}\n{row[:50]}\n{row}\n"))
    assert [t.id for t in result.trajectories] == ["w/a#0", "w/a#2"]
    assert ("unreadable_line", 1) in [(oddity.code, oddity.count) for oddity in result.report.odd]


def test_trees_give_distinct_ids_and_skip_other_files(tmp_path):
    for place in ("a/x/0.json", "b/x/0.json", "c/1.json"):
        write(tmp_path / place, {"messages": MESSAGES})
    write(tmp_path / "c" / "package.json", {"name": "x"})
    result = import_tree(tmp_path)
    assert [t.id for t in result.trajectories] == ["a/x/0.json#0", "b/x/0.json#0", "c/1#0"]
    assert [(oddity.code, oddity.count) for oddity in result.report.odd] == [("not_a_recording", 1)]
    assert result.report.files == 3 and result.report.messages == 15
    with pytest.raises(UserError, match="no directory"):
        import_tree(tmp_path / "none")
    with pytest.raises(UserError, match="no recorded"):
        import_tree(write(tmp_path / "e" / "x.txt", "").parent)


def test_values_nested_as_deeply_as_json_goes_are_read(tmp_path):
    deep = "[" * 900 + '"x"' + "]" * 900
    told = '{"question": "q", "gt": %s, "extra": %s, "messages": [%s, {"role": "user", "content": %s}]}'
    (read,) = import_file(write(tmp_path / "dr" / "0.json", told % (deep, deep, deep, deep))).trajectories
    assert read.question.answers == ("x",)
    assert [node.kind for node in read.nodes] == [NodeKind.RAW, NodeKind.RAW]


def test_a_blank_answer_of_a_case_is_none(tmp_path):
    steps = [{"type": "question", "content": "q"}, {"type": "assistant", "think": "t", "answer": "  "}]
    (read,) = import_file(write(tmp_path / "cases.json", {"benchmark": "b", "cases": [{"steps": steps}]})).trajectories
    assert read.answer is None and read.nodes[1].answer is None
    assert read.nodes[1].problems == ("empty_answer", "no_action")
