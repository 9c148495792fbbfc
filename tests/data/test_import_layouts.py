"""Every layout in small, as its files look, and what becomes of each field."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cleaning_makers import step

from sanderling.core.parse import parse_turn
from sanderling.core.record import NodeKind, question_id
from sanderling.core.types import Ending, ToolStatus
from sanderling.data.importers import Layout, detect, import_file, import_tree
from sanderling.data.importers.registry import LAYOUTS
from sanderling.data.questions import read_questions, write_questions
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.parquet import write_parquet

SEARCH = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
SEEN = "<tool_response>\n[]\n</tool_response>"
DONE = "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"
TALK = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": SEARCH},
    {"role": "user", "content": SEEN},
    {"role": "assistant", "content": DONE},
]


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(id, content, **more):
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


OPENAI = [
    {"role": "system", "content": "sys"},
    {"role": "user", "content": "why?"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "two things",
        "tool_calls": [call("1", "search", '{"query": ["a"]}'), call("2", "visit", {"url": ["u"], "goal": "g", "x": None})],
    },
    tool("2", "The useful information in u for user goal g as follows: \n\nEvidence in page: \nyes\n\nSummary: \nyes"),
    tool("1", "[]"),
    {"role": "assistant", "content": "It is 42."},
]


def save(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def one(path, value):
    (found,) = import_file(save(path, value)).trajectories
    return found


def test_every_layout_has_one_reader():
    assert sorted(reader.layout for reader in LAYOUTS) == sorted(Layout)


def test_tool_calls_become_the_protocols_text(tmp_path):
    result = import_file(save(tmp_path / "o" / "a.json", {"messages": OPENAI, "id": 7}))
    (t,) = result.trajectories
    assert t.meta == {"layout": "openai-messages", "fields": {"id": 7}}
    assert [node.kind for node in t.nodes] == ["system", "question", "turn", "observation", "turn"]
    turn = t.nodes[2]
    assert turn.text == (
        "<think>\ntwo things\n</think>\n\n"
        '<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>\n\n'
        '<tool_call>\n{"name": "visit", "arguments": {"url": ["u"], "goal": "g"}}\n</tool_call>'
    )
    assert (turn.think, [c.arguments for c in turn.calls]) == ("two things", [{"query": ["a"]}, {"url": ["u"], "goal": "g"}])
    assert turn.raw == OPENAI[2] and turn.problems == ("several_calls",)
    assert t.answer == "It is 42." and t.nodes[4].text == "<answer>\nIt is 42.\n</answer>" and t.nodes[4].raw == OPENAI[5]
    assert (result.report.messages, result.report.kept, result.report.raw) == (6, 6, 0)


def test_results_of_one_turn_are_one_observation_in_the_order_of_the_calls(tmp_path):
    result = import_file(save(tmp_path / "a.json", {"messages": OPENAI}))
    seen = result.trajectories[0].nodes[3]
    assert seen.text == f"<tool_response>\n[]\n</tool_response>\n<tool_response>\n{OPENAI[3]['content']}\n</tool_response>"
    assert seen.raw == {"messages": OPENAI[3:5]}, "as they came"
    assert "results_reordered" in {oddity.code for oddity in result.report.odd}
    assert [(e.name, e.role, e.status) for e in seen.events] == [
        ("search", "search", ToolStatus.EMPTY),
        ("visit", "visit", ToolStatus.OK),
    ]


@pytest.mark.parametrize(
    ("ids", "answered", "names"),
    [
        (["2", "1"], ["b", "a"], ["search", "visit"]),
        (["x", "1"], ["b", "a"], ["search", "visit"]),
        (["2", "2"], ["b", "a"], ["search", "visit"]),
        (["x", "y"], ["a", "b"], ["search", "visit"]),
        (["2"], ["a"], ["visit"]),
    ],
)
def test_a_result_answers_the_call_of_its_id_and_no_call_two_results(tmp_path, ids, answered, names):
    results = [tool(id, f"words {place}") for place, id in enumerate(ids)]
    seen = one(tmp_path / "a.json", {"messages": [*OPENAI[:3], *results, OPENAI[5]]}).nodes[3]
    order = sorted(range(len(ids)), key=answered.__getitem__)
    assert [line for line in seen.text.splitlines() if "words" in line] == [f"words {place}" for place in order]
    assert [event.name for event in seen.events] == names


def test_one_id_for_all_calls_tells_nothing(tmp_path):
    turn = OPENAI[2] | {"tool_calls": [call("1", "search", {"query": ["a"]}), call("1", "visit", {"url": ["u"]})]}
    said = [*OPENAI[:2], turn, tool("1", "first"), tool("1", "second"), OPENAI[5]]
    seen = one(tmp_path / "a.json", {"messages": said}).nodes[3]
    assert seen.text.index("first") < seen.text.index("second")
    assert [event.name for event in seen.events] == ["search", "visit"]


def test_a_call_that_cleaning_keeps_keeps_its_own_result(tmp_path):
    turn = OPENAI[2] | {"tool_calls": [call("1", "search", {"query": ["a"]}), call("2", "PythonInterpreter", {"code": "1"})]}
    found = one(tmp_path / "a.json", {"messages": [*OPENAI[:2], turn, tool("2", "of python"), tool("1", "[]"), OPENAI[5]]})
    kept = step("prune", found).trajectory
    assert kept is not None and kept.nodes[3].text == "<tool_response>\n[]\n</tool_response>"


@pytest.mark.parametrize(
    ("results", "kinds", "odd"),
    [
        ([tool("1", "[]")], ["observation"], "results_missing"),
        ([tool("1", "[]"), tool("2", "[]"), tool("3", "[]")], ["observation", "observation"], "observation_without_call"),
        ([tool("1", "[]"), tool("9", "[]")], ["observation"], "unknown_call_id"),
        ([tool("1", None), tool("2", {"a": [1]})], ["observation"], "structured_result"),
        ([], [], "call_without_response"),
    ],
)
def test_results_that_do_not_fit_the_calls(tmp_path, results, kinds, odd):
    result = import_file(save(tmp_path / "a.json", {"messages": [*OPENAI[:3], *results, OPENAI[5]]}))
    (t,) = result.trajectories
    assert [node.kind for node in t.nodes[3:-1]] == kinds
    assert odd in {oddity.code for oddity in result.report.odd}
    assert result.report.kept == result.report.messages == 4 + len(results)
    assert ("call_without_response" in t.nodes[2].problems) == (not results)
    held = [node.raw for node in t.nodes if node.kind is NodeKind.OBSERVATION]
    assert [m for raw in held for m in raw.get("messages", [raw])] == results


def test_a_response_without_a_call_and_turns_that_only_say_something(tmp_path):
    said = [{"role": "user", "content": "q"}, tool("1", "x"), {"role": "assistant", "content": "Just words."}]
    result = import_file(save(tmp_path / "a.json", {"messages": said}))
    (t,) = result.trajectories
    assert t.nodes[1].problems == ("unknown_layout", "observation_without_call") and t.nodes[1].events == ()
    assert t.answer is None and t.nodes[2].text == "Just words." and t.nodes[2].raw is None


NO_ARGUMENTS = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": "", "tool_calls": [call("1", "f", "{'a': 1}")]}, NO_ARGUMENTS.replace("{}", '{"a": 1}')),
        ({"content": "Wait.", "tool_calls": [{"name": "f"}]}, "Wait.\n\n" + NO_ARGUMENTS),
        ({"function_call": {"name": "f", "arguments": "{}"}}, NO_ARGUMENTS),
        ({"tool_calls": '[{"name": "f"}]'}, NO_ARGUMENTS),
        ({"content": SEARCH, "tool_calls": [call("1", "search", '{"query": ["a"]}')]}, SEARCH),
        ({"content": SEARCH.partition("\n\n")[2], "thought": "hm"}, SEARCH),
        ({"content": "<think>x</think>", "tool_calls": [{"name": "f"}]}, "<think>\nx\n</think>\n\n" + NO_ARGUMENTS),
        ({"content": "", "reasoning": "alone"}, "<think>\nalone\n</think>"),
    ],
)
def test_forms_of_a_turn(tmp_path, fields, text):
    message = {"role": "assistant", **fields}
    t = one(tmp_path / "a.json", {"messages": [TALK[0], message, TALK[2], TALK[3]]})
    assert t.nodes[1].text == text and t.nodes[1].raw == message
    parsed = parse_turn(text)
    assert [(c.name, c.arguments) for c in parsed.calls] == [(c.name, c.arguments) for c in t.nodes[1].calls]


def test_arguments_that_are_no_object_are_told_and_stay_in_the_text(tmp_path):
    t = one(
        tmp_path / "a.json", {"messages": [TALK[0], {"role": "assistant", "tool_calls": [call("1", "f", "not json")]}, TALK[2]]}
    )
    assert t.nodes[1].calls[0].arguments == {} and "not json" in t.nodes[1].text and "bad_arguments" in t.nodes[1].problems


def test_redsearcher_parquet(tmp_path):
    rows = [
        {"meta": {"question": "why?", "answer": "42", "difficulty": 3}, "system_prompt": "sys", "messages": TALK},
        {"meta": {"question": "how?", "answer": None, "difficulty": None}, "system_prompt": None, "messages": TALK},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "train.parquet")
    result = import_file(tmp_path / "train.parquet", name="red")
    first, second = result.trajectories
    assert detect(tmp_path / "train.parquet") is Layout.REDSEARCHER_SFT
    assert (first.id, first.question.text, first.question.answers, first.answer) == ("red#0", "why?", ("42",), "42")
    assert [node.kind for node in first.nodes] == ["system", "question", "turn", "observation", "turn"]
    assert first.nodes[0].text == "sys" and first.nodes[2].raw is None
    assert first.meta["fields"] == {"meta": rows[0]["meta"]}
    assert second.question.answers == () and len(second.nodes) == 4
    assert (result.report.messages, result.report.odd) == (9, ())


@pytest.mark.parametrize("form", ["text", "columns"])
def test_messages_as_text_and_as_columns(tmp_path, form):
    columns = {"role": [m["role"] for m in TALK], "content": [m["content"] for m in TALK]}
    held = json.dumps(TALK) if form == "text" else columns
    pq.write_table(pa.Table.from_pylist([{"messages": held, "language": "en"}]), tmp_path / "a.parquet")
    (t,) = import_file(tmp_path / "a.parquet").trajectories
    assert [m.content for m in t.messages()] == [m["content"] for m in TALK]
    assert t.meta == {"layout": "openai-messages", "fields": {"language": "en"}}


def test_reasoning_calls_and_answers_in_messages_of_their_own(tmp_path):
    said = [
        {"role": "user", "content": "why?"},
        {"role": "reasoning", "content": "<think>hm</think>"},
        {"role": "tool_call", "content": '<tool_call>{"name": "search", "arguments": {"query": ["a"]}}</tool_call>'},
        {"role": "tool_output", "content": SEEN},
        {"role": "reasoning", "content": "so"},
        {"role": "answer", "content": "<answer>42</answer>"},
        {"role": "reasoning", "content": "and then nothing"},
    ]
    result = import_file(save(tmp_path / "a.json", {"messages": said}))
    (t,) = result.trajectories
    assert [node.kind for node in t.nodes] == ["question", "turn", "observation", "turn", "turn"]
    assert t.nodes[1].think == "hm" and t.nodes[1].calls[0].name == "search" and t.nodes[3].answer == "42"
    assert t.nodes[1].raw == {"messages": said[1:3]} and t.nodes[4].think == "and then nothing"
    assert result.report.kept == 7


def test_sharegpt(tmp_path):
    said = [
        {"from": "human", "value": "why?"},
        {"from": "function_call", "value": '{"name": "search", "arguments": {"query": ["a"]}}'},
        {"from": "observation", "value": "[]"},
        {"from": "gpt", "value": "42"},
    ]
    path = save(tmp_path / "s.json", [{"conversations": said, "system": "sys", "tools": "[{}]"}] * 2)
    result = import_file(path)
    t = result.trajectories[1]
    assert detect(path) is Layout.SHAREGPT and t.id.endswith("s#1")
    assert [node.kind for node in t.nodes] == ["system", "question", "turn", "observation", "turn"]
    assert t.nodes[2].calls[0].arguments == {"query": ["a"]} and t.nodes[3].events[0].name == "search"
    assert t.answer == "42" and t.meta["fields"] == {"tools": "[{}]"}
    assert t.nodes[1].raw is None and t.nodes[2].raw == said[1]


def test_several_calls_in_one_message_and_a_function_that_is_a_call(tmp_path):
    several = '[{"name": "search", "arguments": {"query": ["a"]}}, {"name": "f", "arguments": "{}"}]'
    said = [
        {"role": "user", "content": "why?"},
        {"role": "function", "content": several},
        {"role": "observation", "content": "[]"},
        {"role": "function", "name": "f", "content": '{"name": "x"}'},
    ]
    t = one(tmp_path / "a.json", {"messages": said})
    assert [node.kind for node in t.nodes] == ["question", "turn", "observation"]
    assert [c.name for c in t.nodes[1].calls] == ["search", "f"] and t.nodes[2].raw == {"messages": said[2:]}


def test_tongyi_runs(tmp_path):
    told = {"question": "why?", "answer": "42", "prediction": "41", "messages": TALK}
    path = save(tmp_path / "iter1.jsonl", json.dumps(told | {"termination": "answer"}) + "\n" + json.dumps(told) + "\n")
    result = import_file(path)
    assert [t.ending for t in result.trajectories] == [Ending.ANSWERED, None]
    assert result.trajectories[0].question.answers == ("42",) and result.trajectories[0].meta["layout"] == "tongyi-run"
    assert ("final_answer_differs", 2) in [(oddity.code, oddity.count) for oddity in result.report.odd]


def test_verl_and_literesearcher_rows(tmp_path):
    prompt = [{"role": "system", "content": "s"}, {"role": "user", "content": " Question: why?"}]
    extra = {
        "index": "7",
        "mask_url": "https://a.org/x",
        "tools_kwargs": {"search": {"create_kwargs": {"url": "https://b.org"}}},
    }
    rows = [
        {"prompt": prompt, "reward_model": {"ground_truth": {"target": ["42", "forty-two"]}}, "extra_info": extra},
        {"prompt": prompt, "reward_model": {"ground_truth": '["42"]', "style": "rule"}, "extra_info": {"question": "how?"}},
        {"prompt": "who?", "label": "me"},
        {"prompt": prompt, "reward_model": {"ground_truth": None}},
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    result = import_file(save(tmp_path / "rl.jsonl", lines))
    assert [q.text for q in result.questions] == ["why?", "how?", "who?", "why?"]
    assert [q.answers for q in result.questions] == [("42", "forty-two"), ("42",), ("me",), ()]
    assert result.questions[0].masked_urls == ("https://a.org/x", "https://b.org")
    assert result.questions[0].id == result.questions[3].id == question_id("why?")
    assert result.questions[0].meta["extra_info"]["index"] == "7"
    assert [one.layout for one in result.report.layouts] == ["literesearcher-rl", "verl"]
    assert [(oddity.code, oddity.count) for oddity in result.report.odd] == [("no_answer", 1)]


@pytest.mark.parametrize(
    ("row", "text", "answers", "meta"),
    [
        ({"problem": "why?", "answer": "42", "difficulty": "hard"}, "why?", ("42",), {"difficulty": "hard"}),
        ({"Question": "why?", "Final answer": "42", "task_id": 3}, "why?", ("42",), {"task_id": 3}),
        ({"question": "why?", "answers": ["a", ["b"]], "another_answer": "c"}, "why?", ("a", "b", "c"), {}),
        ({"question": "why?", "answer": None, "id": 12}, "why?", (), {"answer": None, "id": 12}),
        ({"question": "why?"}, "why?", (), {}),
        ({"question": "why?", "answer": "[1, 5]"}, "why?", ("[1, 5]",), {}),
        ({"query": "why?", "answer": 1805.5}, "why?", ("1805.5",), {}),
        ({"meta": {"question": "why?", "answer": "42"}}, "why?", ("42",), {"meta": {"question": "why?", "answer": "42"}}),
    ],
)
def test_question_sets(tmp_path, row, text, answers, meta):
    (question,) = import_file(save(tmp_path / "q.json", [row])).questions
    assert (question.text, question.answers, question.meta, question.id) == (text, answers, meta, question_id(text))


def test_wrapped_lists(tmp_path):
    rows = [{"row_idx": 0, "row": {"question": "a?", "answer": "1"}}, {"row_idx": 1, "row": {"question": "b?", "answer": "2"}}]
    (first, second) = import_file(save(tmp_path / "a.json", {"features": [], "rows": rows})).questions
    assert (first.text, second.answers) == ("a?", ("2",))
    assert len(import_file(save(tmp_path / "b.json", {"data": [{"messages": TALK}] * 3})).trajectories) == 3


def test_our_own_files_come_back_as_they_are(tmp_path):
    imported = import_file(save(tmp_path / "x" / "a.json", [{"messages": TALK}, {"messages": OPENAI}]))
    store = TrajectoryStore(tmp_path / "own" / "t.jsonl")
    for t in imported.trajectories:
        store.append(t)
    write_parquet(tmp_path / "t.parquet", imported.trajectories)
    assert import_file(store.path).trajectories == imported.trajectories == import_file(tmp_path / "t.parquet").trajectories
    again = import_tree(tmp_path)
    assert len({t.id for t in again.trajectories}) == len(again.trajectories) == 6
    assert ("duplicate_id", 4) in [(oddity.code, oddity.count) for oddity in again.report.odd]


def test_commands_that_take_questions_take_every_layout(tmp_path):
    rows = import_file(
        save(tmp_path / "q.jsonl", '{"question": "a?", "answer": "1"}\n{"question": "b?", "answer": "2"}')
    ).questions
    write_questions(tmp_path / "own.jsonl", rows)
    assert read_questions(tmp_path / "own.jsonl") == read_questions(tmp_path / "q.jsonl") == list(rows)
    asked = read_questions(save(tmp_path / "t.json", [{"messages": TALK, "gt": "42"}] * 3))
    assert [(q.text, q.answers) for q in asked] == [("why?", ("42",))]


@pytest.mark.parametrize(
    "fields",
    [
        {"gt": {"text": "42"}},
        {"question": "why?", "answer": [{"text": "42"}], "prediction": "42"},
        {"type": "chatml", "answer": {"text": "42"}},
    ],
)
def test_an_accepted_answer_that_is_no_text_is_not_lost(tmp_path, fields):
    found = one(tmp_path / "a.json", {"messages": TALK, **fields})
    kept = {key: value for key, value in found.meta["fields"].items() if key in ("gt", "answer")}
    assert found.question.answers == () and kept == {key: value for key, value in fields.items() if key in ("gt", "answer")}
