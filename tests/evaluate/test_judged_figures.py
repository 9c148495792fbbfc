"""What judges say beyond right and wrong, against sums by hand and references."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa
from test_evaluate_result import INFO, QUESTIONS, episode

from sanderling.core.types import Ending
from sanderling.evaluate.agreement import agreements
from sanderling.evaluate.episodes import JudgedAttempt
from sanderling.evaluate.figures import summarise
from sanderling.evaluate.result import EvalResult
from sanderling.judge.verdict import Code


def judged(question: str, attempt: int, correct: bool | None, **more: Any) -> JudgedAttempt:
    about = {"question": question, "attempt": attempt, "id": f"{question}-{attempt}", "ending": Ending.ANSWERED}
    return JudgedAttempt.model_validate(about | {"correct": correct, "judge": "j"} | more)


def figures(said: list[JudgedAttempt], attempts: int) -> EvalResult:
    """The figures of attempts at a, b and c of which that was said."""
    rows = [episode(one.question, one.attempt, one.correct) for one in said]
    return summarise(rows, QUESTIONS, attempts, replace(INFO, judged=said))


GRADES = {"C": ("correct", True), "I": ("incorrect", False), "N": ("not_attempted", False)}


@given(st.lists(st.sampled_from("CIN"), min_size=3, max_size=3))
def test_simpleqas_figures_with_one_attempt_are_the_publishers(letters: list[str]) -> None:
    said = [judged(q, 0, GRADES[g][1], grade=GRADES[g][0]) for q, g in zip("abc", letters, strict=True)]
    found = figures(said, 1).grades
    right, tried = letters.count("C"), 3 - letters.count("N")
    assert found is not None
    assert found.counts == {GRADES[g][0]: letters.count(g) for g in sorted(set(letters))}
    assert found.attempted.value == pytest.approx(tried / 3)
    overall, given_attempted = right / 3, right / tried if tried else 0.0
    both = overall + given_attempted
    assert found.f1.value == pytest.approx(2 * overall * given_attempted / both if both else 0.0)
    assert found.given_attempted.value == (pytest.approx(given_attempted) if tried else None)


def test_questions_weigh_the_same_however_often_they_were_tried() -> None:
    said = [judged("a", 0, True, grade="correct"), judged("a", 1, True, grade="correct"),
            judged("b", 0, False, grade="not_attempted"), judged("b", 1, None, code=Code.OUTAGE),
            judged("c", 0, False, grade="incorrect"), judged("c", 1, False, code=Code.NO_ANSWER)]  # fmt: skip
    result = figures(said, 2)
    found = result.grades
    assert found is not None
    assert found.counts == {"correct": 2, "incorrect": 1, "not_attempted": 2}, "no answer is no attempt"
    assert (found.attempted.value, result.pass_at_1.value) == pytest.approx((0.5, 1 / 3))
    assert found.given_attempted.value == pytest.approx((1 / 3) / 0.5)
    assert found.attempted.interval is not None and result.sets is None


def test_sets_are_averaged_question_by_question() -> None:
    said = [
        judged("a", 0, False, grade="partly", score=0.5, parts={"x": True, "y": False, "z": False}),
        judged("b", 0, False, grade="correct_with_extra", score=2 / 3, parts={"x": True}, excessive=("n",)),
        judged("c", 0, False, grade="incorrect", score=0.0, parts={"x": False, "y": False}, excessive=("n", "m")),
    ]
    result = figures(said, 1)
    found = result.sets
    assert found is not None and result.score is not None and result.grades is None
    assert found.precision.value == pytest.approx((1.0 + 0.5 + 0.0) / 3), "thrown together it would be 2 of 5"
    assert found.recall.value == pytest.approx((1 / 3 + 1.0 + 0.0) / 3)
    assert found.f1.value == pytest.approx((0.5 + 2 / 3 + 0.0) / 3)
    assert result.score.value == pytest.approx((0.5 + 2 / 3) / 3)
    assert found.counts == {"correct_with_extra": 1, "incorrect": 1, "partly": 1}


def test_a_set_without_an_answer_is_0_and_what_a_person_judged_has_no_parts() -> None:
    whole = judged("a", 0, True, grade="correct", score=1.0, parts={"x": True})
    silent = judged("b", 0, False, score=0.0, code=Code.NO_ANSWER)
    found = figures([whole, silent, judged("c", 0, True, score=1.0, code=Code.BY_HAND)], 1).sets
    assert found is not None
    assert (found.f1.value, found.f1.questions, found.f1.too_few) == (0.5, 2, 1)


def test_plain_verdicts_have_none_of_it() -> None:
    said = [judged(q, 0, True, score=1.0) for q in "abc"]
    found = figures(said, 1)
    assert (found.score, found.grades, found.sets, found.confidence, found.agreement) == (None, None, None, None, ())


def test_confidence_against_how_many_are_right() -> None:
    said = [judged("a", 0, True, confidence=95.0), judged("b", 0, False, confidence=95.0), judged("c", 0, True)]
    found = figures(said, 1).confidence
    assert found is not None
    assert (found.answers, found.left_out, found.error) == (2, 1, pytest.approx(45.0))
    assert [b.answers for b in found.bins][-1] == 2, "the last bin counts"
    assert found.error_interval is not None


def test_two_judges_and_a_person() -> None:
    rng = np.random.default_rng(0)
    said = []
    for place in range(60):
        first, second = bool(rng.random() < 0.6), bool(rng.random() < 0.5)
        said.append(judged(f"q{place // 2}", place % 2, first, second=second))
    (found,) = agreements(said, "one", "two")
    table = [[found.both, found.first_only], [found.second_only, found.neither]]
    assert sum(map(sum, table)) == 60
    assert found.kappa == pytest.approx(cohens_kappa(np.array(table)).kappa)
    assert found.kappa_interval is not None and found.kappa_interval.low < found.kappa < found.kappa_interval.high
    by_hand = [judged("a", 0, False, code=Code.BY_HAND, judge="by hand", overruled=True), *said]
    assert [one.second for one in agreements(by_hand, "one", "")] == ["a person, on what they settled"]
    assert agreements(said, "one", "") == ()


def test_it_is_saved_and_read_again(tmp_path: Any) -> None:
    said = [judged(q, 0, q != "b", grade="correct" if q != "b" else "incorrect", confidence=80.0, second=True) for q in "abc"]
    rows = [episode(one.question, 0, one.correct) for one in said]
    info = type(INFO)(**{**vars(INFO), "second_judge": "two"})
    found = summarise(rows, QUESTIONS, 1, replace(info, judged=said))
    found.save(tmp_path / "result.json")
    assert EvalResult.load(tmp_path / "result.json") == found
    assert found.agreement[0].second == "two" and found.confidence is not None
