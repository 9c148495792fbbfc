"""Random weights of a Qwen3 of any size: what `transformers` draws for a new model, but each tensor by its name.

Matrices and embedding come from a normal distribution, norms are one, biases and the padding token's row zero. A tensor's
numbers depend on the seed and its name alone, and not on the precision, which only rounds them.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from huggingface_hub import save_torch_state_dict
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM

_BLOCK = 1 << 24
"""Numbers that are drawn at a time."""


def write_random_weights(
    directory: Path,
    config: Qwen3Config,
    seed: int,
    dtype: torch.dtype,
    drawn: Callable[[int], object] = lambda numbers: None,
    shard_bytes: int = 2 * 10**9,
) -> None:
    """Write the weights into an existing directory, in files of ``shard_bytes`` at most and with their index.

    ``drawn`` is called with the numbers of each tensor once it is drawn. Raises OSError or SafetensorError when the disk does
    not take them.
    """
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    modules = dict(model.named_modules())
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():  # an embedding comes before the head that it is, and is drawn as one
        place, _, kind = name.rpartition(".")
        tensors[name] = _draw(modules[place], kind, parameter.shape, config.initializer_range, (seed, _key(name)), dtype)
        drawn(parameter.numel())
    save_torch_state_dict(tensors, directory, max_shard_size=shard_bytes, metadata={"format": "pt"})


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _draw(module: nn.Module, kind: str, shape: torch.Size, std: float, seed: tuple[int, int], dtype: torch.dtype) -> Tensor:
    if kind == "bias" or not isinstance(module, nn.Embedding | nn.Linear):
        return torch.full(shape, 0.0 if kind == "bias" else 1.0, dtype=dtype)
    rng, flat = np.random.default_rng(seed), torch.empty(shape.numel(), dtype=dtype)
    for part in flat.split(_BLOCK):
        part.copy_(torch.from_numpy(rng.standard_normal(len(part), dtype=np.float32)).mul_(std))
    found = flat.view(shape)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        found[module.padding_idx] = 0
    return found
