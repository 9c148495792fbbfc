"""What layers hold less of, recomputed, on the host or in tiles, changes no number."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_qwen3 import random_rows, tiny_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from sanderling.core.errors import UserError
from sanderling.train import memory as memory_module
from sanderling.train.attention import packed_attention
from sanderling.train.config import MemoryConfig
from sanderling.train.memory import decoder_layers, economise, on_host, tiled
from sanderling.train.packing import TokenLogprobs, collate

SETTINGS = [MemoryConfig(recompute="full"), MemoryConfig(mlp_tile=7), MemoryConfig(recompute="full", mlp_tile=16, offload=True)]


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
            scores = TokenLogprobs(model)(collate(random_rows(6))).logprobs
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


def test_a_model_whose_layers_are_not_known_is_one_sentence():
    with pytest.raises(UserError, match="layers of a GPT2LMHeadModel are not known: set trainer"):
        economise(GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=4, n_layer=1, n_head=1)), SETTINGS[0])


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


TOKENS, HIDDEN = 32 * 48, 64
Gradients = list[Tensor]


def block() -> Qwen3MLP:
    torch.manual_seed(0)
    return Qwen3MLP(Qwen3Config(hidden_size=HIDDEN, intermediate_size=3 * HIDDEN))


def gradients_in_tiles(
    module: nn.Module, tile: int | None, tokens: int = TOKENS, outer: bool = False, autocast: bool = False
) -> Gradients:
    """Of the output's weighted sum, by the hidden states and by every weight, in float64."""
    module = copy.deepcopy(module)
    dtype = next(module.parameters()).dtype
    rng = torch.Generator().manual_seed(1)
    hidden, wanted = (torch.randn(1, tokens, HIDDEN, generator=rng) for _ in range(2))
    hidden = hidden.to(dtype).requires_grad_()
    forward: Callable[..., Tensor] = tiled(module, tile) if tile else module.forward
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = checkpoint(forward, hidden, use_reentrant=False) if outer else forward(hidden)
    assert isinstance(output, Tensor)
    output.backward(wanted.to(output.dtype))
    found = [hidden.grad, *(weight.grad for weight in module.parameters() if weight.requires_grad)]
    return [gradient.double() for gradient in found if gradient is not None]


def errors(found: Gradients, truth: Gradients) -> list[float]:
    """Relative Frobenius distance of each weight's gradient."""
    return [float((a - b).norm() / b.norm()) for a, b in zip(found[1:], truth[1:], strict=True)]


@given(st.integers(1, 40), st.integers(1, 45), st.booleans())
def test_in_float32_nothing_changes_beyond_rounding(tokens: int, tile: int, outer: bool):
    plain, found = gradients_in_tiles(block(), None, tokens), gradients_in_tiles(block(), tile, tokens, outer)
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("outer", [False, True], ids=["kept", "layer computed again"])
@pytest.mark.parametrize("autocast", [False, True], ids=["16-bit weights", "autocast"])
def test_thirty_two_tiles_in_16_bits_err_no_more_than_none(autocast: bool, outer: bool):
    truth = gradients_in_tiles(block(), None)
    module = block() if autocast else block().bfloat16()
    whole = errors(gradients_in_tiles(module, None, outer=outer, autocast=autocast), truth)
    tiles = errors(gradients_in_tiles(module, TOKENS // 32, outer=outer, autocast=autocast), truth)
    assert all(0.001 < one < 0.01 for one in whole), "16 bits"
    assert all(one < 1.1 * other for one, other in zip(tiles, whole, strict=True)), (tiles, whole)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_each_tile_runs_twice_even_where_the_layer_is_computed_again(recompute: str):
    model = tiny_model(layers=3)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    for layer in decoder_layers(model):
        layer.get_submodule("mlp.act_fn").register_forward_hook(count)
    economise(model, MemoryConfig(recompute=recompute, mlp_tile=16))
    batch = collate(random_rows(3))
    with packed_attention(model):
        TokenLogprobs(model)(batch)[0].sum().backward()
    tiles = -(-batch.ids.shape[1] // 16)
    assert tiles > 2 and calls == 2 * 3 * tiles
