"""Judges that go by rule: ours, those of benchmarks against what is known of them, and a person's own."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.numeric import compare, quantities
from sanderling.judge.rules import RULES, RuleJudge, exact_match, gaia_match, rule_judge, score_trajectory
from sanderling.judge.verdict import Ruling, rule_on


def episode(answer: str | None, accepted: tuple[str, ...] = ("Oslo",), ending: Ending | None = Ending.ANSWERED) -> Trajectory:
    question = Question(id="q", text="?", answers=accepted)
    return Trajectory(id="t", question=question, nodes=(), leaf=None, ending=ending, answer=answer)


def test_every_rule_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [rule for rule in RULES if f"`{rule}" not in page] == []


@pytest.mark.parametrize("ending", list(Ending))
async def test_outages_are_unscored_and_silence_is_zero(ending: Ending):
    score = score_trajectory(episode(None, ending=ending), exact_match)
    verdict = await rule_on(episode(None, ending=ending), RuleJudge("exact", exact_match))
    assert (await RuleJudge("exact", exact_match)(episode(None, ending=ending))).correct is verdict.correct
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


# -- Numbers and units as people write them: golden pairs, and what no rule may decide -------------------------------------

EQUAL = [
    ("42", "42"), ("42.0", "42"), ("1,234", "1234"), ("1 234 567", "1,234,567"), ("1\u202f234", "1234"),
    ("1'234'567", "1234567"), ("12,34,567", "1234567"), ("1.234.567", "1234567"), ("1.234,5", "1234.5"), ("1,234.5", "1234.5"),
    ("3,5", "3.5"), ("3.2 million", "3,200,000"), ("3,214,000", "3.2 million"), ("3.2M", "3.2 million"), ("5k", "5000"),
    ("$5bn", "$5 billion"), ("2 crore", "20 million"),
    ("−5", "-5"), ("minus 5", "-5"),
    ("forty-two", "42"), ("twenty-one thousand three hundred", "21300"), ("two hundred and five", "205"),
    ("three million", "3,000,000"), ("It was 42 in all.", "42"), ("about 42 people", "42"), ("42", "about 42 people"),
    ("12%", "12 percent"), ("0.12", "12%"), ("12", "12%"), ("12 per cent", "12%"), ("the 3rd", "3"), ("5 km", "5000 m"),
    ("5 kilometres", "5km"), ("3.1 miles", "5 km"), ("1.6 km", "1 mile"), ("8,849 m (29,032 ft)", "8,849 metres"),
    ("29,032 ft", "8,849 m"), ("5 ft 11 in", "180 cm"), ("5'11\"", "71 inches"), ("183 cm", "6 ft"),
    ("2 hours and 30 minutes", "150 min"), ("2h 30min", "2.5 hours"), ("22 lb", "10 kg"), ("10 pounds", "10 lb"),
    ("$10", "10 dollars"), ("10 pounds", "£10"), ("US$ 10", "10 USD"), ("37.8 °C", "100 °F"), ("25 degrees Celsius", "25 °C"),
    ("25°", "25 °C"), ("300 K", "26.85 °C"), ("100 km/h", "62 mph"), ("10 acres", "4.05 ha"), ("1 sq mi", "2.59 km²"),
    ("500 ml", "0.5 litres"), ("1 kWh", "3.6 MJ"), ("18 months", "1.5 years"), ("42 km", "42"), ("42", "42 km"),
    ("a 300-metre tower", "300 m"), ("1 GiB", "1024 MiB"), ("2 decades", "20 years"),

    ("8 in Rome", "8 in"),
    ("between 1969", "1969"), ("It is 5.", "5"), ("1,000", "1000"), (".5", "0.5"), ("3.14159", "3.14"), ("5 in", "5 inches"),
    ("minus five degrees", "-5 °C"), ("44 BC", "44 BC"), ("the 1960s", "1960s"),
]  # fmt: skip
UNEQUAL = [
    ("8 in Rome", "9"), ("one two", "3"), ("43", "42"), ("1969.4", "1969"), ("1968", "1969"), ("3.26", "3.2"),
    ("3.3 million", "3.2 million"), ("3.2 billion", "3.2 million"), ("1.234", "1234"), ("5 miles", "5 km"), ("5 kg", "5 km"),
    ("29,000 ft", "8,849 m"), ("€10", "$10"), ("25 °F", "25 °C"), ("3 miles", "5 km"), ("-5", "5"), ("no idea", "42"),
    ("", "42"), ("5 MW", "5 mW"),
    ("15", "12%"), ("COVID-19", "19"), ("B2", "2"),
    ("six", "60"), ("fifty", "15"), ("1.6 km", "1.7 miles"), ("0.5%", "50%"),
    ("100 BC", "100 AD"), ("44", "44 BC"),
]  # fmt: skip
UNSURE = [
    ("Apollo 11", "Apollo 11"), ("Gemini 11", "Apollo 11"), ("Oslo", "Rome"), ("10", "10 to 12"), ("11", "10-12"),
    ("5", "5 or 6"), ("5 or 6", "5"), ("in 1999 there were 8", "8"), ("5 tons", "5 tonnes"), ("5 gallons", "19 l"),
    ("1 year", "365 days"), ("3/4/1969", "3 April 1969"), ("1.2.3", "1.2.3"), ("5", ""), ("8 in 1999", "8"),
    ("5 5", "six five nine"), ("12345678901", "1" * 60), ("3–5 km", "3 km"), ("3 km to 5 km", "3 km"), ("5-6", "5"),
    ("6", "5-6"), ("3:1", "3"), ("12:30", "12"), ("half", "0.5"), ("two thirds", "2/3"), ("a dozen", "12"), ("first", "1"),
    ("none", "0"), ("10^5", "100000"), ("1 in 5", "20%"), ("$5m", "$5 million"), ("nineteen sixty-nine", "1969"),
    ("1960s", "1960"), ("1e101", "7"),
    ("1/2", "1"), ("3½", "3"), ("6.02e23", "6"), ("20 July 1969", "July 20, 1969"),
    ("1969-07-20", "1969-07-20"), ("20.7.1969", "20.7.1969"), ("July 1969", "July 1969"),
    ("July '69", "1969"), ("20 Jul 69", "1969"), ("20-Jul-1969", "1969"), ("mid-1969", "1969"), ("19690720", "1969"),
    ("5公里", "5000 m"), ("5\u202fx10^3", "Rome"), ("8,1.234,5", "8"), ("2 × 10⁻", "Rome"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "accepted", "match"),
    [(*pair, match) for match, pairs in ((True, EQUAL), (False, UNEQUAL), (None, UNSURE)) for pair in pairs],
)
def test_the_same_quantity_another_or_unsure(answer: str, accepted: str, match: bool | None) -> None:
    assert compare(answer, accepted) is match


@given(
    st.text(alphabet=st.sampled_from("0123456789.,-+/eEx×^ ½²km°C%$'\"()ftinaMBKth\u2212\u202f"), max_size=60),
    st.text(max_size=20),
)
def test_no_text_breaks_the_reading(text: str, other: str) -> None:
    for quantity in quantities(text + other):
        assert 0 <= quantity.start < quantity.end <= len(text + other)
        assert quantity.grain >= 0
    assert {compare(text, other), compare(other, text)} <= {True, False, None}
