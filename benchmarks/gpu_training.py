"""Training steps of `gpu.py`: a randomly initialised Qwen3 on one device, rows of one length. Makes figures, writes none.

All weights: they and the optimizer in float32, products in bfloat16, FSDP2 over a mesh of one device, which is how the trainer
runs on one. LoRA: rank 16 on all linear layers, the base frozen in bfloat16.
"""

import statistics
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import HashStore
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

from sanderling.train.checkpoint import add_adapter
from sanderling.train.config import LoraConfig, MemoryConfig, Precision, Recompute, TrainerConfig
from sanderling.train.fit import Load, Shape, estimate, lora_parameters
from sanderling.train.rows import Row, sft
from sanderling.train.team import SOLO, Sharded
from sanderling.train.trainer import Trainer

PEAK = 989e12
"""Dense bfloat16 FLOPs a second of an H200 or H100."""
K = 1024
LOGIT_CHUNK = 400_000_000
QWEN3_4B = Shape(hidden=2560, layers=36, heads=32, kv_heads=8, head_dim=128, intermediate=9728, vocab=151_936, tied=True)
SMALL = Shape(hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=500, tied=True)


@dataclass(frozen=True)
class Training:
    """One case: rows of so many tokens, and how memory is spared."""

    tokens: int
    memory: MemoryConfig
    rows: int = 1
    steps: int = 3
    """Those that are counted. Kernels are chosen in a step on a short row before them."""
    rank: int = 0
    """Of adapters; 0: all weights are trained."""


FULL = Recompute.FULL
LONG = MemoryConfig(recompute=FULL, mlp_tile=16 * K)
OFFLOADED = MemoryConfig(recompute=FULL, offload=True, mlp_tile=16 * K)
TRAININGS = {
    "full 32K": Training(32 * K, MemoryConfig(recompute=FULL)),
    "full 256K": Training(256 * K, OFFLOADED, steps=1),
    "LoRA 256K": Training(256 * K, LONG, steps=1, rank=16),
    "LoRA 32K": Training(32 * K, MemoryConfig(recompute=FULL), rank=16),
    "full 128K": Training(128 * K, OFFLOADED, steps=2),
    "full 64K": Training(64 * K, MemoryConfig(recompute=FULL, mlp_tile=16 * K)),
    "LoRA 128K": Training(128 * K, LONG, steps=2, rank=16),
    "LoRA 64K": Training(64 * K, MemoryConfig(recompute=FULL, mlp_tile=16 * K), rank=16),
    "full 32K in 8 rows": Training(4 * K, MemoryConfig(recompute=FULL), rows=8),
}


def train(case: Training, device: torch.device, shape: Shape) -> dict[str, Any]:
    """Seconds a step, peak memory, and model FLOPs utilisation of one case."""
    if shape is SMALL:
        tile = case.memory.mlp_tile and case.memory.mlp_tile // K
        case = replace(case, tokens=case.tokens // K, memory=case.memory.model_copy(update={"mlp_tile": tile}))
    if case.rank:
        return _train(case, device, shape)
    dist.init_process_group("gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl", store=HashStore(), rank=0, world_size=1)
    try:
        return _train(case, device, shape)
    finally:
        dist.destroy_process_group()


def _train(case: Training, device: torch.device, shape: Shape) -> dict[str, Any]:
    trainer, load = _trainer(case, device, shape)
    trainer.step(random_rows(shape.vocab, min(case.tokens, 2 * K), 1), sft)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    rows = random_rows(shape.vocab, case.tokens, case.rows)
    seconds, losses = [], []
    for _ in range(case.steps):
        began = clock(device)
        losses.append(trainer.step(rows, sft)["loss"])
        seconds.append(clock(device) - began)
    step = statistics.median(seconds)
    tokens, trained = case.tokens * case.rows, sum(int(row.loss_mask.sum()) for row in rows)
    flops = shape.flops(tokens, case.tokens, trained, frozen=bool(case.rank)) + 6.0 * tokens * (load.lora_parameters or 0)
    planned = estimate(shape, trainer.config, load)
    return {
        "tokens": tokens,
        "memory": case.memory.model_dump(mode="json"),
        "lora_rank": case.rank,
        "seconds_per_step": step,
        "tokens_per_second": tokens / step,
        "mfu": flops / step / PEAK,
        "peak_gib": peak_gib(device),
        "planned_gib": planned.total / 2**30,
        "planned_host_gib": planned.host / 2**30,
        "steps": case.steps,
        "losses": losses,
    }


def _trainer(case: Training, device: torch.device, shape: Shape) -> tuple[Trainer, Load]:
    """As `train sft` sets it up, and what the plan is asked."""
    config = TrainerConfig(
        precision=Precision.BFLOAT16,
        memory=case.memory,
        micro_batch_tokens=case.tokens * case.rows,
        logit_chunk=LOGIT_CHUNK,
    )
    if not case.rank:
        model = random_model(shape, device, torch.float32)
        return Trainer(model, config, Sharded(SOLO, bfloat16=True)), Load(case.tokens, sharded=True)
    model, lora = random_model(shape, device, torch.bfloat16), LoraConfig(rank=case.rank)
    add_adapter(model, lora)
    return Trainer(model, config), Load(case.tokens, lora_parameters=lora_parameters(shape, lora.rank))


def random_model(shape: Shape, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """A Qwen3 of that shape with random weights, made on the device."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, max_position_embeddings=512 * K, tie_word_embeddings=shape.tied, rope_theta=5e6,
        eos_token_id=None, bos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    with device:
        return AutoModelForCausalLM.from_config(config, dtype=dtype)


def random_rows(vocabulary: int, tokens: int, count: int) -> list[Row]:
    """Random ids, of which a quarter is trained."""
    rng = np.random.default_rng(0)
    mask = np.arange(tokens) % 4 == 3
    return [Row(rng.integers(1, vocabulary, tokens), mask, trajectory=f"t{n}") for n in range(count)]


def clock(device: torch.device) -> float:
    """Seconds, once the device has caught up."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def peak_gib(device: torch.device) -> float | None:
    """Most device memory allocated since the last call."""
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return peak
