"""A run as a log of Inspect: messages, samples, verdicts, the head, and the file that is written."""

import json
from math import isnan, nan
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_runs import JUDGE, answering, calling, episode, judged, make_run, node, plain, question_node, seen, system
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.parse import parse_turn
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import Ending, Role, ToolStatus
from sanderling.evaluate.episodes import JudgedAttempt
from sanderling.evaluate.inspect_log import (
    LEFT_OUT,
    export_run,
    header_of,
    log_id,
    messages_of,
    reductions_of,
    rest_of,
    sample_of,
    scores_of,
    storable,
)
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Code
from sanderling.runs.jsonl import JsonlLog
from sanderling.runs.run import RECORDS


def test_turns_calls_and_results() -> None:
    assert messages_of(plain()) == [
        {"id": "q/1-0#0", "role": "system", "content": "You are a research agent."},
        {"id": "q/1-0#1", "role": "user", "content": "Which town?"},
        {
            "id": "q/1-0#2",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "look"}],
            "source": "generate",
            "tool_calls": [{"id": "2-0", "function": "search", "arguments": {"query": ["town"]}}],
            "model": "made-up",
        },
        {"id": "q/1-0#3", "role": "tool", "content": "[1] Town", "tool_call_id": "2-0", "function": "search"},
        {
            "id": "q/1-0#4",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "so"}, {"type": "text", "text": "<answer>Vumhum</answer>"}],
            "source": "generate",
            "model": "made-up",
        },
    ]


def test_several_results_of_one_observation_each_answer_their_call() -> None:
    turn = calling(1, ("search", {"query": ["a"]}), ("visit", {"url": ["u"]}), ("visit", {"url": ["v"]}))
    results = seen(2, ("found", ToolStatus.OK), ("no such page", ToolStatus.NOT_FOUND), ("late", ToolStatus.TIMEOUT))
    tools = messages_of(episode([system(), question_node(), turn, results, answering(3)]))[3:6]
    assert [(tool["tool_call_id"], tool["function"], tool["content"]) for tool in tools] == [
        ("2-0", "search", "found"),
        ("2-1", "visit", "no such page"),
        ("2-2", "visit", "late"),
    ]
    assert [tool.get("error") for tool in tools] == [
        None,
        {"type": "file_not_found", "message": "no such page"},
        {"type": "timeout", "message": "late"},
    ]
    assert [tool["id"] for tool in tools] == ["q/1-0#3-0", "q/1-0#3-1", "q/1-0#3-2"]
    assert tools[1]["metadata"] == {"status": "not_found"}


@pytest.mark.parametrize("status", list(ToolStatus))
def test_every_status_that_is_no_success_is_an_error(status: ToolStatus) -> None:
    turn = calling(1, ("search", {}))
    tool = messages_of(episode([system(), question_node(), turn, seen(2, ("text", status)), answering(3)]))[3]
    assert ("error" in tool) == (status not in (ToolStatus.OK, ToolStatus.EMPTY))
    assert tool["content"] == "text"


def test_results_that_cannot_be_told_apart_stay_whole() -> None:
    turn = calling(1, ("search", {}), ("visit", {}))
    one = seen(2, ("only one", ToolStatus.OK))
    tools = messages_of(episode([system(), question_node(), turn, one, answering(3)]))[3:-1]
    assert [(tool["tool_call_id"], tool["content"]) for tool in tools] == [("2-0", one.text)]
    odd = seen(2, ("page with </tool_response>", ToolStatus.OK), ("<tool_response> in it", ToolStatus.OK))
    single = calling(1, ("search", {}))
    tools = messages_of(episode([system(), question_node(), single, odd, answering(3)]))[3:-1]
    assert [tool["content"] for tool in tools] == [odd.text]


def test_an_observation_without_a_call_is_shown_without_one() -> None:
    turn = node(NodeKind.TURN, "I only talk.", 1, Role.ASSISTANT)
    found = messages_of(episode([system(), question_node(), turn, seen(2, ("text", ToolStatus.OK)), answering(3)]))
    assert found[2]["content"] == [{"type": "text", "text": "I only talk."}]
    assert found[3] == {"id": "q/1-0#3", "role": "tool", "content": "text"}


def test_hints_and_unknown_messages_say_what_they_are() -> None:
    turn = node(NodeKind.TURN, "", 1, Role.ASSISTANT, problems=("no_action",))
    hint = node(NodeKind.HINT, "Malformed turn.", 2)
    raw = node(NodeKind.RAW, "?", 3, Role.ASSISTANT, problems=("unknown_role",), raw={"role": "oracle"})
    found = messages_of(episode([system(), question_node(), turn, hint, raw]))
    assert found[2]["content"] == [{"type": "text", "text": ""}] and found[2]["metadata"] == {"problems": ["no_action"]}
    assert (found[3]["role"], found[3]["metadata"]) == ("user", {"kind": "hint"})
    assert (found[4]["role"], found[4]["metadata"]) == ("assistant", {"kind": "raw", "problems": ["unknown_role"]})


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>\na\n</think>\n<answer>b</answer>", "<answer>b</answer>"),
        ("a\n</think>\n<answer>b</answer>", "<answer>b</answer>"),  # the prompt held the tag
        ("<answer>b</answer>", "<answer>b</answer>"),
        ("<think>a", "<think>a"),  # never closed: left as it was sampled
        ('<think>a</think>so <tool_call>{"name": "f", "arguments": {}}</tool_call> there', "so  there"),
        ('<think>a</think><tool_call>{"name": "f", "arguments": {}}', ""),  # nothing follows: the end closes it
        ("<think>a</think><tool_call>{broken</tool_call>", "<tool_call>{broken</tool_call>"),
    ],
)
def test_what_stays_of_a_turn(text: str, rest: str) -> None:
    parsed = parse_turn(text, think_open=text.startswith("a\n"))
    assert rest_of(node(NodeKind.TURN, text, 1, Role.ASSISTANT, think=parsed.think, calls=parsed.calls)) == rest


WORDS = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<answer>",
        "</answer>",
        '{"name": "f", "arguments": {"a": 1}}',
        "x",
        "\n",
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join), st.booleans())
def test_no_word_of_a_turn_is_lost(text: str, think_open: bool) -> None:
    """Whatever a model writes: its letters stand in the reasoning, in a call's own text, or in what stays."""
    parsed = parse_turn(text, think_open=think_open)
    made = node(NodeKind.TURN, text, 1, Role.ASSISTANT, think=parsed.think, calls=parsed.calls)
    shown = rest_of(made) + (made.think or "") + "".join(call.raw for call in made.calls)
    assert shown.count("x") >= text.count("x")
    assert shown.count('"f"') >= text.count('"f"')


# Samples ------------------------------------------------------------------------------------------------------------------

LIMITS = {Ending.TURN_LIMIT: 12.0, Ending.CONTEXT_EXHAUSTED: 1536.0, Ending.REPETITION: 4.0}


def sample(trajectory: Trajectory, one: JudgedAttempt | None = None, second: str = "", **more: Any) -> dict[str, Any]:
    scores = scores_of(trajectory, one or judged(trajectory), JUDGE, second, texts=more.get("texts", True))
    return sample_of(trajectory, scores, LIMITS, uuid="u", **more)


def test_a_sample() -> None:
    found = sample(plain(attempt=1, seconds=2.5, world="w"))
    messages = found.pop("messages")
    assert found == {
        "id": "q/1",
        "epoch": 2,
        "input": "Which town?",
        "target": ["Vumhum", "the town"],
        "output": {"model": "made-up", "choices": [{"message": messages[-1], "stop_reason": "stop"}]},
        "scores": {
            "exact": {"value": "C", "answer": "Vumhum", "explanation": "because", "metadata": {"code": "judged", "score": 1.0}}
        },
        "metadata": {
            "level": "2",
            "topic": ["a", "b"],
            "ending": "answered",
            "profile": "tiny",
            "world": "w",
            "trajectory": "q/1-1",
            "attempt": 1,
            "seeds": {"run": 3, "episode": 0, "attempt": 1},
            "turns": 2,
            "calls": 1,
        },
        "model_usage": {},
        "total_time": 2.5,
        "turn_count": 2,
        "uuid": "u",
    }


@pytest.mark.parametrize(
    ("ending", "limit"),
    [
        (Ending.TURN_LIMIT, {"type": "turn", "limit": 12.0, "reason": "12 turns are used up."}),
        (Ending.CONTEXT_EXHAUSTED, {"type": "context", "limit": 1536.0, "reason": "12 turns are used up."}),
        (Ending.REPETITION, {"type": "custom", "limit": 4.0, "reason": "12 turns are used up."}),
        (Ending.TIME_LIMIT, None),  # nobody says how large it was
        (Ending.ANSWERED_AT_BUDGET, None),
        (Ending.NO_ANSWER, None),
    ],
)
def test_endings_by_limits(ending: Ending, limit: dict[str, Any] | None) -> None:
    found = sample(plain(ending=ending, detail="12 turns are used up.", correct=False))
    assert found.get("limit") == limit and "error" not in found
    assert (found["metadata"]["ending"], found["metadata"]["detail"]) == (ending, "12 turns are used up.")
    stop = "model_length" if ending is Ending.CONTEXT_EXHAUSTED else "stop"
    assert found["output"]["choices"][0]["stop_reason"] == stop


def test_an_outage_before_the_first_turn() -> None:
    found = sample(episode(ending=Ending.POLICY_OUTAGE, detail="connection refused"))
    assert found["messages"] == [] and found["output"] == {"model": "", "choices": []}
    assert found["error"] == {"message": "connection refused", "traceback": "", "traceback_ansi": ""}
    score = found["scores"]["exact"]
    assert isnan(score["value"]) and score["reason"] == "not_ended" and score["metadata"] == {"code": "not_ended"}
    assert found["turn_count"] == 0 and found["model_usage"] == {}


@pytest.mark.parametrize(
    ("correct", "code", "value", "reason"),
    [
        (True, Code.JUDGED, "C", None),
        (False, Code.JUDGED, "I", None),
        (False, Code.NO_ANSWER, "I", "no_response"),
        (True, Code.SAME_TEXT, "C", None),
        (None, Code.UNREADABLE, nan, "grader_failed"),
        (None, Code.OUTAGE, nan, "outage"),
        (None, Code.NO_ACCEPTED, nan, "no_accepted"),
    ],
)
def test_verdicts(correct: bool | None, code: Code, value: str | float, reason: str | None) -> None:
    found = scores_of(plain(), judged(plain(), correct=correct, code=code), JUDGE)[JUDGE]
    assert found["value"] == value or (isinstance(value, float) and isnan(found["value"]))
    assert found.get("reason") == reason and found["metadata"]["code"] == code


def test_what_nobody_judged_is_unscored() -> None:
    found = scores_of(plain(), None, JUDGE)[JUDGE]
    assert isnan(found["value"]) and found["reason"] == "not_judged" and found["metadata"] == {}


def test_each_judge_has_its_score() -> None:
    one = judged(plain(), grade="C", extracted="Vum", confidence=80.0, reason="yes", second=False, second_reason="no")
    scores = sample(plain(), one, "second")["scores"]
    told = {"code": "judged", "score": 1.0, "grade": "C", "extracted": "Vum", "confidence": 80.0}
    assert scores == {
        JUDGE: {"value": "C", "answer": "Vumhum", "explanation": "yes", "metadata": told},
        "second": {"value": "I", "answer": "Vumhum", "explanation": "no", "metadata": {"code": "judged"}},
    }
    assert list(scores_of(plain(), one, JUDGE)) == [JUDGE]
    made_it = scores_of(plain(), one.model_copy(update={"published": False}), JUDGE, "second")["published"]
    assert made_it == {"value": "I", "answer": "Vumhum", "metadata": {"code": "judged"}}


def test_a_second_judge_that_said_nothing_scored_nothing() -> None:
    silent = scores_of(plain(), judged(plain()), JUDGE, "second")
    away = plain(ending=Ending.TOOL_OUTAGE)
    outage = scores_of(away, judged(away), JUDGE, "second")
    assert [scores["second"]["reason"] for scores in (silent, outage)] == ["not_judged", "not_ended"]


def test_a_persons_word_stands_in_the_first_judges_place() -> None:
    one = judged(plain(), judge="by hand", code=Code.BY_HAND, correct=False, overruled=True, score=None)
    score = scores_of(plain(), one, JUDGE)[JUDGE]
    assert score["value"] == "I" and score["metadata"] == {"code": "by_hand", "by": "by hand", "overruled": True}


def test_what_stands_beside_the_main_branch_is_counted() -> None:
    rejected = calling(1, ("search", {}), rejected=True)
    forgotten = answering(1, "an earlier history")
    found = sample(episode([system(), question_node(), rejected, forgotten, answering(1)]))
    assert found["metadata"]["rejected_turns"] == 1 and found["metadata"]["messages_beside_the_main_branch"] == 2
    assert found["turn_count"] == 1 and len(found["messages"]) == 3


def test_tokens_are_told_where_all_were_counted() -> None:
    counts = {"prompt_tokens": 100, "prefilled_tokens": 30, "sampled_tokens": 7}
    counted = [system(), question_node(), answering(1, rejected=True, **counts), answering(1, **counts)]
    usage = {"input_tokens": 60, "input_tokens_cache_read": 140, "output_tokens": 14, "total_tokens": 214}
    assert sample(episode(counted))["model_usage"] == {"sanderling/made-up": usage}
    unknown = [system(), question_node(), answering(1, prompt_tokens=100), answering(1, **counts)]
    assert sample(episode(unknown))["model_usage"] == {}, "a sum with a hole is no sum"


def test_without_texts_no_word_is_in_it() -> None:
    private = plain(detail="the reader was asked for Vumhum", answer="Vumhum")
    words = {"reason": "Vumhum is it", "extracted": "Vumhum", "parts": {"Vumhum": True}, "excessive": ("look",)}
    found = sample(private, judged(private, grade="C", **words), texts=False)
    assert not any(word in str(found) for word in ("Vumhum", "Which town", "look", "[1] Town"))
    assert found["messages"] == [] and found["output"]["choices"] == [] and found["input"] == LEFT_OUT
    assert found["scores"][JUDGE] == {"value": "C", "metadata": {"code": "judged", "score": 1.0, "grade": "C"}}
    assert found["metadata"]["calls"] == 1 and found["turn_count"] == 2
    failed = sample(plain(ending=Ending.TOOL_OUTAGE, detail="no reply to Vumhum"), texts=False)
    stopped = sample(plain(ending=Ending.TURN_LIMIT, detail="no reply to Vumhum"), texts=False)
    assert "Vumhum" not in str(failed) + str(stopped)


def test_a_record_of_others_need_not_say_how_it_ended() -> None:
    found = sample(plain(ending=None), judged(plain(), ending=None))
    assert "ending" not in found["metadata"] and "limit" not in found and "error" not in found
    assert found["scores"][JUDGE]["value"] == "C"


def test_texts_that_no_file_can_hold_are_mended() -> None:
    assert storable({"a\ud800": ["b\udfffc", 1, None, "\U0001f426"]}) == {"a\ufffd": ["b\ufffdc", 1, None, "\U0001f426"]}


def test_the_head_takes_its_figures_from_the_result(tmp_path: Path) -> None:
    stored = [plain(id=f"q/{q}", attempt=a, correct=[True, q == 1, None][a], answer="x") for q in (1, 2) for a in (0, 1)]
    stored += [episode(id=f"q/{q}", attempt=2, ending=Ending.TOOL_OUTAGE) for q in (1, 2)]
    directory = make_run(tmp_path / "run", stored, 3)
    run = directory.require()
    result = EvalResult.load(directory.result_file).model_copy(update={"second_judge": "second", "by_hand": 1})
    found = header_of(run, result, {"input_tokens": 5}, texts=True)
    assert found["eval"]["task"] == "sanderling/jsonl" and found["eval"]["model"] == "sanderling/made-up"
    assert found["eval"]["dataset"] == {
        "name": "jsonl test",
        "location": "q.jsonl",
        "samples": 2,
        "sample_ids": ["q/1", "q/2"],
    }
    assert found["eval"]["config"] == {"epochs": 3, "epochs_reducer": ["mean"]}
    assert found["eval"]["scorers"] == [{"name": JUDGE}, {"name": "second"}]
    assert found["eval"]["metadata"]["by_hand"] == 1
    assert found["stats"]["started_at"] == "2026-01-02T03:03:05+00:00"
    assert found["stats"]["completed_at"] == "2026-01-02T03:04:05+00:00"
    assert found["stats"]["model_usage"] == {"sanderling/made-up": {"input_tokens": 5}}
    results = found["results"]
    assert (results["total_samples"], results["completed_samples"]) == (6, 4)
    (score,) = results["scores"]
    assert (score["name"], score["scored_samples"], score["unscored_samples"]) == (JUDGE, 2, 0)
    assert score["metadata"] == {"attempts": 6, "unscored_attempts": 2}
    values = {name: metric["value"] for name, metric in score["metrics"].items()}
    assert values == {
        "accuracy": 0.75,
        "stderr": result.clustered_error,
        "pass_at_2": 1.0,
        "pass_hat_2": 0.5,
        "majority_2": result.majority[2].value,
    }, "no question has three scored attempts, so there is no figure of three"
    assert next(iter(score["metrics"])) == "accuracy", "the viewer's headline"
    assert "33.3%" in found["eval"]["metadata"]["invalid_because"] and found["status"] == "success"
    (reduced,) = reductions_of(result)
    assert [one["value"] for one in reduced["samples"]] == [1.0, 0.5]
    nameless = run.model_copy(update={"about": run.about.model_copy(update={"benchmark": "", "split": ""})})
    named = header_of(nameless, result, None, texts=True)["eval"]
    assert (named["task"], named["dataset"]["name"]) == ("sanderling/trajectories", None)
    assert log_id(run.about, result) == found["eval"]["eval_id"] != log_id(run.about, result.model_copy(update={"seed": 4}))


# Files --------------------------------------------------------------------------------------------------------------------


def members(path: Path) -> dict[str, Any]:
    with ZipFile(path) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist()))
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_an_archive_holds_samples_summaries_and_head(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    made = export_run(tmp_path / "run", tmp_path / "new" / "a.eval")
    assert (made.samples, made.missing, made.texts) == (2, 0, True)
    found = members(tmp_path / "new" / "a.eval")
    assert list(found) == [
        "samples/q/1_epoch_1.json",
        "samples/q/1_epoch_2.json",
        "summaries.json",
        "reductions.json",
        "header.json",
    ]
    assert [(one["id"], one["epoch"], one["turn_count"]) for one in found["summaries.json"]] == [("q/1", 1, 2), ("q/1", 2, 2)]
    assert found["header.json"]["version"] == 2 and "samples" not in found["header.json"]
    uuids = {found[f"samples/q/1_epoch_{epoch}.json"]["uuid"] for epoch in (1, 2)}
    assert len(uuids) == 2
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.eval"]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    for name in ("a.eval", "b.eval"):
        export_run(tmp_path / "run", tmp_path / name)
    assert (tmp_path / "a.eval").read_bytes() == (tmp_path / "b.eval").read_bytes()


def test_of_an_attempt_made_twice_the_last_record_counts(tmp_path: Path) -> None:
    stored = [episode(ending=Ending.POLICY_OUTAGE), plain(attempt=1), plain(attempt=0, answer="the town")]
    make_run(tmp_path / "run", stored, 2)
    made = export_run(tmp_path / "run", tmp_path / "a.eval")
    found = members(tmp_path / "a.eval")
    assert made.samples == 2 and found["samples/q/1_epoch_1.json"]["scores"]["exact"]["answer"] == "the town"


def test_attempts_that_the_result_does_not_count_are_left_out_and_missing_ones_told(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    directory.append(plain(attempt=2))
    directory.append(plain(id="stranger"))
    assert export_run(tmp_path / "run", tmp_path / "a.eval").samples == 2
    directory.run.table(RECORDS).remove(plain(attempt=0).id)
    made = export_run(tmp_path / "run", tmp_path / "a.eval")
    assert (made.samples, made.missing) == (1, 1)


@pytest.mark.parametrize(("texts", "shown"), [(None, False), (True, True), (False, False)])
def test_private_texts_are_left_out_unless_asked_for(tmp_path: Path, texts: bool | None, shown: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    for name in ("a.eval", "a.json"):
        assert export_run(tmp_path / "run", tmp_path / name, texts=texts).texts == shown
    inside = json.dumps(members(tmp_path / "a.eval")) + (tmp_path / "a.json").read_text(encoding="utf-8")
    assert ("Which town" in inside) == ("Vumhum" in inside) == ("[1] Town" in inside) == shown


def test_what_the_guard_wrote_down_is_counted_once(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(attempt=0), plain(attempt=1)], 2)
    line = {"question": "q/1", "attempt": 1, "tool": "visit", "kind": "address", "url": "u", "rule": "r", "sha256": ""}
    for _ in range(2):
        JsonlLog(directory.guard_file).append(line)
    export_run(tmp_path / "run", tmp_path / "a.eval")
    found = members(tmp_path / "a.eval")
    assert found["samples/q/1_epoch_2.json"]["metadata"]["guard"] == {"address": 1}
    assert "guard" not in found["samples/q/1_epoch_1.json"]["metadata"]
    JsonlLog(directory.guard_file).append({"question": "q/1"})
    with pytest.raises(UserError, match="no log of a guard"):
        export_run(tmp_path / "run", tmp_path / "b.eval")


def test_tokens_are_summed_only_where_all_are_known(tmp_path: Path) -> None:
    counts = {"prompt_tokens": 10, "prefilled_tokens": 10, "sampled_tokens": 5}

    def counted(attempt: int, **given: int) -> Any:
        made = plain(attempt=attempt)
        nodes = [node.model_copy(update=given) if node.role == "assistant" else node for node in made.nodes]
        return made.model_copy(update={"nodes": tuple(nodes)})

    make_run(tmp_path / "all", [counted(0, **counts), counted(1, **counts), episode(attempt=2, ending=Ending.POLICY_OUTAGE)], 3)
    export_run(tmp_path / "all", tmp_path / "all.eval")
    (usage,) = members(tmp_path / "all.eval")["header.json"]["stats"]["model_usage"].values()
    assert usage == {"input_tokens": 40, "input_tokens_cache_read": 0, "output_tokens": 20, "total_tokens": 60}
    make_run(tmp_path / "some", [counted(0, **counts), plain(attempt=1)], 2)
    export_run(tmp_path / "some", tmp_path / "some.eval")
    assert members(tmp_path / "some.eval")["header.json"]["stats"]["model_usage"] == {}


@pytest.mark.parametrize(("name", "listed"), [("a.eval", True), ("a.json", False), ("2026-01-31T12-00-00_a.json", True)])
def test_whether_the_viewer_will_list_it_is_told(tmp_path: Path, name: str, listed: bool) -> None:
    make_run(tmp_path / "run", [plain()], 1)
    assert export_run(tmp_path / "run", tmp_path / name).listed == listed


def test_two_samples_of_one_name_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain(id="a\0"), plain(id="a\ufffd")], 1)
    path = tmp_path / "logs" / "a.eval"
    path.parent.mkdir()
    path.write_text("as it was", encoding="utf-8")
    with pytest.raises(ValueError, match="two samples"):
        export_run(tmp_path / "run", path)
    assert path.read_text(encoding="utf-8") == "as it was"
    assert [one.name for one in path.parent.iterdir()] == ["a.eval"]


def test_limits_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain(ending=Ending.TURN_LIMIT, correct=False)], 1)
    export_run(tmp_path / "run", tmp_path / "a.eval")
    assert members(tmp_path / "a.eval")["samples/q/1_epoch_1.json"]["limit"]["limit"] == 12.0
    directory.run.table("about").remove("attempts")
    export_run(tmp_path / "run", tmp_path / "a.eval")
    assert "limit" not in members(tmp_path / "a.eval")["samples/q/1_epoch_1.json"]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ends in"):
        export_run(tmp_path, tmp_path / "a.zip")
    with pytest.raises(UserError, match="no run of an evaluation"):
        export_run(tmp_path, tmp_path / "a.eval")
    directory = make_run(tmp_path / "run", [plain()], 1)
    directory.result_file.unlink()
    with pytest.raises(UserError, match="run the evaluation"):
        export_run(tmp_path / "run", tmp_path / "a.eval")
    assert not (tmp_path / "a.eval").exists()


def test_the_command_tells_what_was_written(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [plain()], 1, private=True)
    for more, left_out in (([], True), (["--show-texts"], False)):
        done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--out", str(tmp_path / "logs" / "a.eval"), *more])
        assert done.exit_code == 0 and "1 attempts" in done.output and f"--log-dir {tmp_path / 'logs'}" in done.output
        assert ("left out" in done.output) is left_out
