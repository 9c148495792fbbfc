"""Outages of tools, the model and judges: tried again, left out, never a zero; and what a kill leaves of them."""

import asyncio
from pathlib import Path

import pytest
from bandit import CONFIG, QUESTIONS, Bandit, changed, run, same_weights
from loopback import free_port
from train_records import PROFILE, WordTokenizer, record

from sanderling.agent.places import ReaderConfig, opened_reader
from sanderling.core.errors import UserError
from sanderling.core.record import Question, Seeds, Trajectory
from sanderling.core.types import AskingOutageError, Ending
from sanderling.judge.verdict import Code, Verdict, unscored
from sanderling.policy.budget import Spending
from sanderling.rl import queue
from sanderling.rl.act import check_served, opened_judge, score_by
from sanderling.rl.config import SelectionConfig
from sanderling.rl.gain import GainConfig
from sanderling.rl.queue import Ledger
from sanderling.rl.rl_loop import run_simple
from sanderling.rl.rollouts import Actor, Ask, DenoiseConfig, FinishedRollout, Group, GroupStatus, ScorerAwayError
from sanderling.rl.step import group_status
from sanderling.runs.run import Run
from sanderling.tools.page_reader import PageReader
from sanderling.train.metrics import read_metrics
from sanderling.train.rows import Encoding
from sanderling.world.contract import VisitReply

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning", "ignore:.*gave no answer")


class Broken(Bandit):
    """Meets an outage at every attempt of one group, once at another's first, and says so."""

    def __init__(self, model, broken: frozenset[int] = frozenset({0})) -> None:
        super().__init__(model)
        self.broken = broken
        self.tries: dict[int, int] = {}

    async def rollout(self, ask: Ask) -> Trajectory:
        self.tries[ask.attempt] = self.tries.get(ask.attempt, 0) + 1
        trajectory = await super().rollout(ask)
        number = ask.attempt // CONFIG.group_size
        if number in self.broken or (ask.attempt == 6 and self.tries[6] == 1):
            outage = {"ending": Ending.TOOL_OUTAGE, "answer": None, "detail": "The search engine is down."}
            return trajectory.model_copy(update=outage)
        return trajectory


def test_an_outage_is_tried_again_and_a_group_of_outages_is_replaced(base: Path, tmp_path: Path):
    actor = run(CONFIG, base, tmp_path / "run", Broken)
    assert [actor.tries[attempt] for attempt in range(6)] == [3] * 6 and actor.tries[6] == 2
    found = Ledger(tmp_path / "run").batches()[0].values()
    assert sorted(found) == [GroupStatus.UNSCORED, GroupStatus.USED, GroupStatus.USED]


@pytest.mark.parametrize("lost", [{0}, set(range(100))], ids=["one rollout", "no group is used"])
def test_gains_are_checked_whatever_the_first_step_is_like(base: Path, tmp_path: Path, lost: set[int]):
    class Few(Bandit):
        async def rollout(self, ask: Ask) -> Trajectory:
            trajectory = await super().rollout(ask)
            if lost == {ask.attempt}:
                gone = {"ending": Ending.POLICY_OUTAGE, "answer": None, "nodes": (), "leaf": None}
                return trajectory.model_copy(update=gone)
            return trajectory if len(lost) == 1 else trajectory.model_copy(update={"answer": "Oslo"})

    denoise = DenoiseConfig(outage_wait_s=0.0, outage_retries=0, most_groups=2, least_scored=0.5)
    run(changed(CONFIG, steps=1, gain=GainConfig(), denoise=denoise), base, tmp_path / "run", Few)
    assert "cannot be said whether gains can teach" in (tmp_path / "run" / "gains.html").read_text()


def test_a_world_that_is_down_stops_the_run_with_its_reason_and_it_goes_on_later(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=2)
    with pytest.raises(UserError, match=r"Only 0 of \d+ rollouts of step 1 could be scored: The search engine is down\."):
        run(config, base, tmp_path / "run", Broken, broken=frozenset(range(100)))
    run(config, base, tmp_path / "run", Bandit)
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 2


@pytest.mark.parametrize("what", ["world", "judge"])
def test_the_loop_on_a_page_stops_likewise(base: Path, tmp_path: Path, what: str):
    """It would else end with the model that it began with, and say that this one is trained."""
    config = changed(CONFIG, denoise=DenoiseConfig(outage_wait_s=0.0, judge_patience_s=0.0))
    down = frozenset(range(100) if what == "world" else ())

    def connect(model) -> Actor:
        actor = Broken(model, down)
        return Actor(actor.rollout, actor, score=None if down else Judge(0))

    said = (
        r"Only 0 of 12 rollouts of step 1 could be scored: The search" if down else r"The judge was not reached \(http://judge"
    )
    with pytest.raises(UserError, match=said):
        asyncio.run(run_simple(config, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, tmp_path / "run"))
    assert not (tmp_path / "run" / "model").exists()


class Gone(Bandit):
    """After some rollouts the model's server is gone: what begins then ends before its first turn."""

    def __init__(self, model, after: int) -> None:
        super().__init__(model)
        self.left = after

    async def rollout(self, ask):
        trajectory = await super().rollout(ask)
        self.left -= 1
        if self.left >= 0:
            return trajectory
        outage = {"ending": Ending.POLICY_OUTAGE, "answer": None, "detail": "http://m gave no answer."}
        return trajectory.model_copy(update={**outage, "nodes": (), "leaf": None})


def test_a_model_out_of_reach_ends_the_run_and_it_goes_on_later(base: Path, tmp_path: Path):
    """Not all the groups that a step may try, nor every step: a dead server would take hours to fail at each of them."""
    config = changed(CONFIG, steps=4, denoise=DenoiseConfig(outage_wait_s=0.0, outage_retries=0, most_groups=50))
    at_once = CONFIG.questions_per_step * CONFIG.group_size
    with pytest.raises(UserError, match=r"rollouts met outages .*\(http://m gave no answer\).*See that the model answers"):
        run(config, base, tmp_path / "run", Gone, after=at_once)
    run(config, base, tmp_path / "run", Bandit)
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 4


class Judge:
    """Exact matches need no model; what is wrong only the model could say, and after some verdicts it is away."""

    def __init__(self, there: int) -> None:
        self.there = there

    async def __call__(self, trajectory: Trajectory) -> float | None:
        if trajectory.answer == "Oslo":
            return 1.0
        self.there -= 1
        if self.there < 0:
            raise ScorerAwayError("http://judge gave no answer.")
        return 0.0


@pytest.mark.parametrize("held_out", [0, 4])
def test_a_judge_that_goes_away_stops_the_run_and_nothing_is_learnt_from_whom_a_rule_found_right(
    base: Path, tmp_path: Path, held_out: int
):
    asked = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(held_out)]
    patience = DenoiseConfig(outage_wait_s=0.0, judge_patience_s=0.0)
    config = changed(CONFIG, steps=6, selection=SelectionConfig(every=2 if held_out else 0), denoise=patience)
    with pytest.raises(
        UserError, match=r"The judge was not reached \(http://judge gave no answer\): see that it answers, then"
    ):
        run(config, base, tmp_path / "run", Bandit, asked, score=Judge(20))
    with Ledger(tmp_path / "run") as ledger:
        groups = [ledger.group(number) for batch in ledger.batches() for number in batch]
        assert groups and all(len(group.outcomes) == CONFIG.group_size for group in groups)
    run(config, base, tmp_path / "run", Bandit, asked, score=Judge(10_000))
    run(config, base, tmp_path / "whole", Bandit, asked, score=Judge(10_000))
    assert same_weights(tmp_path / "run", tmp_path / "whole"), "as if it had never been away"


def test_a_judge_that_comes_back_is_waited_for(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A client that gave up asks once a minute only, so the few retries of an outage would be over too soon."""
    monkeypatch.setattr(queue, "_FIRST_PAUSE_S", 0.01)

    class Returns(Judge):
        refused = 0

        async def __call__(self, trajectory: Trajectory) -> float | None:
            if self.refused < 40:
                self.refused += 1
                raise ScorerAwayError("http://judge gave no answer.")
            return float(trajectory.answer == "Oslo")

    judge = Returns(0)
    away = run(CONFIG, base, tmp_path / "away", Bandit, score=judge)
    there = run(CONFIG, base, tmp_path / "there", Bandit, score=Judge(10_000))
    assert judge.refused == 40 > CONFIG.denoise.outage_retries
    assert away.attempts == there.attempts, "no rollout was made again"
    assert same_weights(tmp_path / "away", tmp_path / "there")


@pytest.mark.parametrize(
    ("least", "unscored", "found"), [(0.75, 2, GroupStatus.USED), (0.75, 3, GroupStatus.UNSCORED), (0.0, 6, GroupStatus.USED)]
)
def test_a_group_needs_most_of_its_outcomes(least: float, unscored: int, found: GroupStatus):
    config = changed(CONFIG, group_size=8, denoise=DenoiseConfig(least_scored=least))
    outcomes = [None if at < unscored else float(at % 2) for at in range(8)]
    group = Group(0, QUESTIONS[0], tuple(FinishedRollout(record("sva"), outcome) for outcome in outcomes))
    assert group_status(group, 0, config) is found


@pytest.mark.parametrize("away", [2, 3])
def test_a_measurement_needs_most_of_its_rollouts_and_asks_only_the_judge_again(base: Path, tmp_path: Path, away: int):
    held_out = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(10)]
    missing = {f"h{i}" for i in range(away)}

    async def judge(trajectory: Trajectory) -> float | None:
        return None if trajectory.question.id in missing else float(trajectory.answer == "Oslo")

    config = changed(CONFIG, steps=1, selection=SelectionConfig(every=1))
    if away == 3:
        with pytest.raises(UserError, match=r"Only 7 of 10 held-out rollouts after step 0 could be scored: no judge"):
            run(config, base, tmp_path / "run", Bandit, held_out, score=judge)
        missing.clear()
        actor = run(config, base, tmp_path / "run", Bandit, held_out, score=judge)
        assert actor.attempts.count(0) == 10 + 1, "after step 1, and a group's own attempt 0: those before it were only judged"
    else:
        run(config, base, tmp_path / "run", Bandit, held_out, score=judge)
    scored = {line["step"]: line["scored"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")}
    assert scored == ({0: 8, 1: 8} if away == 2 else {0: 10, 1: 10})


def test_a_held_out_attempt_that_was_stored_leaves_nothing_for_later_measurements(base: Path, tmp_path: Path):
    """Its name is the same at each: after a kill between storing and forgetting, the older model's episode would be found."""
    held_out, asked = [Question(id="h0", text="?", answers=("Oslo",))], []
    config = changed(CONFIG, steps=2, selection=SelectionConfig(every=2))
    journal, alive = {}, []

    class Remembers(Bandit):
        """Goes on with what the journal has, whichever version said it."""

        async def rollout(self, ask: Ask):
            name = f"{ask.question.id}-{ask.attempt}"
            if name not in journal:
                journal[name] = (self.version, await super().rollout(ask))
            version, trajectory = journal[name]
            if ask.question.id == "h0":
                asked.append((self.version, version))
            return trajectory

    def forget(trajectory) -> None:
        if not alive:
            raise RuntimeError("killed here")
        journal.pop(trajectory.id, None)

    with pytest.raises(RuntimeError, match="killed here"):
        run(config, base, tmp_path / "run", Remembers, held_out, forget=forget)
    alive.append("again")
    run(config, base, tmp_path / "run", Remembers, held_out, forget=forget)
    assert [now for now, _ in asked] == [0, asked[-1][0]] and asked[-1][0] > 0
    assert all(now == said for now, said in asked), "each measurement is of its own model"


# -- Who scores rollouts in the command: what nobody could tell is unscored, and never a zero ------------------------------


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sanderling.policy.endpoint._LONGEST_PAUSE_S", 0.001)


def answered(answer: str | None, ending: Ending = Ending.ANSWERED) -> Trajectory:
    question = Question(id="q", text="Which?", answers=("Oslo",))
    seeds = Seeds(run=1, attempt=0)
    return Trajectory(id="q-0", question=question, nodes=(), leaf=None, ending=ending, seeds=seeds, answer=answer)


def dead_address() -> str:
    return f"http://127.0.0.1:{free_port()}/v1#judge"


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
    verdicts = Run(tmp_path).table("verdicts")
    async with opened_judge(["exact", dead_address()], Spending(None), verdicts, 4) as judge:
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
