"""Does a run fit, how long does a step take, and which setting would make it fit: answered before anything is loaded.

Arithmetic over a decoder's sizes, as its ``config.json`` has them, and settings. Figures are bytes per rank, of the longest
pass. Settings are tried from mild to costly until the step fits; those that turn out not to be needed are dropped again. What
a refusal advises has been planned in the same way, and fits. Of whole runs, `sft.plan_sft` and `rl.fit.plan_rl` make plans.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sanderling.core.config import put
from sanderling.core.errors import UserError
from sanderling.policy.model_directory import read_model_config
from sanderling.train.config import (
    LOGIT_CHUNK,
    Aggregation,
    MemoryConfig,
    ParallelConfig,
    ParallelKind,
    Precision,
    Recompute,
    TrainerConfig,
)

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


def read_shape(model_dir: Path) -> Shape:
    """The sizes of the model in a directory. Raises UserError when its ``config.json`` does not say them all."""
    sizes, origin = read_model_config(model_dir), str(model_dir / "config.json")
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


# -- what a step needs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """What a step is asked to do; ``row_tokens`` are those of the longest row."""

    row_tokens: int
    ranks: int = 1
    sharded: bool = False
    context: int = 1
    lora_parameters: int | None = None


def load_of(
    trainer: TrainerConfig, parallel: ParallelConfig, ranks: int, row_tokens: int, lora_parameters: int | None = None
) -> Load:
    """What so many ranks do under these settings; one alone in bfloat16 is a mesh of one (`launch.opened_team`)."""
    sharded = parallel.kind is ParallelKind.FSDP and (ranks > 1 or trainer.precision is Precision.BFLOAT16)
    return Load(row_tokens, ranks, sharded, parallel.context, lora_parameters)


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


@dataclass(frozen=True)
class Plan:
    """A run's needs, and what would make it fit."""

    shape: Shape
    load: Load
    devices: Devices
    estimate: Estimate
    step_tokens: int = 0  # of a supervised run, at most
    sentence: str = ""
    """What is missing and what to set; empty where it fits."""

    @property
    def fits(self) -> bool:
        return self.estimate.total <= self.devices.room

    @property
    def step_seconds(self) -> float | None:
        """Of such a step, over all devices; None where their speed is not known."""
        if self.devices.peak_flops is None:
            return None
        per_token = self.estimate.flops / (self.devices.peak_flops * MFU) / self.estimate.tokens
        data_parallel = self.load.ranks // self.load.context
        return per_token * max(self.step_tokens / data_parallel, self.load.row_tokens) / self.load.context


def with_advice(
    plan: Plan,
    trainer: TrainerConfig,
    name: str,
    costs: Sequence[Sequence[Changes]],
    planned: Callable[[Devices, Changes], Plan],
    own: Sequence[Changes] = (),
) -> Plan:
    """The plan of a run; one that does not fit says what it lacks, and settings that make it fit, by what is ``planned`` then.

    Tried are settings that change nothing that is learnt: the trainer's, under that name, and the run's ``own``. Where these do
    not suffice: those that each of ``costs`` takes beside them, and how many devices, up to 1,024 times as many (and the last
    of ``costs``, where more devices alone are not enough).
    """
    if plan.fits:
        return plan
    devices = plan.devices

    def way(count: int, cost: Iterable[Changes] = ()) -> str:
        some = replace(devices, count=count)
        found = _mildest((*_knobs(plan, count, trainer, name, own), *cost), lambda changes: planned(some, changes).fits)
        if found is None:
            return ""
        take = [f"take {count} devices"] if count > devices.count else []
        sets = " and ".join(f"{key}={str(value).lower()}" for key, value in found.items())
        return " and ".join([*take, *([f"set {sets}"] if sets else [])])

    ways = [way(devices.count)]
    if not ways[0]:
        more = [(devices.count << bits, cost) for cost in ((), costs[-1]) for bits in range(1, 11 if devices.gpus else 1)]
        ways = [*(way(devices.count, cost) for cost in costs), next(filter(None, starmap(way, more)), "")]
    told = ", or ".join(dict.fromkeys(filter(None, ways))) or "no setting makes it fit: take larger devices, or a smaller model"
    need, room = plan.estimate.total / 2**30, devices.room / 2**30
    return replace(plan, sentence=f"It needs {need:,.1f} GiB on each device and there are {room:,.1f}: {told}.")


def _mildest(knobs: Iterable[Changes], fits: Callable[[Changes], bool]) -> Changes | None:
    """Of settings from mild to costly the first that make it fit together, without those that are not needed."""

    def enough(changes: Changes) -> bool:
        try:
            return fits(changes)
        except (UserError, ValueError):  # settings that do not go together
            return False

    changes: Changes = {}
    for knob in ({}, *knobs):
        changes |= knob
        if enough(changes):
            for name in reversed(list(changes)):
                fewer = {key: value for key, value in changes.items() if key != name}
                if enough(fewer):
                    changes = fewer
            return changes
    return None


def with_changes(settings: Settings, changes: Changes) -> Settings:
    """The settings with some changed by dotted name. Raises ValueError for those that do not go together."""
    values = settings.model_dump()
    for name, value in changes.items():
        put(values, name.split("."), value)
    return type(settings).model_validate(values)


def _knobs(plan: Plan, ranks: int, trainer: TrainerConfig, name: str, own: Sequence[Changes]) -> list[Changes]:
    """Settings from mild to costly, those that are not set yet. None changes what is learnt but for rounding."""
    memory, shape, load, gpus = trainer.memory, plan.shape, plan.load, plan.devices.gpus
    rows, one_loss = load.row_tokens, trainer.aggregation is not Aggregation.MICRO_BATCH_MEAN  # whatever rows share a pass
    tries: list[tuple[bool, str, Any]] = [
        (memory.recompute is Recompute.NONE, "memory.recompute", "full"),
        (memory.mlp_tile is None, "memory.mlp_tile", 8192),
        (gpus and not memory.offload, "memory.offload", True),
        (trainer.logit_chunk > LOGIT_CHUNK, "logit_chunk", LOGIT_CHUNK),
        # In a pass of one row nothing is shared between rows that begin alike: the same is computed several times.
        (one_loss and trainer.micro_batch_tokens > rows, "micro_batch_tokens", rows),
    ]
    found: list[Changes] = [{f"{name}.{key}": value} for is_missing, key, value in tries if is_missing]
    found += own
    if gpus and ranks > 1 and not load.sharded:
        found.append({"parallel.kind": "fsdp"})
    sharing = (one for one in range(load.context + 1, ranks + 1) if ranks % one == 0 and shape.shared_by(one))
    return found + [{"parallel.context": one} for one in sharing]


def shorter(longest: int, limit: str, name: str, trainer: TrainerConfig) -> list[Changes]:
    """Ever shorter rows, by their limit, each with a pass of one at most."""
    sizes = (1 << bits for bits in range((longest - 1).bit_length() - 1, 9, -1))
    smaller = f"{name}.micro_batch_tokens"
    return [{limit: size} | ({smaller: size} if size < trainer.micro_batch_tokens else {}) for size in sizes]
