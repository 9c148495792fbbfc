"""Random weights of a Qwen3 of any size, written shard by shard: memory holds one shard, never the model.

What is drawn is what `transformers` draws for a new model: matrices and embedding from a normal distribution, norms of one, the
padding token's row of zero. Each tensor's numbers depend on the seed and its name alone: not on shards, and not on the
precision, which only rounds them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

SHARD_BYTES = 2 * 10**9
"""Most bytes of one file; a tensor that is larger has a file of its own."""
_BLOCK = 1 << 24
"""Numbers that are drawn at a time."""


@dataclass(frozen=True)
class _Drawing:
    """How one tensor comes about."""

    shape: tuple[int, ...]
    std: float
    """0: constant."""
    constant: float = 0.0
    zero_row: int | None = None

    @property
    def numbers(self) -> int:
        return int(np.prod(self.shape))


def write_random_weights(
    directory: Path,
    config: Qwen3Config,
    seed: int,
    dtype: torch.dtype,
    drawn: Callable[[int], object] = lambda numbers: None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write the weights into an existing directory, and their index where there are several files.

    ``drawn`` is called with the numbers of each tensor once it is drawn. Raises OSError or SafetensorError when the disk does
    not take them.
    """
    plan = _plan(config)
    shards = list(_shards(plan, dtype.itemsize, shard_bytes))
    several = len(shards) > 1
    where: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors" if several else "model.safetensors"
        tensors: dict[str, Tensor] = {}
        for name in names:
            tensors[name] = _draw(plan[name], seed, name, dtype)
            drawn(plan[name].numbers)
        save_file(tensors, directory / file, {"format": "pt"})
        where |= dict.fromkeys(names, file)
    if several:
        total = sum(one.numbers for one in plan.values()) * dtype.itemsize
        index = {"metadata": {"total_size": total}, "weight_map": where}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _plan(config: Qwen3Config) -> dict[str, _Drawing]:
    """Every tensor of the model by name; a head that is the embedding is not there twice."""
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    own = {id(parameter): name for name, parameter in model.named_parameters()}
    found: dict[str, _Drawing] = {}
    for module in model.modules():
        for kind, parameter in module.named_parameters(recurse=False):
            # An embedding comes before the head that it is, and is drawn as one.
            found.setdefault(own[id(parameter)], _drawing(module, kind, tuple(parameter.shape), config.initializer_range))
    return {name: found[name] for name in own.values()}


def _drawing(module: nn.Module, kind: str, shape: tuple[int, ...], std: float) -> _Drawing:
    if kind == "bias":
        return _Drawing(shape, 0.0)
    if isinstance(module, nn.Embedding):
        return _Drawing(shape, std, zero_row=module.padding_idx)
    return _Drawing(shape, std) if isinstance(module, nn.Linear) else _Drawing(shape, 0.0, constant=1.0)


def _shards(plan: dict[str, _Drawing], width: int, most: int) -> Iterator[list[str]]:
    """Names in their order, as many to a file as it takes."""
    names: list[str] = []
    held = 0
    for name, one in plan.items():
        size = one.numbers * width
        if names and held + size > most:
            yield names
            names, held = [], 0
        names.append(name)
        held += size
    yield names


def _draw(one: _Drawing, seed: int, name: str, dtype: torch.dtype) -> Tensor:
    if not one.std:
        return torch.full(one.shape, one.constant, dtype=dtype)
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    rng = np.random.default_rng((seed, key))
    flat = torch.empty(one.numbers, dtype=dtype)
    for start in range(0, one.numbers, _BLOCK):
        part = flat[start : start + _BLOCK]
        part.copy_(torch.from_numpy(rng.standard_normal(len(part), dtype=np.float32)).mul_(one.std))
    found = flat.view(one.shape)
    if one.zero_row is not None:
        found[one.zero_row] = 0
    return found
