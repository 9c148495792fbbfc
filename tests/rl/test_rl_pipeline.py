"""What the pipeline promises, whatever the rollouts' times: bounded ages, nothing lost, nothing begun in vain."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, Bandit, Slow, always_right, by_token, changed, credit_of, run, same_weights
from train_records import record

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.rl.config import PipelineConfig, SelectionConfig, Straggler
from sanderling.rl.contract import Ask, FinishedRollout, Group, GroupStatus
from sanderling.rl.denoise import DenoiseConfig, Noise
from sanderling.rl.queue import Ledger
from sanderling.rl.run import apart_from
from sanderling.rl.step import group_status, noises, split_updates
from sanderling.runs.run import DATABASE
from sanderling.train.contract import Row
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
HELD_OUT = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(2)]


def statuses(out: Path) -> list[list[GroupStatus]]:
    return [list(batch.values()) for batch in Ledger(out).batches()]


def test_synchronous_training_does_not_depend_on_how_long_rollouts_take(base: Path, tmp_path: Path):
    actor = run(CONFIG, base, tmp_path / "slow")
    run(CONFIG, base, tmp_path / "quick", Bandit)
    assert same_weights(tmp_path / "slow", tmp_path / "quick")
    assert all(line["age_oldest"] == 0 for line in read_metrics(tmp_path / "slow" / "metrics.jsonl"))
    assert actor.begun_while_training == 0 and actor.most_under_way <= CONFIG.questions_per_step * CONFIG.group_size


@pytest.mark.parametrize("staleness", [1, 2])
def test_rollouts_go_on_while_the_model_is_trained_and_none_is_too_old(base: Path, tmp_path: Path, staleness: int):
    config = changed(CONFIG, steps=8, save_every=100, pipeline=PipelineConfig(max_staleness=staleness))
    actor = run(config, base, tmp_path / "run")
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert actor.awake_while_training > 0
    assert max(line["age_oldest"] for line in log) in range(1, staleness + 1)
    assert len(actor.attempts) == len(set(actor.attempts)), "every attempt is made once"
    with Ledger(tmp_path / "run") as ledger:
        used = [number for batch in ledger.batches() for number, status in batch.items() if status is GroupStatus.USED]
        assert len(used) == len(set(used)) == 8 * config.questions_per_step
        assert all(sorted(ledger.ended(number)) == [number * 6 + k for k in range(6)] for number in used)
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "run" / DATABASE).rename(again / DATABASE)
    assert run(config, base, again).attempts == [], "all steps were settled: nothing is sampled"
    assert same_weights(again, tmp_path / "run")


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
            await self.third.wait()
        return trajectory


def test_who_comes_too_late_is_left_out_and_replaced(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=6, group_size=2, pipeline=PipelineConfig(max_staleness=1))
    run(config, base, tmp_path / "run", Late)
    found = {number: status for batch in Ledger(tmp_path / "run").batches() for number, status in batch.items()}
    assert found[1] is GroupStatus.STALE
    assert list(found.values()).count(GroupStatus.USED) == 6 * config.questions_per_step


def test_a_group_goes_on_without_the_one_that_is_too_old():
    config = changed(CONFIG, pipeline=PipelineConfig(max_staleness=2), group_size=3)
    rollouts = tuple(FinishedRollout(record("sva", version=version), float(version == 6)) for version in (3, 4, 6))
    group = Group(0, QUESTIONS[0], rollouts)
    assert noises(group, 6, config) == [Noise.STALE, None, None]
    assert group_status(group, 6, config) is GroupStatus.USED
    assert group_status(group, 7, config) is GroupStatus.STALE, "one alone tells nothing"


class Counted(Bandit):
    """Takes a few moments, more for later attempts of a group, and says at which of them it was asked for its answer."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.hurried: dict[int, list[int]] = {}
        """By group: after how many moments."""

    async def rollout(self, ask: Ask):
        trajectory = await super().rollout(ask)
        number, place = divmod(ask.attempt, 8)
        self.hurried.setdefault(number, [])
        for moment in range(3 + 2 * place):
            if ask.finish_early.is_set():
                self.hurried[number].append(moment)
                break
            await asyncio.sleep(0.001)
        return trajectory


def test_a_synchronous_step_cuts_off_its_last_fifth_and_not_that_of_each_group(base: Path, tmp_path: Path):
    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, cut_off_share=0.8)
    config = changed(CONFIG, steps=1, questions_per_step=16, group_size=8, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Counted)
    assert 0 < sum(map(len, actor.hurried.values())) <= 128 - 102
    assert not any(0 in moments for moments in actor.hurried.values()), "nobody is asked as it begins"
    with pytest.raises(ValueError, match="in a synchronous run alone"):
        PipelineConfig(straggler=Straggler.CUT_OFF, max_staleness=1)


def test_a_group_in_another_s_place_has_its_time_though_its_step_is_nearly_done(base: Path, tmp_path: Path):
    async def first_is_flat(trajectory) -> float:
        number, place = divmod(int(trajectory.id.rpartition("-")[2]), 8)
        return 1.0 if number == 0 else float(place % 2)

    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, cut_off_share=0.7)
    denoise = DenoiseConfig(drop_flat=True)
    config = changed(CONFIG, steps=1, questions_per_step=4, group_size=8, denoise=denoise, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Counted, score=first_is_flat)
    assert sorted(actor.hurried) == [0, 1, 2, 3, 4] and actor.hurried[4] == []
    assert 0 < sum(len(actor.hurried[number]) for number in range(4)) <= 32 - 22


def test_groups_without_variance_are_replaced_until_there_are_enough(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=3, group_size=2, denoise=DenoiseConfig(drop_flat=True, most_groups=50))
    run(config, base, tmp_path / "run")
    found = statuses(tmp_path / "run")
    assert [one.count(GroupStatus.USED) for one in found] == [2, 2, 2]
    log = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert sum(line["groups_flat"] for line in log) == sum(one.count(GroupStatus.FLAT) for one in found) > 0
    assert min(line["groups_with_signal"] for line in log) < 1.0, "what was dropped is still seen"


def test_and_not_for_ever(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=2, denoise=DenoiseConfig(drop_flat=True, most_groups=3))
    run(config, base, tmp_path / "run", score=always_right)
    assert statuses(tmp_path / "run") == [[GroupStatus.FLAT] * 6] * 2
    assert [line["updates"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 0]


class Published(Slow):
    """Notes how many rollouts are under way while the weights change."""

    def __init__(self, model) -> None:
        super().__init__(model, pace=0.0)
        self.amid = []

    async def publish(self, weights, version: int) -> None:
        self.amid.append(self.under_way)
        await super().publish(weights, version)


def test_nothing_is_under_way_at_a_synchronous_update_when_most_groups_were_tried(base: Path, tmp_path: Path):
    denoise = DenoiseConfig(drop_flat=True, most_groups=1.5)
    config = changed(CONFIG, steps=6, group_size=2, questions_per_step=4, denoise=denoise)
    assert run(config, base, tmp_path / "run", Published).amid == [0] * 7


def test_the_best_model_on_held_out_questions_is_the_result(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=6, selection=SelectionConfig(every=2, attempts=30))
    run(config, base, tmp_path / "run", Bandit, HELD_OUT, score=by_token)
    measured = {line["step"]: line["held_out"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")}
    assert sorted(measured) == [0, 2, 4, 6] and len(set(measured.values())) > 1
    best = max(measured, key=lambda step: (measured[step], -step))
    run(changed(config, steps=best, selection=SelectionConfig()), base, tmp_path / "until", Bandit, score=by_token)
    assert same_weights(tmp_path / "run", tmp_path / "until")


def test_a_measurement_before_a_kill_is_not_made_again_and_figures_are_those_of_before(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=6, save_every=5, selection=SelectionConfig(every=2, attempts=3))
    run(config, base, tmp_path / "straight", Bandit, HELD_OUT, score=by_token)
    with pytest.raises(RuntimeError, match="killed here"):
        run(config, base, tmp_path / "run", Bandit, HELD_OUT, score=by_token, fail_at=4 * 12 + 1)
    actor = run(config, base, tmp_path / "run", Bandit, HELD_OUT, score=by_token)
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")] == [0, 2, 4, 6]
    assert sum(attempt < 3 for attempt in actor.attempts) == 6, "held-out attempts of step 6 alone"
    times = {"seconds", "wait_seconds", "learn_seconds", "tokens_per_second", "groups_under_way", "groups_waiting"}
    logs = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("straight", "run")]
    ours, theirs = ([{k: v for k, v in line.items() if k not in times} for line in log] for log in logs)
    assert ours == theirs and [line["step"] for line in ours if "held_out" in line] == [2, 4, 6]


def test_other_groups_do_not_go_on_with_these(base: Path, tmp_path: Path):
    run(changed(CONFIG, steps=1), base, tmp_path / "run")
    (tmp_path / "run" / "model").rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"seed was 4 and is 9; group_size was 6 and is 4\): go on with"):
        run(changed(CONFIG, steps=2, group_size=4, seed=9), base, tmp_path / "run")
    run(changed(CONFIG, steps=2), base, tmp_path / "run")


def test_two_groups_of_one_question_in_a_step_are_two_groups(base: Path, tmp_path: Path):
    """With three questions a step of four asks one of them twice."""
    seen = []
    config = changed(CONFIG, steps=1, questions_per_step=4)
    run(config, base, tmp_path / "run", Bandit, on_groups=lambda _, groups: seen.extend(one.question.id for one in groups))
    assert len(seen) == 4 and len(set(seen)) == 3
    with Ledger(tmp_path / "run") as ledger:
        outcomes = [np.array(ledger.group(number).outcomes) for number in range(4)]
    z = np.concatenate([(values - values.mean()) / (values.std() + 1e-6) for values in outcomes])
    credited = [line["credit"]["outcome"][0] for line in credit_of(tmp_path / "run")[1]]
    assert credited == pytest.approx(z.tolist(), abs=1e-5), "each has a mean and a spread of its own"


def test_the_branches_of_a_trajectory_are_trained_in_one_update():
    rows = [Row(np.arange(3), np.ones(3, dtype=bool), trajectory=name) for name in "aabcc"]
    parts = split_updates(rows, 2)
    assert [[row.trajectory for row in part] for part in parts] == [["a", "a", "c", "c"], ["b"]]
    assert [[row.trajectory for row in part] for part in split_updates(rows[:2], 3)] == [["a", "a"]], "no empty update"


async def test_whoever_cancels_waits_for_what_is_being_computed():
    done = []

    def work() -> None:
        time.sleep(0.2)
        done.append(True)

    with apart_from("cpu") as apart:
        task = asyncio.create_task(apart(work))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done, "nobody samples with a module that is amid its update"
