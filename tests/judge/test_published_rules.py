"""Rules of benchmarks, against what is known of them: GAIA's scorer, SQuAD's exact match and F1, HotpotQA's rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.judge import rule_on
from sanderling.judge.judges import rule_judge
from sanderling.judge.judges.gaia import gaia_match
from sanderling.judge.judges.squad import squad_match, squad_overlap, squad_words
from sanderling.judge.verdict import Code

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


@given(st.text(), st.text())
def test_gaia_takes_any_text(answer: str, accepted: str) -> None:
    assert gaia_match(answer, accepted) in (0.0, 1.0)
    if "," not in answer and ";" not in answer:
        assert gaia_match(answer, answer) == 1.0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_gaia_reads_a_number_however_it_is_written(number: float) -> None:
    assert gaia_match(f"${number!r}%", repr(number)) == 1.0
    assert gaia_match(f"{number:,.2f}", f"{number:.2f}") == 1.0
    assert gaia_match("no number", repr(number)) == 0.0


MATCHES = [
    ("The Oslo", "oslo", 1), ("Oslo!", "Oslo", 1), ("  Oslo \n", "Oslo", 1), ("an Oslo a", "Oslo", 1),
    ("Oslo, Norway", "Oslo", 0),
    ("U.S.", "US", 1), ("Theodore", "odore", 0), ("a-the-b", "atheb", 1), ("1.5", "15", 1), ("Zürich", "zürich", 1),
    ("Zurich", "Zürich", 0), ("奥斯陆", "奥斯陆", 1), ("奥斯陆。", "奥斯陆", 0), ("«Oslo»", "Oslo", 0), ("", "Oslo", 0),
    ("The The", "the the", 1), ("a", "The The", 0), ("!", "?", 0), ("The", "A", 0), ("?", "?", 1),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "right"), MATCHES)
def test_squad_exact_match(answer: str, accepted: str, right: int) -> None:
    assert squad_match(answer, accepted) == right
    assert not right or squad_overlap(answer, accepted) == 1.0


OVERLAPS = [
    ("Oslo Norway", "Oslo", 2 / 3), ("city of Oslo", "the Oslo city", 4 / 5), ("Oslo Oslo", "Oslo", 2 / 3), ("Rome", "Oslo", 0),
    ("yes", "yes", 1), ("Yes.", "yes", 1), ("no", "yes", 0), ("yes it is", "yes", 0), ("no idea", "no", 0),
    ("yes", "yes men", 0),
    ("noanswer", "Oslo", 0), ("no answer", "noanswer", 0), ("the yes", "a yes!", 1), ("it is a no", "no", 0), ("", "Oslo", 0),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "accepted", "score"), OVERLAPS)
def test_f1_with_hotpots_rule(answer: str, accepted: str, score: float) -> None:
    assert squad_overlap(answer, accepted) == pytest.approx(score)


@given(st.text(), st.text())
def test_f1_is_symmetric_and_one_for_the_same_bag(one: str, other: str) -> None:
    score = squad_overlap(one, other)
    assert 0.0 <= score <= 1.0
    if squad_words(one) and squad_words(other):
        assert score == squad_overlap(other, one)
    assert squad_match(one, other) <= score


def episode(answer: str | None, *accepted: str) -> Trajectory:
    question = Question(id="q", text="?", answers=accepted)
    return Trajectory(id="t", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)


@pytest.mark.parametrize(
    ("spec", "answer", "accepted", "correct", "score"),
    [
        ("gaia", "42", ("41", "42"), True, 1.0),
        ("squad_em", "New York City", ("NYC", "new york city"), True, 1.0),
        ("squad_f1", "New York City", ("NYC", "New York"), True, 0.8),
        ("squad_f1:0.9", "New York City", ("NYC", "New York"), False, 0.8),
        ("squad_f1", "Oslo", ("yes", "Oslo Norway"), False, 2 / 3),
    ],
)
async def test_the_best_of_the_accepted_answers_counts(
    spec: str, answer: str, accepted: tuple[str, ...], correct: bool, score: float
) -> None:
    verdict = await rule_on(episode(answer, *accepted), rule_judge(spec))
    assert (verdict.correct, verdict.score) == (correct, pytest.approx(score))


@pytest.mark.parametrize("spec", ["gaia", "squad_em", "squad_f1"])
async def test_nothing_to_compare_is_settled_before(spec: str) -> None:
    assert (await rule_on(episode("  ", "Oslo"), rule_judge(spec))).code is Code.NO_ANSWER
    assert (await rule_on(episode("Oslo"), rule_judge(spec))).code is Code.NO_ACCEPTED


def test_numbers_behind_their_names() -> None:
    assert rule_judge("squad_f1").name == "squad_f1:0.8"
    for spec in ("gaia:1", "squad_em:0.5", "squad_f1:2"):
        with pytest.raises(UserError):
            rule_judge(spec)
