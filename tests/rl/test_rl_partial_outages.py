"""Outages that leave some rollouts scored, and what a reader found beside: each of these failed before it was mended."""

import asyncio
from pathlib import Path

import pytest
from bandit import CONFIG, QUESTIONS, Bandit
from test_rl_pipeline import Slow, by_token, changed, run, same_weights
from test_rl_pipeline import base as base
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.rl import queue
from sanderling.rl.config import PipelineConfig, RlConfig, SelectionConfig
from sanderling.rl.contract import Actor, Ask, FinishedRollout, Group, GroupStatus, ScorerAwayError
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.credit.igpo import IgpoMode
from sanderling.rl.denoise import DenoiseConfig, ExtremeConfig
from sanderling.rl.gain import GainConfig
from sanderling.rl.queue import Ledger
from sanderling.rl.run import run_rl
from sanderling.rl.step import filter_group, group_status
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")


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
        UserError, match=r"The judge was not reached \(http://judge gave no answer\): see that it answers, and the"
    ):
        run(config, base, tmp_path / "run", Bandit, asked, score=Judge(20))
    ledger = Ledger(tmp_path / "run")
    groups = [ledger.group(number, {}) for batch in ledger.batches() for number in batch.used]
    assert groups and all(len(group.outcomes) == CONFIG.group_size for group in groups)
    run(config, base, tmp_path / "run", Bandit, asked, score=Judge(10_000))
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 6
    whole = tmp_path / "whole"
    run(config, base, whole, Bandit, asked, score=Judge(10_000))
    assert same_weights(tmp_path / "run", whole), "as if it had never been away"


def test_a_judge_that_comes_back_is_waited_for(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An client that gave up asks once a minute only, so the few retries of an outage would be over too soon."""
    monkeypatch.setattr(queue, "_FIRST_PAUSE_S", 0.01)

    class Returns(Judge):
        refused = 0

        async def __call__(self, trajectory: Trajectory) -> float | None:
            if self.there <= 0 and self.refused < 40:
                self.refused += 1
                raise ScorerAwayError("http://judge gave no answer.")
            return float(trajectory.answer == "Oslo")

    judge = Returns(0)
    away = run(CONFIG, base, tmp_path / "away", Bandit, score=judge)
    there = run(CONFIG, base, tmp_path / "there", Bandit, score=Judge(10_000))
    assert judge.refused == 40 > CONFIG.denoise.outage_retries
    assert away.attempts == there.attempts, "no rollout was made again"
    assert same_weights(tmp_path / "away", tmp_path / "there")


def test_replies_that_nobody_can_read_cost_their_rollouts_and_no_run(base: Path, tmp_path: Path):
    async def sometimes_unreadable(trajectory: Trajectory) -> float | None:
        return None if int(trajectory.id.rpartition("-")[2]) % 6 == 0 else float(trajectory.answer == "Oslo")

    run(changed(CONFIG, steps=3), base, tmp_path / "run", score=sometimes_unreadable)
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["unscored"] for line in log] == [pytest.approx(1 / 6)] * 3 and log[-1]["updates"] == 1


@pytest.mark.parametrize(
    ("least", "unscored", "found"), [(0.75, 2, GroupStatus.USED), (0.75, 3, GroupStatus.UNSCORED), (0.0, 6, GroupStatus.USED)]
)
def test_a_group_needs_most_of_its_outcomes(least: float, unscored: int, found: GroupStatus):
    config = changed(CONFIG, group_size=8, denoise=DenoiseConfig(least_scored=least))
    outcomes = [None if at < unscored else float(at % 2) for at in range(8)]
    group = Group(0, QUESTIONS[0], tuple(FinishedRollout(record("sva"), outcome) for outcome in outcomes))
    assert group_status(group, 0, config, PROFILE) is found


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


@pytest.mark.parametrize("staleness", [0, 2])
def test_held_out_rollouts_have_no_more_room_than_those_that_are_trained_on(base: Path, tmp_path: Path, staleness: int):
    """The plan of memory counts so many sessions, and a server has so many turns at once."""
    held_out = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(30)]
    pipeline = PipelineConfig(most_under_way=1, max_staleness=staleness)
    config = changed(CONFIG, steps=2, pipeline=pipeline, selection=SelectionConfig(every=1, attempts=2))
    actor = run(config, base, tmp_path / "run", Slow, held_out, score=by_token)
    assert actor.most_under_way == CONFIG.group_size


def test_a_group_of_one_is_not_dropped_for_being_flat():
    with pytest.raises(ValueError, match="a group of one rollout is always flat"):
        alone = {"estimator": IgpoConfig(mode=IgpoMode.SEPARATE), "gain": GainConfig(), "group_size": 1}
        RlConfig(**alone, denoise=DenoiseConfig(drop_flat=True))


def test_an_episode_is_forgotten_only_when_its_group_is_settled_on_disk(base: Path, tmp_path: Path):
    """A kill between would begin it from nothing."""
    seen: list[bool] = []

    def connect(model) -> Actor:
        actor = Bandit(model, outage=1)

        def forget(trajectory: Trajectory) -> None:
            batches = Ledger(tmp_path / "run").batches()
            seen.append(0 in {group.number for batch in batches for group in batch.groups})

        return Actor(actor.rollout, actor, forget=forget)

    asyncio.run(run_rl(CONFIG, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, tmp_path / "run"))
    assert seen == [True]


def test_what_a_kill_left_of_a_settled_outage_is_forgotten_by_the_next_process(base: Path, tmp_path: Path):
    forgotten: list[str] = []

    def connect(model) -> Actor:
        actor = Bandit(model, outage=1)

        def forget(trajectory: Trajectory) -> None:
            if not forgotten:
                forgotten.append("")
                raise RuntimeError("killed here")
            forgotten.append(trajectory.id)

        return Actor(actor.rollout, actor, forget=forget)

    for _ in range(2):
        work = run_rl(CONFIG, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, tmp_path / "run")
        if forgotten:
            asyncio.run(work)
        else:
            with pytest.raises(RuntimeError, match="killed here"):
                asyncio.run(work)
    assert forgotten[1:] and forgotten[1].endswith("-1")


def test_a_rollout_that_is_cancelled_by_itself_ends_the_run_and_not_a_smaller_group(base: Path, tmp_path: Path):
    class Torn(Bandit):
        async def rollout(self, ask: Ask) -> Trajectory:
            if ask.attempt == 2:
                raise asyncio.CancelledError
            return await super().rollout(ask)

    with pytest.raises(RuntimeError, match="group 0 ended with 5 of 6 rollouts"):
        run(CONFIG, base, tmp_path / "run", Torn)


def test_what_is_too_old_takes_no_place_among_the_over_long_ones_that_are_kept():
    denoise = DenoiseConfig(extreme=ExtremeConfig(over_long=True, keep_over_long=1))
    for seed in range(6):
        config = changed(CONFIG, group_size=4, denoise=denoise, seed=seed, pipeline=PipelineConfig(max_staleness=1))
        rollouts = [record("sva", name=f"q0-{at}", version=0 if at < 2 else 5) for at in range(4)]
        long = {"ending": Ending.TURN_LIMIT, "answer": None}
        ended = tuple(FinishedRollout(one.model_copy(update=long) if at != 3 else one, 0.0) for at, one in enumerate(rollouts))
        found = filter_group(Group(0, QUESTIONS[0], ended), 6, config, PROFILE)
        assert [one.left_out for one in found] == ["stale", "stale", None, None]
