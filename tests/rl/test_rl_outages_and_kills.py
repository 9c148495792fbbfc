"""What a reader found in the pipeline: each of these failed before it was mended."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, Bandit
from test_rl_pipeline import Broken, Late, Slow, changed, run
from test_rl_pipeline import base as base
from train_records import PROFILE, WordTokenizer

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import Ending
from sanderling.rl.config import PipelineConfig, SelectionConfig, Straggler
from sanderling.rl.contract import Actor, Ask, GroupStatus
from sanderling.rl.denoise import DenoiseConfig, ExtremeConfig
from sanderling.rl.health import Alarm, HealthConfig, HealthPause
from sanderling.rl.queue import Ledger, Rollouts
from sanderling.rl.run import apart_from, run_rl
from sanderling.rl.step import Learner, split_updates
from sanderling.runs.run import RECORDS, Run
from sanderling.train.contract import Row
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")


def test_a_run_goes_on_when_the_world_is_up_again(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=2)
    with pytest.raises(UserError, match="could be scored"):
        run(config, base, tmp_path / "run", Broken, broken=frozenset(range(100)))
    run(config, base, tmp_path / "run", Bandit)  # the search engine is back: the same command goes on
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 2


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
        outage = {
            "ending": Ending.POLICY_OUTAGE,
            "answer": None,
            "detail": "http://m gave no answer.",
            "nodes": (),
            "leaf": None,
        }
        return trajectory.model_copy(update=outage)


def test_a_model_out_of_reach_ends_the_run_and_it_goes_on_later(base: Path, tmp_path: Path):
    """Not all the groups that a step may try, nor every step: a dead server would take hours to fail at each of them."""
    config = changed(CONFIG, steps=4, denoise=DenoiseConfig(outage_wait_s=0.0, outage_retries=0, most_groups=50))
    at_once = CONFIG.questions_per_step * CONFIG.group_size
    with pytest.raises(UserError, match=r"rollouts met outages .*\(http://m gave no answer\).*See that the model answers"):
        run(config, base, tmp_path / "run", Gone, after=at_once)
    run(config, base, tmp_path / "run", Bandit)
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 4


class Long(Bandit):
    async def rollout(self, ask):
        trajectory = await super().rollout(ask)
        return trajectory.model_copy(update={"ending": Ending.TURN_LIMIT, "answer": None, "detail": "All 5 turns were used."})


def test_a_step_whose_rollouts_were_all_too_long_is_a_step_without_update(base: Path, tmp_path: Path):
    config = changed(CONFIG, steps=1, denoise=DenoiseConfig(extreme=ExtremeConfig(over_long=True)))
    run(config, base, tmp_path / "run", Long)
    (line,) = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert line["updates"] == 0 and line["unscored"] == 0


def test_a_damaged_rollout_is_told_and_does_not_hang(base: Path, tmp_path: Path):
    with pytest.raises(RuntimeError, match="killed here"):
        run(CONFIG, base, tmp_path / "run", Bandit, fail_at=3 * 12 + 2)
    with Run(tmp_path / "run") as held:
        settled = {one["number"] for _, groups in held.table("batches").items() for one in groups}
        key, told = next((key, told) for key, told in held.table(RECORDS).items() if told["group"] not in settled)
        held.table(RECORDS).put(key, told, blob=b"{nonsense}")

    def connect(model) -> Actor:
        actor = Bandit(model)
        return Actor(actor.rollout, actor)

    async def again():
        work = run_rl(CONFIG, QUESTIONS, connect, Encoding(WordTokenizer(), PROFILE), base, tmp_path / "run")
        await asyncio.wait_for(work, 20)

    with pytest.raises(UserError, match="damaged"):
        asyncio.run(again())


class Watching(Slow):
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
    actor = run(config, base, tmp_path / "run", Watching)
    assert actor.amid == [0] * 7


def test_an_alarm_that_was_to_pause_pauses_though_the_process_was_killed_before_it_could(
    base: Path, tmp_path: Path, monkeypatch
):
    health = HealthConfig(
        window=1,
        thresholds={"most_malformed": 0.0, "most_sampler_gap": 1e-12, "most_no_answer": 0.0},
        pause_on=frozenset({Alarm.MALFORMED, Alarm.NO_ANSWER, Alarm.SAMPLER_GAP}),
    )
    config = changed(CONFIG, steps=3, save_every=100, health=health)
    with pytest.raises(HealthPause):
        run(config, base, tmp_path / "paused", Bandit)

    def killed(*_, **__):
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "save", killed)
        with pytest.raises(RuntimeError, match="killed here"):
            run(config, base, tmp_path / "killed", Bandit)
    with pytest.raises(HealthPause):
        run(config, base, tmp_path / "killed", Bandit)


class Counted(Bandit):
    """Takes a few moments, more for later attempts of a group, and says at which of them it was hurried."""

    def __init__(self, model) -> None:
        super().__init__(model)
        self.hurried: dict[int, list[int]] = {}
        """By group: after how many moments."""
        self.rollouts = 0

    async def rollout(self, ask: Ask):
        trajectory = await super().rollout(ask)
        number, place = divmod(ask.attempt, 8)
        self.hurried.setdefault(number, [])
        for moment in range(3 + 2 * place):
            if ask.finish_early.is_set():
                self.hurried[number].append(moment)
                break
            await asyncio.sleep(0.001)
        self.rollouts += 1
        return trajectory


@pytest.mark.parametrize("under", [None, 4, 1])
def test_a_synchronous_step_cuts_off_its_last_tenth_and_not_that_of_each_group(base: Path, tmp_path: Path, under: int | None):
    """However few groups are made at once: else those that the last ones wait for would be cut off as stragglers."""
    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, most_under_way=under)
    config = changed(CONFIG, steps=1, questions_per_step=16, group_size=8, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Counted)
    hurried = sum(map(len, actor.hurried.values()))
    assert hurried <= 128 - 115 and (hurried or under is None), "all at once, the last of all groups end together"
    assert not any(0 in moments for moments in actor.hurried.values()), "nobody is hurried as it begins"


def test_a_group_in_another_s_place_has_its_time_though_its_step_is_nearly_done(base: Path, tmp_path: Path):
    async def first_is_flat(trajectory) -> float:
        number, place = divmod(int(trajectory.id.rpartition("-")[2]), 8)
        return 1.0 if number == 0 else float(place % 2)

    pipeline = PipelineConfig(straggler=Straggler.CUT_OFF, cut_off_share=0.7)
    denoise = DenoiseConfig(drop_flat=True)
    config = changed(CONFIG, steps=1, questions_per_step=4, group_size=8, denoise=denoise, pipeline=pipeline)
    actor = run(config, base, tmp_path / "run", Counted, score=first_is_flat)
    assert sorted(actor.hurried) == [0, 1, 2, 3, 4] and actor.rollouts == 40
    assert sum(len(actor.hurried[number]) for number in range(4)) <= 32 - 22
    assert 0 < len(actor.hurried[4]) <= 8 - 6 and 0 not in actor.hurried[4], "its own last ones alone"


async def no_score(trajectory):
    return None


async def never(ask: Ask):
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("most", "processes", "at_once"), [(2, 1, [2]), (2, 4, [1, 1, 1, 1]), (5, 3, [2, 2, 2]), (None, 4, [2] * 4)]
)
def test_processes_share_what_may_be_under_way(
    base: Path, tmp_path: Path, most: int | None, processes: int, at_once: list[int]
):
    """``most_under_way`` is the run's, and not each process'; one group at least is each one's."""
    config = changed(CONFIG, questions_per_step=8, group_size=2, pipeline=PipelineConfig(most_under_way=most))

    async def under_way(rank: int) -> int:
        places = range(8)[8 * rank // processes : 8 * (rank + 1) // processes]
        ledger, questions = Ledger(tmp_path / str(rank), rank), {question.id: question for question in QUESTIONS}
        actor = Actor(never, Bandit(None))
        async with Rollouts(
            *(
                config,
                actor,
                no_score,
                ledger,
                questions,
                lambda number: QUESTIONS[number % 3],
                lambda group, version: GroupStatus.USED,
            ),
            *(places, set(), 1, asyncio.Semaphore(16)),
        ) as rollouts:
            return rollouts.under_way

    assert [asyncio.run(under_way(rank)) for rank in range(processes)] == at_once


def test_a_held_out_attempt_that_was_stored_leaves_nothing_for_later_measurements(base: Path, tmp_path: Path):
    """Its name is the same at each: after a kill between storing and forgetting, the older model's episode would be found."""
    held_out, asked = [Question(id="h0", text="?", answers=("Oslo",))], []
    config = changed(CONFIG, steps=2, selection=SelectionConfig(every=2))
    journal, alive = {}, []

    def connect(model) -> Actor:
        bandit = Bandit(model)

        async def rollout(ask: Ask):
            """Goes on with what the journal has, whichever version said it."""
            name = f"{ask.question.id}-{ask.attempt}"
            if name not in journal:
                journal[name] = (bandit.version, await bandit.rollout(ask))
            version, trajectory = journal[name]
            if ask.question.id == "h0":
                asked.append((bandit.version, version))
            return trajectory

        def forget(trajectory) -> None:
            if not alive:
                raise RuntimeError("killed here")
            journal.pop(trajectory.id, None)

        return Actor(rollout, bandit, forget=forget)

    encoding = Encoding(WordTokenizer(), PROFILE)
    with pytest.raises(RuntimeError, match="killed here"):
        asyncio.run(run_rl(config, QUESTIONS, connect, encoding, base, tmp_path / "run", held_out=held_out))
    alive.append("again")
    asyncio.run(run_rl(config, QUESTIONS, connect, encoding, base, tmp_path / "run", held_out=held_out))
    assert [now for now, _ in asked] == [0, asked[-1][0]] and asked[-1][0] > 0
    assert all(now == said for now, said in asked), "each measurement is of its own model"


def test_a_measurement_that_nobody_could_score_is_none(base: Path, tmp_path: Path):
    held_out = [Question(id="h0", text="?", answers=("Oslo",))]
    config = changed(CONFIG, steps=2, selection=SelectionConfig(every=2))
    up = []

    async def judge(trajectory):
        if trajectory.question.id == "h0" and not up:
            return None
        return float(trajectory.answer == "Oslo")

    with pytest.raises(UserError, match="Only 0 of 1 held-out rollouts after step 0 could be scored: no judge"):
        run(config, base, tmp_path / "run", Bandit, held_out, score=judge)
    up.append(True)
    run(config, base, tmp_path / "run", Bandit, held_out, score=judge)
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "selection.jsonl") if line["scored"]] == [0, 2]


TIMES = {"seconds", "wait_seconds", "learn_seconds", "tokens_per_second", "groups_under_way", "groups_waiting"}


def test_figures_written_again_after_a_kill_are_those_of_before(base: Path, tmp_path: Path):
    held_out = [Question(id="h0", text="?", answers=("Oslo",))]
    config = changed(CONFIG, steps=5, save_every=100, selection=SelectionConfig(every=3))
    run(config, base, tmp_path / "straight", Bandit, held_out)
    with pytest.raises(RuntimeError, match="killed here"):
        run(config, base, tmp_path / "killed", Bandit, held_out, fail_at=4 * 12 + 2)
    run(config, base, tmp_path / "killed", Bandit, held_out)
    straight, killed = ([*read_metrics(tmp_path / name / "metrics.jsonl")] for name in ("straight", "killed"))
    for one, other in zip(straight, killed, strict=True):
        differ = {k: (one.get(k), other.get(k)) for k in one.keys() | other.keys() if one.get(k) != other.get(k)}
        assert not differ.keys() - TIMES, (one["step"], {k: v for k, v in differ.items() if k not in TIMES})
        assert one.keys() == other.keys(), one.keys() ^ other.keys()


class LateByATurn(Late):
    """Its attempt 3 takes its time, and once it is asked for its answer, a hundredth of a second."""

    async def rollout(self, ask: Ask):
        trajectory = await super().rollout(ask)
        if ask.finish_early.is_set():
            await asyncio.sleep(0.01)
        return trajectory


def test_stragglers_are_asked_early_enough_to_answer(base: Path, tmp_path: Path):
    pipeline = PipelineConfig(max_staleness=2, straggler=Straggler.CUT_OFF)
    actor = run(changed(CONFIG, steps=6, group_size=2, pipeline=pipeline), base, tmp_path / "run", LateByATurn)
    assert 3 in actor.hurried
    assert GroupStatus.STALE not in [g.status for batch in Ledger(tmp_path / "run").batches() for g in batch.groups]


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


def test_a_held_out_rollout_that_ended_is_not_made_again(base: Path, tmp_path: Path):
    held_out = [Question(id=f"h{i}", text="?", answers=("Oslo",)) for i in range(3)]
    config = changed(CONFIG, steps=2, selection=SelectionConfig(every=2))

    class Fails(Bandit):
        async def rollout(self, ask: Ask):
            if ask.question.id == "h2" and self.version == 0 and not failed:
                failed.append(ask)
                await asyncio.sleep(0.01)
                raise RuntimeError("killed here")
            return await super().rollout(ask)

    failed = []
    with pytest.raises(RuntimeError, match="killed here"):
        run(config, base, tmp_path / "run", Fails, held_out)
    actor = run(config, base, tmp_path / "run", Fails, held_out)
    first = [attempt for attempt in actor.attempts if attempt == 0]
    assert len(first) == 1 + 3 + 1, "the one that was killed, three at the end, and the training's own attempt 0"
