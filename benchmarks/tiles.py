"""How far the gradient of an MLP's weights in 16 bits lies from float32's, over tiles of tokens.

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/tiles.py

Relative Frobenius distance, the largest of the three matrices: without tiles; with each tile's gradient added in 16 bits, as
autograd adds what `torch.utils.checkpoint` computes again tile by tile; and with ours (`train.tiles`), which adds in float32.
For inputs and gradients that are noise, and for ones with a part that all tokens share, as hidden states have. On a CPU; no
times are taken. Writes results/tiles.json.
"""

import argparse
import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from sanderling.runs.progress import command_line, machine
from sanderling.train.memory import tiled

TOKENS, HIDDEN, INTERMEDIATE = 2_048, 128, 384
Way = Callable[[Qwen3MLP, Tensor, int], Tensor]


def whole(module: Qwen3MLP, hidden: Tensor, tiles: int) -> Tensor:
    """No tiles."""
    del tiles
    return module(hidden)


def by_autograd(module: Qwen3MLP, hidden: Tensor, tiles: int) -> Tensor:
    """Tiles whose gradients autograd adds."""
    return torch.cat([checkpoint(module, part, use_reentrant=False) for part in hidden.chunk(tiles, -2)], -2)  # pyright: ignore


def ours(module: Qwen3MLP, hidden: Tensor, tiles: int) -> Tensor:
    """Tiles whose gradients are added in float32."""
    return tiled(module, hidden.shape[-2] // tiles)(hidden)


WAYS: dict[str, Way] = {"no tiles": whole, "added in 16 bits": by_autograd, "ours": ours}


def gradients(way: Way, tiles: int, shared: float, mixed: str) -> list[Tensor]:
    """Of the three matrices, in float64. ``mixed``: float32, autocast, or bfloat16 weights, as FSDP2 lays them out."""
    torch.manual_seed(0)
    module = Qwen3MLP(Qwen3Config(hidden_size=HIDDEN, intermediate_size=INTERMEDIATE))
    hidden, wanted = (torch.randn(1, TOKENS, HIDDEN) + shared * torch.randn(1, 1, HIDDEN) for _ in range(2))
    if mixed == "bfloat16":
        module, hidden = copy.deepcopy(module).bfloat16(), hidden.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed == "autocast"):
        output = way(module, hidden.requires_grad_(), tiles)
    output.backward(wanted.to(output.dtype))
    return [weight.grad.double() for weight in module.parameters() if weight.grad is not None]


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "tiles.json")
    found: list[dict[str, object]] = []
    out: Path = parser.parse_args().out
    for shared in (0.0, 1.0):
        truth = gradients(whole, 1, shared, "float32")
        for mixed in ("autocast", "bfloat16"):
            for name, way in WAYS.items():
                for tiles in (1,) if way is whole else (8, 32, 128):
                    pairs = zip(gradients(way, tiles, shared, mixed), truth, strict=True)
                    error = max(float((a - b).norm() / b.norm()) for a, b in pairs)
                    case = {"shared part": shared, "weights": mixed, "way": name, "tiles": tiles}
                    found.append({**case, "error": round(error, 5)})
                    print(*case.values(), f"{error:.5f}", sep="\t")
    told = {"command": command_line(), "date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    sizes = {"tokens": TOKENS, "hidden": HIDDEN, "intermediate": INTERMEDIATE, "torch": torch.__version__}
    out.write_text(json.dumps(told | sizes | {"errors": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
