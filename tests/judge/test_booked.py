"""A judge with a book is asked once for what is the same."""

import asyncio
from pathlib import Path

import pytest

from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.judge.booked import BookedJudge
from sanderling.judge.judging import VerdictBook
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored


class Slow:
    """A judge that takes its time; ``said`` is what it says next."""

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


RIGHT = Verdict(Ruling.CORRECT, 1.0, "alike", model="m", tokens=9, cost=0.5)


def case(answer: str = "Oslo", number: int = 0) -> Trajectory:
    question = Question(id="q", text="Where?", answers=("Oslo",))
    return Trajectory(id=f"q-{number}", question=question, nodes=(), leaf=None, ending=Ending.ANSWERED, answer=answer)


async def test_sixty_equal_answers_are_one_reply(tmp_path: Path) -> None:
    slow = Slow(RIGHT)
    judge = BookedJudge(slow, VerdictBook(tmp_path / "v.jsonl"))
    said = await asyncio.gather(*(judge(case(number=number)) for number in range(60)))
    assert slow.asked == 1 and {one.ruling for one in said} == {Ruling.CORRECT}
    assert sum(one.cost for one in said) == 0.5 and sum(not one.remembered for one in said) == 1
    again = BookedJudge(Slow(), VerdictBook(tmp_path / "v.jsonl"))
    assert (await again(case())).remembered and (again.name, again.places) == ("slow", ())


async def test_another_answer_is_another_reply(tmp_path: Path) -> None:
    slow = Slow(RIGHT, Verdict(Ruling.INCORRECT, 0.0, "not alike"))
    judge = BookedJudge(slow, VerdictBook(tmp_path / "v.jsonl"))
    said = await asyncio.gather(judge(case()), judge(case("Bergen")))
    assert [one.correct for one in said] == [True, False] and slow.asked == 2


async def test_no_verdict_is_shared_by_those_who_wait_and_asked_for_again_by_the_next(tmp_path: Path) -> None:
    slow = Slow(unscored(Code.OUTAGE, "away"), RIGHT)
    judge = BookedJudge(slow, VerdictBook(tmp_path / "v.jsonl"))
    said = await asyncio.gather(*(judge(case()) for _ in range(5)))
    assert slow.asked == 1 and {one.code for one in said} == {Code.OUTAGE}
    assert (await judge(case())).correct and slow.asked == 2


async def test_whoever_asks_may_be_stopped_or_fail_and_another_asks(tmp_path: Path) -> None:
    slow = Slow(RuntimeError("broken"), RIGHT)
    judge = BookedJudge(slow, VerdictBook(tmp_path / "v.jsonl"))
    first, second = asyncio.create_task(judge(case())), asyncio.create_task(judge(case()))
    with pytest.raises(RuntimeError, match="broken"):
        await first
    assert (await second).correct and slow.asked == 2

    slow.said = [RIGHT, RIGHT]
    first, second = asyncio.create_task(judge(case("Bergen"))), asyncio.create_task(judge(case("Bergen")))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).correct and slow.asked == 4 and first.cancelled()
