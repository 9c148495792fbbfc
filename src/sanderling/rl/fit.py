"""Whether a run fits the devices that train it.

:func:`plan_rl` tries settings from mild to costly where a run does not fit; :func:`memory` is the arithmetic. Figures are in
bytes, per device, for the longest rollout. What training takes is `train.fit`'s; here comes what gains, a reference and open
sessions add. A server says itself how many rollouts it has room for. Importable without torch.
"""

from dataclasses import dataclass, replace

from sanderling.core.errors import UserError
from sanderling.rl.config import Placement, RlConfig, RlRecipe, rollout_profile
from sanderling.rl.launch import check_positions
from sanderling.train.config import ParallelKind, Precision, TrainerConfig
from sanderling.train.fit import Changes, Devices, Load, Shape, advice, estimate, knobs, read_shape, shorter, with_changes
from sanderling.train.launch import check_parallel

PROBE_TOKENS = 64  # about that long is what is teacher-forced at a turn's boundary: probe and answer
_LEAST_SLOTS, _LEAST_CAPACITY = 8, 256  # of the cache in this process, which grows by doubling (`policy/forward`)


@dataclass(frozen=True)
class RlPlan:
    """A run's needs."""

    recipe: RlRecipe
    shape: Shape
    load: Load  # with rows as long as the longest rollout
    devices: Devices
    memory: dict[str, int]  # bytes by purpose on each device while it trains
    host: int  # page-locked memory of the machine for each process
    sentence: str = ""  # what is missing and what to set; empty where it fits

    @property
    def fits(self) -> bool:
        return sum(self.memory.values()) <= self.devices.room


def plan_rl(recipe: RlRecipe, devices: Devices, longest: int | None = None) -> RlPlan:
    """What a run of these settings takes on the devices that train; a server that does not sleep has others.

    ``longest``: the longest rollout's tokens, where the settings allow them; None: their limit. Raises UserError when no model
    is named, or `train rl` would refuse so many devices, such a placement or rollouts so long.
    """
    plan = _planned(recipe, devices, longest)
    if plan.fits:
        return plan

    placement, load = {"rl.pipeline.placement": "served", "sampler.sleeps": True}, plan.load
    own = [placement] if devices.gpus and recipe.rl.pipeline.placement is not Placement.SERVED else []
    trainer = recipe.rl.trainer

    def suited(count: int) -> list[Changes]:
        return knobs(trainer, "rl.trainer", plan.shape, replace(load, ranks=count), gpus=devices.gpus, own=own)

    def fits(some: Devices, changes: Changes) -> bool:
        return _planned(with_changes(recipe, changes), some, longest).fits

    rollouts = shorter(load.row_tokens, "rollout.context_tokens", "rl.trainer", trainer)
    return replace(plan, sentence=advice(sum(plan.memory.values()), devices, suited, [rollouts], fits))


def _planned(recipe: RlRecipe, devices: Devices, longest: int | None) -> RlPlan:
    if recipe.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape, profile = read_shape(recipe.model), rollout_profile(recipe)
    check_parallel(recipe.parallel, devices.count, shape)
    check_positions(profile, recipe.model, longest)
    # One process in bfloat16 is a mesh of one: see `train.launch.opened_team`.
    alone = recipe.rl.trainer.precision is Precision.BFLOAT16
    sharded = recipe.parallel.kind is ParallelKind.FSDP and (devices.count > 1 or alone)
    most = profile.budgets.max_context_tokens
    load = Load(min(longest or most, most), devices.count, sharded, recipe.parallel.context)
    return RlPlan(recipe, shape, load, devices, *memory(shape, recipe.rl, load, profile.budgets.max_turns))


def memory(shape: Shape, rl: RlConfig, load: Load, turns: int) -> tuple[dict[str, int], int]:
    """Bytes by purpose on a device while it trains, and on the host for each process."""
    trainer = rl.trainer
    width = 2 if trainer.precision is Precision.BFLOAT16 else 4
    base = estimate(shape, trainer, load)
    parts = dict(base.parts)
    if rl.loss.needs_reference:
        parts["reference"] = 4 * shape.parameters // (load.ranks if load.sharded else 1)
    if rl.gain is not None:
        kept = parts["kept for the backward pass"] + parts["alive at once, in a layer or at the head"]
        more = scoring_bytes(shape, trainer, load.row_tokens, turns, width) - kept
        parts |= {"more while gains are scored": more} if more > 0 else {}
    if rl.pipeline.placement is Placement.BESIDE:
        parts["the copy that samples"] = 4 * shape.parameters
    if rl.pipeline.placement is not Placement.SERVED:  # open sessions keep their keys and values meanwhile
        under_way = -(-rl.questions_per_step // load.ranks) * rl.group_size * (rl.pipeline.max_staleness + 1)
        slots, capacity = (1 << (wanted - 1).bit_length() for wanted in (under_way, load.row_tokens))
        session = 2 * shape.layers * shape.kv_heads * shape.head_dim * width * max(_LEAST_CAPACITY, capacity)
        parts["keys and values of rollouts"] = max(_LEAST_SLOTS, slots) * session
    return parts, base.host


def scoring_bytes(shape: Shape, trainer: TrainerConfig, longest: int, turns: int, width: int) -> int:
    """Most that is alive while a whole trajectory and what is teacher-forced at its boundaries are read in one pass.

    Nothing is kept between layers: hidden states before and behind, a layer's norm, queries, keys, values, attention's output,
    and a tile of its MLP; then logits of the answers. Rows are not shared by ranks here.
    """
    tokens = longest + turns * PROBE_TOKENS
    heads, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    per_token = 2 * shape.hidden * 4 + shape.hidden * 4 + (2 * heads + 2 * kv_width) * width
    per_token += 2 * (heads - kv_width) * width if width == 4 else 0  # on CUDA keys and values are repeated for each query head
    mlp = 3 * shape.intermediate * width * min(tokens, trainer.memory.mlp_tile or tokens)
    logits = 2 * 4 * min(trainer.logit_chunk, turns * PROBE_TOKENS * shape.vocab)
    return per_token * tokens + max(mlp, logits)
