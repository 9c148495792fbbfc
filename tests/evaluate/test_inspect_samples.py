"""An attempt as a sample, and a run as the head of a log: endings, verdicts, counts, and what is left out."""

from math import isnan, nan
from pathlib import Path
from typing import Any

import pytest
from inspect_runs import JUDGE, answering, calling, episode, make_run, plain, question_node, system

from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.inspect_log.exporting import limits_of
from sanderling.evaluate.inspect_log.header import header_of, log_id, reductions_of
from sanderling.evaluate.inspect_log.sample import LEFT_OUT, sample_of, storable
from sanderling.evaluate.inspect_log.scores import Said, said_in_record, said_of, score_of
from sanderling.evaluate.judged import JudgedAttempt
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Code
from sanderling.world.guard import GuardKind

LIMITS = {Ending.TURN_LIMIT: 12.0, Ending.CONTEXT_EXHAUSTED: 1536.0, Ending.REPETITION: 4.0}


def sample(trajectory: Trajectory, said: list[Said] | None = None, **more: Any) -> dict[str, Any]:
    given = said_in_record(trajectory, JUDGE) if said is None else said
    return sample_of(trajectory, given, LIMITS, uuid="u", **more)


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


@pytest.mark.parametrize("ending", [Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED])
def test_an_outage_without_a_word_says_which(ending: Ending) -> None:
    assert sample(plain(ending=ending))["error"]["message"].endswith(".")


@pytest.mark.parametrize(
    ("said", "value", "reason"),
    [
        (Said("j", True, Code.JUDGED), "C", None),
        (Said("j", False, Code.JUDGED), "I", None),
        (Said("j", False, Code.NO_ANSWER), "I", "no_response"),
        (Said("j", True, Code.SAME_TEXT), "C", None),
        (Said("j", None, Code.UNREADABLE), nan, "grader_failed"),
        (Said("j", None, Code.OUTAGE), nan, "outage"),
        (Said("j", None, Code.NO_ACCEPTED), nan, "no_accepted"),
        (Said("j", None, "a code of tomorrow"), nan, "a code of tomorrow"),
        (Said("j", None), nan, "not_judged"),
    ],
)
def test_verdicts(said: Said, value: str | float, reason: str | None) -> None:
    found = score_of(said, "x", texts=True)
    assert found["value"] == value or (isinstance(value, float) and isnan(found["value"]))
    assert found.get("reason") == reason
    assert found["metadata"].get("code", "") == said.code


def judged(**more: Any) -> JudgedAttempt:
    given = {"question": "q/1", "attempt": 0, "id": "q/1-0", "ending": Ending.ANSWERED, "correct": True, "judge": "first"}
    return JudgedAttempt(**{**given, **more})


def test_each_judge_has_its_score() -> None:
    one = judged(score=1.0, grade="C", extracted="Vum", confidence=80.0, reason="yes", second=False, second_reason="no")
    scores = sample(plain(), said_of(one, "first", "second"))["scores"]
    told = {"code": "judged", "score": 1.0, "grade": "C", "extracted": "Vum", "confidence": 80.0}
    assert scores == {
        "first": {"value": "C", "answer": "Vumhum", "explanation": "yes", "metadata": told},
        "second": {"value": "I", "answer": "Vumhum", "explanation": "no", "metadata": {"code": "judged"}},
    }
    assert [said.judge for said in said_of(one, "first", "")] == ["first"]
    made_it = said_of(one.model_copy(update={"published": False}), "first", "second")[-1]
    assert (made_it.judge, made_it.correct, made_it.reason) == ("published", False, "")


def test_a_second_judge_that_said_nothing_scored_nothing() -> None:
    _, silent = said_of(judged(), "first", "second")
    _, outage = said_of(judged(ending=Ending.TOOL_OUTAGE, correct=None, code=Code.NOT_ENDED), "first", "second")
    assert [score_of(said, None, texts=True)["reason"] for said in (silent, outage)] == ["not_judged", "not_ended"]


def test_a_persons_word_stands_in_the_first_judges_place() -> None:
    (said,) = said_of(judged(judge="by hand", code=Code.BY_HAND, correct=False, overruled=True), "first", "")
    score = score_of(said, "x", texts=True)
    assert said.judge == "first" and score["value"] == "I"
    assert score["metadata"] == {"code": "by_hand", "by": "by hand", "overruled": True}


def test_a_verdict_of_another_judge_is_none() -> None:
    assert said_in_record(plain(), "other") == [Said("other", None)]


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
    one = judged(
        judge=JUDGE,
        score=1.0,
        grade="C",
        reason="Vumhum is it",
        extracted="Vumhum",
        parts={"Vumhum": True},
        excessive=("look",),
    )
    found = sample(private, said_of(one, JUDGE, ""), texts=False)
    assert not any(word in str(found) for word in ("Vumhum", "Which town", "look", "[1] Town"))
    assert found["messages"] == [] and found["output"]["choices"] == [] and found["input"] == LEFT_OUT
    assert found["scores"][JUDGE] == {"value": "C", "metadata": {"code": "judged", "score": 1.0, "grade": "C"}}
    assert found["metadata"]["calls"] == 1 and found["turn_count"] == 2
    failed = sample(plain(ending=Ending.TOOL_OUTAGE, detail="no reply to Vumhum"), [], texts=False)
    stopped = sample(plain(ending=Ending.TURN_LIMIT, detail="no reply to Vumhum"), [], texts=False)
    assert "Vumhum" not in str(failed) + str(stopped)


def test_what_a_guard_wrote_down_is_counted() -> None:
    assert sample(plain(), guarded={GuardKind.ADDRESS: 2})["metadata"]["guard"] == {"address": 2}


def test_a_record_of_others_need_not_say_how_it_ended() -> None:
    found = sample(plain(ending=None), said_of(judged(ending=None), "first", ""))
    assert "ending" not in found["metadata"] and "limit" not in found and "error" not in found
    assert found["scores"]["first"]["value"] == "C"


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


def test_limits_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "run", [plain()], 1)
    assert limits_of(directory)[Ending.TURN_LIMIT] == 12.0 and Ending.TIME_LIMIT not in limits_of(directory)
    directory.table("about").remove("attempts")
    assert limits_of(directory) == {}
