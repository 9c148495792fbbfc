"""Two real ranks over FSDP2 do what one process does, and what one wrote the other continues."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from shard_ranks import fail_on_rank_1, reinforce, take_steps, train_and_save
from test_rl import QUESTIONS
from test_team import RL, STEADY, alone, pair, same_figures  # noqa: F401  # pair is a fixture
from tiny_qwen3 import random_rows, save_tiny, tiny_model

from sanderling.rl.config import PipelineConfig, Placement
from sanderling.train.config import Aggregation, MemoryConfig, Packing, ParallelConfig, ParallelKind, Precision, TrainerConfig
from sanderling.train.loss import sft
from sanderling.train.parallel.launch import Place, opened_team
from sanderling.train.trainer import NotFiniteError, Trainer

SETTINGS = {
    "packed": (STEADY, 7, False),
    "an idle rank": (STEADY, 1, False),
    "padded": (STEADY.model_copy(update={"packing": Packing.PADDED, "aggregation": Aggregation.TRAJECTORY_MEAN}), 6, False),
    "forks": (STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN}), 6, True),
    "recomputed": (STEADY.model_copy(update={"memory": MemoryConfig(recompute="selective", mlp_tile=8)}), 5, False),
    "fully recomputed": (STEADY.model_copy(update={"memory": MemoryConfig(recompute="full"), "logit_chunk": 200}), 5, False),
}


@pytest.mark.parametrize(("config", "rows", "forks"), SETTINGS.values(), ids=SETTINGS)
def test_two_shards_take_the_same_steps_as_one(pair, config: TrainerConfig, rows: int, forks: bool):  # noqa: F811
    first, second = pair(take_steps, config, rows, forks, True)
    solo = alone(take_steps, config, rows, forks, False)
    assert first.weights == second.weights
    np.testing.assert_allclose(
        np.frombuffer(first.weights, np.float32), np.frombuffer(solo.weights, np.float32), atol=1e-6, rtol=0
    )
    for ours, theirs in zip(first.gradients, solo.gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    same_figures(first.figures, solo.figures, rel=1e-5, abs=1e-6)


def test_a_run_goes_on_with_another_number_of_ranks(pair, tmp_path: Path):  # noqa: F811
    base = save_tiny(tmp_path / "base")
    straight = alone(train_and_save, STEADY, base, tmp_path / "straight", 3)
    pair(train_and_save, STEADY, base, tmp_path / "moved", 1)
    alone(train_and_save, STEADY, base, tmp_path / "moved", 2)
    first, _ = pair(train_and_save, STEADY, base, tmp_path / "moved", 3)
    same_figures(first.figures, straight.figures[2:], rel=1e-5, abs=1e-6)
    ours, theirs = (load_file(tmp_path / run / "step_00000003" / "model.safetensors") for run in ("moved", "straight"))
    assert ours.keys() == theirs.keys()
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-6, rtol=0)


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
def test_a_loss_that_is_not_finite_on_one_rank_ends_all_with_its_sentence(pair, shard: bool):  # noqa: F811
    errors = pair(fail_on_rank_1, shard, errors=True)
    assert [type(error) for error in errors] == [NotFiniteError] * 2
    assert str(errors[0]) == str(errors[1]) and "not finite" in str(errors[0])


def test_rl_over_shards_learns_what_one_process_does(pair, tmp_path: Path):  # noqa: F811
    """Gains, proximal and reference log-probabilities and updates, all of them collective."""
    base = save_tiny(tmp_path / "base")
    config = RL.model_copy(update={"pipeline": PipelineConfig(placement=Placement.SERVED)})
    first, _ = pair(reinforce, config, QUESTIONS, base, tmp_path / "shards", True)
    solo = alone(reinforce, config, QUESTIONS, base, tmp_path / "solo", False)
    same_figures(first.figures, solo.figures, rel=1e-3, abs=1e-5)
    ours, theirs = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("shards", "solo"))
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, rtol=0)


def test_a_sharded_model_cannot_sample_in_its_own_process(pair, tmp_path: Path):  # noqa: F811
    base = save_tiny(tmp_path / "base")
    errors = pair(reinforce, RL, QUESTIONS, base, tmp_path / "shards", True, errors=True)
    assert all("pipeline.placement=served" in str(error) for error in errors)
