"""Denoising, alarms and the curriculum inside a run: what they say reaches credit, stops it, and survives a kill."""

from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS, train, weights
from tiny_qwen3 import save_tiny
from train_records import PROFILE, WordTokenizer, record

from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.rl.credit import LeaveOneOutConfig, build_estimator
from sanderling.rl.credit.table import Graded, build_table
from sanderling.rl.curriculum import CurriculumConfig
from sanderling.rl.denoise import DenoiseConfig, ExtremeConfig, FormatConfig, Place, denoise_group, turn_penalties
from sanderling.rl.health import RULES, Alarm, HealthConfig, HealthPause
from sanderling.rl.run import HealthWarning
from sanderling.rl.step import credit_rows
from sanderling.train.encoding import Encoding
from sanderling.train.metrics import read_metrics

pytestmark = pytest.mark.filterwarnings("ignore::sanderling.rl.run.HealthWarning")


def credited(group: list[tuple[Trajectory, float | None]], config: DenoiseConfig):
    """Each rollout's advantages under leave-one-out, and the names of those that rows are made of."""
    found = denoise_group(group, config, PROFILE)
    batch = [
        Graded(trajectory, one.outcome, turn_penalties(trajectory, PROFILE), trained=one.trained, capped=one.capped)
        for (trajectory, _), one in zip(group, found, strict=True)
    ]
    table = build_table(batch)
    advantages = build_estimator(LeaveOneOutConfig(penalty_weight=0.0))(table)
    rows = credit_rows(batch, table, advantages, Encoding(WordTokenizer(), PROFILE), False)
    return [advantages[table.trajectory == i] for i in range(len(batch))], [row.trajectory for row in rows]


@pytest.mark.parametrize("place", list(Place))
def test_an_outage_s_zero_moves_nobody_s_baseline(place: Place):
    group: list[tuple[Trajectory, float | None]] = [(record("sa", name=f"t{i}"), float(i < 2)) for i in range(4)]
    broken = record("s", name="broken", ending=Ending.TOOL_OUTAGE, answer=None)
    config = DenoiseConfig(extreme=ExtremeConfig(over_long=True, place=place))
    alone, _ = credited(group, config)
    beside, rows = credited([*group, (broken, 0.0)], config)
    assert all(np.array_equal(a, b) for a, b in zip(alone, beside, strict=False)) and not beside[-1].any()
    assert rows == [f"t{i}" for i in range(4)], "no row either, though rows without credit are kept"


def test_who_is_left_out_has_no_row_and_a_say_only_where_it_was_given_one():
    cut = record("ss", name="cut", ending=Ending.CONTEXT_EXHAUSTED, answer=None)
    group: list[tuple[Trajectory, float | None]] = [(record("sa", name="a"), 1.0), (record("sa", name="b"), 0.5), (cut, 0.0)]
    out, rows_out = credited(group, DenoiseConfig(extreme=ExtremeConfig(over_long=True, place=Place.OUT)))
    base, rows_base = credited(group, DenoiseConfig(extreme=ExtremeConfig(over_long=True, place=Place.BASELINE)))
    assert rows_out == rows_base == ["a", "b"]
    assert out[0][0] == pytest.approx(0.5) and base[0][0] == pytest.approx(0.75)
    assert not out[2].any() and not base[2].any()


def test_a_malformed_turn_keeps_blame_and_gets_no_praise():
    def said(name: str, outcome: float) -> tuple[Trajectory, float | None]:
        trajectory = record("sa", name=name)
        first, *_ = (i for i, node in enumerate(trajectory.nodes) if node.kind == "turn")
        nodes = [n.model_copy(update={"text": "no tags"}) if i == first else n for i, n in enumerate(trajectory.nodes)]
        fine = {"text": "so</think><answer>Oslo</answer>"}
        nodes[-1] = nodes[-1].model_copy(update=fine)
        return trajectory.model_copy(update={"nodes": tuple(nodes)}), outcome

    config = DenoiseConfig(format=FormatConfig(no_positive_credit=True))
    (right, wrong), _ = credited([said("right", 1.0), said("wrong", 0.0)], config)
    assert right.tolist() == [0.0, 1.0] and wrong.tolist() == [-1.0, -1.0]


def test_an_alarm_stops_a_run_that_goes_on_as_if_nothing_had_been(tmp_path: Path):
    base = save_tiny(tmp_path / "base")
    watched = HealthConfig(window=1, thresholds={"least_entropy_share": 0.0}, pause_on=frozenset({Alarm.ENTROPY}))
    train(CONFIG, base, tmp_path / "straight")
    lines = read_metrics(tmp_path / "straight" / "metrics.jsonl")
    entropies = [line.get("entropy", np.inf) for line in lines[:-1]]  # a step without an update has none
    low = int(np.argmin(entropies))
    limit = (entropies[low] + min(value for value in entropies if value > entropies[low])) / 2
    config = CONFIG.model_copy(
        update={"health": watched.model_copy(update={"thresholds": {**watched.thresholds, "least_entropy": limit}})}
    )
    with pytest.raises(HealthPause, match=rf"after step {low + 1}\. Entropy"):
        train(config, base, tmp_path / "paused")
    (*_, last) = read_metrics(tmp_path / "paused" / "metrics.jsonl")
    assert last["step"] == low + 1 < CONFIG.steps and last["alarm_entropy"] == 1.0
    train(config, base, tmp_path / "paused")
    ours, theirs = weights(tmp_path / "paused"), weights(tmp_path / "straight")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.filterwarnings("always::sanderling.rl.run.HealthWarning")
def test_an_alarm_at_the_last_step_is_told_and_the_run_ends(tmp_path: Path):
    """Nothing comes after it that could be stopped, and a pause would come at each resume, before the result is written."""
    base = save_tiny(tmp_path / "base")
    health = HealthConfig(window=4, thresholds={"least_entropy": 100.0}, pause_on=frozenset({Alarm.ENTROPY}))
    config = CONFIG.model_copy(update={"steps": 4, "health": health})
    with pytest.warns(HealthWarning, match=r"step 4: Entropy in nats"):
        assert train(config, base, tmp_path / "run").trained
    assert [line["alarm_entropy"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 0, 0, 1]


def test_an_alarm_at_the_last_step_that_a_kill_left_unheard_does_not_stop_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    base = save_tiny(tmp_path / "base")
    health = HealthConfig(window=4, thresholds={"least_entropy": 100.0}, pause_on=frozenset({Alarm.ENTROPY}))
    config = CONFIG.model_copy(update={"steps": 4, "save_every": 3, "health": health})

    def killed(*_: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed here"):
        patched.setattr("sanderling.rl.run._Run.finish", killed)
        train(config, base, tmp_path / "run")
    assert train(config, base, tmp_path / "run").trained
    assert (tmp_path / "run" / "model" / "config.json").is_file()


def test_the_curriculum_is_the_same_after_a_kill(tmp_path: Path):
    base, bandits = save_tiny(tmp_path / "base"), []
    update = {"curriculum": CurriculumConfig(retire_after=1, rest_after=1), "group_size": 2, "steps": 8}
    config = CONFIG.model_copy(update=update)
    train(config, base, tmp_path / "straight", bandits)
    with pytest.raises(RuntimeError, match="killed here"):
        train(config, base, tmp_path / "stopped", bandits, fail_at=5 * 4 + 1)
    train(config, base, tmp_path / "stopped", bandits)
    logs = [read_metrics(tmp_path / run / "metrics.jsonl") for run in ("straight", "stopped")]
    names = ("questions_open", "questions_mastered", "questions_resting", "question_success", "reward")
    assert [[line[name] for name in names] for line in logs[0]] == [[line[name] for name in names] for line in logs[1]]
    assert min(line["questions_open"] for line in logs[0]) < len(QUESTIONS), "questions did leave"
    ours, theirs = weights(tmp_path / "stopped"), weights(tmp_path / "straight")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_s_lines_have_what_the_alarms_read(tmp_path: Path):
    config = CONFIG.model_copy(update={"steps": 4, "updates_per_step": 2})
    train(config, save_tiny(tmp_path / "base"), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if line["updates"]]
    watched = {rule.figure for rule in RULES}
    for line in lines:
        assert watched <= set(line)
        bins = [value for name, value in line.items() if name.startswith("ratio_") and name != "ratio_far"]
        assert sum(bins) == pytest.approx(1.0) and line["ratio_far"] == pytest.approx(line["ratio_0_0.5"] + line["ratio_2_inf"])
        assert 0.0 <= line["sampler_gap_fresh"] < 1e-4, "one program samples and trains"
    assert any(line["sampler_gap"] > 100 * line["sampler_gap_fresh"] for line in lines), "updates make the rest of the gap"
