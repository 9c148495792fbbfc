"""Answers that differ by one sign, before every judge that goes by a rule of ours: none of them takes one for the other."""

import pytest

from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.judges import PUBLISHED, RULES, rule_judge
from sanderling.judge.verdict import Ruling

OTHERS = [
    ("1.5", "15"), ("1,5", "15"), (".5", "5"), ("0.15", "15"), ("-5", "5"), ("–5", "5"), ("−5", "5"), ("－5", "5"), ("‐5", "5"),
    ("⁻5", "5"), ("-5 °C", "5 °C"), ("-$5", "$5"), ("$-5", "$5"), ("–€5 million", "€5 million"), ("10²", "102"),
    ("10^2", "102"), ("3/4", "34"), ("2+2", "22"), ("12:30", "1230"), ("1914-1918", "19141918"), ("C++", "C"), ("C#", "C"),
    ("C++", "C#"), ("F♯", "F"), ("A+", "A"), ("$5", "€5"), ("5‰", "5%"), ("1½", "11/2"),
]  # fmt: skip
SAME = [
    ("-5", "−5"), ("–5", "-5"), ("1,500", "1500"), ("1,234.5", "1234.5"), (".5", "0.5"), ("５", "5"), ("5%", "5 %"), ("٥", "5"),
]  # fmt: skip


def episode(answer: str, accepted: str) -> Trajectory:
    question = Question(id="q", text="?", answers=(accepted,))
    return Trajectory(id="t", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)


@pytest.mark.parametrize("judge", sorted(set(RULES) - PUBLISHED))
@pytest.mark.parametrize(("one", "other"), OTHERS)
async def test_answers_that_differ_by_a_sign(judge: str, one: str, other: str) -> None:
    for answer, accepted in ((one, other), (other, one), (f"It is {one}.", other), (f"It is {other}.", one)):
        assert (await rule_judge(judge)(episode(answer, accepted))).ruling is not Ruling.CORRECT, (answer, accepted)


@pytest.mark.parametrize("judge", sorted(set(RULES) - PUBLISHED - {"verbatim"}))
@pytest.mark.parametrize(("one", "other"), SAME)
async def test_answers_that_are_only_written_otherwise(judge: str, one: str, other: str) -> None:
    for answer, accepted in ((one, other), (other, one)):
        assert (await rule_judge(judge)(episode(answer, accepted))).ruling is Ruling.CORRECT, (answer, accepted)


@pytest.mark.parametrize("said", ["负5", "minus 5", "-$5", "－US$5", "⁻5"])
async def test_numeric_reads_a_sign_however_it_is_written(said: str) -> None:
    numeric = rule_judge("numeric")
    assert (await numeric(episode(said, "5"))).ruling is Ruling.INCORRECT
    assert (await numeric(episode(said, "-5"))).ruling is Ruling.CORRECT
    assert (await numeric(episode("5 x 10⁻³", "0.005"))).ruling is Ruling.CORRECT


@pytest.mark.parametrize("name", ["C++", "C#", "C+"])
async def test_a_name_with_signs_holds_no_name_without_them(name: str) -> None:
    assert (await rule_judge("contains")(episode(f"They wrote it in {name}, says the page.", "C"))).ruling is Ruling.INCORRECT
    assert (await rule_judge("contains")(episode(f"They wrote it in {name}, says the page.", name))).ruling is Ruling.CORRECT
