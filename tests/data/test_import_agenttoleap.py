"""AgentToLeaP's results as they are on disk: what is in them, what is not, and when an attempt has no answer."""

import json

import pytest

from sanderling.core.types import Ending
from sanderling.data.importers import import_file, import_tree

SEARCH = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "search", "arguments": {"query": ["a"]}}\n</tool_call>'
SEEN = "<tool_response>\n[]\n</tool_response>"
TALK = [
    {"role": "user", "content": "why?"},
    {"role": "assistant", "content": SEARCH},
    {"role": "user", "content": SEEN},
    {"role": "assistant", "content": "<think>\nok\n</think>\n\n<answer>\n42\n</answer>"},
]


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def save(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def one(path, value):
    (found,) = import_file(save(path, value)).trajectories
    return found


def result_of(history, **changes):
    """What AgentToLeaP writes of an attempt: all its fields, and no accepted answer."""
    told = {"task_id": "t1", "query": "why?", "success": True, "conversation_history": history, "tool_calls": []}
    told |= {"execution_time": 61.5, "interactions": 2, "max_interactions_reached": False, "logprobs": []}
    return told | changes


def test_agenttoleap_folders(tmp_path):
    history = [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "Your task is to answer the user's question: why?"},
        {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [call("1", "search", '{"query": ["a"]}')]},
        {"role": "user", "content": SEEN},
        {"role": "assistant", "content": "<answer>42</answer>", "thought": "ok"},
    ]
    attempt = tmp_path / "gaia_run" / "t1" / "traj_0"
    told = result_of(history)
    save(attempt / "result.json", told)
    save(attempt / "dialog.json", history[1:])
    save(attempt / "trace.json", {"request": {"messages": history[:-1]}, "response": {"choices": [{"message": history[-1]}]}})
    save(tmp_path / "gaia_run" / "t1-context-1" / "dialog.json", history[1:])
    save(tmp_path / "correct_dialogs.json", [{"task_id": "t1", "dialog": history[1:]}])
    result = import_tree(tmp_path)
    right, whole, part = result.trajectories
    assert (whole.id, whole.question.text, whole.question.answers) == ("traj_0/result#0", "why?", ())
    assert whole.seconds == 61.5 and whole.meta["fields"]["task_id"] == "t1"
    assert whole.ending is Ending.ANSWERED and whole.answer == "42" and whole.nodes[2].think == "hm"
    assert part.question.text == history[1]["content"] and part.meta["layout"] == "openai-messages"
    assert right.meta["layout"] == "agenttoleap" and len(right.nodes) == 4
    assert [(oddity.code, oddity.count) for oddity in result.report.odd] == [("repeats_result", 2)]
    trace = import_file(attempt / "trace.json").trajectories[0]
    assert trace.meta["layout"] == "openai-log" and trace.answer == "42"


def test_the_list_of_a_batch_has_accepted_answers(tmp_path):
    sample = {"task_id": "t1", "Question": "why?", "Final answer": "42"}
    assert one(tmp_path / "batch_results.json", [result_of(TALK, gaia_sample=sample)]).question.answers == ("42",)


@pytest.mark.parametrize(
    ("last", "answer", "ending"),
    [
        ("I looked everywhere, and do not know.", None, Ending.TURN_LIMIT),
        ("No final answer generated.", None, Ending.TURN_LIMIT),
        ("", None, Ending.TURN_LIMIT),
        ("<answer>42</answer>", "42", Ending.ANSWERED_AT_BUDGET),
    ],
)
def test_success_at_the_turn_limit_is_no_answer(tmp_path, last, answer, ending):
    history = [
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "", "thought": "hm", "tool_calls": [call("1", "search", '{"query": ["a"]}')]},
        {"role": "user", "content": SEEN},
        {"role": "system", "content": "Answer now."},
        {"role": "assistant", "content": last, "thought": "so"},
    ]
    found = one(tmp_path / "result.json", result_of(history, max_interactions_reached=True))
    assert (found.answer, found.ending) == (answer, ending)
    assert found.nodes[-1].answer == answer and last.strip("</answer>") in found.nodes[-1].text
    free = one(tmp_path / "free" / "result.json", result_of(history))
    assert free.answer == (last.removeprefix("<answer>").removesuffix("</answer>") or None), "with turns left, last words count"


def test_a_failed_run_has_no_ending(tmp_path):
    result = import_file(
        save(tmp_path / "r.json", {"query": "q", "success": False, "error": "down", "conversation_history": TALK})
    )
    assert result.trajectories[0].ending is None and result.trajectories[0].question.text == "q"
    assert "failed_run" in {oddity.code for oddity in result.report.odd}


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        ("so <answer>42</answer", "42"),
        ("<answer>42/answer>", "42"),
        ("answer>42</answer>", "42"),
        ("<answer 42 </answer>", "42"),
        ("<ANSWER>42</ANSWER>", "42"),
        ("<answer>41</answer> no: <answer>42</answer>", "42"),
        ("the answer is 42", "the answer is 42"),
        ("<answer>a < b</answer>", "a < b"),
    ],
)
def test_tags_may_be_broken_as_the_harness_takes_them(tmp_path, last, answer):
    history = [
        {"role": "user", "content": "why?"},
        {"role": "assistant", "content": "", "tool_calls": [call("1", "search", '{"query": ["a"]}')]},
        {"role": "user", "content": SEEN},
        {"role": "assistant", "content": last},
    ]
    found = one(tmp_path / "result.json", result_of(history))
    assert (found.answer, found.ending) == (answer, Ending.ANSWERED)
    if "answer>" in last or "<answer" in last:
        plain = one(tmp_path / "plain.json", result_of([history[0], history[-1]]))
        assert (plain.answer, plain.ending) == (answer, Ending.ANSWERED), "no tool was called at all"
