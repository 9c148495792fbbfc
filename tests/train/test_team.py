"""Two real processes over gloo do what one does: the same rollouts, the same steps, and they end together."""

import tempfile
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from bandit import CONFIG, QUESTIONS, changed
from hypothesis import given
from hypothesis import strategies as st
from loopback import free_port
from safetensors.numpy import load_file
from sft_runs import write_base, write_data, write_settings
from shard_ranks import fail_on_rank_1, reinforce, sft_under_torchrun
from shard_ranks import take_steps as take_sharded_steps
from team_ranks import Ran, die, processes, refuse, take_steps, train_bandit
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.core.errors import UserError
from sanderling.rl.config import PipelineConfig, Placement
from sanderling.rl.credit import IgpoConfig
from sanderling.rl.gain import GainConfig, Probe
from sanderling.rl.losses import PpoConfig, RatioTo
from sanderling.train.config import Aggregation, MemoryConfig, ParallelConfig, ParallelKind, Precision, TrainerConfig
from sanderling.train.fit import Shape
from sanderling.train.launch import Place, check_parallel, opened_team
from sanderling.train.metrics import read_metrics
from sanderling.train.packing import deal
from sanderling.train.rows import sft
from sanderling.train.team import join_team
from sanderling.train.trainer import NotFiniteError, Trainer

STEADY = TrainerConfig(lr=3e-3, eps=1e-3, entropy=True, micro_batch_tokens=60)
"""With a large eps Adam does not blow rounding errors up to steps of full size."""
RL = changed(
    CONFIG, trainer=STEADY, steps=4, questions_per_step=3, updates_per_step=2, estimator=IgpoConfig(),
    gain=GainConfig(probe=Probe(prefix="so </think> <answer>")), loss=PpoConfig(ratio_to=RatioTo.PROXIMAL, kl_coef=0.01),
)  # fmt: skip
OWN = {"seconds", "tokens_per_second", "computed_tokens", "wait_seconds", "learn_seconds"}
"""What is a rank's own, or depends on how many there are."""


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
    [(STEADY, 7), (STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN}), 6), (STEADY, 1)],
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


def test_the_kill_of_one_rank_ends_the_other_with_one_sentence(pair):
    errors = pair(die, errors=True)
    assert [type(error) for error in errors] == [BrokenProcessPool, UserError]
    assert "One of this run's 2 processes ended unexpectedly" in str(errors[1])


def test_who_waits_in_vain_for_the_others_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sanderling.train.team._MEETING", timedelta(milliseconds=100))
    with pytest.raises(UserError, match="Not all of this run's 2 processes began: free some memory"), join_team(1, 2, tmp_path):
        pass


def test_torchrun_on_two_machines_is_one_run_that_is_told_of_once(pair, tmp_path: Path):
    words = [write_data(tmp_path / "data.jsonl"), "--model", write_base(tmp_path / "base"), "--out", tmp_path / "run"]
    words += ["--recipe", write_settings(tmp_path / "settings.toml"), "--set", "max_steps=2"]
    for told in ("The model is in", "finished before"):
        first, second = pair(sft_under_torchrun, free_port(), list(map(str, words)))
        assert told in first and second == ""
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2]


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 4))
def test_rows_are_dealt_evenly_by_tokens(lengths, hands):
    parts = deal(lengths, hands)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    tokens = [sum(lengths[i] for i in part) for part in parts]
    assert max(tokens) - min(tokens) <= max(lengths, default=0)


# -- Ranks that hold shards, or parts of a line, take the steps of one process ---------------------------------------------

FORKS = STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN})
SPARING = STEADY.model_copy(update={"memory": MemoryConfig(recompute="full", mlp_tile=8), "logit_chunk": 200})
SETTINGS = {
    "packed": (STEADY, 7, False), "an idle rank": (STEADY, 1, False), "forks": (FORKS, 6, True), "sparing": (SPARING, 5, True),
}  # fmt: skip


def check(ran: list, config: TrainerConfig, rows: int, forks: bool) -> None:
    solo = alone(take_sharded_steps, config, rows, forks, False)
    assert len({one.weights for one in ran}) == 1
    np.testing.assert_allclose(
        np.frombuffer(ran[0].weights, np.float32), np.frombuffer(solo.weights, np.float32), atol=1e-6, rtol=0
    )
    for one in ran:
        for ours, theirs in zip(one.gradients, solo.gradients, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
        same_figures(one.figures, solo.figures, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("config", "rows", "forks"), SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize(("shard", "context"), [(True, 1), (False, 2), (True, 2)])
def test_two_ranks_take_the_steps_of_one(pair, config: TrainerConfig, rows: int, forks: bool, shard: bool, context: int):
    """Over shards, sharing each line, or both."""
    check(pair(take_sharded_steps, config, rows, forks, shard, context), config, rows, forks)


def test_one_process_in_bfloat16_is_a_mesh_of_one_with_weights_in_float32():
    losses = {}
    for kind in (ParallelKind.FSDP, ParallelKind.NONE):
        config = TrainerConfig(lr=1e-2, precision=Precision.BFLOAT16)
        with opened_team(ParallelConfig(kind=kind), Place(), None, bfloat16=True) as (team, _):
            model, widths = tiny_model(), set()
            model.model.norm.register_forward_pre_hook(lambda _, given, seen=widths: seen.add(given[0].dtype))
            trainer = Trainer(model, config, team)
            losses[kind] = [trainer.step(random_rows(4), sft)["loss"] for _ in range(3)]
            assert {p.dtype for p in model.parameters()} == {torch.float32}
            assert widths == ({torch.bfloat16} if team.sharded else {torch.float32})
    assert losses[ParallelKind.FSDP] == pytest.approx(losses[ParallelKind.NONE], rel=0.01)


@pytest.mark.parametrize("shard", [False, True], ids=["replicated", "sharded"])
def test_a_loss_that_is_not_finite_on_one_rank_ends_all_with_its_sentence(pair, shard: bool):
    errors = pair(fail_on_rank_1, shard, errors=True)
    assert [type(error) for error in errors] == [NotFiniteError] * 2
    assert str(errors[0]) == str(errors[1]) and "not finite" in str(errors[0])


def test_rl_over_shards_learns_what_one_process_does(pair, tmp_path: Path):
    """Gains, proximal and reference log-probabilities and updates, all of them collective."""
    base = save_tiny(tmp_path / "base")
    config = RL.model_copy(update={"pipeline": PipelineConfig(placement=Placement.SERVED)})
    first, _ = pair(reinforce, config, QUESTIONS, base, tmp_path / "shards", True)
    solo = alone(reinforce, config, QUESTIONS, base, tmp_path / "solo", False)
    same_figures(first.figures, solo.figures, rel=1e-3, abs=1e-5)
    ours, theirs = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("shards", "solo"))
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, rtol=0)


def test_four_ranks_in_pairs_and_four_with_fewer_heads_of_keys_than_ranks():
    with processes(4) as run:
        check(run(take_sharded_steps, STEADY, 1, False, True, 2), STEADY, 1, False)  # the second pair is idle
        check(run(take_sharded_steps, FORKS, 6, True, True, 2), FORKS, 6, True)
        check(run(take_sharded_steps, FORKS, 6, True, True, 4), FORKS, 6, True)


def test_numbers_of_processes_that_cannot_share_are_told():
    shape = Shape(hidden=32, layers=2, heads=12, kv_heads=3, head_dim=4, intermediate=8, vocab=9, tied=False)
    with pytest.raises(UserError, match=r"3 processes share each row .* there are 4: start a multiple"):
        check_parallel(ParallelConfig(context=3), 4)
    with pytest.raises(UserError, match=r"8 processes cannot share the model's 12 heads .3 of keys.: .* one of 1, 3, 6, 12"):
        check_parallel(ParallelConfig(context=8), 8, shape)
    check_parallel(ParallelConfig(context=6), 12, shape)


@pytest.mark.parametrize("rank", [0, 3])
def test_more_processes_than_gpus_are_refused_by_every_one_before_they_meet(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    team = opened_team(ParallelConfig(), Place(rank, 4, rank, 4), None, bfloat16=False)
    with pytest.raises(UserError, match="2 GPUs for 4 processes"), team:
        pass
    with opened_team(ParallelConfig(), Place(), None, bfloat16=False) as (_, device):
        assert device == torch.device("cuda", 0), "one for each"
