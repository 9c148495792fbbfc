"""What is kept in memory changes no number."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tiny_qwen3 import random_rows, tiny_model
from torch import nn

from sanderling.core.errors import UserError
from sanderling.train.config import MemoryConfig, Packing
from sanderling.train.packed import memory as memory_module
from sanderling.train.packed.attention import packed_attention
from sanderling.train.packed.logprobs import token_logprobs
from sanderling.train.packed.memory import decoder_layers, economise, on_host
from sanderling.train.packed.packing import collate

SETTINGS = [
    MemoryConfig(recompute="full"),
    MemoryConfig(recompute="selective"),
    MemoryConfig(mlp_tile=7),
    MemoryConfig(recompute="full", mlp_tile=16, offload=True),
    MemoryConfig(recompute="selective", mlp_tile=16, offload=True),
]


def gradients(memory: MemoryConfig) -> tuple[torch.Tensor, list[torch.Tensor], int]:
    """Log-probabilities, gradients, and the bytes that autograd saved on the way."""
    model = tiny_model(layers=3)
    economise(model, memory)
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, nn.Parameter):
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with packed_attention(model):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            scores = token_logprobs(model, collate(random_rows(6), Packing.VARLEN)).logprobs
        scores.sum().backward()  # what is computed again is computed here
    return scores.detach(), [p.grad for p in model.parameters() if p.grad is not None], sum(saved.values())


@pytest.mark.parametrize("memory", SETTINGS, ids=str)
def test_every_setting_gives_the_same_numbers_and_keeps_less(memory: MemoryConfig):
    plain_scores, plain, plain_bytes = gradients(MemoryConfig())
    scores, found, kept = gradients(memory)
    torch.testing.assert_close(scores, plain_scores, atol=1e-5, rtol=1e-5)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-5)
    assert kept < plain_bytes


@pytest.mark.parametrize("memory", [one for one in SETTINGS if one.offload], ids=str)
def test_offloading_moves_each_layer_s_input_and_changes_no_number(memory: MemoryConfig, monkeypatch: pytest.MonkeyPatch):
    moved: list[tuple[int, ...]] = []

    def hooks(pack: Callable, unpack: Callable) -> object:
        def see(tensor: torch.Tensor) -> object:
            packed = pack(tensor)
            if packed is not tensor:
                moved.append(tuple(tensor.shape))
            return packed

        return torch.autograd.graph.saved_tensors_hooks(see, unpack)

    plain_scores, plain, _ = gradients(memory.model_copy(update={"offload": False}))
    monkeypatch.setattr(memory_module, "saved_tensors_hooks", hooks)
    monkeypatch.setattr(memory_module, "on_host", partial(on_host, "cpu"))  # where the tests' layers are
    monkeypatch.setattr(memory_module, "_WORTH_MOVING", 0)
    scores, found, _ = gradients(memory)
    assert torch.equal(scores, plain_scores) and all(map(torch.equal, found, plain))
    line = (1, sum(len(row.ids) for row in random_rows(6)), 32)
    assert [shape for shape in moved if shape == line] == [line] * 3


def test_selective_recomputation_runs_attention_once():
    def calls(memory: MemoryConfig) -> int:
        model = tiny_model(layers=3)
        economise(model, memory)
        seen = 0

        class Count(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                nonlocal seen
                seen += "scaled_dot_product" in str(func) and "backward" not in str(func)
                return func(*args, **(kwargs or {}))

        with Count(), packed_attention(model):
            token_logprobs(model, collate(random_rows(1), Packing.VARLEN)).logprobs.sum().backward()
        return seen

    assert (calls(MemoryConfig(recompute="selective")), calls(MemoryConfig(recompute="full"))) == (3, 6)


@pytest.mark.parametrize("piece", [1 << 12, 1_000_004, 1 << 26])
def test_in_pieces_of_any_size_and_from_any_layout(piece: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory_module, "_PIECE", piece)
    x = torch.randn(700, 500, requires_grad=True)
    with on_host("cpu"):
        y = x.T.exp() * x.T[:, :1]
    y.sum().backward()
    found, x.grad = x.grad, None
    (x.T.exp() * x.T[:, :1]).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_a_model_of_unknown_layers_is_one_sentence():
    model = tiny_model()
    model.model.layers = None
    with pytest.raises(UserError, match=r"layers of a Qwen3ForCausalLM"):
        decoder_layers(model)
