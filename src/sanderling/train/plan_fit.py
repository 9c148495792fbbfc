"""Whether a training step fits a device, and the mildest settings under which it does. Pure arithmetic over `plan`.

Settings are tried from mild to costly and kept, until the step fits; those that turn out not to be needed are dropped again.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sanderling.train.config import Aggregation, MemoryConfig, Packing, Recompute, TrainerConfig
from sanderling.train.plan import Estimate, Load, Shape, estimate
from sanderling.train.sft_config import ParallelKind

_MEMORY = "trainer.memory."
_RECOMPUTE, _TILE, _OFFLOAD = f"{_MEMORY}recompute", f"{_MEMORY}mlp_tile", f"{_MEMORY}offload"
_MICRO_BATCH, _KIND, _CONTEXT = "trainer.micro_batch_tokens", "parallel.kind", "parallel.context"
Changes = dict[str, Any]
"""Settings by dotted name."""


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
