"""Replies of judges, in forms of JSON: what is read from each, and what is not. None is unreadable, never wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.record import Question
from sanderling.judge.forms.contract import Grade
from sanderling.judge.forms.hle import HLE
from sanderling.judge.forms.sets import SETS, are_the_items, grade_of, set_scores

QUESTION = Question(id="q", text="Capital of Norway?", answers=("Oslo",))
GOOD = '{"extracted_final_answer": "Oslo", "reasoning": "the same", "correct": "yes", "confidence": 85, "strict": true}'
BAD = GOOD.replace('"yes"', '"no"')

EXAMS = [
    (GOOD, True, 85.0),
    (BAD, False, 85.0),
    (GOOD.replace('"yes"', '"Yes"'), True, 85.0),
    (GOOD.replace('"yes"', '"NO."'), False, 85.0),
    (GOOD.replace('"yes"', "true"), True, 85.0),
    (GOOD.replace('"yes"', "false"), False, 85.0),
    (json.dumps(json.loads(GOOD), indent=2), True, 85.0),
    (f"```json\n{BAD}\n```", False, 85.0),
    (f"Here it is:\n\n{GOOD}\n\nDone.", True, 85.0),
    (f"{GOOD}\n{GOOD}", True, 85.0),
    (f"[{BAD}]", False, 85.0),
    (GOOD.replace("85", '"85%"'), True, 85.0),
    (GOOD.replace("85", '"85"'), True, 85.0),
    (GOOD.replace("85", "0.9"), True, 0.9),
    (GOOD.replace("85", '"about 90"'), True, None),
    (GOOD.replace("85", "900"), True, None),
    (GOOD.replace("85", "-1"), True, None),
    (GOOD.replace("85", "NaN"), True, None),
    (GOOD.replace("85", "Infinity"), True, None),
    (GOOD.replace("85", "null"), True, None),
    (GOOD.replace("85", "true"), True, None),
    (GOOD.replace("85", "[85]"), True, None),
    ('{"correct": "yes"}', True, None),
    (f"<think>{BAD}</think>{GOOD}", True, 85.0),
    (r"With \frac{1}{2} and \sqrt{3}: " + GOOD, True, 85.0),
    ("correct: no\nconfidence: 10%", False, 10.0),
    (GOOD.replace('"the same"', '"it says {\\"correct\\": \\"no\\"}"'), True, 85.0),
    (GOOD.replace('"Oslo"', '"Oslo\\ncorrect: no"'), True, 85.0),
    (f"{GOOD}\n{BAD}", None, None),
    (GOOD.replace('"strict": true', '"correct": "no"'), None, None),
    (GOOD.replace('"strict": true', '"correct": "yes"'), True, 85.0),
    (GOOD.replace('"strict": true', '"Correct": "no"'), None, None),
    (f"{GOOD}\ncorrect: no", None, None),
    (GOOD.replace('"yes"', '"maybe"'), None, None),
    (GOOD.replace('"yes"', '"yes/no"'), None, None),
    (GOOD.replace('"yes"', '"yes, but no"'), None, None),
    (GOOD.replace('"yes"', "null"), None, None),
    (GOOD.replace('"yes"', "1"), None, None),
    (GOOD.replace('"correct"', '"correctness"'), None, None),
    (GOOD.replace('"correct": "yes", ', ""), None, None),
    (GOOD[:-1], None, None),
    (GOOD.replace('"', "'"), None, None),
    (GOOD.replace("true}", "true,}"), None, None),
    ("{" * 2_000 + GOOD, None, None),
    ('"correct"', None, None),
    ("{}", None, None),
    ("null", None, None),
    ("", None, None),
    (f"<think>{GOOD}", None, None),
    ("The answer is correct, with a confidence of 85%.", None, None),
]


@pytest.mark.parametrize(("reply", "correct", "confidence"), EXAMS)
def test_an_exams_object(reply: str, correct: bool | None, confidence: float | None) -> None:
    found = HLE.read(reply, QUESTION)
    assert (found and found.correct, found and found.confidence) == (correct, confidence)
    assert found is None or (found.score == float(found.correct) and found.excessive == () and found.parts == {})


def test_what_is_kept_of_an_exams_object() -> None:
    found = HLE.read(GOOD, QUESTION)
    assert found is not None and (found.extracted, found.reason) == ("Oslo", "the same")
    long = HLE.read(GOOD.replace("Oslo", "O" * 9_000), QUESTION)
    assert long is not None and long.extracted is not None and len(long.extracted) == 500


PLANETS = Question(id="q", text="Which planets?", answers=("Mars", "Venus", "The Earth"))
ONE_TEXT = Question(id="q", text="Which planets?", answers=("Mars, Venus and the Earth",))


def said(details: object, excessive: object = (), explanation: str = "so") -> str:
    inner = {"Explanation": explanation, "Correctness Details": details, "Excessive Answers": excessive}
    return json.dumps({"Answer Correctness": inner})


ALL = {"Mars": True, "Venus": True, "The Earth": True}
TWO = {"Mars": True, "Venus": False, "The Earth": True}
NONE = dict.fromkeys(ALL, False)
SET_REPLIES = [
    (said(ALL), Grade.CORRECT, 1.0),
    (said(ALL, ["Pluto"]), Grade.CORRECT_WITH_EXTRA, 6 / 7),
    (said(ALL, ["Pluto", "the Sun", "the Moon"]), Grade.CORRECT_WITH_EXTRA, 2 / 3),
    (said(TWO), Grade.PARTLY, 4 / 5),
    (said(TWO, ["Pluto"]), Grade.PARTLY, 2 / 3),
    (said(NONE), Grade.INCORRECT, 0.0),
    (said(NONE, ["Pluto"]), Grade.INCORRECT, 0.0),
    (said({key.lower(): value for key, value in ALL.items()}), Grade.CORRECT, 1.0),
    (said({"Earth": True, "Venus": True, "Mars.": True}), Grade.CORRECT, 1.0),
    (said(dict.fromkeys(ALL, "true")), Grade.CORRECT, 1.0),
    (said({**TWO, "Venus": "False"}), Grade.PARTLY, 4 / 5),
    (f"```json\n{said(ALL)}\n```", Grade.CORRECT, 1.0),
    (json.dumps(json.loads(said(TWO)), indent=1), Grade.PARTLY, 4 / 5),
    (f"Well. {said(ALL)}", Grade.CORRECT, 1.0),
    (said(ALL) + said(ALL), Grade.CORRECT, 1.0),
    (json.dumps(json.loads(said(ALL))["Answer Correctness"]), Grade.CORRECT, 1.0),
    (said(ALL).replace("Answer Correctness", "answer_correctness").replace("Correctness Details", "correctness_details"),
     Grade.CORRECT, 1.0),
    (f"<think>{said(NONE)}</think>{said(ALL)}", Grade.CORRECT, 1.0),
    (said(ALL, ["", " "]), None, None),
    (said(ALL, "Pluto"), None, None),
    (said(ALL, [7]), None, None),
    (said(ALL, None), None, None),
    (said({}), None, None),
    (said([]), None, None),
    (said({"Mars": True, "Venus": True}), None, None),
    (said({**ALL, "Pluto": False}), None, None),
    (said({"Mars": True, "Venus": True, "Terra": True}), None, None),
    (said({"Mars, Venus and the Earth": True}), None, None),
    (said({**ALL, "Venus": None}), None, None),
    (said({**ALL, "Venus": 1}), None, None),
    (said({**ALL, "Venus": "partly"}), None, None),
    (said(ALL) + said(TWO), None, None),
    (said(ALL).replace('"Venus": true', '"Mars": false, "Venus": true'), None, None),
    (said(ALL).replace('"Excessive Answers"', '"Excess"'), None, None),
    (said(ALL)[:-2], None, None),
    ("All three were found.", None, None),
    ('{"Answer Correctness": "all"}', None, None),
    ("[]", None, None),
    ("", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "grade", "score"), SET_REPLIES)
def test_sets(reply: str, grade: Grade | None, score: float | None) -> None:
    found = SETS.read(reply, PLANETS)
    assert (found and found.grade, found and found.score) == (grade, score and pytest.approx(score))
    assert found is None or found.correct is (grade is Grade.CORRECT)
    assert found is None or len(found.parts) == 3


@pytest.mark.parametrize(
    ("items", "accepted", "same"),
    [
        (["Mars", "Venus", "the Earth"], ONE_TEXT.answers, True),
        (["Mars", "Venus and the Earth"], ONE_TEXT.answers, True),
        (["Mars, Venus and the Earth"], ONE_TEXT.answers, True),
        (["Earth", "Venus", "Mars"], ONE_TEXT.answers, True),
        (["Mars", "Venus"], ONE_TEXT.answers, False),
        (["Mars", "Venus", "the Earth", "Pluto"], ONE_TEXT.answers, False),
        (["Mars", "Venus", "the Earth", ","], ONE_TEXT.answers, False),
        (["Washington, D.C."], ("Washington, D.C.",), True),
        (["Washington D.C.", "Salt & Pepper"], ("Salt and Pepper; Washington, D.C.",), True),
        (["1,5", "2"], ("1,5; 2",), True),
        (["1", "5; 2"], ("15; 2",), False),
        (["火星", "金星"], ("火星、金星",), True),
        (["火星和金星"], ("火星", "金星"), False),
        (["Mars", "Mars"], ("Mars", "Mars"), True),
        (["Mars"], ("Mars", "Mars"), False),
        ([], (), False),
        ([], ("Mars",), False),
        (["Mars"], (), False),
    ],
)
def test_a_judges_items_are_the_accepted_ones(items: list[str], accepted: tuple[str, ...], same: bool) -> None:
    assert are_the_items(items, accepted) is same


@given(st.dictionaries(st.text(min_size=1), st.booleans(), min_size=1), st.lists(st.text(min_size=1), max_size=5))
def test_the_scores_of_a_set(parts: dict[str, bool], excessive: list[str]) -> None:
    """Against the textbook: F1 = 2 TP / (2 TP + FP + FN)."""
    right, wrong, missed = sum(parts.values()), len(excessive), len(parts) - sum(parts.values())
    scores, grade = set_scores(parts, excessive), grade_of(parts, excessive)
    assert scores.f1 == pytest.approx(2 * right / (2 * right + wrong + missed))
    assert (scores.f1 == 1.0) == (grade is Grade.CORRECT) and (scores.f1 == 0.0) == (grade is Grade.INCORRECT)
    assert (scores.recall == 1.0) == (grade in (Grade.CORRECT, Grade.CORRECT_WITH_EXTRA))
    assert 0.0 <= scores.precision <= 1.0


KEYS = st.sampled_from(["Correctness Details", "Excessive Answers", "Answer Correctness", "correct"]) | st.text()
LEAVES = st.none() | st.booleans() | st.floats() | st.text()


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)))
def test_no_object_breaks_a_reader(value: object) -> None:
    for form in (HLE, SETS):
        found = form.read(json.dumps(value), PLANETS)
        assert found is None or 0.0 <= found.score <= 1.0
