"""A person's verdicts: the two layouts, what a line matches, what goes first, and files that are none."""

import asyncio
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.book import ByHand, VerdictBook, judge_file, judge_stream
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import Code, rule_on, verdict_of
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import Run


def episode(
    answer: str | None = "Oslo", id: str = "q1-0", question: str = "q1", ending: Ending = Ending.ANSWERED
) -> Trajectory:
    asked = Question(id=question, text="Capital of  Norway?", answers=("Kristiania",))
    return Trajectory(id=id, question=asked, nodes=(), leaf=None, ending=ending, answer=answer)


def read(path: Path, text: str) -> ByHand:
    (path / "said.csv").write_text(text, encoding="utf-8")
    return ByHand.read(path / "said.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1-0", "Line 1 .* is not id,correct"),
        ("q1-0,maybe", "ends in 'maybe'"),
        ("q1-0,yes,no", "is not id,correct"),
        (",yes", "is not id,correct"),
        ("q1-0,yes\nq1-0,no", "both yes and no of 'q1-0'"),
        ("question,answer,correct\nq1,Oslo", "Line 2 .* is not question,answer,correct"),
        ("question,answer,correct\nq1,Oslo, Norway,yes", "is not question,answer,correct"),
        ("question,answer,correct,note\nq1,Oslo, Norway,yes", "ends in 'Norway'"),
        ("question,answer,correct\nq1,,yes", "is not question,answer,correct"),
        ("question,answer,correct\nq1,Oslo,yes\nq1, Oslo ,no", "both yes and no of 'q1 Oslo'"),
        ("answer,question,correct\nOslo,q1,yes", "is not id,correct"),
        ('id,correct\n"q1-0,yes', "Cannot read"),
    ],
)
def test_files_that_are_none_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read(tmp_path, text)
    with pytest.raises(UserError, match="Cannot read"):
        ByHand.read(tmp_path / "none.csv")


def test_a_person_goes_before_an_outage_a_missing_answer_and_a_judge(tmp_path: Path) -> None:
    episodes = [
        episode(None, "q1-0", ending=Ending.TOOL_OUTAGE),
        episode(None, "q1-1", ending=Ending.TURN_LIMIT),
        episode("Kristiania", "q1-2"),
        episode("Oslo", "q1-3"),
        episode("Oslo", "q1-4"),
    ]
    by_hand = ByHand({("q1-0",): True, ("q1-1",): True, ("q1-2",): False, ("q1", "Oslo"): True, ("q1-4",): False})
    judge = rule_judge("exact")
    found = [
        one.verdict for one in judge_stream(episodes, judge, VerdictBook(Run(tmp_path).table("verdicts")), by_hand=by_hand)
    ]
    assert [verdict.correct for verdict in found] == [True, True, False, True, False]
    assert {verdict.code for verdict in found} == {Code.BY_HAND}
    assert [asyncio.run(rule_on(one, judge)).correct for one in episodes] == [None, False, True, False, False]


def test_a_file_judged_tells_lines_that_match_nothing(tmp_path: Path) -> None:
    episodes = [episode("Oslo", f"q1-{number}") for number in range(60)]
    by_hand = ByHand({("q1", "Oslo"): True, ("q1", "Rome"): True, ("q9-0",): False, ("q1-3",): False})
    report = judge_file(episodes, tmp_path / "out.jsonl", rule_judge("exact"), by_hand=by_hand)
    assert report.unused_by_hand == ["q1: Rome", "q9-0"] and report.codes == {Code.BY_HAND: 60}
    assert [verdict_of(one) for one in TrajectoryStore(tmp_path / "out.jsonl")] == [number != 3 for number in range(60)]
