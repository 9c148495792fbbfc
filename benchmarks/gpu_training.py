"""Training steps of `gpu.py`: a randomly initialised Qwen3 on one device, rows of one length. Makes figures, writes none.

Weights and optimizer in float32, products in bfloat16: FSDP2 over a mesh of one device, which is how the trainer runs on one.
"""

import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import HashStore
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from sanderling.train.config import MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.contract import Row
from sanderling.train.losses.sft import sft
from sanderling.train.plan import Load, Shape, estimate
from sanderling.train.sharding import Sharded
from sanderling.train.team import SOLO
from sanderling.train.trainer import Trainer

PEAK = 989e12
"""Dense bfloat16 FLOPs a second of an H200 or H100."""
K = 1024
QWEN3_4B = Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)
SMALL = Shape(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=500, tied=True)


@dataclass(frozen=True)
class Training:
    """One case: rows of so many tokens, and how memory is spared."""

    tokens: int
    memory: MemoryConfig
    rows: int = 1
    steps: int = 4
    """The first is not counted: kernels are chosen and memory is taken in it."""


SELECTIVE, FULL = Recompute.SELECTIVE, Recompute.FULL
TRAININGS = {
    "full 32K": Training(32 * K, MemoryConfig(recompute=SELECTIVE)),
    "full 256K": Training(256 * K, MemoryConfig(recompute=FULL, offload=True, mlp_tile=16 * K), steps=2),
    "full 128K": Training(128 * K, MemoryConfig(recompute=FULL, offload=True, mlp_tile=16 * K), steps=2),
    "full 64K": Training(64 * K, MemoryConfig(recompute=SELECTIVE, mlp_tile=16 * K), steps=3),
    "full 32K, all recomputed": Training(32 * K, MemoryConfig(recompute=FULL)),
    "full 32K in 8 rows": Training(4 * K, MemoryConfig(recompute=SELECTIVE), rows=8),
}


def train(case: Training, device: torch.device, shape: Shape) -> dict[str, Any]:
    """Seconds a step, peak memory, and model FLOPs utilisation of one case."""
    if shape is SMALL:
        case = replace(case, tokens=case.tokens // K)
    dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl", store=HashStore(), rank=0, world_size=1)
    try:
        return _train(case, device, shape)
    finally:
        dist.destroy_process_group()


def _train(case: Training, device: torch.device, shape: Shape) -> dict[str, Any]:
    config = TrainerConfig(
        precision=Precision.BFLOAT16, memory=case.memory, micro_batch_tokens=case.tokens * case.rows, logit_chunk=400_000_000
    )
    trainer = Trainer(random_model(shape, device), config, Sharded(SOLO, bfloat16=True))
    rng = np.random.default_rng(0)
    mask = np.arange(case.tokens) % 4 == 3
    rows = [Row(rng.integers(1, shape.vocab, case.tokens), mask, trajectory=f"t{n}") for n in range(case.rows)]
    seconds, losses = [], []
    for _ in range(case.steps):
        began = _clock(device)
        losses.append(trainer.step(rows, sft)["loss"])
        seconds.append(_clock(device) - began)
    step = statistics.median(seconds[1:])
    tokens = case.tokens * case.rows
    flops = shape.flops(tokens, case.tokens, int(mask.sum()) * case.rows)
    planned = estimate(shape, config, Load(case.tokens, ranks=1, sharded=True))
    return {
        "tokens": tokens,
        "memory": case.memory.model_dump(mode="json"),
        "seconds_per_step": step,
        "tokens_per_second": tokens / step,
        "mfu": flops / step / PEAK,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None,
        "planned_gib": planned.total / 2**30,
        "planned_host_gib": planned.host / 2**30,
        "losses": losses,
    }


def random_model(shape: Shape, device: torch.device) -> PreTrainedModel:
    """A Qwen3 of that shape with random float32 weights, made on the device."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, max_position_embeddings=512 * K, tie_word_embeddings=shape.tied, rope_theta=5e6,
        eos_token_id=None, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    with device:
        return Qwen3ForCausalLM(config)


def _clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
