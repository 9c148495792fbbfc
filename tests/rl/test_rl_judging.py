"""Who scores rollouts in the command: what nobody could tell is unscored, and never a zero."""

import socket
from pathlib import Path

import pytest

from sanderling.agent.places import ReaderConfig, opened_reader
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import AskingOutageError, Ending
from sanderling.judge.verdict import Code, Verdict, unscored
from sanderling.rl.act import check_served, opened_judge, score_by
from sanderling.rl.rollouts import ScorerAwayError
from sanderling.tools.page_reader import PageReader
from sanderling.world.contract import VisitReply

pytestmark = pytest.mark.filterwarnings("ignore:.*gave no answer")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.policy.endpoint._LONGEST_PAUSE_S", 0.001)


def answered(answer: str | None, ending: Ending = Ending.ANSWERED) -> Trajectory:
    question = Question(id="q", text="Which?", answers=("Oslo",))
    seeds = Seeds(run=1, attempt=0)
    return Trajectory(id="q-0", question=question, nodes=(), leaf=None, ending=ending, seeds=seeds, answer=answer)


def dead_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1#judge"


class Says:
    """A judge that says these verdicts in turn."""

    name, places = "says", ()

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        return self.verdicts.pop(0)


@pytest.mark.parametrize(("code", "asked"), [(Code.OUTAGE, 3), (Code.BUDGET, 1)])
async def test_a_judge_that_is_away_is_no_verdict_at_all(code: Code, asked: int) -> None:
    judge = Says(*[unscored(code, "http://judge gave no answer")] * 3)
    with pytest.raises(ScorerAwayError, match="http://judge gave no answer"):
        await score_by(judge, (0.0, 0.0))(answered("Bergen"))
    assert len(judge.verdicts) == 3 - asked


async def test_an_outage_of_the_rollout_itself_is_nobody_s_verdict() -> None:
    assert await score_by(Says())(answered(None, Ending.TOOL_OUTAGE)) is None
    assert await score_by(Says())(answered(None, Ending.TURN_LIMIT)) == 0.0, "no answer is wrong, and nobody is asked"


async def test_a_judge_that_is_away_scores_nothing_but_what_a_rule_before_it_tells(tmp_path: Path) -> None:
    async with opened_judge(["exact", dead_address()], tmp_path, 4) as judge:
        assert judge is not None
        score = score_by(judge, (0.0, 0.0))
        assert [await score(answered(answer)) for answer in ("Oslo", None)] == [1.0, 0.0]
        with pytest.raises(ScorerAwayError):
            await score(answered("Bergen"))


async def test_a_reader_that_is_away_leaves_the_rollout_unscored(tmp_path: Path) -> None:
    """Not a visit of model-free passages, let alone an empty one: only those that browse would be rewarded less."""
    async with opened_reader(ReaderConfig(model=dead_address(), cache=tmp_path)) as reader:
        assert isinstance(reader, PageReader)
        page = VisitReply(url="http://a.example", title="A", text="Oslo is a town. " * 50)
        with pytest.raises(AskingOutageError):
            await reader.read(page, "which town", 50)


async def test_a_judge_that_does_not_answer_yet_is_warned_of():
    with pytest.warns(UserWarning, match=r"The model judge does not answer yet .*: rollouts will wait for it"):
        await check_served(dead_address(), "judge")
