"""Ranks that share the tokens of a line do what one process does, in every way that a line is laid out."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from shard_ranks import take_steps
from team_ranks import processes
from test_team import STEADY, alone, same_figures
from tiny_qwen3 import forked_rows, tiny_model
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from sanderling.core.errors import UserError
from sanderling.train.config import Aggregation, MemoryConfig, Packing, ParallelConfig, Precision, SftConfig, TrainerConfig
from sanderling.train.loss import sft
from sanderling.train.packed import attention
from sanderling.train.packed.attention import _causal
from sanderling.train.parallel.launch import check_parallel
from sanderling.train.sft.schedule import check_context
from sanderling.train.trainer import Trainer

FORKS = STEADY.model_copy(update={"aggregation": Aggregation.TRAJECTORY_MEAN})
SPARING = STEADY.model_copy(update={"memory": MemoryConfig(recompute="selective", mlp_tile=8), "logit_chunk": 200})


@pytest.fixture(scope="module")
def pair():
    with processes(2) as run:
        yield run


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


@pytest.mark.parametrize("shard", [False, True], ids=["replicated", "sharded"])
@pytest.mark.parametrize(
    ("config", "rows", "forks"), [(STEADY, 7, False), (FORKS, 6, True), (SPARING, 5, True)], ids=["packed", "forks", "sparing"]
)
def test_two_that_share_every_line_take_the_steps_of_one(pair, config: TrainerConfig, rows: int, forks: bool, shard: bool):
    check(pair(take_steps, config, rows, forks, shard, 2), config, rows, forks)


def test_four_ranks_in_pairs_and_four_with_fewer_heads_of_keys_than_ranks():
    with processes(4) as run:
        check(run(take_steps, STEADY, 1, False, True, 2), STEADY, 1, False)  # the second pair is idle
        check(run(take_steps, FORKS, 6, True, True, 2), FORKS, 6, True)
        check(run(take_steps, FORKS, 6, True, True, 4), FORKS, 6, True)


def test_in_bfloat16_ranks_trade_and_kernels_take_16_bits(monkeypatch: pytest.MonkeyPatch):
    seen: set[tuple[torch.dtype, ...]] = set()

    def see(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest):
        seen.add((query.dtype, key.dtype, value.dtype))
        return _causal(query, key, value, *rest)

    monkeypatch.setattr(attention, "_causal", see)
    Trainer(tiny_model(), FORKS.model_copy(update={"precision": Precision.BFLOAT16})).step(forked_rows(6), sft)
    assert seen == {(torch.bfloat16,) * 3}


@pytest.mark.parametrize(("rows", "before"), [(5, 3), (1, 9), (40, 1)])
def test_what_gpus_are_told_means_what_the_mask_means(rows: int, before: int):
    torch.manual_seed(0)
    query = torch.randn(1, 4, rows, 8)
    key, value = torch.randn(1, 2, before + rows, 8), torch.randn(1, 2, before + rows, 8)
    masked = torch.cat(list(_causal(query, key, value, 0.0, None)), 2)
    told = scaled_dot_product_attention(query, key, value, attn_mask=causal_lower_right(rows, before + rows), enable_gqa=True)
    torch.testing.assert_close(masked, told, atol=1e-6, rtol=1e-5)


def test_numbers_of_processes_that_cannot_share_are_told():
    with pytest.raises(UserError, match=r"3 processes share each row .* there are 4: start a multiple"):
        check_parallel(ParallelConfig(context=3), 4)
    check_parallel(ParallelConfig(context=2), 4)


def test_models_and_layouts_that_cannot_be_shared_are_told(tmp_path: Path):
    sizes = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 12, "num_key_value_heads": 3, "intermediate_size": 8,
        "vocab_size": 9,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    with pytest.raises(UserError, match=r"8 processes cannot share the model's 12 heads .3 of keys.: .* one of 1, 3, 6, 12"):
        check_context(SftConfig(parallel=ParallelConfig(context=8)), tmp_path)
    check_context(SftConfig(parallel=ParallelConfig(context=6)), tmp_path)
    padded = SftConfig(parallel=ParallelConfig(context=3), trainer=TrainerConfig(packing=Packing.PADDED))
    with pytest.raises(UserError, match="Only packed rows are shared"):
        check_context(padded, tmp_path)
