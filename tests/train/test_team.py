"""Two real processes over gloo do what one does: the same rollouts, the same steps, and they end together."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bandit import CONFIG, QUESTIONS
from hypothesis import given
from hypothesis import strategies as st
from team_ranks import Ran, refuse, take_steps, train_bandit
from tiny_qwen3 import save_tiny

from sanderling.core.errors import UserError
from sanderling.rl.config import RlConfig
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.gain import GainConfig, Probe
from sanderling.rl.losses import PpoConfig, RatioTo
from sanderling.train.config import Aggregation, TrainerConfig
from sanderling.train.metrics import read_metrics
from sanderling.train.packing import deal

STEADY = TrainerConfig(lr=3e-3, eps=1e-3, entropy=True, micro_batch_tokens=60)
"""With a large eps Adam does not blow rounding errors up to steps of full size."""
RL = RlConfig.model_validate(
    {
        **CONFIG.model_dump(),
        "trainer": STEADY,
        "steps": 4,
        "questions_per_step": 3,
        "updates_per_step": 2,
        "estimator": IgpoConfig(),
        "gain": GainConfig(probe=Probe(prefix="so </think> <answer>")),
        "loss": PpoConfig(ratio_to=RatioTo.PROXIMAL, kl_coef=0.01),
    }
)
OWN = {"seconds", "tokens_per_second", "computed_tokens", "wait_seconds", "learn_seconds"}
"""What is a rank's own, or depends on how many there are."""

KILLED = """
import os, signal, sys
from pathlib import Path
from sanderling.train.team import join_team

rank = int(sys.argv[1])
with join_team(rank, 2, Path(sys.argv[2])) as team:
    team.gather(rank)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    team.gather(rank)
"""


def alone(function: Callable, *arguments) -> Ran:
    with tempfile.TemporaryDirectory() as meeting:
        return function(0, 1, Path(meeting), *arguments)


def same_figures(ours: list[dict[str, float]], theirs: list[dict[str, float]], **tolerance: float) -> None:
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert {k: v for k, v in a.items() if k not in OWN} == pytest.approx(
            {k: v for k, v in b.items() if k not in OWN}, **tolerance
        )


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        (STEADY, 7),
        (STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN}), 6),
        (STEADY, 1),
    ],
    ids=["tokens", "trajectories", "a rank without rows"],
)
def test_two_take_the_same_steps_as_one(pair, config: TrainerConfig, rows: int):
    first, second = pair(take_steps, config, rows)
    solo = alone(take_steps, config, rows)
    assert first.weights == second.weights
    np.testing.assert_allclose(
        np.frombuffer(first.weights, np.float32), np.frombuffer(solo.weights, np.float32), atol=1e-6, rtol=0
    )
    for ours, others, theirs in zip(first.gradients, second.gradients, solo.gradients, strict=True):
        assert np.array_equal(ours, others)
        np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=1e-5)
    same_figures(first.figures, solo.figures, rel=1e-5, abs=1e-7)
    sums = [one["computed_tokens"] for one in solo.figures]
    assert [one["computed_tokens"] for one in first.figures] == sums == [one["tokens"] for one in solo.figures]


@pytest.fixture(scope="module")
def runs(pair, tmp_path_factory: pytest.TempPathFactory):
    """An RL run by two."""
    root = tmp_path_factory.mktemp("runs")
    arguments = RL, QUESTIONS, save_tiny(root / "base")
    return root, pair(train_bandit, *arguments, root / "pair", None)


def test_a_failed_rollout_ends_both_and_both_resume_from_one_checkpoint(pair, runs, tmp_path: Path):
    root, (straight, _) = runs
    in_step_4_of_rank_1 = 4 * RL.questions_per_step * RL.group_size - 1
    errors = pair(train_bandit, RL, QUESTIONS, root / "base", tmp_path, in_step_4_of_rank_1, errors=True)
    assert [type(error) for error in errors] == [RuntimeError, RuntimeError]
    assert str(errors[0]).startswith("process 1 of 2 failed:\nTraceback"), "the other's traceback is not lost"
    assert str(errors[0]).endswith("RuntimeError: killed here\n") and str(errors[1]) == "killed here"
    first, second = pair(train_bandit, RL, QUESTIONS, root / "base", tmp_path, None)
    assert (first.attempts, second.attempts) == ((), (in_step_4_of_rank_1,)), "all others had ended and were stored"
    assert first.weights == second.weights == straight.weights
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == RL.steps


def test_a_sentence_for_the_user_is_the_same_on_every_rank(pair):
    errors = pair(refuse, errors=True)
    assert [(type(error), str(error)) for error in errors] == [(UserError, "Give it a larger disk.")] * 2


def test_the_kill_of_one_rank_ends_the_other_with_one_sentence(tmp_path: Path):
    command = [sys.executable, "-c", KILLED]
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path)], stderr=subprocess.PIPE, text=True) for rank in range(2)]
    try:
        said = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [1, -9]
    assert "UserError: One of this run's 2 processes ended unexpectedly" in said[0].splitlines()[-1]


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 4))
def test_rows_are_dealt_evenly_by_tokens(lengths, hands):
    parts = deal(lengths, hands)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    tokens = [sum(lengths[i] for i in part) for part in parts]
    assert max(tokens) - min(tokens) <= max(lengths, default=0)
