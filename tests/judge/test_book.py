"""Books of verdicts: what is the same is judged once, streams keep their order, a kill loses nothing, panels go in order."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.book import ByHand, CachedJudge, VerdictBook, judge_file, judge_stream
from sanderling.judge.rules import rule_judge
from sanderling.judge.verdict import META_KEY, Code, Ruling, Verdict, rule_on, unscored, verdict_of
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import Run


def book_in(place: Path) -> VerdictBook:
    return VerdictBook(Run(place).table("verdicts"))


RIGHT = Verdict(Ruling.CORRECT, 1.0, "yes")
WRONG = Verdict(Ruling.INCORRECT, 0.0, "no")
DOWN = unscored(Code.OUTAGE, "down")


def episode(
    answer: str | None = "Oslo", id: str = "q1-0", question: str = "q1", ending: Ending = Ending.ANSWERED
) -> Trajectory:
    asked = Question(id=question, text="Capital of  Norway?", answers=("Kristiania",))
    return Trajectory(id=id, question=asked, nodes=(), leaf=None, ending=ending, answer=answer)


class Prepared:
    """A judge that gives prepared verdicts, and counts."""

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


def by_answer(trajectory: Trajectory) -> Verdict:
    return {"right": RIGHT, "wrong": WRONG}.get((trajectory.answer or "").split()[0], DOWN)


EPISODES = [episode(f"{('right', 'wrong', 'down')[n % 3]} {n}", id=f"t{n}") for n in range(30)]


def test_a_stream_keeps_its_order_and_loses_nothing(tmp_path: Path) -> None:
    judge = Prepared(by=by_answer)
    found = list(judge_stream(EPISODES, judge, book_in(tmp_path), concurrency=3))
    assert [judged.trajectory.id for judged in found] == [trajectory.id for trajectory in EPISODES]
    assert [judged.verdict.correct for judged in found] == [True, False, None] * 10
    assert [verdict_of(judged.trajectory, "said") for judged in found] == [True, False, None] * 10
    assert found[2].trajectory.meta[META_KEY] == {
        "judge": "said", "correct": None, "score": None, "reason": "down", "code": "outage"
    }  # fmt: skip
    assert judge.most == 3


def test_what_is_the_same_is_judged_once(tmp_path: Path) -> None:
    judge = Prepared(by=by_answer)
    copies = [episode("right 1", id=f"t{n}") for n in range(20)]
    found = list(judge_stream(copies, judge, book_in(tmp_path)))
    assert len(judge.asked) == 1 and [judged.fresh for judged in found] == [True] + [False] * 19
    assert all(judged.verdict.correct for judged in found)


def test_a_book_remembers_verdicts_and_no_failures(tmp_path: Path) -> None:
    first, second = Prepared(by=by_answer), Prepared(by=by_answer)
    before = list(judge_stream(EPISODES, first, book=book_in(tmp_path / "book")))
    after = list(judge_stream(EPISODES, second, book=book_in(tmp_path / "book")))
    assert sorted(second.asked) == sorted(trajectory.answer for trajectory in EPISODES if trajectory.answer[0] == "d")
    assert [judged.trajectory for judged in before] == [judged.trajectory for judged in after]
    other = Prepared(by=by_answer, name="other")
    assert len(list(judge_stream(EPISODES, other, book=book_in(tmp_path / "book")))) == 30
    assert len(other.asked) == 30


def test_a_programming_error_in_a_judge_is_raised_and_leaves_nothing_running(tmp_path: Path) -> None:
    def broken(trajectory: Trajectory) -> Verdict:
        raise RuntimeError("a bug")

    with asyncio.Runner() as runner:
        with pytest.raises(RuntimeError, match="a bug"):
            list(judge_stream(EPISODES, Prepared(by=broken), book_in(tmp_path), runner=runner))
        assert not asyncio.all_tasks(runner.get_loop())


def test_two_models_of_one_name_share_no_verdicts(tmp_path: Path) -> None:
    """A book knows servers apart; what neither of them is asked for again is in it."""
    here, there = Prepared(by=by_answer, places=("http://a/v1",)), Prepared(by=lambda _: WRONG, places=("http://b/v1",))
    for judge, corrects in ((here, [True, False]), (there, [False, False]), (here, [True, False])):
        book = book_in(tmp_path / "book")
        found = [judged.verdict.correct for judged in judge_stream(EPISODES[:2], judge, book=book)]
        assert found == corrects
    assert len(here.asked) == len(there.asked) == 2


class Slow:
    """A judge that takes its time; ``said`` are its next verdicts."""

    name, places = "slow", ()

    def __init__(self, *said: Verdict | Exception) -> None:
        self.said: list[Verdict | Exception] = list(said)
        self.asked = 0

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        self.asked += 1
        word = self.said.pop(0)
        await asyncio.sleep(0.02)
        if isinstance(word, Exception):
            raise word
        return word


PAID = Verdict(Ruling.CORRECT, 1.0, "alike", model="m", tokens=9, cost=0.5)


async def test_sixty_equal_answers_are_one_reply(tmp_path: Path) -> None:
    slow = Slow(PAID)
    judge = CachedJudge(slow, book_in(tmp_path / "v.jsonl"))
    said = await asyncio.gather(*(judge(episode(id=f"q-{number}")) for number in range(60)))
    assert slow.asked == 1 and {one.ruling for one in said} == {Ruling.CORRECT}
    assert sum(one.cost for one in said) == 0.5 and sum(not one.remembered for one in said) == 1
    again = CachedJudge(Slow(), book_in(tmp_path / "v.jsonl"))
    assert (await again(episode())).remembered and (again.name, again.places) == ("slow", ())


async def test_whoever_asks_may_be_stopped_or_fail_and_another_asks(tmp_path: Path) -> None:
    slow = Slow(RuntimeError("broken"), PAID)
    judge = CachedJudge(slow, book_in(tmp_path / "v.jsonl"))
    first, second = asyncio.create_task(judge(episode())), asyncio.create_task(judge(episode()))
    with pytest.raises(RuntimeError, match="broken"):
        await first
    assert (await second).correct and slow.asked == 2

    slow.said = [PAID, PAID]
    first, second = asyncio.create_task(judge(episode("Bergen"))), asyncio.create_task(judge(episode("Bergen")))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).correct and slow.asked == 4 and first.cancelled()


# -- A person's verdicts: the two layouts, what a line matches, what goes first, and files that are none -------------------


def read(path: Path, text: str) -> ByHand:
    (path / "said.csv").write_text(text, encoding="utf-8")
    return ByHand.read(path / "said.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1-0", "Line 1 .* is not id,correct"),
        ("q1-0,maybe", "ends in 'maybe'"),
        ("q1-0,yes,no", "is not id,correct"),
        (",yes", "is not id,correct"),
        ("q1-0,yes\nq1-0,no", "both yes and no of 'q1-0'"),
        ("question,answer,correct\nq1,Oslo", "Line 2 .* is not question,answer,correct"),
        ("question,answer,correct\nq1,Oslo, Norway,yes", "is not question,answer,correct"),
        ("question,answer,correct,note\nq1,Oslo, Norway,yes", "ends in 'Norway'"),
        ("question,answer,correct\nq1,,yes", "is not question,answer,correct"),
        ("question,answer,correct\nq1,Oslo,yes\nq1, Oslo ,no", "both yes and no of 'q1 Oslo'"),
        ("answer,question,correct\nOslo,q1,yes", "is not id,correct"),
        ('id,correct\n"q1-0,yes', "Cannot read"),
        ("", "holds no verdict"),
        ("id,correct\n", "holds no verdict"),
    ],
)
def test_files_that_are_none_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read(tmp_path, text)
    with pytest.raises(UserError, match="Cannot read"):
        ByHand.read(tmp_path / "none.csv")


def test_semicolons_are_read_as_a_spreadsheet_writes_them(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeffquestion;answer;correct;note\nq1;Oslo, Norway;yes;a, b\n").lines == {
        ("q1", "Oslo, Norway"): True
    }


def test_a_person_goes_before_an_outage_a_missing_answer_and_a_judge(tmp_path: Path) -> None:
    episodes = [
        episode(None, "q1-0", ending=Ending.TOOL_OUTAGE), episode(None, "q1-1", ending=Ending.TURN_LIMIT),
        episode("Kristiania", "q1-2"), episode("Oslo", "q1-3"), episode("Oslo", "q1-4"),
    ]  # fmt: skip
    by_hand = ByHand({("q1-0",): True, ("q1-1",): True, ("q1-2",): False, ("q1", "Oslo"): True, ("q1-4",): False})
    judge = rule_judge("exact")
    found = [
        one.verdict for one in judge_stream(episodes, judge, VerdictBook(Run(tmp_path).table("verdicts")), by_hand=by_hand)
    ]
    assert [verdict.correct for verdict in found] == [True, True, False, True, False]
    assert {verdict.code for verdict in found} == {Code.BY_HAND}
    assert [asyncio.run(rule_on(one, judge)).correct for one in episodes] == [None, False, True, False, False]


def test_a_file_judged_tells_lines_that_match_nothing(tmp_path: Path) -> None:
    episodes = [episode("Oslo", f"q1-{number}") for number in range(60)]
    by_hand = ByHand({("q1", "Oslo"): True, ("q1", "Rome"): True, ("q9-0",): False, ("q1-3",): False})
    report = judge_file(episodes, tmp_path / "out.jsonl", rule_judge("exact"), by_hand=by_hand)
    assert report.unused_by_hand == ["q1: Rome", "q9-0"] and report.codes == {Code.BY_HAND: 60}
    assert [verdict_of(one) for one in TrajectoryStore(tmp_path / "out.jsonl")] == [number != 3 for number in range(60)]
