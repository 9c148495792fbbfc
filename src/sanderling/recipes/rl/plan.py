"""``sanderling train plan --rl``: what a run of reinforcement learning takes on the devices that are here, or on others.

All arithmetic is in `rl.fit`; here settings become its questions, stage by stage, and where a stage does not fit,
settings are tried from mild to costly until it does. Importable without torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import positions_of, read_model_config
from sanderling.recipes.rl.config import RlRecipe, Stage, stages_of
from sanderling.rl.config import Placement
from sanderling.rl.fit import Episodes, RlEstimate, RlLoad, Sharing, Speeds, rl_estimate
from sanderling.train.config import LOGIT_CHUNK, ParallelKind, Precision, Recompute
from sanderling.train.fit import Changes, Devices, Load, context_knobs, mildest, with_changes
from sanderling.train.parallel.launch import check_parallel
from sanderling.train.shape import Shape, read_shape

_GRAIN = 1024
_MICRO_BATCH = "rl.trainer.micro_batch_tokens"


@dataclass(frozen=True)
class StagePlan:
    """One stage's needs, and whether the devices have them."""

    stage: Stage
    shape: Shape
    load: RlLoad
    devices: Devices
    estimate: RlEstimate

    @property
    def lacks(self) -> str:
        """What is missing, in words; empty where nothing is."""
        there, need = self.devices.room, self.estimate.training
        if need > there:
            return f"it needs {need / 2**30:,.1f} GiB on each device while it trains and there are {there / 2**30:,.1f}"
        if self.load.sharing.served and self.estimate.sessions.longest < 1:
            return (
                f"no rollout of {self.load.episodes.longest:,} tokens fits where it samples: beside "
                f"{sum(self.estimate.sampler.values()) / 2**30:,.1f} GiB its keys and values take "
                f"{self.shape.kv_bytes(self.load.episodes.longest) / 2**30:,.1f}, and there are {there / 2**30:,.1f}"
            )
        return ""


@dataclass(frozen=True)
class RlPlan:
    """A run's needs by stage."""

    stages: tuple[StagePlan, ...]
    sentence: str
    """Empty where it fits; otherwise what is missing and what to set."""


def plan_rl(recipe: RlRecipe, devices: Devices, longest: int | None = None, decode: float | None = None) -> RlPlan:
    """What a run of these settings takes.

    ``longest``: a rollout's tokens in place of the limit; ``decode``: tokens a second that all samplers write, in place of a
    reckoning. Raises UserError when no model is named, or `train rl` would refuse so many devices, such a placement or rollouts
    so long.
    """
    plans = _plans(recipe, devices, longest, decode)
    for plan in plans:
        if recipe.model is not None:
            check_positions(plan.stage, recipe.model, longest)
        if plan.lacks:
            return RlPlan(plans, _sentence(recipe, plan, devices, longest))
    return RlPlan(plans, "")


def check_placement(recipe: RlRecipe, processes: int) -> None:
    """Raises UserError where the sampler cannot be where the settings want it, or processes cannot share the work so."""
    check_parallel(recipe.parallel, processes)
    if recipe.parallel.kind is ParallelKind.FSDP and recipe.rl.pipeline.placement is not Placement.SERVED:
        raise UserError(
            "A model in shards (parallel.kind fsdp) cannot sample in the trainer's processes: set "
            "rl.pipeline.placement=served, or parallel.kind to none or replicate."
        )
    if recipe.sampler.sleeps and recipe.rl.pipeline.placement is not Placement.SERVED:
        raise UserError("Only a server can sleep: set rl.pipeline.placement=served, or sampler.sleeps=false.")


def check_positions(stage: Stage, model: Path, longest: int | None = None) -> None:
    """Raises UserError where rollouts may grow longer than the model reads: they would be cut where it ends, without a word."""
    positions, most = positions_of(read_model_config(model)), longest or stage.profile.budgets.max_context_tokens
    setting = context_name(stage) if longest is None else "--row-tokens"
    if positions is not None and most > positions:
        raise UserError(
            f"{f'Rollouts of stage {stage.name}' if stage.name else 'Rollouts'} may have {most:,} tokens, the model has "
            f"{positions:,} positions: set {setting}={positions}, or choose a model for longer texts (rope "
            "scaling in its config.json counts)."
        )


def context_name(stage: Stage) -> str:
    """The setting that says how long a stage's rollouts may grow."""
    return f"stages.{stage.name}.context_tokens" if stage.name else "rollout.context_tokens"


def _plans(recipe: RlRecipe, devices: Devices, longest: int | None, decode: float | None) -> tuple[StagePlan, ...]:
    if recipe.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape = read_shape(recipe.model)
    speeds = _speeds(devices, decode)
    found = []
    for stage in stages_of(recipe):
        load = _load(recipe, stage, devices, longest)
        check_placement(recipe, load.trainer.ranks)
        if not shape.shared_by(load.trainer.context):
            raise UserError(
                f"{load.trainer.context} processes cannot share the model's {shape.heads} heads: set parallel.context."
            )
        found.append(StagePlan(stage, shape, load, devices, rl_estimate(shape, stage.rl.trainer, load, devices.room, speeds)))
    return tuple(found)


def _load(recipe: RlRecipe, stage: Stage, devices: Devices, longest: int | None) -> RlLoad:
    rl, expected, count = stage.rl, recipe.expected, devices.count
    sharing = _sharing(recipe, count)
    samplers = min(max(1, round(count * recipe.sampler.share)), count - 1) if sharing is Sharing.APART else count
    ranks = count - samplers if sharing is Sharing.APART else count
    # One process in bfloat16 is a mesh of one: see `train.launch.opened_team`.
    alone = rl.trainer.precision is Precision.BFLOAT16
    sharded = recipe.parallel.kind is ParallelKind.FSDP and (ranks > 1 or alone)
    most = longest or stage.profile.budgets.max_context_tokens
    mean = min(expected.context_tokens or most // 2, most)
    turns = expected.turns or -(-mean // stage.profile.sampling.max_tokens)
    sampled = min(expected.sampled_tokens or mean // 4, mean)
    episodes = Episodes(most, mean, sampled, min(turns, stage.profile.budgets.max_turns))
    step = rl.questions_per_step
    groups = sum(rl.pipeline.groups_at_once(len(range(rank, step, ranks)), step) for rank in range(ranks))
    reference, gains = rl.loss.needs_reference, rl.gain is not None
    proximal = rl.loss.needs_proximal and rl.updates_per_step > 1 and not gains  # else they come in the pass of the gains
    return RlLoad(
        Load(most, ranks, sharded, recipe.parallel.context),
        episodes,
        step * rl.group_size,
        groups * rl.group_size,
        sharing,
        samplers,
        gains=gains,
        passes=reference + proximal,
        reference=reference,
        overlaps=rl.pipeline.max_staleness > 0,
    )


def _sharing(recipe: RlRecipe, count: int) -> Sharing:
    match recipe.rl.pipeline.placement:
        case Placement.TURNS:
            return Sharing.MODULE
        case Placement.BESIDE:
            return Sharing.COPY
        case Placement.SERVED if recipe.sampler.sleeps:
            return Sharing.ASLEEP
        case _:
            return Sharing.APART if count > 1 else Sharing.TOGETHER


def _speeds(devices: Devices, decode: float | None) -> Speeds | None:
    return None if devices.speeds is None else Speeds(*devices.speeds, decode)


# -- what would make it fit ------------------------------------------------------------------------------------------------


def _sentence(recipe: RlRecipe, plan: StagePlan, devices: Devices, longest: int | None) -> str:
    where = f"In stage {plan.stage.name} " if plan.stage.name else ""
    told = (where + plan.lacks) if where else plan.lacks[0].upper() + plan.lacks[1:]
    changed = _mended(recipe, plan, devices, longest)
    if not changed:
        return f"{told}: use more devices, or larger ones."
    lost = " Rollouts then share less of what they begin with, or nothing, in training." if _MICRO_BATCH in changed else ""
    return f"{told}: set {' and '.join(f'{key}={_said(value)}' for key, value in changed.items())}.{lost}"


def _mended(recipe: RlRecipe, plan: StagePlan, devices: Devices, longest: int | None) -> Changes:
    """The mildest settings found under which the stage fits; empty where none was."""

    def fits(changed: Changes) -> bool:
        try:
            plans = _plans(with_changes(recipe, changed), devices, longest, None)
        except (UserError, ValueError):  # settings that do not go together
            return False
        return not next(one for one in plans if one.stage.name == plan.stage.name).lacks

    found = mildest(_knobs(recipe, plan), fits)
    if found is None and longest is None:
        return _shorter(recipe, plan, fits)
    return found or {}


def _knobs(recipe: RlRecipe, plan: StagePlan) -> Iterator[Changes]:
    """From mild to costly, those that are not set yet. None changes what is learnt but for rounding."""
    trainer, load = plan.stage.rl.trainer, plan.load
    memory = "rl.trainer.memory."
    if trainer.memory.recompute is not Recompute.FULL:
        yield {f"{memory}recompute": "full"}
    if trainer.memory.mlp_tile is None:
        yield {f"{memory}mlp_tile": 8192}
    if plan.devices.gpus and not trainer.memory.offload:
        yield {f"{memory}offload": True}
    if trainer.logit_chunk > LOGIT_CHUNK:
        yield {"rl.trainer.logit_chunk": LOGIT_CHUNK}
    if trainer.micro_batch_tokens > load.episodes.longest:
        # In a pass of one rollout nothing is shared between those of a question: what they begin with is computed for each.
        yield {_MICRO_BATCH: load.episodes.longest}
    if load.sharing in (Sharing.TOGETHER, Sharing.APART):
        yield {"sampler.sleeps": True}
    groups = load.under_way // plan.stage.rl.group_size
    if not load.sharing.served:
        while groups > load.samplers:
            groups = max(load.samplers, groups // 2)
            yield {"rl.pipeline.most_under_way": groups}
        if plan.devices.gpus:
            yield {"rl.pipeline.placement": "served", "sampler.sleeps": True}
    if load.trainer.ranks > 1 and not load.trainer.sharded and plan.devices.gpus:
        yield {"parallel.kind": "fsdp"}
    yield from context_knobs(plan.shape, trainer.packing, load.trainer)


def _shorter(recipe: RlRecipe, plan: StagePlan, fits: Callable[[Changes], bool]) -> Changes:
    """The longest rollouts that fit with everything else set, in whole thousands; empty where none do."""
    name = context_name(plan.stage)
    every: Changes = {}
    for knob in _knobs(recipe, plan):
        every |= knob
    fitting, failing = 0, plan.load.episodes.longest // _GRAIN + 1
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        if fits({**every, name: middle * _GRAIN}):
            fitting = middle
        else:
            failing = middle
    if not fitting:
        return {}
    found = {**every, name: fitting * _GRAIN}
    for key in every:
        fewer = {one: value for one, value in found.items() if one != key}
        if fits(fewer):
            found = fewer
    return found


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
