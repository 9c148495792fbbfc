"""What the pipeline promises, whatever the rollouts' times: bounded ages, nothing lost, nothing begun in vain."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, Bandit, weights
from tiny_qwen3 import save_tiny
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.policy.weight_sync import copied, copy_into
from sanderling.rl.config import PipelineConfig, RlConfig, SelectionConfig, Straggler
from sanderling.rl.contract import Actor, Ask, FinishedRollout, Group, GroupStatus, oldest_version
from sanderling.rl.denoise import DenoiseConfig
from sanderling.rl.queue import Ledger
from sanderling.rl.run import run_rl
from sanderling.rl.step import STALE, filter_group, group_status
from sanderling.runs.run import DATABASE, records
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")


class Slow(Bandit):
    """Samples with a copy, takes its time, for some rollouts a hundred times longer, and counts who trains and who samples."""

    def __init__(self, model, pace: float = 0.001, **settings) -> None:
        super().__init__(copied(model), **settings)
        self.pace = pace
        self.under_way = self.most_under_way = self.begun_while_training = self.awake_while_training = 0
        self.hurried: list[int] = []
        self.trains = False

    async def publish(self, weights, version: int) -> None:
        await super().publish(weights, version)
        copy_into(self.model, weights)

    @asynccontextmanager
    async def training(self):
        self.trains = True
        yield
        self.trains = False

    async def rollout(self, ask: Ask) -> Trajectory:
        self.under_way += 1
        self.begun_while_training += self.trains
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            trajectory = await super().rollout(ask)
            times = np.random.default_rng(ask.attempt).pareto(1.0)
            for _ in range(min(60, int(10 * times))):
                if ask.finish_early.is_set():
                    self.hurried.append(ask.attempt)
                    break
                await asyncio.sleep(self.pace)
                self.awake_while_training += self.trains
            return trajectory
        finally:
            self.under_way -= 1


def changed(config: RlConfig, **changes) -> RlConfig:
    return RlConfig.model_validate({**config.model_dump(), **changes})


def run(config: RlConfig, base: Path, out: Path, kind: type[Bandit] = Slow, held_out=(), score=None, **settings) -> Slow:
    actors = []

    def connect(model) -> Actor:
        actors.append(kind(model, **settings))
        return Actor(actors[0].rollout, actors[0], score=score)

    encoding = Encoding(WordTokenizer(), PROFILE)
    asyncio.run(run_rl(config, QUESTIONS, connect, encoding, base, out, held_out=held_out))
    return actors[0]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "base")


async def always_right(trajectory: Trajectory) -> float:
    return 1.0


async def by_token(trajectory: Trajectory) -> float:
    """Finer than right or wrong."""
    return (trajectory.nodes[-1].token_ids or (0,))[0] % 8 / 8


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = weights(one), weights(other)
    return all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_synchronous_training_does_not_depend_on_how_long_rollouts_take(base: Path, tmp_path: Path):
    run(CONFIG, base, tmp_path / "slow")
    run(CONFIG, base, tmp_path / "quick", Bandit)
    assert same_weights(tmp_path / "slow", tmp_path / "quick")
    assert all(line["age_oldest"] == 0 for line in read_metrics(tmp_path / "slow" / "metrics.jsonl"))


def test_nothing_is_sampled_with_weights_that_are_about_to_change_when_synchronous(base: Path, tmp_path: Path):
    actor = run(CONFIG, base, tmp_path / "run")
    assert actor.begun_while_training == 0
    assert actor.most_under_way <= CONFIG.questions_per_step * CONFIG.group_size


@pytest.mark.parametrize("staleness", [1, 2])
def test_rollouts_go_on_while_the_model_is_trained_and_none_is_too_old(base: Path, tmp_path: Path, staleness: int):
    config = changed(CONFIG, steps=12, pipeline=PipelineConfig(max_staleness=staleness))
    actor = run(config, base, tmp_path / "run")
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert actor.awake_while_training > 0
    assert max(line["age_oldest"] for line in log) in range(1, staleness + 1)
    ledger = Ledger(tmp_path / "run")
    for batch in ledger.batches():
        for number in batch.used:
            group = ledger.group(number, {})
            assert all(oldest_version(one.trajectory) is not None for one in group.rollouts)


def test_every_attempt_is_made_once_and_everything_used_was_stored(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=8, pipeline=PipelineConfig(max_staleness=2))
    actor = run(config, base, tmp_path / "run")
    assert len(actor.attempts) == len(set(actor.attempts))
    ledger = Ledger(tmp_path / "run")
    stored = {at for number in ledger.begun() for at in ledger.ended(number)}
    used = [number for batch in ledger.batches() for number in batch.used]
    assert len(used) == len(set(used)) == 8 * config.questions_per_step
    assert {number * 6 + k for number in used for k in range(6)} <= stored <= set(actor.attempts)


def test_a_finished_run_is_its_ledger_replayed(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=8, save_every=100, pipeline=PipelineConfig(max_staleness=2))
    run(config, base, tmp_path / "run")
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "run" / DATABASE).rename(again / DATABASE)
    actor = run(config, base, again)
    assert actor.attempts == [], "all steps were settled: nothing is sampled"
    assert same_weights(again, tmp_path / "run")


def test_admission_bounds_the_groups_under_way(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=5, pipeline=PipelineConfig(max_staleness=3, most_under_way=1))
    actor = run(config, base, tmp_path / "run")
    assert actor.most_under_way == config.group_size


class Late(Slow):
    """Its attempt 3 takes until three updates are done."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.third = asyncio.Event()

    async def publish(self, weights, version: int) -> None:
        await super().publish(weights, version)
        if version == 3:
            self.third.set()

    async def rollout(self, ask: Ask) -> Trajectory:
        trajectory = await Bandit.rollout(self, ask)
        if ask.attempt == 3:
            waits = [asyncio.ensure_future(event.wait()) for event in (self.third, ask.finish_early)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if ask.finish_early.is_set():
            self.hurried.append(ask.attempt)
        return trajectory


def test_who_comes_too_late_is_left_out_and_replaced(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=6, group_size=2, pipeline=PipelineConfig(max_staleness=1))
    run(config, base, tmp_path / "run", Late)
    batches = Ledger(tmp_path / "run").batches()
    statuses = {group.number: group.status for batch in batches for group in batch.groups}
    assert statuses[1] is GroupStatus.STALE
    assert sum(status is GroupStatus.USED for status in statuses.values()) == 6 * config.questions_per_step


def test_a_group_goes_on_without_the_one_that_is_too_old():
    config = changed(CONFIG, pipeline=PipelineConfig(max_staleness=2), group_size=3)
    rollouts = tuple(FinishedRollout(record("sva", version=version), float(version == 6)) for version in (3, 4, 6))
    group = Group(0, QUESTIONS[0], rollouts)
    found = filter_group(group, 6, config, PROFILE)
    assert [(one.left_out, one.outcome) for one in found] == [(STALE, None), (None, 0.0), (None, 1.0)]
    assert group_status(group, 6, config, PROFILE) is GroupStatus.USED
    assert group_status(group, 7, config, PROFILE) is GroupStatus.STALE, "one alone tells nothing"


def test_stragglers_are_asked_for_their_answer_before_they_are_too_old(base: Path, tmp_path: Path):
    pipeline = PipelineConfig(max_staleness=1, straggler=Straggler.CUT_OFF)
    config = changed(CONFIG, steps=6, group_size=2, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Late)
    assert 3 in actor.hurried
    statuses = [group.status for batch in Ledger(tmp_path / "run").batches() for group in batch.groups]
    assert GroupStatus.STALE not in statuses


def test_a_synchronous_step_cuts_off_its_last_tenth(base: Path, tmp_path: Path):
    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, cut_off_share=0.75)
    actor = run(changed(CONFIG, pipeline=pipeline), base, tmp_path / "run", pace=0.003)
    assert 0 < len(actor.hurried) <= 6 * 3, "at most a quarter of each step's twelve"


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
    statuses = [group.status for group in Ledger(tmp_path / "run").batches()[0].groups]
    assert sorted(statuses) == [GroupStatus.UNSCORED, GroupStatus.USED, GroupStatus.USED]


def test_a_world_that_is_down_stops_the_run_with_its_reason(base: Path, tmp_path: Path):
    with pytest.raises(UserError, match="No rollout of step 1 could be scored: The search engine is down"):
        run(CONFIG, base, tmp_path / "run", Broken, broken=frozenset(range(100)))


def test_groups_without_variance_are_replaced_until_there_are_enough(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=3, group_size=2, denoise=DenoiseConfig(drop_flat=True, most_groups=50))
    run(config, base, tmp_path / "run")
    batches = Ledger(tmp_path / "run").batches()
    assert [len(batch.used) for batch in batches] == [2, 2, 2]
    flat = [group for batch in batches for group in batch.groups if group.status is GroupStatus.FLAT]
    assert flat and all(len(set(group.outcomes)) == 1 for group in flat)
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert sum(line["groups_flat"] for line in log) == len(flat)
    assert min(line["groups_with_signal"] for line in log) < 1.0, "what was dropped is still seen"


def test_and_not_for_ever(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=2, denoise=DenoiseConfig(drop_flat=True, most_groups=3))
    run(config, base, tmp_path / "run", score=always_right)
    batches = Ledger(tmp_path / "run").batches()
    assert [(len(batch.groups), batch.used) for batch in batches] == [(6, []), (6, [])]
    assert [line["updates"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 0]


def test_the_best_model_on_held_out_questions_is_the_result(base: Path, tmp_path: Path):
    held_out = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(2)]
    config = changed(CONFIG, steps=6, selection=SelectionConfig(every=2, attempts=30))
    run(config, base, tmp_path / "run", Bandit, held_out, score=by_token)
    measured = {line["step"]: line["held_out"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")}
    assert sorted(measured) == [0, 2, 4, 6] and len(set(measured.values())) > 1
    best = max(measured, key=lambda step: (measured[step], -step))
    run(changed(config, steps=best, selection=SelectionConfig()), base, tmp_path / "until", Bandit, score=by_token)
    assert same_weights(tmp_path / "run", tmp_path / "until")


def test_rollouts_that_no_replay_needs_can_be_left_to_go(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=5, save_every=2, keep_rollouts=False, pipeline=PipelineConfig(max_staleness=1))
    run(config, base, tmp_path / "run")
    ledger = Ledger(tmp_path / "run")
    last = {number for batch in ledger.batches() if batch.step >= 4 for number in batch.used}
    kept = {one.meta["rl"]["group"] for one in records(tmp_path / "run")}
    assert kept == last, "those after the last checkpoint stay"


def test_other_groups_do_not_go_on_with_these(base: Path, tmp_path: Path):
    run(changed(CONFIG, steps=1), base, tmp_path / "run")
    (tmp_path / "run" / "model").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"seed was 4 and is 9; group_size was 6 and is 4\): go on with"):
        run(changed(CONFIG, steps=2, group_size=4, seed=9), base, tmp_path / "run")
    run(changed(CONFIG, steps=2), base, tmp_path / "run")


def test_a_measurement_before_a_kill_is_not_made_again(base: Path, tmp_path: Path):
    held_out = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(2)]
    config = changed(CONFIG, steps=6, save_every=5, selection=SelectionConfig(every=2, attempts=3))
    with pytest.raises(RuntimeError, match="killed here"):
        run(config, base, tmp_path / "run", Bandit, held_out, score=by_token, fail_at=4 * 12 + 1)
    actor = run(config, base, tmp_path / "run", Bandit, held_out, score=by_token)
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")] == [0, 2, 4, 6]
    assert sum(attempt < 3 for attempt in actor.attempts) == 6, "held-out attempts of step 6 alone"
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in log if "held_out" in line] == [2, 4, 6]


def test_two_groups_of_one_question_in_a_step_are_two_groups(base: Path, tmp_path: Path):
    """With three questions a step of four asks one of them twice."""
    config = changed(CONFIG, steps=1, questions_per_step=4)
    learners = []

    def keep(step, groups):
        learners.append([(group.number, group.question.id) for group in groups])

    def connect(model) -> Actor:
        actor = Bandit(model)
        return Actor(actor.rollout, actor)

    encoding = Encoding(WordTokenizer(), PROFILE)
    asyncio.run(run_rl(config, QUESTIONS, connect, encoding, base, tmp_path / "run", on_groups=keep))
    assert len({name for _, name in learners[0]}) == 3 and len(learners[0]) == 4
    (line,) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    ledger = Ledger(tmp_path / "run")
    outcomes = [np.array(ledger.group(number, {}).outcomes) for number in range(4)]
    sizes = [np.abs(values - values.mean()) / (values.std() + 1e-6) for values in outcomes]
    assert line["advantage_size"] == pytest.approx(np.mean(sizes), rel=1e-6), "each has a mean and a spread of its own"
