"""Judges by rule, several in order, and streams of trajectories through them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, Trajectory
from sanderling.core.types import Ending, Role
from sanderling.judge.by_hand import ByHand
from sanderling.judge.judge import Panel, in_order, rule_on
from sanderling.judge.judges import RULES, rule_judge
from sanderling.judge.judging import BY_HAND, MovedJudgeWarning, VerdictBook, judge_each, judge_stream
from sanderling.judge.verdict import META_KEY, Code, Ruling, Verdict, unscored, verdict_of

RIGHT = Verdict(Ruling.CORRECT, 1.0, "yes")
WRONG = Verdict(Ruling.INCORRECT, 0.0, "no")
DOWN = unscored(Code.OUTAGE, "down")
STRANGE = unscored(Code.NOT_COMPARABLE, "no number")


def episode(
    answer: str | None = "Oslo",
    accepted: tuple[str, ...] = ("Oslo",),
    ending: Ending | None = Ending.ANSWERED,
    id: str = "t",
    text: str = "?",
) -> Trajectory:
    question = Question(id="q", text=text, answers=accepted)
    return Trajectory(id=id, question=question, nodes=(), leaf=None, ending=ending, answer=answer)


class Said:
    """A judge that says what it is told to, and counts."""

    def __init__(
        self,
        *verdicts: Verdict,
        by: Callable[[Trajectory], Verdict] | None = None,
        name: str = "said",
        places: tuple[str, ...] = (),
    ) -> None:
        self.verdicts = list(verdicts)
        self.by = by
        self.name = name
        self.places = places
        self.asked: list[str] = []
        self.running = self.most = 0

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        self.asked.append(trajectory.answer or "")
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(len(self.asked) % 5):
            await asyncio.sleep(0)
        self.running -= 1
        return self.by(trajectory) if self.by else self.verdicts.pop(0)


@pytest.mark.parametrize(
    ("spec", "answer", "correct"),
    [
        ("exact", "The OSLO.", True),
        ("normalised", "The OSLO.", True),
        ("verbatim", "Oslo ", True),
        ("verbatim", "oslo", False),
        ("f1:0.5", "Oslo, Norway", True),
        ("f1", "Oslo, Norway", False),
        ("contains", "It is Oslo, I think", True),
        ("contains", "It is Osloer, I think", False),
        ("exact", "It is Oslo", False),
    ],
)
async def test_rules(spec: str, answer: str, correct: bool) -> None:
    assert (await rule_on(episode(answer), rule_judge(spec))).correct is correct


async def test_a_rule_is_asked_and_nobody_else() -> None:
    """F1 asked for is F1: no model stands behind it, and its threshold is part of its name."""
    assert {rule_judge("f1:0.8").name, rule_judge("f1").name} == {"f1:0.8"}
    assert rule_judge("f1:0.5").name == "f1:0.5"


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


@pytest.mark.parametrize(
    ("trajectory", "ruling", "code"),
    [
        (episode(None, ending=Ending.TOOL_OUTAGE), Ruling.UNSCORED, Code.NOT_ENDED),
        (episode("Oslo", ending=Ending.CANCELLED), Ruling.UNSCORED, Code.NOT_ENDED),
        (episode(None, ending=None), Ruling.UNSCORED, Code.NOT_ENDED),
        (episode(None, ending=Ending.TURN_LIMIT), Ruling.INCORRECT, Code.NO_ANSWER),
        (episode("Oslo", ending=Ending.REPETITION), Ruling.INCORRECT, Code.NO_ANSWER),
        (episode(" \n"), Ruling.INCORRECT, Code.NO_ANSWER),
        (episode("Oslo", ()), Ruling.UNSCORED, Code.NO_ACCEPTED),
        (episode("Oslo", ("", " ")), Ruling.UNSCORED, Code.NO_ACCEPTED),
        (episode("Oslo", ending=None), Ruling.CORRECT, Code.JUDGED),
    ],
)
async def test_what_needs_no_judge(trajectory: Trajectory, ruling: Ruling, code: Code) -> None:
    judge = Said(RIGHT)
    verdict = await rule_on(trajectory, judge)
    assert (verdict.ruling, verdict.code) == (ruling, code)
    assert len(judge.asked) == (code is Code.JUDGED)


async def test_only_the_agents_own_answer_is_read() -> None:
    """An answer in a tool's text is not the agent's, wherever tags stand in it."""
    leaked = Node(parent=None, role=Role.USER, kind=NodeKind.OBSERVATION, text="<answer>Oslo</answer>")
    turn = Node(parent=0, role=Role.ASSISTANT, kind=NodeKind.TURN, text="<answer>Rome</answer>", answer="Rome")
    for name in RULES:
        for own in ("Rome", None):
            found = episode(own).model_copy(update={"nodes": (leaked, turn), "leaf": 1})
            assert (await rule_on(found, rule_judge(name))).correct is not True


@pytest.mark.parametrize(
    ("said", "ruling", "code", "asked"),
    [
        ((RIGHT, WRONG), Ruling.CORRECT, Code.JUDGED, 1),
        ((WRONG, RIGHT), Ruling.CORRECT, Code.JUDGED, 2),
        ((WRONG, WRONG), Ruling.INCORRECT, Code.JUDGED, 2),
        ((WRONG, DOWN), Ruling.UNSCORED, Code.OUTAGE, 2),
        ((DOWN, WRONG), Ruling.UNSCORED, Code.OUTAGE, 2),
        ((DOWN, RIGHT), Ruling.CORRECT, Code.JUDGED, 2),
        ((STRANGE, WRONG), Ruling.INCORRECT, Code.JUDGED, 2),
        ((WRONG, STRANGE), Ruling.INCORRECT, Code.JUDGED, 2),
        ((STRANGE, STRANGE), Ruling.UNSCORED, Code.NOT_COMPARABLE, 2),
    ],
)
async def test_judges_in_order(said: tuple[Verdict, ...], ruling: Ruling, code: Code, asked: int) -> None:
    """A judge that failed never makes an answer wrong, whatever cheaper ones say."""
    judges = [Said(verdict, name=f"j{at}") for at, verdict in enumerate(said)]
    verdict = await Panel(judges)(episode())
    assert (verdict.ruling, verdict.code) == (ruling, code)
    assert sum(len(judge.asked) for judge in judges) == asked
    assert in_order(judges).name == "j0, then j1" and in_order(judges[:1]) is judges[0]


def by_answer(trajectory: Trajectory) -> Verdict:
    return {"right": RIGHT, "wrong": WRONG}.get((trajectory.answer or "").split()[0], DOWN)


EPISODES = [episode(f"{('right', 'wrong', 'down')[n % 3]} {n}", id=f"t{n}") for n in range(30)]


async def test_a_stream_keeps_its_order_and_loses_nothing() -> None:
    judge = Said(by=by_answer)
    found = [judged async for judged in judge_each(EPISODES, judge, concurrency=3)]
    assert [judged.trajectory.id for judged in found] == [trajectory.id for trajectory in EPISODES]
    assert [judged.verdict.correct for judged in found] == [True, False, None] * 10
    assert [verdict_of(judged.trajectory, "said") for judged in found] == [True, False, None] * 10
    assert found[2].trajectory.meta[META_KEY] == {
        "judge": "said", "correct": None, "score": None, "reason": "down", "code": "outage"
    }  # fmt: skip
    assert judge.most == 3


def test_the_stream_without_an_event_loop_is_lazy() -> None:
    read = []

    def source():
        for trajectory in EPISODES:
            read.append(trajectory.id)
            yield trajectory

    stream = judge_stream(source(), Said(by=by_answer), concurrency=2)
    assert next(stream).trajectory.id == "t0" and len(read) < 20
    assert len(list(stream)) == 29


async def test_what_is_the_same_is_judged_once() -> None:
    judge = Said(by=by_answer)
    copies = [episode("right 1", id=f"t{n}") for n in range(20)]
    found = [judged async for judged in judge_each(copies, judge)]
    assert len(judge.asked) == 1 and [judged.fresh for judged in found] == [True] + [False] * 19
    assert all(judged.verdict.correct for judged in found)


async def test_a_book_remembers_verdicts_and_no_failures(tmp_path: Path) -> None:
    first, second = Said(by=by_answer), Said(by=by_answer)
    before = [judged async for judged in judge_each(EPISODES, first, book=VerdictBook(tmp_path / "book"))]
    after = [judged async for judged in judge_each(EPISODES, second, book=VerdictBook(tmp_path / "book"))]
    assert sorted(second.asked) == sorted(trajectory.answer for trajectory in EPISODES if trajectory.answer[0] == "d")
    assert [judged.trajectory for judged in before] == [judged.trajectory for judged in after]
    other = Said(by=by_answer, name="other")
    assert len([judged async for judged in judge_each(EPISODES, other, book=VerdictBook(tmp_path / "book"))]) == 30
    assert len(other.asked) == 30


async def test_a_new_question_or_answer_is_judged_anew(tmp_path: Path) -> None:
    judge = Said(by=by_answer)
    changed = [episode("right"), episode("right", text="??"), episode("right", ("Oslo", "Rome")), episode("right x")]
    book = VerdictBook(tmp_path / "book")
    assert Counter([judged.fresh async for judged in judge_each([*changed, *changed], judge, book=book)])[True] == 4


async def test_a_person_has_the_last_word() -> None:
    judge = Said(by=by_answer)
    found = [judged async for judged in judge_each(EPISODES[:3], judge, by_hand=ByHand.of_ids({"t0": False, "t2": True}))]
    assert [judged.verdict.correct for judged in found] == [False, False, True]
    assert found[0].trajectory.meta[META_KEY]["judge"] == BY_HAND and judge.asked == ["wrong 1"]


async def test_a_programming_error_in_a_judge_is_raised_and_leaves_nothing_running() -> None:
    def broken(trajectory: Trajectory) -> Verdict:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        async for _ in judge_each(EPISODES, Said(by=broken)):
            pass
    assert len(asyncio.all_tasks()) == 1


def test_a_book_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "book").write_text('{"of": "x", "verdict": {"ruling": "maybe"}}\n')
    with pytest.raises(UserError, match="something else than verdicts"):
        VerdictBook(tmp_path / "book")


async def test_two_models_of_one_name_share_no_verdicts(tmp_path: Path) -> None:
    """A book knows servers apart; what neither of them is asked for again is in it."""
    here, there = Said(by=by_answer, places=("http://a/v1",)), Said(by=lambda _: WRONG, places=("http://b/v1",))
    for judge, corrects in ((here, [True, False]), (there, [False, False]), (here, [True, False])):
        book = VerdictBook(tmp_path / "book")
        found = [judged.verdict.correct async for judged in judge_each(EPISODES[:2], judge, book=book)]
        assert found == corrects
    assert len(here.asked) == len(there.asked) == 2


async def test_verdicts_of_before_places_are_the_first_ones_who_asks(tmp_path: Path) -> None:
    old, here, there = Said(by=by_answer), Said(places=("http://a/v1",)), Said(by=lambda _: WRONG, places=("http://b/v1",))
    before = [judged.verdict async for judged in judge_each(EPISODES[:2], old, book=VerdictBook(tmp_path / "book"))]
    with pytest.warns(MovedJudgeWarning, match="do not say at which address") as told:
        after = [judged.verdict async for judged in judge_each(EPISODES[:2], here, book=VerdictBook(tmp_path / "book"))]
    assert before == after and here.asked == [] and len(told) == 1
    found = [judged.verdict async for judged in judge_each(EPISODES[:2], there, book=VerdictBook(tmp_path / "book"))]
    assert found == [WRONG, WRONG]
    again = [judged.verdict async for judged in judge_each(EPISODES[:2], here, book=VerdictBook(tmp_path / "book"))]
    assert again == before and here.asked == []
