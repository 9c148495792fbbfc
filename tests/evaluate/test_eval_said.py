"""What `eval run` says beyond right and wrong: every figure that the judge's form gives, and nothing of what it does not."""

from dataclasses import replace

from test_evaluate_result import INFO, QUESTIONS, episode, grid
from test_judged_figures import figures, judged

from sanderling.evaluate.figures import summarise
from sanderling.evaluate.reports.tables import result_lines
from sanderling.policy.budget import Prices


def test_grades_and_confidence() -> None:
    said = [
        judged("a", 0, True, grade="correct", confidence=90.0),
        judged("b", 0, False, grade="incorrect", confidence=80.0),
        judged("c", 0, False, grade="not_attempted"),
    ]
    grades, confidence = result_lines(figures(said, 1))
    assert grades.startswith("graded correct 1; graded incorrect 1; graded not attempted 1; attempted 66.7%")
    assert "right of those attempted 50.0%" in grades and "F1 of right and right of those attempted 40.0%" in grades
    assert confidence.startswith("Expected calibration error 45.0") and "over 2 answers; 1 claim none" in confidence
    assert confidence.endswith("Few: below 100 answers this says little.")


def test_sets_and_scores() -> None:
    said = [
        judged("a", 0, True, grade="correct", score=1.0, parts={"x": True}),
        judged("b", 0, False, grade="partly", score=0.5, parts={"x": True, "y": False, "z": False}),
        judged("c", 0, False, grade="incorrect", score=0.0, parts={"x": False}, excessive=("n",)),
    ]
    (sets,) = result_lines(figures(said, 1))
    assert all(f"{name}, mean over questions {value}" in sets for name, value in (
        ("precision", "66.7%"), ("recall", "44.4%"), ("F1", "50.0%")
    ))  # fmt: skip
    scores = [judged(q, 0, False, score=score) for q, score in zip("abc", (0.2, 0.4, 0.6), strict=True)]
    (line,) = result_lines(figures(scores, 1))
    assert line.startswith("mean score 40.0% (")


def test_contamination_and_cost() -> None:
    rows = [episode(q, 0, q == "a", contaminated=q == "a", sampled_tokens=10**6, prompt_tokens=0) for q in "abc"]
    contaminated, cost = result_lines(summarise(rows, QUESTIONS, 1, replace(INFO, prices=Prices(1.0, 2.0))))
    assert contaminated.startswith(
        "1 of 3 attempts read their question word for word, and perhaps its answer; without them avg 0.0%"
    )
    assert cost == "The agent's tokens cost 6, 6 for each right answer."
    wrong = [episode(q, 0, False, contaminated=False, sampled_tokens=10**6, prompt_tokens=0) for q in "abc"]
    assert list(result_lines(summarise(wrong, QUESTIONS, 1, replace(INFO, prices=Prices(1.0, 2.0))))) == [
        "The agent's tokens cost 6."
    ]


def test_nothing_is_said_of_what_nobody_knows() -> None:
    assert list(result_lines(summarise(grid({q.id: [True] for q in QUESTIONS}), QUESTIONS, 1, INFO))) == []
