"""Every layout in small, as its files look, and what becomes of each field."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from import_files import SEARCH, SEEN, TALK, call, called, codes, kinds, one, read, save, tool

from sanderling.core.record import NodeKind
from sanderling.core.types import Ending, ToolStatus
from sanderling.data.importing import import_all
from sanderling.data.messages import read_message
from sanderling.data.transcripts import calls_in_words, pieces

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

# -- messages -------------------------------------------------------------------------------------------------------------


def test_tool_calls_become_the_protocols_text(tmp_path: Path) -> None:
    (t,), report = read(tmp_path, {"messages": OPENAI, "id": 7})
    assert t.meta == {"layout": "openai-messages", "fields": {"id": 7}}
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"]
    turn = t.nodes[2]
    assert turn.text == (
        "<think>\ntwo things\n</think>\n\n"
        '<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>\n\n'
        '<tool_call>\n{"name": "visit", "arguments": {"url": ["u"], "goal": "g"}}\n</tool_call>'
    )
    assert (turn.think, called(t)) == ("two things", [("search", {"query": ["a"]}), ("visit", {"url": ["u"], "goal": "g"})])
    assert turn.raw == OPENAI[2] and turn.problems == ("several_calls",)
    assert t.answer == "It is 42." and t.nodes[4].text == "<answer>\nIt is 42.\n</answer>" and t.nodes[4].raw == OPENAI[5]
    assert (report.messages, report.kept, report.raw) == (6, 6, 0)
    seen = t.nodes[3]
    assert seen.text == f"<tool_response>\n[]\n</tool_response>\n<tool_response>\n{OPENAI[3]['content']}\n</tool_response>"
    assert seen.raw == {"messages": OPENAI[3:5]} and "results_reordered" in codes(report), (
        "in the calls' order; raw as they came"
    )
    assert [(e.name, e.role, e.status) for e in seen.events] == [
        ("search", "search", ToolStatus.EMPTY),
        ("visit", "visit", ToolStatus.OK),
    ]


def test_several_calls_in_one_message_and_a_function_that_is_a_call(tmp_path: Path) -> None:
    several = '[{"name": "search", "arguments": {"query": ["a"]}}, {"name": "f", "arguments": "{}"}]'
    said = [
        {"role": "user", "content": "why?"},
        {"role": "function", "content": several},
        {"role": "observation", "content": "[]"},
        {"role": "function", "name": "f", "content": '{"name": "x"}'},
    ]
    t = one(tmp_path, {"messages": said})
    assert kinds(t) == ["question", "turn", "observation"] and [name for name, _ in called(t)] == ["search", "f"]
    assert t.nodes[2].raw == {"messages": said[2:]}


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
    assert sum(said.size for said in read_message(value)) == 1


# -- systems --------------------------------------------------------------------------------------------------------------


def test_dr_venus_sft(tmp_path: Path) -> None:
    row = {"question": "why?", "messages": [{"role": "system", "content": "s"}, *TALK], "gt": "42<|answer_split|>forty-two"}
    (t,), _ = read(tmp_path, row, "dr/0000.json")
    assert t.id == "dr/0000#0" and t.ending is None and t.answer == "42" and t.question.answers == ("42", "forty-two")
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"]
    assert [message.content for message in t.messages()] == [message["content"] for message in row["messages"]]
    assert called(t) == [("search", {"query": ["a"]})] and t.nodes[2].think == "hm"
    assert [(event.name, event.role, event.status) for event in t.nodes[3].events] == [("search", "search", ToolStatus.EMPTY)]
    assert all(node.token_ids is None for node in t.nodes)


# -- AgentToLeaP ----------------------------------------------------------------------------------------------------------

LEAP = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [call("1", "search", '{"query": ["a"]}')]},
    {"role": "user", "content": SEEN},
]


def result_of(history: list[Any], **changes: Any) -> dict[str, Any]:
    """What AgentToLeaP writes of an attempt: all its fields, and no accepted answer."""
    told = {"task_id": "t1", "query": "why?", "success": True, "conversation_history": history, "tool_calls": []}
    told |= {"execution_time": 61.5, "interactions": 2, "max_interactions_reached": False, "logprobs": []}
    return told | changes


def test_agenttoleap_folders(tmp_path: Path) -> None:
    history = [
        {"role": "system", "content": "sys"},
        *LEAP,
        {"role": "assistant", "content": "<answer>42</answer>", "thought": "ok"},
    ]
    attempt = tmp_path / "gaia_run" / "t1" / "traj_0"
    save(attempt / "result.json", result_of(history))
    save(attempt / "dialog.json", history[1:])
    save(attempt / "trace.json", {"request": {"messages": history[:-1]}, "response": {"choices": [{"message": history[-1]}]}})
    save(tmp_path / "gaia_run" / "t1-context-1" / "dialog.json", history[1:])
    save(tmp_path / "correct_dialogs.json", [{"task_id": "t1", "dialog": history[1:]}])
    result = import_all(tmp_path)
    right, whole, part = result.trajectories
    assert (whole.id, whole.question.text, whole.question.answers) == ("traj_0/result#0", "why?", ())
    assert whole.seconds == 61.5 and whole.meta["fields"]["task_id"] == "t1"
    assert whole.ending is Ending.ANSWERED and whole.answer == "42" and whole.nodes[2].think == "hm"
    assert part.question.text == "why?" and part.meta["layout"] == "openai-messages"
    assert right.meta["layout"] == "agenttoleap" and len(right.nodes) == 4
    assert codes(result.report) == {"repeats_result": 2}
    (trace,) = import_all(attempt / "trace.json").trajectories
    assert trace.meta["layout"] == "openai-log" and trace.answer == "42"


@pytest.mark.parametrize(
    ("last", "answer", "ending"),
    [
        ("I looked everywhere, and do not know.", None, Ending.TURN_LIMIT),
        ("", None, Ending.TURN_LIMIT),
        ("<answer>42</answer>", "42", Ending.ANSWERED_AT_BUDGET),
    ],
)
def test_success_at_the_turn_limit_is_no_answer(tmp_path: Path, last: str, answer: str | None, ending: Ending) -> None:
    history = [*LEAP, {"role": "system", "content": "Answer now."}, {"role": "assistant", "content": last, "thought": "so"}]
    found = one(tmp_path, result_of(history, max_interactions_reached=True))
    assert (found.answer, found.ending) == (answer, ending)
    assert found.nodes[-1].answer == answer and last.strip("</answer>") in found.nodes[-1].text
    free = one(tmp_path, result_of(history))
    assert free.answer == (last.removeprefix("<answer>").removesuffix("</answer>") or None), "with turns left, last words count"


# -- transcripts ----------------------------------------------------------------------------------------------------------

ASKED = "Which river runs through Tovrel?"


def test_turns_of_a_chat_in_the_text_and_reasoning_that_the_prompt_opened(tmp_path: Path) -> None:
    text = (
        f"{SEARCH}\nuser\n<tool_response>\nthe Ulm\n</tool_response>\nassistant\n<think>\nso\n</think>\n\n<answer>Ulm</answer>"
    )
    t = one(tmp_path, {"prompt": f"system\nsys\nuser\n{ASKED}\nassistant\n", "response": text, "ground_truth": "Ulm"})
    assert kinds(t) == ["system", "question", "turn", "observation", "turn"] and t.answer == "Ulm"
    opened = "I look. <search>Tovrel</search>\n<result>the Ulm</result>\nIt is the Ulm. </think>\n<answer> Ulm </answer>"
    t = one(tmp_path, {"question": ASKED, "answer": "Ulm", "output": opened})
    assert [node.think for node in t.turns()] == ["I look.", "It is the Ulm."] and called(t) == [
        ("search", {"query": "Tovrel"})
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<function=search>\n<parameter=query>\nb\nc\n</parameter>\n</function>", (None, "search", {"query": "b\nc"}, "")),
        ("<think>a</think>Hm. <tool_call>\n<function=s>\n</function>\n</tool_call>", ("a", "s", {}, "Hm.")),
        ("<think>a</think>\n<search> b </search>", ("a", "search", {"query": "b"}, "")),
        ("<think>a <search>b</search>", ("a", "search", {"query": "b"}, "")),
        ("<python>\nprint(1)\n</python>", (None, "python", {"code": "print(1)"}, "")),
        ("<think>one may <search>x</search></think> so", None),
        ("I <search> it", None),
        ("<function= >", None),
    ],
)
def test_calls_in_other_words(text: str, found: tuple[Any, ...] | None) -> None:
    said = calls_in_words(text)
    assert found == (said and (said[0], said[1][0].name, said[1][0].arguments, said[2]))


MARKS = [
    "<think>",
    "</think>",
    "<search>",
    "</search>",
    "<information>",
    "</information>",
    "<tool_response>",
    "</tool_response>",
]
TEXTS = st.lists(st.sampled_from([*MARKS, "<answer>", "a ", "b\n"]), max_size=12).map("".join)


@given(TEXTS)
def test_nothing_of_a_text_but_blanks_is_left_out_of_its_pieces(text: str) -> None:
    kept = "".join(said.original["content"] for said in pieces(text))
    assert "".join(kept.split()) == "".join(text.split())
    assert calls_in_words(text) is None or calls_in_words(text + "x")


# -- questions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"gt": {"text": "42"}},
        {"question": "why?", "answer": [{"text": "42"}], "prediction": "42"},
        {"type": "chatml", "answer": {"text": "42"}},
    ],
)
def test_an_accepted_answer_that_is_no_text_is_not_lost(tmp_path: Path, fields: dict[str, Any]) -> None:
    found = one(tmp_path, {"messages": TALK, **fields})
    kept = {key: value for key, value in found.meta["fields"].items() if key in ("gt", "answer")}
    assert found.question.answers == () and kept == {key: value for key, value in fields.items() if key in ("gt", "answer")}


def test_our_own_questions_come_back_and_broken_lines_are_unread(tmp_path: Path) -> None:
    lines = [
        {"id": "q1", "text": "why?", "answers": ["42"], "hops": 2, "meta": {"kind": "x"}},
        {"id": "q2", "text": "no", "hops": "x"},
        {"schema_version": 2, "nodes": [{"x": 1}]},
        {"prompt": [], "reward_model": {"ground_truth": "x"}},
    ]
    result = import_all(save(tmp_path / "q.jsonl", lines))
    assert [q.model_dump(exclude_defaults=True) for q in result.questions] == [lines[0] | {"answers": ("42",)}]
    assert codes(result.report) == {"odd_question": 1, "odd_record": 1, "no_question": 1, "odd_entry": 3}


def test_steps_and_turns_of_cases_that_are_odd(tmp_path: Path) -> None:
    turns = [
        {"think": "a", "tool": {"name": "search", "args": {}, "result": "x", "more": 1}},
        {"think": "b", "tool": 7},
    ]
    case = {"question": "why?", "turns": turns, "final_answer": "42"}
    (t,), report = read(tmp_path, [case])
    assert kinds(t) == ["question", "turn", "observation", "raw"] and t.nodes[1].raw is not None
    assert t.nodes[1].raw["tool"] == {"more": 1} and codes(report)["final_answer_differs"] == 1
    steps = [
        {"type": "system", "content": "s"},
        {"type": "assistant", "think": 3},
        {"type": "assistant", "answer": "42", "x": 1},
    ]
    (t,), report = read(tmp_path, {"cases": [{"steps": steps}]})
    assert kinds(t) == ["system", "raw", "turn"] and {"odd_step", "extra_fields"} <= set(codes(report))
