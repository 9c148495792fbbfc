"""Plans agree with what models really hold and compute."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_qwen3 import random_rows, tiny_model
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sanderling.core.errors import UserError
from sanderling.train.config import GRADIENT_BUCKET, MemoryConfig, Packing, Precision, TrainerConfig
from sanderling.train.fit import Load, estimate, kept_bytes
from sanderling.train.packed import memory as memory_module
from sanderling.train.packed.attention import packed_attention
from sanderling.train.packed.logprobs import hidden_states
from sanderling.train.packed.memory import economise
from sanderling.train.packed.packing import collate
from sanderling.train.shape import Shape, read_shape, shape_of

QWEN3_4B = Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)


def saved(layers: int, memory: MemoryConfig) -> tuple[int, int]:
    """Bytes that autograd keeps of a forward pass over the layers, and its tokens."""
    model = tiny_model(layers=layers)
    economise(model, memory)
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    batch = collate(random_rows(6), Packing.VARLEN)
    with packed_attention(model), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        hidden = hidden_states(model, batch.ids, batch.positions, batch.stretches)
        total = sum(kept.values())
        del hidden
    return total, batch.ids.shape[1]


@pytest.mark.parametrize("recompute", ["full", "none"])
def test_what_layers_keep_is_what_autograd_saves(recompute: str, tmp_path: Path):
    memory = MemoryConfig(recompute=recompute)
    (two, tokens), (four, _) = saved(2, memory), saved(4, memory)
    model = tiny_model(layers=4)
    model.config.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    measured = (four - two) / 2 * 4
    assert kept_bytes(shape, memory, tokens, 4, 4) == pytest.approx(measured, rel=0.02 if recompute == "full" else 0.25)


def held(layers: int, memory: MemoryConfig, moved: list[int]) -> tuple[int, int]:
    """Bytes of all tensors that a forward pass over the layers leaves alive, whoever holds them, but for those that are moved
    to the host (told in ``moved``); and its tokens."""

    @contextmanager
    def away(device: str = "cuda") -> Iterator[None]:
        def pack(tensor: torch.Tensor) -> torch.Size:
            moved.append(tensor.numel() * tensor.element_size())
            return tensor.shape

        with torch.autograd.graph.saved_tensors_hooks(pack, torch.empty):
            yield

    def alive() -> dict[int, int]:
        gc.collect()
        found = [o for o in gc.get_objects() if type(o) in (torch.Tensor, nn.Parameter)]
        return {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in found}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_module, "on_host", away)
        model = tiny_model(layers=layers)
        economise(model, memory)
        batch = collate(random_rows(6), Packing.VARLEN)
        before = alive()
        kept: list[torch.Tensor] = []
        here = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t)
        with packed_attention(model), here:
            hidden = hidden_states(model, batch.ids, batch.positions, batch.stretches)
            total = sum(size for place, size in alive().items() if place not in before)
            del hidden
    return total, batch.ids.shape[1]


@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("recompute", ["full", "selective"])
def test_what_stays_on_the_device_and_what_waits_on_the_host(recompute: str, offload: bool, tmp_path: Path):
    """Selective recomputation holds attention's outputs outside of what autograd saves, so that offloading never sees them."""
    memory = MemoryConfig(recompute=recompute, offload=offload)
    moved: list[int] = []
    (two, tokens), two_moved = held(2, memory, moved), sum(moved)
    moved.clear()
    (four, _), four_moved = held(4, memory, moved), sum(moved)
    tiny_model(layers=2).config.save_pretrained(tmp_path)
    trainer = TrainerConfig(memory=memory, micro_batch_tokens=1)
    planned = estimate(read_shape(tmp_path), trainer, Load(tokens))
    assert planned.host == four_moved - two_moved
    assert planned.parts["kept for the backward pass"] == pytest.approx(four - two, rel=0.02)


def test_parameters_and_flops_are_the_models_own(tmp_path: Path):
    model = tiny_model(layers=3)
    model.config.save_pretrained(tmp_path)
    shape = read_shape(tmp_path)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    ids = torch.zeros(1, 64, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids).logits.sum().backward()
    counted = counter.get_total_flops()
    # The counter knows no attention on a CPU: two products, each once forward and twice backward, half of the pairs.
    attention = (2 + 2) * 3 / 2 * 64 * 64 * shape.layers * shape.heads * shape.head_dim
    assert shape.flops(64, 64) == pytest.approx(counted + attention, rel=1e-3)


@given(st.integers(1, 64), st.integers(1_000, 300_000), st.sampled_from(["none", "selective", "full"]), st.booleans())
def test_more_ranks_and_more_thrift_never_need_more(ranks: int, tokens: int, recompute: str, tile: bool):
    memory = MemoryConfig(recompute=recompute, mlp_tile=4096 if tile else None)
    trainer = TrainerConfig(precision=Precision.BFLOAT16, memory=memory)
    thrifty = trainer.model_copy(update={"memory": MemoryConfig(recompute="full", mlp_tile=4096, offload=True)})
    here, there = (estimate(QWEN3_4B, trainer, Load(tokens, ranks=n, sharded=True)) for n in (ranks, ranks + 1))
    assert there.total <= here.total
    assert estimate(QWEN3_4B, thrifty, Load(tokens, ranks=ranks, sharded=True)).total <= here.total
    assert here.seconds(989e12) > 0


def test_what_hosts_hold_to_read_and_save():
    trainer = TrainerConfig(precision=Precision.BFLOAT16)
    shards, copies = (estimate(QWEN3_4B, trainer, Load(8_192, 8, sharded)) for sharded in (True, False))
    assert shards.read == copies.read == 4 * QWEN3_4B.parameters
    assert shards.gathered == 12 * QWEN3_4B.parameters, "weights and both moments"
    lora = estimate(QWEN3_4B, trainer, Load(8_192, 8, True, lora_parameters=33_000_000))
    assert lora.read == 2 * QWEN3_4B.parameters, "its frozen base is 16 bits wide"
    assert lora.gathered == 12 * 33_000_000
    way = "gradients on their way to others"
    assert copies.parts[way] == GRADIENT_BUCKET
    assert way not in shards.parts and way not in estimate(QWEN3_4B, trainer, Load(8_192)).parts


def test_a_directory_without_a_model_is_one_sentence(tmp_path: Path):
    with pytest.raises(UserError, match=r"config\.json"):
        read_shape(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with pytest.raises(UserError, match="num_hidden_layers"):
        read_shape(tmp_path)


@pytest.mark.parametrize("name", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_a_mixture_of_experts_is_not_counted_as_if_it_were_dense(name: str):
    dense = {
        "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
        "intermediate_size": 6144, "vocab_size": 151_936,
    }  # fmt: skip
    with pytest.raises(UserError, match=f"mixture of 128 experts .{name}"):
        shape_of(dense | {name: 128}, "config.json")
    assert shape_of(dense | {name: None}, "config.json") == shape_of(dense | {name: 1}, "config.json")
