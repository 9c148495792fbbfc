"""What a training step will take, from configurations alone, and the mildest settings under which it fits a device.

Pure arithmetic, importable without torch. Figures are in bytes, per rank, for the longest pass. What is kept between forward
and backward is counted as `memory` keeps it (a test measures it); what is alive within a layer is fitted to counts, and lies up
to 3% under them. Settings are tried from mild to costly and kept, until the step fits; those that turn out not to be needed are
dropped again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import positions_of, read_model_config
from sanderling.train.config import (
    GRADIENT_BUCKET,
    Aggregation,
    LoraConfig,
    MemoryConfig,
    Packing,
    Precision,
    Recompute,
    TrainerConfig,
)
from sanderling.train.sft.settings import ParallelKind

MFU = 0.4
"""The share of a device's peak that a step is expected to reach; `benchmarks/train_step.py` measures it."""
_NEEDED = (
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
)  # fmt: skip
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_MEMORY = "trainer.memory."
Changes = dict[str, Any]
"""Settings by dotted name."""


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
        """Matrices of one layer: attention and a gated MLP; norms are left to the total."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def parameters(self) -> int:
        """All of them, norms included."""
        norms = self.layers * (2 * self.hidden + 2 * self.head_dim) + self.hidden
        return self.layers * self.layer_parameters + self.vocab * self.hidden * (1 if self.tied else 2) + norms

    def shared_by(self, ranks: int) -> bool:
        """Whether so many ranks can share a row (`context`): each needs as many heads, and a head of keys at least."""
        return self.heads % ranks == 0 and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)

    def flops(self, tokens: int, row_tokens: int, predicted: int | None = None, *, frozen: bool = False) -> float:
        """Model FLOPs of one forward and backward pass, attention causal, nothing counted twice for recomputation.

        6 per parameter and token (4 where it is ``frozen``: no gradient is made for it), and 12 per token, seen token, head and
        head size, halved because a token sees the ones before it only. The head's are those of ``predicted`` tokens (None:
        all), since it is applied to no others; embeddings look up.
        """
        each = 4.0 if frozen else 6.0
        per_token = self.layers * (each * self.layer_parameters + 6.0 * self.heads * self.head_dim * row_tokens)
        return tokens * per_token + each * self.vocab * self.hidden * (tokens if predicted is None else predicted)

    def kv_bytes(self, tokens: int, width: int = 2) -> int:
        """Keys and values of one session."""
        return 2 * self.layers * self.kv_heads * self.head_dim * width * tokens


@dataclass(frozen=True)
class Load:
    """What a step is asked to do."""

    row_tokens: int
    """The longest row."""
    ranks: int = 1
    sharded: bool = False
    context: int = 1
    """Ranks that share each row."""
    lora_parameters: int | None = None
    """Trained parameters of an adapter; None: all are trained."""


@dataclass(frozen=True)
class Estimate:
    """A step's needs on one rank, in bytes by purpose, and its model FLOPs."""

    parts: dict[str, int]
    host: int
    """Page-locked memory of the machine, per rank."""
    read: int
    """The machine's memory for each rank that reads the model: in shards the first alone."""
    gathered: int
    """The machine's memory for what rank 0 gathers for a checkpoint."""
    flops: float
    """Of one pass of ``tokens``."""
    tokens: int

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    def seconds(self, peak_flops: float) -> float:
        """A pass's expected time on a device of that many FLOPs a second."""
        return self.flops / (peak_flops * MFU)


def read_shape(model_dir: Path) -> Shape:
    """The sizes of the model in a directory. Raises UserError when its ``config.json`` does not say them."""
    return shape_of(read_model_config(model_dir), str(model_dir / "config.json"))


def read_positions(model_dir: Path) -> int | None:
    """:func:`positions_of` the model in a directory. Raises UserError when it has no ``config.json``."""
    return positions_of(read_model_config(model_dir))


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


def lora_parameters(shape: Shape, config: LoraConfig) -> int:
    """Parameters of adapters on every layer: rank times both ends of each target."""
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    ends = {
        "q_proj": shape.hidden + heads, "k_proj": shape.hidden + pairs, "v_proj": shape.hidden + pairs,
        "o_proj": heads + shape.hidden, "gate_proj": shape.hidden + shape.intermediate,
        "up_proj": shape.hidden + shape.intermediate, "down_proj": shape.intermediate + shape.hidden,
    }  # fmt: skip
    return config.rank * shape.layers * sum(ends.get(name, 0) for name in config.targets)


def estimate(shape: Shape, trainer: TrainerConfig, load: Load) -> Estimate:
    """What one pass over the longest micro-batch needs on a rank."""
    tokens = max(load.row_tokens, trainer.micro_batch_tokens)
    width = 2 if trainer.precision is Precision.BFLOAT16 else 4
    share = load.ranks if load.sharded else 1
    trained = shape.parameters if load.lora_parameters is None else load.lora_parameters
    frozen = 0 if load.lora_parameters is None else shape.parameters * width
    # Automatic mixed precision adds to hidden states in float32; shards and a frozen base in 16 bits do not.
    hidden = 4 if not load.sharded and load.lora_parameters is None else width
    own = -(-tokens // load.context)
    kept = kept_bytes(shape, trainer.memory, own, width, hidden)
    # What selective recomputation keeps of attention is not among what autograd saves, which is what is moved.
    away = shape.layers * shape.hidden * hidden * own if trainer.memory.offload else 0
    parts = {
        "weights": (4 * trained + frozen) // share,
        "weights in use": _in_use(shape, load, width),
        "gradients": 4 * trained // share,
        "optimizer": 8 * trained // share,
        "kept for the backward pass": kept - away,
        "alive at once, in a layer or at the head": max(
            _layer_peak(shape, trainer.memory, own, width, hidden, load.lora_parameters is None),
            _head_peak(shape, trainer.logit_chunk, load, own, width),
        ),
    }
    flops = shape.flops(tokens, load.row_tokens, frozen=load.lora_parameters is not None)
    flops += 6.0 * tokens * (load.lora_parameters or 0)
    if load.ranks > 1 and not load.sharded:
        parts["gradients on their way to others"] = min(GRADIENT_BUCKET, 4 * trained)
    read = shape.parameters * (4 if load.lora_parameters is None else width)
    return Estimate(parts, away, read, saved_bytes(trained), flops, tokens)


def saved_bytes(trained: int) -> int:
    """What a checkpoint of so many trained parameters holds: each in float32, and the optimizer's two moments of it."""
    return 12 * trained


def kept_bytes(shape: Shape, memory: MemoryConfig, tokens: int, width: int, hidden: int) -> int:
    """Bytes that all layers keep between their forward and backward pass.

    A layer's input; selective: also attention's output (with its log-sum-exp in fp32); without recomputation: both norms'
    inputs and fp32 halves, queries, keys and values before and behind norm and rotation, the MLP's four tensors.
    ``width``: bytes of a number in a product; ``hidden``: of one that a layer hands on.
    """
    inputs = shape.hidden * hidden
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    match memory.recompute:
        case Recompute.FULL:
            per_token = inputs
        case Recompute.SELECTIVE:
            per_token = inputs + heads * width + shape.heads * 4
        case Recompute.NONE:
            norms = shape.hidden * (5 * hidden + 6)
            attention = heads * (4 * width + 4) + pairs * (3 * width + 4)
            if width == 4:  # on CUDA keys and values are repeated for each query head
                attention += 2 * width * (heads - pairs)
            in_tiles = memory.mlp_tile is not None and memory.mlp_tile < tokens
            per_token = norms + attention + (0 if in_tiles else 4 * shape.intermediate * width)
    return shape.layers * per_token * tokens


def _in_use(shape: Shape, load: Load, width: int) -> int:
    """Weights as they are multiplied, beside those that are trained: whole layers under sharding, else all in 16 bits."""
    ends = shape.vocab * shape.hidden * (1 if shape.tied else 2) * width
    if load.sharded:
        return 2 * shape.layer_parameters * width + ends  # the next layer's arrive while this one's are used
    return shape.parameters * width if width == 2 and load.lora_parameters is None else 0


def _layer_peak(shape: Shape, memory: MemoryConfig, tokens: int, width: int, hidden: int, whole: bool) -> int:
    """Most that is alive while one layer's gradient is computed, beside what layers keep, of rows without branches.

    The factors are bytes for each number of a token, fitted to a count of every allocation over decoders' shapes from 0.6B to
    32B (a test counts them again): at the MLP, and behind it, where attention's and the norms' gradients are taken. What a
    layer computes again is among them. Where an MLP that is trained (``whole``) runs in tiles, also a tile's activations, and
    its weights' gradients: a tile's, and their sum in float32.
    """
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tile = min(tokens, memory.mlp_tile or tokens)
    in_tiles = 7 * shape.intermediate * width * tile + (3 * shape.hidden * shape.intermediate * (width + 4) if whole else 0)
    beside = 0 if whole else 2 * width * shape.intermediate  # what an adapter says, before it is added
    if memory.recompute is Recompute.NONE:
        mlp = 3 * hidden * shape.hidden + 2 * width * shape.intermediate + beside
        attention = (24 + 2 * hidden) * shape.hidden
    else:
        mlp = (6 * hidden + 10) * shape.hidden + (4 * width + 4) * heads + (3 * width + 4) * pairs
        mlp += 6 * width * shape.intermediate + beside
        if hidden > width:  # automatic mixed precision: queries and keys are there in both widths
            attention = 28 * shape.hidden + 24 * heads + 12 * pairs
        else:
            attention = 36 * shape.hidden + (4 * width + 6) * heads + (2 * width + 8) * pairs
        if memory.recompute is Recompute.SELECTIVE:  # its output is among what is kept
            mlp, attention = mlp - width * heads, attention - width * heads
        if width == 4:  # keys and values that are repeated, as in `kept_bytes`
            mlp, attention = (part + 2 * width * (heads - pairs) for part in (mlp, attention))
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


_RECOMPUTE, _TILE, _OFFLOAD = f"{_MEMORY}recompute", f"{_MEMORY}mlp_tile", f"{_MEMORY}offload"
_MICRO_BATCH, _KIND, _CONTEXT = "trainer.micro_batch_tokens", "parallel.kind", "parallel.context"


@dataclass(frozen=True)
class Verdict:
    """Whether it fits, and what would make it."""

    fits: bool
    estimate: Estimate
    sentence: str = ""
    changed: Changes = field(default_factory=dict)
    """Settings under which it fits; empty when it does, or when nothing helps."""


def judge(shape: Shape, trainer: TrainerConfig, load: Load, device_bytes: int) -> Verdict:
    """Whether a step fits a device, and otherwise the changes that make it."""
    first = estimate(shape, trainer, load)
    if first.total <= device_bytes:
        return Verdict(True, first)
    need = f"It needs {first.total / 2**30:,.1f} GiB on each rank and there are {device_bytes / 2**30:,.1f}"

    def needed(changed: Changes) -> int:
        return estimate(shape, *_under(trainer, load, changed)).total

    changed: Changes = {}
    for name, value in _knobs(shape, trainer, load):
        changed[name] = value
        if needed(changed) <= device_bytes:
            for other in reversed(list(changed)):
                fewer = {key: new for key, new in changed.items() if key != other}
                if _coherent(trainer.memory, fewer) and needed(fewer) <= device_bytes:
                    changed = fewer
            told = " and ".join(f"{key} = {json.dumps(new)}" for key, new in changed.items())
            lost = ", and rows that begin alike share less or nothing" if _MICRO_BATCH in changed else ""
            return Verdict(False, first, f"{need}: set {told}, and it needs {needed(changed) / 2**30:,.1f}{lost}.", changed)
    return Verdict(False, first, f"{need}: {_last_resort(load)}.")


def _knobs(shape: Shape, trainer: TrainerConfig, load: Load) -> Iterator[tuple[str, Any]]:
    """Settings from mild to costly, those that are not set yet. None changes what is learnt."""
    memory = trainer.memory
    if memory.recompute is Recompute.NONE:
        yield _RECOMPUTE, Recompute.SELECTIVE.value
    if memory.mlp_tile is None:
        yield _TILE, 8192
    if memory.recompute is not Recompute.FULL:
        yield _RECOMPUTE, Recompute.FULL.value
    if not memory.offload:
        yield _OFFLOAD, True
    # In a pass of one row nothing is shared between rows that begin alike: the same is computed several times.
    if load.row_tokens < trainer.micro_batch_tokens and trainer.aggregation is not Aggregation.MICRO_BATCH_MEAN:
        yield _MICRO_BATCH, load.row_tokens
    if load.ranks > 1 and not load.sharded:
        yield _KIND, ParallelKind.FSDP.value
    if trainer.packing is Packing.VARLEN:
        for ranks in range(load.context + 1, load.ranks + 1):
            if load.ranks % ranks == 0 and shape.shared_by(ranks):
                yield _CONTEXT, ranks


def _coherent(memory: MemoryConfig, changed: Changes) -> bool:
    """Whether the settings are allowed together: nothing is moved to the host where nothing is computed again."""
    return not changed.get(_OFFLOAD) or changed.get(_RECOMPUTE, memory.recompute) != Recompute.NONE


def _under(trainer: TrainerConfig, load: Load, changed: Changes) -> tuple[TrainerConfig, Load]:
    """The step with the settings changed."""
    update = {name.removeprefix(_MEMORY): new for name, new in changed.items() if name.startswith(_MEMORY)}
    memory = MemoryConfig.model_validate({**trainer.memory.model_dump(), **update})
    tokens = changed.get(_MICRO_BATCH, trainer.micro_batch_tokens)
    return (
        trainer.model_copy(update={"memory": memory, "micro_batch_tokens": tokens}),
        replace(load, sharded=load.sharded or _KIND in changed, context=changed.get(_CONTEXT, load.context)),
    )


def _last_resort(load: Load) -> str:
    if load.lora_parameters is None and (load.ranks == 1 or not load.sharded):
        return 'train a LoRA (set lora.rank), or shard over more devices (parallel.kind = "fsdp")'
    return 'use more devices (parallel.kind = "fsdp"), or shorter rows (data.max_tokens)'
