"""Does a run fit, how long does a step take, and which setting would make it fit: answered before anything is loaded.

Arithmetic over a decoder's sizes, as its ``config.json`` has them, and settings. Figures are bytes per rank, of the longest
pass. Settings are tried from mild to costly until the step fits; those that turn out not to be needed are dropped again.

Example: ``plan_sft(config, described("H200", 139, 8)).sentence`` is empty where the run fits, and else says what to set.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sanderling.core.errors import UserError
from sanderling.core.profiles import get_profile
from sanderling.policy.model_directory import read_model_config
from sanderling.train.config import (
    Aggregation,
    MemoryConfig,
    ParallelConfig,
    ParallelKind,
    Precision,
    Recompute,
    SftConfig,
    TrainerConfig,
)
from sanderling.train.launch import check_parallel

_NEEDED = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
)  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class Shape:
    """A decoder's sizes, as its ``config.json`` has them."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool

    @property
    def layer_parameters(self) -> int:
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def parameters(self) -> int:
        norms = self.layers * (2 * self.hidden + 2 * self.head_dim) + self.hidden
        return self.layers * self.layer_parameters + self.vocab * self.hidden * (1 if self.tied else 2) + norms

    def shared_by(self, ranks: int) -> bool:
        """Whether so many ranks can share a row (`context`): each needs as many heads, and a head of keys at least."""
        return self.heads % ranks == 0 and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)

    def flops(self, tokens: int, row_tokens: int, predicted: int | None = None, *, frozen: bool = False) -> float:
        """Model FLOPs of one forward and backward pass, attention causal, nothing counted twice for recomputation.

        6 per parameter and token (4 where it is ``frozen``), and 12 per token, seen token, head and head size, halved. The head
        is applied to ``predicted`` tokens (None: all).
        """
        each = 4.0 if frozen else 6.0
        per_token = self.layers * (each * self.layer_parameters + 6.0 * self.heads * self.head_dim * row_tokens)
        return tokens * per_token + each * self.vocab * self.hidden * (tokens if predicted is None else predicted)

    def kv_bytes(self, tokens: int, width: int = 2) -> int:
        """Keys and values of one session."""
        return 2 * self.layers * self.kv_heads * self.head_dim * width * tokens


def read_shape(model_dir: Path) -> Shape:
    """The sizes of the model in a directory. Raises UserError when its ``config.json`` does not say them."""
    return shape_of(read_model_config(model_dir), str(model_dir / "config.json"))


def shape_of(told: object, origin: str) -> Shape:
    """The sizes that a ``config.json`` tells. Raises UserError, naming ``origin``, when they are not all there."""
    sizes: dict[str, Any] = told.get("text_config", told) if isinstance(told, dict) else {}
    missing = [name for name in _NEEDED if not isinstance(sizes.get(name), int)]
    if missing:
        raise UserError(f"{origin} does not say {', '.join(missing)}: only decoders' sizes are understood.")
    for name in _EXPERTS:
        experts = sizes.get(name)
        if isinstance(experts, int) and experts > 1:
            raise UserError(f"{origin} is of a mixture of {experts} experts ({name}): only dense models' sizes are understood.")
    heads = sizes["num_attention_heads"]
    return Shape(
        hidden=sizes["hidden_size"],
        layers=sizes["num_hidden_layers"],
        heads=heads,
        kv_heads=sizes["num_key_value_heads"],
        head_dim=sizes.get("head_dim") or sizes["hidden_size"] // heads,
        intermediate=sizes["intermediate_size"],
        vocab=sizes["vocab_size"],
        tied=bool(sizes.get("tie_word_embeddings", False)),
    )


def lora_parameters(shape: Shape, rank: int) -> int:
    """Parameters of adapters on every linear layer of every layer: rank times both ends of each."""
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + heads) + 2 * (shape.hidden + pairs)
    return rank * shape.layers * (attention + 3 * (shape.hidden + shape.intermediate))


MFU = 0.4
"""The share of a device's peak that a step is expected to reach; `benchmarks/train_step.py` measures it."""
PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100": 989e12, "H20": 148e12, "A100": 312e12, "L40S": 362e12, "A6000": 155e12,
    "4090": 165e12, "3090": 71e12, "A10": 125e12, "L4": 121e12, "T4": 65e12,
}  # fmt: skip
"""Dense bfloat16 FLOPs a second by a part of the device's name, as their makers publish."""
OVERHEAD = 2**30
"""Bytes of a GPU that no plan counts: CUDA's context, libraries' workspaces, fragments. About."""
Changes = dict[str, Any]
Settings = TypeVar("Settings", bound=BaseModel)


# -- devices -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Devices:
    """What a run will have: alike devices, one for each process."""

    name: str
    count: int
    bytes: int
    gpus: bool = True

    @property
    def room(self) -> int:
        return max(0, self.bytes - OVERHEAD) if self.gpus else self.bytes

    @property
    def peak_flops(self) -> float | None:
        """A second, of each, where the name says which device it is."""
        return next((peak for part, peak in PEAKS.items() if part.lower() in self.name.lower()), None)


def devices_here() -> Devices:
    """The GPUs of this machine (of unlike ones the smallest stands for all), or its processor."""
    import torch

    if torch.cuda.is_available():
        found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        least = min(found, key=lambda one: one.total_memory)
        return Devices(least.name, len(found), least.total_memory)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Devices("processor", 1, memory, gpus=False)


def described(name: str, gibibytes: float, count: int) -> Devices:
    """Devices that are not here."""
    return Devices(name, count, int(gibibytes * 2**30))


def taken(devices: Devices, parallel: ParallelConfig) -> Devices:
    """Those of a machine that a run can take: of several GPUs one, where it is one process."""
    return replace(devices, count=1) if parallel.kind is ParallelKind.NONE else devices


# -- what a step needs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """What a step is asked to do; ``row_tokens`` are those of the longest row."""

    row_tokens: int
    ranks: int = 1
    sharded: bool = False
    context: int = 1
    lora_parameters: int | None = None


@dataclass(frozen=True)
class Estimate:
    """A step's needs on one rank, in bytes by purpose, and its model FLOPs."""

    parts: dict[str, int]
    host: int
    flops: float
    tokens: int

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def seconds(self, peak_flops: float) -> float:
        """A pass's expected time on a device of that many FLOPs a second."""
        return self.flops / (peak_flops * MFU)


def estimate(shape: Shape, trainer: TrainerConfig, load: Load) -> Estimate:
    """What one pass over the longest micro-batch needs on a rank."""
    adapters = load.lora_parameters is not None
    tokens = max(load.row_tokens, trainer.micro_batch_tokens)
    width = 2 if trainer.precision is Precision.BFLOAT16 else 4
    share = load.ranks if load.sharded else 1
    trained = load.lora_parameters if load.lora_parameters is not None else shape.parameters
    frozen = shape.parameters * width if adapters else 0
    # Automatic mixed precision adds to hidden states in float32; shards and a frozen base in 16 bits do not.
    act_bytes = width if load.sharded or adapters else 4
    own = -(-tokens // load.context)
    kept = kept_bytes(shape, trainer.memory, own, width, act_bytes)
    offloaded = kept if trainer.memory.offload else 0
    parts = {
        "weights": (4 * trained + frozen) // share,
        "weights in use": _in_use(shape, load, width),
        "gradients": 4 * trained // share,
        "optimizer": 8 * trained // share,
        "kept for the backward pass": kept - offloaded,
        "alive at once, in a layer or at the head": max(
            _layer_peak(shape, trainer.memory, own, width, act_bytes, whole=not adapters),
            _head_peak(shape, trainer.logit_chunk, load, own, width),
        ),
    }
    flops = shape.flops(tokens, load.row_tokens, frozen=adapters) + 6.0 * tokens * (load.lora_parameters or 0)
    return Estimate(parts, offloaded, flops, tokens)


def kept_bytes(shape: Shape, memory: MemoryConfig, tokens: int, width: int, act_bytes: int) -> int:
    """Bytes that all layers keep between their forward and backward pass.

    With recomputation a layer's input; without both norms' inputs and fp32 halves, queries, keys and values before and behind
    norm and rotation, the MLP's four tensors. ``width``: bytes of a number in a product; ``act_bytes``: of one that a layer
    hands on.
    """
    heads, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    per_token = shape.hidden * act_bytes
    if memory.recompute is Recompute.NONE:
        per_token = shape.hidden * (5 * act_bytes + 6) + heads * (4 * width + 4) + kv_width * (3 * width + 4)
        if memory.mlp_tile is None or memory.mlp_tile >= tokens:
            per_token += 4 * shape.intermediate * width
    return shape.layers * per_token * tokens


def _in_use(shape: Shape, load: Load, width: int) -> int:
    """Weights as they are multiplied, beside those that are trained: whole layers under sharding, else all in 16 bits."""
    ends = shape.vocab * shape.hidden * (1 if shape.tied else 2) * width
    if load.sharded:
        return 2 * shape.layer_parameters * width + ends  # the next layer's arrive while this one's are used
    return shape.parameters * width if width == 2 and load.lora_parameters is None else 0


def _layer_peak(shape: Shape, memory: MemoryConfig, tokens: int, width: int, act_bytes: int, *, whole: bool) -> int:
    """Most that is alive while one layer's gradient is computed, beside what layers keep, of rows without branches.

    The factors are bytes for each number of a token, fitted to a count of every allocation over decoders' shapes from 0.6B to
    32B (a test counts them again): at the MLP, and behind it, where attention's and norms' gradients are taken. Where an MLP
    that is trained (``whole``) runs in tiles, also a tile's activations, and its weights' gradients and their sum in float32.
    """
    heads, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tile = min(tokens, memory.mlp_tile or tokens)
    in_tiles = 7 * shape.intermediate * width * tile + (3 * shape.hidden * shape.intermediate * (width + 4) if whole else 0)
    beside = 0 if whole else 2 * width * shape.intermediate  # what an adapter says, before it is added
    if memory.recompute is Recompute.NONE:
        mlp = 3 * act_bytes * shape.hidden + 2 * width * shape.intermediate + beside
        attention = (24 + 2 * act_bytes) * shape.hidden
    else:
        mlp = (6 * act_bytes + 10) * shape.hidden + (4 * width + 4) * heads + (3 * width + 4) * kv_width
        mlp += 6 * width * shape.intermediate + beside
        if act_bytes > width:  # automatic mixed precision: queries and keys are there in both widths
            attention = 28 * shape.hidden + 24 * heads + 12 * kv_width
        else:
            attention = 36 * shape.hidden + (4 * width + 6) * heads + (2 * width + 8) * kv_width
    return attention * tokens + in_tiles if tile < tokens else max(mlp, attention) * tokens


def _head_peak(shape: Shape, chunk: int, load: Load, tokens: int, width: int) -> int:
    """Most that is alive while the head's gradient is computed, every token counted as trained.

    Logits, their softmax and its gradient, in float32. Where the head is trained: its gradient, and with several chunks a
    chunk's gradient as it came and in float32, the sum of them, and the weight as it is multiplied and as it is kept.
    """
    logits = min(chunk, tokens * shape.vocab) * 4 * 3
    if load.lora_parameters is not None:
        return logits
    several = width + 4 + 4 + (width if width == 2 else 0) + (4 if width == 2 and load.sharded else 0)
    return logits + shape.vocab * shape.hidden * (several if tokens * shape.vocab > chunk else width)


# -- what would make it fit --------------------------------------------------------------------------------------------------


def mildest(knobs: Iterable[Changes], fits: Callable[[Changes], bool]) -> Changes | None:
    """Of settings from mild to costly the first that make it fit together, without those that are not needed."""
    changes: Changes = {}
    for knob in knobs:
        changes |= knob
        if fits(changes):
            for name in reversed(list(changes)):
                fewer = {key: value for key, value in changes.items() if key != name}
                if fits(fewer):
                    changes = fewer
            return changes
    return None


def with_changes(settings: Settings, changes: Changes) -> Settings:
    """The settings with some changed by dotted name. Raises ValueError for those that do not go together."""
    values: dict[str, Any] = settings.model_dump()
    for name, value in changes.items():
        *sections, last = name.split(".")
        section = values
        for one in sections:
            section = section.setdefault(one, {})
        section[last] = value
    return type(settings).model_validate(values)


def context_knobs(shape: Shape, load: Load) -> Iterator[Changes]:
    """Ever more ranks that share each row."""
    for ranks in range(load.context + 1, load.ranks + 1):
        if load.ranks % ranks == 0 and shape.shared_by(ranks):
            yield {"parallel.context": ranks}


# -- a supervised run --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A supervised run's needs, and what would make it fit."""

    shape: Shape
    load: Load
    devices: Devices
    estimate: Estimate
    step_tokens: int
    sentence: str = ""
    """What is missing and what to set; empty where it fits."""
    changed: Changes = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        return not self.sentence

    @property
    def step_seconds(self) -> float | None:
        """Of such a step, over all devices; None where their speed is not known."""
        if self.devices.peak_flops is None:
            return None
        per_token = self.estimate.seconds(self.devices.peak_flops) / self.estimate.tokens
        data_parallel = self.load.ranks // self.load.context
        return per_token * max(self.step_tokens / data_parallel, self.load.row_tokens) / self.load.context


def plan_sft(config: SftConfig, devices: Devices, row_tokens: int | None = None) -> Plan:
    """What a run of these settings takes. ``row_tokens``: the longest row; None: the settings' limit. Raises UserError."""
    if config.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape = read_shape(config.model)
    check_parallel(config.parallel, devices.count, shape)
    longest = row_tokens or config.data.max_tokens
    if not longest and not config.data.profile:
        raise UserError("Nothing says how long rows are: give --row-tokens, --profile, or data.max_tokens.")
    return plan_for(config, shape, devices, longest or get_profile(config.data.profile).budgets.max_context_tokens)


def plan_for(config: SftConfig, shape: Shape, devices: Devices, longest: int) -> Plan:
    """Whether a step of such rows fits the devices, and otherwise the changes that make it."""
    load = _load(config, shape, devices.count, longest)
    first = estimate(shape, config.trainer, load)
    # A batch is closed by the trajectory that reaches its tokens.
    tokens = longest * config.batch_trajectories if config.batch_trajectories else config.batch_tokens - 1 + longest
    plan = Plan(shape, load, devices, first, tokens)
    if first.total <= devices.room:
        return plan

    def needed(changes: Changes) -> int:
        tried = with_changes(config, changes)
        return estimate(shape, tried.trainer, _load(tried, shape, devices.count, longest)).total

    def fits(changes: Changes) -> bool:
        try:
            return needed(changes) <= devices.room
        except ValueError:  # offload without recomputation
            return False

    need = f"It needs {_gib(first.total)} GiB on each rank and there are {_gib(devices.room)}"
    found = mildest(_knobs(config, shape, load), fits)
    if found is None:
        sharded = load.lora_parameters is not None or (load.ranks > 1 and load.sharded)
        advice = "use more devices, or shorter rows (data.max_tokens)" if sharded else "train a LoRA (set lora.rank)"
        return replace(plan, sentence=f'{need}: {advice}, or shard over more devices (parallel.kind = "fsdp").')
    told = " and ".join(f"{key} = {json.dumps(value)}" for key, value in found.items())
    return replace(plan, sentence=f"{need}: set {told}, and it needs {_gib(needed(found))}.", changed=found)


def _load(config: SftConfig, shape: Shape, ranks: int, longest: int) -> Load:
    alone = config.trainer.precision is Precision.BFLOAT16  # then one process is a mesh of one
    sharded = config.parallel.kind is ParallelKind.FSDP and (ranks > 1 or alone)
    adapters = lora_parameters(shape, config.lora.rank) if config.lora.rank else None
    return Load(longest, ranks, sharded, config.parallel.context, adapters)


def _knobs(config: SftConfig, shape: Shape, load: Load) -> Iterator[Changes]:
    """Settings from mild to costly, those that are not set yet. None changes what is learnt."""
    trainer, memory = config.trainer, config.trainer.memory
    if memory.recompute is Recompute.NONE:
        yield {"trainer.memory.recompute": "full"}
    if memory.mlp_tile is None:
        yield {"trainer.memory.mlp_tile": 8192}
    if not memory.offload:
        yield {"trainer.memory.offload": True}
    # In a pass of one row nothing is shared between rows that begin alike: the same is computed several times.
    if load.row_tokens < trainer.micro_batch_tokens and trainer.aggregation is not Aggregation.MICRO_BATCH_MEAN:
        yield {"trainer.micro_batch_tokens": load.row_tokens}
    if load.ranks > 1 and not load.sharded:
        yield {"parallel.kind": "fsdp"}
    yield from context_knobs(shape, load)


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f}"
