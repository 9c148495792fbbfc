"""Whether a run fits the devices that train it.

:func:`plan_rl` tries settings from mild to costly where a run does not fit; :func:`memory` is the arithmetic. Figures are in
bytes, per device, for the longest rollout. What training takes is `train.fit`'s; here comes what gains, a reference and open
sessions add. A server says itself how many rollouts it has room for. Importable without torch.
"""

from dataclasses import replace

from sanderling.core.errors import UserError
from sanderling.rl.config import Placement, RlConfig, RlRecipe, rollout_profile
from sanderling.rl.launch import check_positions
from sanderling.train.config import Precision, TrainerConfig
from sanderling.train.fit import (
    Changes,
    Devices,
    Estimate,
    Load,
    Plan,
    Shape,
    estimate,
    load_of,
    read_shape,
    shorter,
    with_advice,
    with_changes,
)
from sanderling.train.launch import check_parallel

PROBE_TOKENS = 64  # about that long is what is teacher-forced at a turn's boundary: probe and answer
_LEAST_SLOTS, _LEAST_CAPACITY = 8, 256  # of the cache in this process, which grows by doubling (`policy/forward`)


def plan_rl(recipe: RlRecipe, devices: Devices, longest: int | None = None) -> Plan:
    """What a run of these settings takes on the devices that train; a server that does not sleep has others.

    ``longest``: the longest rollout's tokens, where the settings allow them; None: their limit. Raises UserError when no model
    is named, or `train rl` would refuse so many devices, such a placement or rollouts so long.
    """

    def planned(some: Devices, changes: Changes) -> Plan:
        return _planned(with_changes(recipe, changes), some, longest)

    plan, trainer = _planned(recipe, devices, longest), recipe.rl.trainer
    placement = {"rl.pipeline.placement": "served", "sampler.sleeps": True}
    own = [placement] if devices.gpus and recipe.rl.pipeline.placement is not Placement.SERVED else []
    rollouts = shorter(plan.load.row_tokens, "rollout.context_tokens", "rl.trainer", trainer)
    return with_advice(plan, trainer, "rl.trainer", [rollouts], planned, own)


def _planned(recipe: RlRecipe, devices: Devices, longest: int | None) -> Plan:
    if recipe.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape, profile = read_shape(recipe.model), rollout_profile(recipe)
    check_parallel(recipe.parallel, devices.count, shape)
    check_positions(profile, recipe.model, longest)
    most = profile.budgets.max_context_tokens
    load = load_of(recipe.rl.trainer, recipe.parallel, devices.count, min(longest or most, most))
    return Plan(shape, load, devices, memory(shape, recipe.rl, load, profile.budgets.max_turns))


def memory(shape: Shape, rl: RlConfig, load: Load, turns: int) -> Estimate:
    """What training takes, and what is there beside it: bytes on a device while it trains."""
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
        slots, capacity = (1 << (wanted - 1).bit_length() for wanted in (rl.under_way(load.ranks), load.row_tokens))
        session = 2 * shape.layers * shape.kv_heads * shape.head_dim * width * max(_LEAST_CAPACITY, capacity)
        parts["keys and values of rollouts"] = max(_LEAST_SLOTS, slots) * session
    return replace(base, parts=parts)


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
