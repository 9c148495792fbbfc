"""Ranks that hold shards, or parts of a line, take the steps of one process."""

from pathlib import Path

import numpy as np
import pytest
import torch
from bandit import QUESTIONS
from safetensors.numpy import load_file
from shard_ranks import fail_on_rank_1, reinforce, take_steps
from team_ranks import processes
from test_team import RL, STEADY, alone, same_figures
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.core.errors import UserError
from sanderling.rl.config import PipelineConfig, Placement
from sanderling.train.config import (
    Aggregation,
    MemoryConfig,
    ParallelConfig,
    ParallelKind,
    Precision,
    TrainerConfig,
)
from sanderling.train.fit import Shape
from sanderling.train.launch import Place, check_parallel, opened_team
from sanderling.train.rows import sft
from sanderling.train.trainer import NotFiniteError, Trainer

FORKS = STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN})
SPARING = STEADY.model_copy(update={"memory": MemoryConfig(recompute="full", mlp_tile=8), "logit_chunk": 200})
SETTINGS = {
    "packed": (STEADY, 7, False), "an idle rank": (STEADY, 1, False), "forks": (FORKS, 6, True), "sparing": (SPARING, 5, True),
}  # fmt: skip


def check(ran: list, config: TrainerConfig, rows: int, forks: bool) -> None:
    solo = alone(take_steps, config, rows, forks, False)
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
    check(pair(take_steps, config, rows, forks, shard, context), config, rows, forks)


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
        check(run(take_steps, STEADY, 1, False, True, 2), STEADY, 1, False)  # the second pair is idle
        check(run(take_steps, FORKS, 6, True, True, 2), FORKS, 6, True)
        check(run(take_steps, FORKS, 6, True, True, 4), FORKS, 6, True)


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
