import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.judge import RuleJudge
from sanderling.judge.outcome import OUTCOMES, answer_tokens, best_outcome, exact_match, score_trajectory, token_f1
from sanderling.judge.verdict import Ruling


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ("The Wadden Sea.", "wadden sea"),
        ("“Oslo”", "Oslo"),
        ("ＯＳＬＯ", "oslo"),
        ("straße", "STRASSE"),
        ("1,234", "1234"),
        ("東京 タワー", "東京タワー"),
        ("北京。", "北京"),
        ("  an   answer \n", "Answer"),
        ("The The", "the the"),
        ("café", "cafe\u0301"),
    ],
)
def test_the_same_answer_in_other_dress(answer: str, accepted: str):
    assert exact_match(answer, accepted) == 1.0


@pytest.mark.parametrize(
    ("answer", "accepted"), [("C", "C++"), ("Oslo, Norway", "Oslo"), ("京都", "東京"), ("", ""), ("?", "!")]
)
def test_other_answers(answer: str, accepted: str):
    assert exact_match(answer, accepted) == 0.0


def test_f1_counts_common_tokens():
    assert token_f1("Oslo, Norway", "Oslo") == pytest.approx(2 / 3)
    assert token_f1("東京都", "東京") == pytest.approx(0.8)
    assert token_f1("a b b", "b b b") == pytest.approx(0.8)
    assert token_f1("", "") == 0.0


@given(st.text(), st.text())
def test_any_text_gives_a_score_between_none_and_full(answer: str, accepted: str):
    for outcome in OUTCOMES.values():
        assert 0.0 <= outcome(answer, accepted) <= 1.0
        assert outcome(answer, accepted) == pytest.approx(outcome(accepted, answer))
    if answer_tokens(answer):
        assert exact_match(answer, answer) == token_f1(answer, answer) == 1.0


def episode(ending: Ending | None, answer: str | None, accepted: tuple[str, ...] = ("Oslo", "Kristiania")) -> Trajectory:
    question = Question(id="q", text="?", answers=accepted)
    return Trajectory(id="t", question=question, nodes=(), leaf=None, ending=ending, answer=answer)


def test_the_best_accepted_answer_counts():
    assert best_outcome("kristiania", ("Oslo", "Kristiania"), exact_match) == 1.0
    assert score_trajectory(episode(Ending.ANSWERED, "kristiania"), exact_match) == 1.0


@pytest.mark.parametrize("ending", list(Ending))
async def test_outages_are_unscored_and_silence_is_zero(ending: Ending):
    score = score_trajectory(episode(ending, None), exact_match)
    verdict = await RuleJudge("exact", exact_match)(episode(ending, None))
    if ending in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED):
        assert score is None and verdict.ruling is Ruling.UNSCORED and verdict.score is None
    else:
        assert score == 0.0 and verdict.ruling is Ruling.INCORRECT and verdict.score == 0.0


def test_an_import_that_tells_nothing_is_unscored():
    assert score_trajectory(episode(None, None), exact_match) is None
    assert score_trajectory(episode(None, "Oslo"), exact_match) == 1.0


async def test_the_rule_judge_goes_by_its_threshold():
    judge = RuleJudge("f1", token_f1, threshold=0.6)
    assert (await judge(episode(Ending.ANSWERED, "Oslo, Norway"))).ruling is Ruling.CORRECT
    assert (await judge(episode(Ending.ANSWERED, "in Oslo in Norway"))).ruling is Ruling.INCORRECT


def test_a_question_without_accepted_answers_is_refused():
    with pytest.raises(UserError, match="no accepted answer"):
        score_trajectory(episode(Ending.ANSWERED, "Oslo", ()), exact_match)
