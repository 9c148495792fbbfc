"""What `eval run` says beyond right and wrong: every figure that the judge's form gives, and nothing of what it does not."""

from dataclasses import replace

from test_evaluate_result import INFO, QUESTIONS, episode, grid
from test_judged_figures import figures, judged

from sanderling.evaluate.figures import summarise
from sanderling.evaluate.reports.tables import said_lines
from sanderling.policy.budget import Prices


def test_grades_and_confidence() -> None:
    said = [
        judged("a", 0, True, grade="correct", confidence=90.0),
        judged("b", 0, False, grade="incorrect", confidence=80.0),
        judged("c", 0, False, grade="not_attempted"),
    ]
    grades, confidence = said_lines(figures(said, 1))
    assert grades.startswith("Grades: 1 correct, 1 incorrect, 1 not attempted; right of those attempted 50.0%")
    assert "F1 of that and avg 40.0%" in grades
    assert confidence.startswith("Confidence: off by 45.0 points") and "over 2 answers" in confidence
    assert "fewer than 100 say little; 1 claim none, or one on an unknown scale." in confidence


def test_sets_have_their_f1_question_by_question() -> None:
    said = [
        judged("a", 0, True, grade="correct", score=1.0, parts={"x": True}),
        judged("b", 0, False, grade="partly", score=0.5, parts={"x": True, "y": False, "z": False}),
        judged("c", 0, False, grade="incorrect", score=0.0, parts={"x": False}, excessive=("n",)),
    ]
    (sets,) = said_lines(figures(said, 1))
    assert sets.startswith("Sets: 1 correct, 1 incorrect, 1 partly; question by question precision 66.7%")
    assert "recall 44.4%" in sets and "F1 50.0%" in sets


def test_scores_between_wrong_and_right() -> None:
    (line,) = said_lines(
        figures([judged(q, 0, False, score=score) for q, score in zip("abc", (0.2, 0.4, 0.6), strict=True)], 1)
    )
    assert line.startswith("Mean score 40.0% (95% ") and line.endswith("right is only what has the whole score.")


def test_contamination_and_cost() -> None:
    rows = [episode(q, 0, q == "a", contaminated=q == "a", sampled_tokens=10**6, prompt_tokens=0) for q in "abc"]
    contaminated, cost = said_lines(summarise(rows, QUESTIONS, 1, replace(INFO, prices=Prices(1.0, 2.0))))
    assert contaminated.startswith(
        "1 of 3 attempts read their question word for word, and perhaps its answer; without them avg 0.0%"
    )
    assert cost == "The agent's tokens cost 6, 6 for each right answer."
    wrong = [episode(q, 0, False, contaminated=False, sampled_tokens=10**6, prompt_tokens=0) for q in "abc"]
    assert list(said_lines(summarise(wrong, QUESTIONS, 1, replace(INFO, prices=Prices(1.0, 2.0))))) == [
        "The agent's tokens cost 6."
    ]


def test_nothing_is_said_of_what_nobody_knows() -> None:
    assert list(said_lines(summarise(grid({q.id: [True] for q in QUESTIONS}), QUESTIONS, 1, INFO))) == []
