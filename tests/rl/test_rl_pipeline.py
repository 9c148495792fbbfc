"""What the pipeline promises, whatever the rollouts' times: bounded ages, nothing lost, nothing begun in vain."""

import asyncio
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, Bandit, by_token, changed, run, same_weights
from train_records import record

from sanderling.core.record import Question, Trajectory
from sanderling.policy.contract import Gate
from sanderling.rl.act import Together
from sanderling.rl.config import PipelineConfig, SelectionConfig, Straggler
from sanderling.rl.queue import Ledger
from sanderling.rl.rollouts import Ask, DenoiseConfig, FinishedRollout, Group, GroupStatus, Noise
from sanderling.rl.step import group_status, split_updates, why_left_out
from sanderling.runs.run import DATABASE
from sanderling.train.metrics import read_metrics
from sanderling.train.rows import Row

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")
HELD_OUT = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(2)]


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


def test_a_group_goes_on_without_the_one_that_is_too_old():
    config = changed(CONFIG, pipeline=PipelineConfig(max_staleness=2), group_size=3)
    rollouts = tuple(FinishedRollout(record("sva", version=version), float(version == 6)) for version in (3, 4, 6))
    group = Group(0, QUESTIONS[0], rollouts)
    assert why_left_out(group, 6, config) == [Noise.STALE, None, None]
    assert group_status(group, 6, config) is GroupStatus.USED
    assert group_status(group, 7, config) is GroupStatus.STALE, "one alone tells nothing"


class Counted(Bandit):
    """Takes a few moments, more for later attempts of a group, and says at which of them it was asked for its answer."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.hurried: list[int] = []

    async def rollout(self, ask: Ask):
        trajectory = await super().rollout(ask)
        for moment in range(3 + 2 * (ask.attempt % 8)):
            if ask.finish_early.is_set():
                self.hurried.append(moment)
                break
            await asyncio.sleep(0.001)
        return trajectory


def test_a_synchronous_step_cuts_off_its_last_fifth_and_not_that_of_each_group(base: Path, tmp_path: Path):
    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, cut_off_share=0.8)
    config = changed(CONFIG, steps=1, questions_per_step=16, group_size=8, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Counted)
    assert 0 < len(actor.hurried) <= 128 - 102
    assert 0 not in actor.hurried, "nobody is asked as it begins"
    with pytest.raises(ValueError, match="in a synchronous run alone"):
        PipelineConfig(straggler=Straggler.CUT_OFF, max_staleness=1)


def test_nothing_is_under_way_at_a_synchronous_update_when_most_groups_were_tried(base: Path, tmp_path: Path):
    denoise = DenoiseConfig(drop_flat=True, most_groups=1.5)
    config = changed(CONFIG, steps=6, group_size=2, questions_per_step=4, denoise=denoise)
    assert run(config, base, tmp_path / "run", pace=0.0).at_updates == [0] * 7


def test_a_step_of_which_every_group_is_flat_ends_and_updates_nothing(base: Path, tmp_path: Path):
    async def always_right(_: Trajectory) -> float:
        return 1.0

    config = changed(CONFIG, steps=2, denoise=DenoiseConfig(drop_flat=True, most_groups=3))
    run(config, base, tmp_path / "run", Bandit, score=always_right)
    with Ledger(tmp_path / "run") as ledger:
        assert [list(batch.values()) for batch in ledger.batches()] == [[GroupStatus.FLAT] * 6] * 2
    assert [line["updates"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 0]


def test_the_best_model_on_held_out_questions_is_the_result(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=6, selection=SelectionConfig(every=2, attempts=30))
    run(config, base, tmp_path / "run", Bandit, HELD_OUT, score=by_token)
    measured = {line["step"]: line["held_out"] for line in read_metrics(tmp_path / "run" / "selection.jsonl")}
    best = max(measured, key=lambda step: (measured[step], -step))
    assert sorted(measured) == [0, 2, 4, 6] and 0 < best < 6, "neither the first nor the last"
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
    times = {"seconds", "wait_seconds", "learn_seconds", "tokens_per_second"}
    logs = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("straight", "run")]
    ours, theirs = ([{k: v for k, v in line.items() if k not in times} for line in log] for log in logs)
    assert ours == theirs and [line["step"] for line in ours if "held_out" in line] == [2, 4, 6]


def test_the_branches_of_a_trajectory_are_trained_in_one_update():
    rows = [Row(np.arange(3), np.ones(3, dtype=bool), trajectory=name) for name in "aabcc"]
    parts = split_updates(rows, 2)
    assert [[row.trajectory for row in part] for part in parts] == [["a", "a", "c", "c"], ["b"]]
    assert [[row.trajectory for row in part] for part in split_updates(rows[:2], 3)] == [["a", "a"]], "no empty update"


# -- Processes that share a server: it sleeps when nobody has a turn under way, and all hear a version when it is there ----


class Meeting:
    """A team of threads."""

    def __init__(self, rank: int, barrier: threading.Barrier, said: dict[int, object]) -> None:
        self.rank, self._barrier, self._said = rank, barrier, said

    def gather(self, value):
        self._said[self.rank] = value
        self._barrier.wait(20)
        found = [self._said[0], self._said[1]]
        self._barrier.wait(20)
        return found


class Server:
    """Writes down what happens to it."""

    def __init__(self, told: list[str]) -> None:
        self.told, self.version = told, 0

    @asynccontextmanager
    async def training(self):
        self.told.append("sleeps")
        yield
        await asyncio.sleep(0.02)
        self.told.append("wakes")

    async def publish(self, weights, version):
        if weights is not None:
            self.told.append(f"takes {version}")
        self.version = version


def ranks(body, *, sleeps: bool) -> list[str]:
    """``body(rank, sync, door, told)`` on two ranks with an event loop each."""
    told, barrier, said = [], threading.Barrier(2), {}
    failures: list[BaseException] = []

    async def one(rank: int) -> None:
        door = Gate()
        await body(rank, Together(Server(told), door, Meeting(rank, barrier, said), sleeps=sleeps), door, told)

    def run(rank: int) -> None:
        try:
            asyncio.run(one(rank))
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    return told


def test_it_sleeps_once_the_last_turn_of_every_rank_is_over_and_until_all_have_trained():
    async def body(rank, sync, door, told):
        async def turn() -> None:
            async with door.passing():
                await asyncio.sleep(0.05 if rank else 0.0)
                told.append(f"turn of {rank}")

        under_way = asyncio.create_task(turn())
        await asyncio.sleep(0.01)
        async with sync.training():
            await asyncio.sleep(0.05 if rank else 0.0)
            told.append(f"trained {rank}")
        await under_way

    told = ranks(body, sleeps=True)
    assert set(told[:2]) == {"turn of 0", "turn of 1"}
    assert told[2] == "sleeps" and told[-1] == "wakes" and set(told[3:5]) == {"trained 0", "trained 1"}


def test_others_hear_of_a_version_when_the_server_has_it():
    async def body(rank, sync, door, told):
        async with sync.training():
            pass
        await sync.publish({"w": 1} if rank == 0 else None, 7)
        told.append(f"{rank} at {sync.version}")

    told = ranks(body, sleeps=False)
    assert told[0] == "takes 7" and set(told[1:]) == {"0 at 7", "1 at 7"}, "it never slept"
