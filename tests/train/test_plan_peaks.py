"""What the plan says is alive at once, against every allocation of a forward and backward pass, counted without memory."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen3Config, Qwen3ForCausalLM

from sanderling.train.adapters import add_adapter
from sanderling.train.config import LoraConfig, MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.fit import Load, estimate
from sanderling.train.packed.attention import Stretch, packed_attention
from sanderling.train.packed.logprobs import hidden_states
from sanderling.train.packed.memory import economise
from sanderling.train.shape import Shape, lora_parameters

SHAPES = {
    "0.6B": Shape(1024, 2, 16, 8, 128, 3072, 64, tied=True),
    "4B": Shape(2560, 2, 32, 8, 128, 9728, 64, tied=True),
    "8B": Shape(4096, 2, 32, 8, 128, 12_288, 64, tied=True),
    "32B": Shape(5120, 2, 64, 8, 128, 25_600, 64, tied=True),
    "wide": Shape(3584, 2, 28, 4, 128, 18_944, 64, tied=True),
}
"""Two layers each, and next to no head: that of a long row runs in chunks, and is planned by itself."""
TOKENS = 16_384
LORA = LoraConfig(rank=16)


class Counted(TorchDispatchMode):
    """Bytes of all storages that operators made and nobody has let go of, and the most of them at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for storage in (one.untyped_storage() for one in tree_leaves(made) if isinstance(one, torch.Tensor)):
            if storage._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self.now += storage.nbytes()
                weakref.finalize(storage, self._gone, storage._cdata)
        self.peak = max(self.peak, self.now)
        return made

    def _gone(self, storage: int) -> None:
        self.now -= self._sizes.pop(storage)


@pytest.fixture(params=["mixed", "shards", "float32", "adapter"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Mixed precision; 16 bits throughout, as shards compute; neither; an adapter on a base in 16 bits.

    Models are made in the numbers that they compute in.
    """
    torch.set_default_dtype(torch.bfloat16 if request.param in ("shards", "adapter") else torch.float32)
    yield request.param
    torch.set_default_dtype(torch.float32)


def weightless(config: Qwen3Config, kind: str) -> Qwen3ForCausalLM:
    """A model whose memory nobody touches."""
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model = model.to_empty(device="cpu").train()
    torch.set_default_dtype(torch.float32)
    if kind == "adapter":
        add_adapter(model, LORA)
    return model


def counted(shape: Shape, memory: MemoryConfig, kind: str) -> int:
    """Bytes that a pass over one row holds at most, beside weights and gradients, which are there before it."""
    config = Qwen3Config(
        hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate_size=shape.intermediate,
        vocab_size=shape.vocab, tie_word_embeddings=shape.tied,
    )  # fmt: skip
    model = weightless(config, kind)
    economise(model, memory)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, Counted() as count:
        for module in model.modules():
            for name, own in module.named_parameters(recurse=False):
                weight = nn.Parameter(fake.from_tensor(own.detach()), own.requires_grad)
                weight.grad = torch.zeros_like(weight) if own.requires_grad else None
                setattr(module, name, weight)
            for name, own in module.named_buffers(recurse=False):
                setattr(module, name, fake.from_tensor(own))
        before = count.now
        ids, positions = torch.zeros(1, TOKENS, dtype=torch.int64), torch.arange(TOKENS)[None]
        with packed_attention(model):
            with torch.autocast("cpu", torch.bfloat16, enabled=kind in ("mixed", "adapter")):
                hidden = hidden_states(model, ids, positions, [Stretch(TOKENS)])
            hidden.backward(torch.ones_like(hidden))
        return count.peak - before


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(MemoryConfig(), id="none"),
        pytest.param(MemoryConfig(mlp_tile=2048), id="tiles"),
        pytest.param(MemoryConfig(recompute=Recompute.SELECTIVE), id="selective"),
        pytest.param(MemoryConfig(recompute=Recompute.SELECTIVE, mlp_tile=2048), id="selective in tiles"),
        pytest.param(MemoryConfig(recompute=Recompute.FULL), id="full"),
        pytest.param(MemoryConfig(recompute=Recompute.FULL, mlp_tile=2048), id="full in tiles"),
    ],
)
@pytest.mark.parametrize(
    "name", ["0.6B", "4B", "wide", *(pytest.param(name, marks=pytest.mark.slow) for name in ("8B", "32B"))]
)
def test_what_is_alive_at_once_is_what_was_planned(name: str, memory: MemoryConfig, kind: str):
    shape = SHAPES[name]
    precision = Precision.FLOAT32 if kind == "float32" else Precision.BFLOAT16
    trainer = TrainerConfig(precision=precision, memory=memory, micro_batch_tokens=1)
    adapter = lora_parameters(shape, LORA) if kind == "adapter" else None
    parts = estimate(shape, trainer, Load(TOKENS, sharded=kind == "shards", lora_parameters=adapter)).parts
    planned = parts["kept for the backward pass"] + parts["alive at once, in a layer or at the head"]
    if kind == "mixed":
        planned += parts["weights in use"]
    measured = counted(shape, memory, kind)
    assert 0.97 * measured < planned < 1.25 * measured
