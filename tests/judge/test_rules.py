"""Judges that go by rule: ours, those of benchmarks against what is known of them, and a person's own."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.rules import (
    RULES,
    RuleJudge,
    exact_match,
    gaia_match,
    rule_judge,
    score_trajectory,
)
from sanderling.judge.verdict import Ruling, rule_on


def episode(answer: str | None, accepted: tuple[str, ...] = ("Oslo",), ending: Ending | None = Ending.ANSWERED) -> Trajectory:
    question = Question(id="q", text="?", answers=accepted)
    return Trajectory(id="t", question=question, nodes=(), leaf=None, ending=ending, answer=answer)


@pytest.mark.parametrize("ending", list(Ending))
async def test_outages_are_unscored_and_silence_is_zero(ending: Ending):
    score = score_trajectory(episode(None, ending=ending), exact_match)
    verdict = await rule_on(episode(None, ending=ending), RuleJudge("exact", exact_match))
    if ending in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED):
        assert score is None and verdict.ruling is Ruling.UNSCORED and verdict.score is None
    else:
        assert score == 0.0 and verdict.ruling is Ruling.INCORRECT and verdict.score == 0.0


def test_a_question_without_accepted_answers_is_refused():
    with pytest.raises(UserError, match="no accepted answer"):
        score_trajectory(episode("Oslo", ()), exact_match)


@pytest.mark.parametrize(
    ("spec", "told"),
    [("exactly", "did you mean 'exact'"), ("", "choose one of"), ("f1:2", "between 0 and 1"), ("f1:nan", "between 0 and 1"),
     ("f1:x", "between 0 and 1"), ("exact:0.5", "takes no number")],
)  # fmt: skip
def test_a_judge_that_is_none_is_told(spec: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        rule_judge(spec)


@given(st.text(), st.text(min_size=1))
def test_no_rule_fails_on_any_text(answer: str, accepted: str) -> None:
    for name in RULES:
        verdict = asyncio.run(rule_on(episode(answer, (accepted,)), rule_judge(name)))
        assert (verdict.score is None) == (verdict.correct is None)


OTHERS = [
    ("1.5", "15"), ("1,5", "15"), (".5", "5"), ("0.15", "15"), ("-5", "5"), ("–5", "5"), ("−5", "5"), ("－5", "5"), ("‐5", "5"),
    ("⁻5", "5"), ("-5 °C", "5 °C"), ("-$5", "$5"), ("$-5", "$5"), ("–€5 million", "€5 million"), ("10²", "102"),
    ("10^2", "102"), ("3/4", "34"), ("2+2", "22"), ("12:30", "1230"), ("1914-1918", "19141918"), ("C++", "C"), ("C#", "C"),
    ("C++", "C#"), ("F♯", "F"), ("A+", "A"), ("$5", "€5"), ("5‰", "5%"), ("1½", "11/2"),
]  # fmt: skip
SAME = [
    ("-5", "−5"), ("–5", "-5"), ("1,500", "1500"), ("1,234.5", "1234.5"), (".5", "0.5"), ("５", "5"), ("5%", "5 %"), ("٥", "5"),
]  # fmt: skip

# Rules that follow a benchmark's own to the letter take some different answers for the same.
OWN = [name for name in RULES if name not in ("gaia", "squad_em", "squad_f1")]


@pytest.mark.parametrize("judge", OWN)
@pytest.mark.parametrize(("one", "other"), OTHERS)
async def test_answers_that_differ_by_a_sign(judge: str, one: str, other: str) -> None:
    for answer, accepted in ((one, other), (other, one), (f"It is {one}.", other), (f"It is {other}.", one)):
        assert (await rule_judge(judge)(episode(answer, (accepted,)))).ruling is not Ruling.CORRECT, (answer, accepted)


@pytest.mark.parametrize("judge", [name for name in OWN if name != "verbatim"])
@pytest.mark.parametrize(("one", "other"), SAME)
async def test_answers_that_are_only_written_otherwise(judge: str, one: str, other: str) -> None:
    for answer, accepted in ((one, other), (other, one)):
        assert (await rule_judge(judge)(episode(answer, (accepted,)))).ruling is Ruling.CORRECT, (answer, accepted)


GAIA = [
    # numbers: the accepted answer is one
    ("42", "42", 1), ("42.0", "42", 1), ("$42", "42", 1), ("42%", "42", 1), ("1,234", "1234", 1), ("$1,234.50", "1234.5", 1),
    (" 42 ", "42", 1), ("4.2e1", "42", 1), ("-42", "42", 0), ("42 km", "42", 0), ("forty-two", "42", 0), ("", "42", 0),
    ("42.0001", "42", 0), ("inf", "42", 0), ("nan", "42", 0), ("1,0,0", "100", 1), ("€42", "42", 0), ("0", "-0.0", 1),
    # not finite: texts, else anything unreadable would be infinity
    ("anything", "inf", 0), ("INF", "inf", 1), ("anything", "Infinity", 0), ("nan", "NaN", 1),
    # lists: a comma or a semicolon in the accepted answer
    ("a,b", "a, b", 1), ("A; B", "a, b", 1), ("b, a", "a, b", 0), ("a, b, c", "a, b", 0), ("a", "a, b", 0), ("a b", "a, b", 0),
    ("1, b", "1.0, b", 1), ("$1, b", "1, b", 1), ("2, b", "1, b", 0), ("a., b", "a, b", 0), ("a., b", "a., b", 1),
    ("New York, Rome", "newyork,ROME", 1), ("a,,b", "a,,b", 1), ("a,b", "a,,b", 0), ("1000", "1,000", 0), ("1,000", "1,000", 1),
    ("1,0", "1,000", 1), ("1;000", "1,000", 1),
    # texts: blanks and punctuation mean nothing
    ("Saint Petersburg", "St. Petersburg", 0), ("St Petersburg", "St. Petersburg", 1), ("s.t.petersburg", "St. Petersburg", 1),
    ("sea gull", "Seagull", 1), ("The Oslo", "Oslo", 0), ("C", "C++", 1), ("Zürich", "ZÜRICH", 1), ("Zurich", "Zürich", 0),
    ("a, b", "a b", 1), ("", "Oslo", 0), ("?", "?", 1), ("!", "?", 0), ("", "?", 0), ("-", "+", 0), ("奥斯陆。", "奥斯陆", 0),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "right"), GAIA)
def test_gaia(answer: str, accepted: str, right: int) -> None:
    assert gaia_match(answer, accepted) == right


async def test_rules_from_outside(tmp_path: Path) -> None:
    """A function of two texts, a judge's class, and what is neither."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from sanderling.judge.verdict import decided\n"
        "def initial(answer, accepted):\n    return float(answer[:1] == accepted[:1])\n"
        "class Strict:\n    name, places = 'strict', ()\n"
        "    async def __call__(self, trajectory):\n        return decided(False, 'never')\n"
        "nothing = 7\n"
    )
    judge = rule_judge(f"{file}:initial")
    assert judge.name == f"{file}:initial" and (await rule_on(episode("Oxford"), judge)).correct is True
    assert (await rule_on(episode("Oslo"), rule_judge(f"{file}:Strict"))).reason == "never"
    with pytest.raises(UserError, match="is no judge"):
        rule_judge(f"{file}:nothing")
