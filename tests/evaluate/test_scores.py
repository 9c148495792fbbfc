"""The best of several attempts by a score: who says what, and what becomes of attempts without one."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from measured_runs import go
from test_evaluate_result import INFO, QUESTIONS, episode
from typer.testing import CliRunner

from sanderling.cli.evaluate import app
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.evaluate.episodes import Episode, JudgedAttempt, episode_of
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.judging import read_scores
from sanderling.evaluate.log import RunLog
from sanderling.evaluate.result import EvalResult

KEYS = {f"{q}-{a}": (q, a) for q in "ab" for a in range(2)}


def said(question: str, attempt: int, confidence: float | None) -> JudgedAttempt:
    about = {"question": question, "attempt": attempt, "id": f"{question}-{attempt}", "ending": Ending.ANSWERED}
    return JudgedAttempt.model_validate(about | {"correct": True, "judge": "j", "confidence": confidence})


def rows(*scores: float | None, right: str = "1100", votes: str = "xyxy") -> list[Episode]:
    """Two attempts at each of two questions."""
    return [
        episode("ab"[i // 2], i % 2, right[i] == "1", mean_logprob=scores[i], vote=None if votes[i] == "-" else votes[i])
        for i in range(4)
    ]


def test_the_best_of_two_by_what_the_model_found_likely() -> None:
    found = summarise(rows(-0.1, -0.9, -2.0, -0.5, right="1001"), QUESTIONS[:2], 2, INFO)
    assert list(found.best_of) == ["mean_logprob"]
    curve = found.best_of["mean_logprob"]
    assert (curve[1].value, curve[2].value) == (found.pass_at_1.value, 1.0)
    assert list(curve) == list(found.majority)


def test_a_question_without_scores_is_counted_apart() -> None:
    curve = summarise(rows(-0.1, -0.9, None, -0.5), QUESTIONS[:2], 2, INFO).best_of["mean_logprob"]
    assert (curve[2].value, curve[2].questions, curve[2].too_few) == (1.0, 1, 1)
    assert summarise(rows(None, None, None, None), QUESTIONS[:2], 2, INFO).best_of == {}


def test_an_attempt_without_an_answer_is_chosen_last_and_needs_no_score() -> None:
    found = summarise(rows(-0.1, -0.9, None, -5.0, right="0101", votes="-x-x"), QUESTIONS[:2], 2, INFO)
    assert found.best_of["mean_logprob"][2].value == 1.0


def test_confidence_and_a_users_scores() -> None:
    judged = [said("a", 0, 90.0), said("a", 1, 20.0), said("b", 0, 70.0), said("b", 1, None)]
    mine = {"mine": {("a", 0): 0.0, ("a", 1): 1.0, ("b", 0): 0.5, ("b", 1): 0.5}}
    found = summarise(rows(None, None, None, None, right="1010"), QUESTIONS[:2], 2, replace(INFO, judged=judged, scores=mine))
    assert list(found.best_of) == ["confidence", "mine"]
    assert (found.best_of["confidence"][2].value, found.best_of["confidence"][2].too_few) == (1.0, 1)
    assert found.best_of["mine"][2].value == pytest.approx((0.0 + 0.5) / 2), "ties share"


def test_outages_are_not_chosen() -> None:
    odd = [*rows(-0.1, -0.9, -2.0, -0.5)[:3], episode("b", 1, None, Ending.TOOL_OUTAGE, mean_logprob=9.0, vote="x")]
    curve = summarise(odd, QUESTIONS[:2], 2, INFO).best_of["mean_logprob"]
    assert (curve[1].questions, curve[2].questions, curve[2].too_few) == (2, 1, 1)


def test_the_mean_of_what_was_sampled() -> None:
    def turn(parent: int | None, logprobs: tuple[float, ...] | None, *, rejected: bool = False) -> Node:
        ids = None if logprobs is None else tuple(range(len(logprobs)))
        return Node(parent=parent, role=Role.ASSISTANT, kind=NodeKind.TURN, text="t", token_ids=ids, logprobs=logprobs,
                    rejected=rejected, seconds=2.0)  # fmt: skip

    def mean(*nodes: Node) -> float | None:
        question = Question(id="q", text="q", answers=("x",))
        trajectory = Trajectory(id="t", question=question, nodes=nodes, leaf=len(nodes) - 1, ending=Ending.ANSWERED)
        return episode_of(trajectory).mean_logprob

    assert mean(turn(None, (-1.0, -2.0)), turn(0, (-9.0,), rejected=True), turn(0, (-6.0,))) == pytest.approx(-3.0)
    assert mean(turn(None, (-1.0,)), turn(0, None)) is None
    assert mean(turn(None, ())) is None


def test_a_table_of_scores(tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("\ufeffid,score,name\na-0,1.5,\na-1,-2,\nb-0,7,other\n", encoding="utf-8")
    assert read_scores(table, KEYS) == {"mine": {("a", 0): 1.5, ("a", 1): -2.0}, "other": {("b", 0): 7.0}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,points\na-0,1\n", "no columns id and score"),
        ("id,score\na-0,good\n", "line 2: 'good' is no score"),
        ("id,score\na-0,nan\n", "is no score"),
        ("id,score\na-0\n", "None is no score"),
        ("id,score\nz-0,1\nz-1,1\n", "2 of its ids are none of this run's attempts \\(z-0, z-1\\)"),
        ("id,score\na-0,1\na-0,2\n", "a-0 has two scores called mine"),
        ("id,score,name\na-0,1,confidence\n", "is a score that is made here"),
        ("id,score\n", "holds no score"),
        ("", "no columns"),
    ],
)
def test_tables_that_are_none(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(UserError, match=says):
        read_scores(tmp_path / "mine.csv", KEYS)


def test_scores_and_prices_come_after_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    asyncio.run(go(run, 4, 3))
    table = tmp_path / "verifier.csv"
    rows = [row.id for row in RunLog(run).episodes()]
    table.write_text("id,score\n" + "".join(f"{id},{place % 5}\n" for place, id in enumerate(rows)))
    done = CliRunner().invoke(app, ["judge", str(run), "--scores", str(table), "--price", "1,2"])
    assert "The best of 3 by verifier" in done.output, done.output
    result = EvalResult.load(run / "result.json")
    assert sorted(result.best_of) == ["verifier"] and result.cost is not None
    again = CliRunner().invoke(app, ["judge", str(run)])
    assert "The best of 3 by verifier" in again.output, "kept with the run, under its name"
    table.write_text("id,score\nwho,1\n")
    wrong = CliRunner().invoke(app, ["judge", str(run), "--scores", str(table)])
    assert isinstance(wrong.exception, UserError) and "none of this run's attempts" in str(wrong.exception)
    assert EvalResult.load(run / "result.json").best_of == result.best_of


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_bytes(b"id,score\n\xff\xfe,1\n")
    for path in (tmp_path / "mine.csv", tmp_path / "none.csv"):
        with pytest.raises(UserError, match="cannot be read"):
            read_scores(path, KEYS)
