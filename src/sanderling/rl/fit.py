"""Whether a run fits its devices: memory of trainer and sampler, how many sessions there is room for, the time of a step.

:func:`plan_rl` goes through a recipe's stages, and where one does not fit tries settings from mild to costly until it does;
:func:`rl_estimate` is the arithmetic. Figures are in bytes, per device, for the longest rollout; a step's time is for mean
ones. What training takes is `train.fit`'s; here comes what rollouts, gains and a reference add. Importable without torch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.policy.model_directory import positions_of, read_model_config
from sanderling.rl.config import Placement, RlRecipe, Stage, stages_of
from sanderling.train.config import LOGIT_CHUNK, ParallelKind, Precision, Recompute, TrainerConfig
from sanderling.train.fit import MFU, Changes, Devices, Load, context_knobs, estimate, mildest, with_changes
from sanderling.train.parallel.launch import check_parallel
from sanderling.train.shape import Shape, read_shape

PROBE_TOKENS = 64
"""About that long is what is teacher-forced at a turn's boundary: probe and answer."""
DECODE_SHARE = 0.5
"""The share of a device's memory bandwidth that sampling is reckoned to reach. A guess: no server has been measured."""
_LEAST_SLOTS, _LEAST_CAPACITY = 8, 256
"""Of the cache in this process, which grows by doubling (`policy/kv_cache`)."""


class Sharing(StrEnum):
    """Where the sampler is, seen from the trainer's devices."""

    MODULE = "module"
    """In the trainer's processes, with its very module; open sessions keep their keys and values while it trains."""
    COPY = "copy"
    """In the trainer's processes, with a copy of the module."""
    ASLEEP = "asleep"
    """A server on the same devices, in turns: it gives its memory back while the trainer works."""
    TOGETHER = "together"
    """A server on the same devices, both at the same time."""
    APART = "apart"
    """A server on devices of its own."""

    @property
    def served(self) -> bool:
        return self in (Sharing.ASLEEP, Sharing.TOGETHER, Sharing.APART)


@dataclass(frozen=True)
class Episodes:
    """What rollouts are like, in tokens."""

    longest: int
    mean: int
    """All that a mean one reads and writes."""
    sampled: int
    """What it writes of that."""
    turns: int


@dataclass(frozen=True)
class RlLoad:
    """What a step is asked to do."""

    trainer: Load
    """With rows as long as the longest rollout."""
    episodes: Episodes
    rollouts: int
    """Of a step."""
    under_way: int
    """Rollouts that are made at the same time, at most."""
    sharing: Sharing
    samplers: int
    """Devices that sample."""
    gains: bool = False
    """Whether information gain is scored."""
    passes: int = 0
    """Further forward passes over the rows: of the reference, and of the proximal policy where it is another."""
    reference: bool = False
    overlaps: bool = False
    """Whether rollouts go on while an update is computed."""


@dataclass(frozen=True)
class Speeds:
    """Of one device."""

    flops: float
    """A second, at its peak."""
    bandwidth: float
    """Bytes a second, at its peak."""
    decode: float | None = None
    """Tokens a second that all samplers together write, as somebody measured it; None: reckoned."""


@dataclass(frozen=True)
class Sessions:
    """How many rollouts the samplers hold."""

    longest: int
    """As many of the longest fit, on all devices together."""
    mean: int
    """As many mean ones."""
    replicas: int
    """Copies of the model that sample."""


@dataclass(frozen=True)
class RlEstimate:
    """A step's needs."""

    trainer: dict[str, int]
    """Bytes by purpose on a device that trains, while it does; what a sampler holds there meanwhile included."""
    sampler: dict[str, int]
    """Bytes by purpose on a device that samples, while it does, keys and values left out."""
    host: int
    """Page-locked memory of the machine for each process that trains."""
    sessions: Sessions
    seconds: dict[str, float] | None
    """By what is done; None: the devices' speed is not known."""
    decode: float | None
    """Tokens a second that all samplers together write."""
    step_seconds: float | None

    @property
    def training(self) -> int:
        return sum(self.trainer.values())


def rl_estimate(shape: Shape, trainer: TrainerConfig, load: RlLoad, room: int, speeds: Speeds | None) -> RlEstimate:
    """What a step needs on devices with ``room`` bytes each."""
    width = 2 if trainer.precision is Precision.BFLOAT16 else 4
    base = estimate(shape, trainer, load.trainer)
    parts = dict(base.parts)
    share = load.trainer.ranks if load.trainer.sharded else 1
    if load.reference:
        parts["reference"] = 4 * shape.parameters // share
    if load.gains:
        kept = parts["kept for the backward pass"] + parts["alive at once, in a layer or at the head"]
        more = scoring_bytes(shape, trainer, load.episodes, width) - kept
        parts |= {"more while gains are scored": more} if more > 0 else {}
    state = {name: parts[name] for name in ("weights", "gradients", "optimizer", "reference") if name in parts}
    sampler = _sampler_bytes(shape, load, state, sum(parts.values()))
    sessions = _sessions(shape, load, width, room - sum(sampler.values()) + sampler.get("weights to sample with", 0))
    if load.sharing in (Sharing.MODULE, Sharing.COPY):
        own = -(-load.under_way // load.samplers)
        parts["keys and values of rollouts"] = slots(own) * capacity(load.episodes.longest) * shape.kv_bytes(1, width)
    if load.sharing is Sharing.COPY:
        parts["weights to sample with"] = 4 * shape.parameters
    if load.sharing is Sharing.TOGETHER:
        parts["weights to sample with"] = 2 * shape.parameters
    rate = None if speeds is None else decode_rate(shape, load, sessions, speeds)
    seconds = None if speeds is None or rate is None else _seconds(shape, load, speeds, rate)
    return RlEstimate(parts, sampler, base.host, sessions, seconds, rate, _step_seconds(seconds, load))


def scoring_bytes(shape: Shape, trainer: TrainerConfig, episodes: Episodes, width: int) -> int:
    """Most that is alive while a whole trajectory and what is teacher-forced at its boundaries are read in one pass.

    Nothing is kept between layers: hidden states before and behind, a layer's norm, queries, keys, values, attention's output,
    and a tile of its MLP; then logits of the answers. Rows are not shared by ranks here.
    """
    tokens = episodes.longest + episodes.turns * PROBE_TOKENS
    heads, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    per_token = 2 * shape.hidden * 4 + shape.hidden * 4 + (2 * heads + 2 * kv_width) * width
    per_token += 2 * (heads - kv_width) * width if width == 4 else 0  # on CUDA keys and values are repeated for each query head
    mlp = 3 * shape.intermediate * width * min(tokens, trainer.memory.mlp_tile or tokens)
    logits = 2 * 4 * min(trainer.logit_chunk, episodes.turns * PROBE_TOKENS * shape.vocab)
    return per_token * tokens + max(mlp, logits)


def slots(sessions: int) -> int:
    """Sessions that the cache in this process makes room for when so many are open."""
    return _doubled(_LEAST_SLOTS, sessions)


def capacity(tokens: int) -> int:
    """Tokens that it makes room for in each when the longest has so many."""
    return _doubled(_LEAST_CAPACITY, tokens)


def _doubled(have: int, wanted: int) -> int:
    while have < wanted:
        have *= 2
    return have


def _sampler_bytes(shape: Shape, load: RlLoad, state: dict[str, int], training: int) -> dict[str, int]:
    """What lies on a device that samples, but for keys and values."""
    weights = {"weights to sample with": 2 * shape.parameters}
    match load.sharing:
        case Sharing.APART:
            return weights
        case Sharing.ASLEEP:
            return {f"the trainer's {name}": size for name, size in state.items()} | weights
        case Sharing.TOGETHER:
            return {"the trainer, while it trains": training} | weights
        case Sharing.COPY:
            return {"the trainer, while it trains": training, "weights to sample with": 4 * shape.parameters}
        case Sharing.MODULE:
            return {"the trainer, while it trains": training}


def _sessions(shape: Shape, load: RlLoad, width: int, room: int) -> Sessions:
    """How many fit where a device has ``room`` for weights to sample with, keys and values."""
    if not load.sharing.served:
        left = max(0, room - (4 * shape.parameters if load.sharing is Sharing.COPY else 0))
        longest, mean = (_in_slots(left, shape.kv_bytes(capacity(tokens), width)) for tokens in
                         (load.episodes.longest, load.episodes.mean))  # fmt: skip
        return Sessions(longest * load.samplers, mean * load.samplers, load.samplers)
    each = _devices_of_a_replica(shape, load, room)
    replicas = load.samplers // each
    free = max(0, room * each - 2 * shape.parameters)
    return Sessions(
        replicas * (free // shape.kv_bytes(load.episodes.longest)),
        replicas * (free // shape.kv_bytes(load.episodes.mean)),
        replicas,
    )


def _in_slots(room: int, session: int) -> int:
    """The most sessions that the doubling cache holds in so many bytes; 0 where its first slots are too many."""
    fitting, count = 0, _LEAST_SLOTS
    while count * session <= room:
        fitting, count = count, count * 2
    return fitting


def _devices_of_a_replica(shape: Shape, load: RlLoad, room: int) -> int:
    """The fewest devices (tensor parallel) on which the model and one longest session fit; all where even these are too few."""
    for each in range(1, load.samplers + 1):
        divides = load.samplers % each == 0 and shape.shared_by(each)
        if divides and room * each >= 2 * shape.parameters + shape.kv_bytes(load.episodes.longest):
            return each
    return load.samplers


def decode_rate(shape: Shape, load: RlLoad, sessions: Sessions, speeds: Speeds) -> float:
    """Tokens a second of all samplers.

    A step of a replica reads its weights and its sessions' keys and values once, and multiplies once for each session; a
    session is half as long as at its end, on average.
    """
    if speeds.decode is not None:
        return speeds.decode
    together = max(1, min(-(-load.under_way // sessions.replicas), sessions.mean // sessions.replicas))
    devices = load.samplers // sessions.replicas
    read = 2 * shape.parameters + together * shape.kv_bytes(load.episodes.mean // 2)
    reading = read / (devices * speeds.bandwidth * DECODE_SHARE)
    multiplying = 2.0 * shape.parameters * together / (devices * speeds.flops * MFU)
    return sessions.replicas * together / max(reading, multiplying)


def _seconds(shape: Shape, load: RlLoad, speeds: Speeds, rate: float) -> dict[str, float]:
    """Of a step of mean rollouts: forward passes are a third of forward and backward. Tools and judges are not counted."""
    one, tokens = load.episodes, load.rollouts * load.episodes.mean
    training = load.trainer.ranks * speeds.flops * MFU
    forward = shape.flops(tokens, one.mean, load.rollouts * one.sampled) / 3
    read = shape.flops(tokens - load.rollouts * one.sampled, one.mean, 0) / 3
    found = {
        "reading what tools return": read / (load.samplers * speeds.flops * MFU),
        "sampling": load.rollouts * one.sampled / rate,
    }
    if load.gains:
        probes = load.rollouts * one.turns * PROBE_TOKENS
        found["scoring gains"] = shape.flops(tokens + probes, one.mean, probes) / 3 / training
    if load.passes:
        found["log-probabilities"] = load.passes * forward / training
    return found | {"training": 3 * forward / training}


def _step_seconds(seconds: dict[str, float] | None, load: RlLoad) -> float | None:
    if seconds is None:
        return None
    sampling = seconds["reading what tools return"] + seconds["sampling"]
    rest = sum(seconds.values()) - sampling
    at_once = load.overlaps and load.sharing in (Sharing.COPY, Sharing.APART)
    return max(sampling, rest) if at_once else sampling + rest


# -- a run's plan --------------------------------------------------------------------------------------------------------

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
    setting = stage.context_name if longest is None else "--row-tokens"
    if positions is not None and most > positions:
        raise UserError(
            f"{f'Rollouts of stage {stage.name}' if stage.name else 'Rollouts'} may have {most:,} tokens, the model has "
            f"{positions:,} positions: set {setting}={positions}, or choose a model for longer texts (rope "
            "scaling in its config.json counts)."
        )


def _plans(recipe: RlRecipe, devices: Devices, longest: int | None, decode: float | None) -> tuple[StagePlan, ...]:
    if recipe.model is None:
        raise UserError("There is no model to plan for: give --model, a directory with config.json.")
    shape = read_shape(recipe.model)
    speeds = _speeds(devices, decode)
    found = []
    for stage in stages_of(recipe):
        load = _load(recipe, stage, devices, longest)
        check_placement(recipe, load.trainer.ranks)
        check_parallel(recipe.parallel, load.trainer.ranks, shape)
        found.append(StagePlan(stage, shape, load, devices, rl_estimate(shape, stage.rl.trainer, load, devices.room, speeds)))
    return tuple(found)


def _load(recipe: RlRecipe, stage: Stage, devices: Devices, longest: int | None) -> RlLoad:
    rl, expected, count = stage.rl, recipe.expected, devices.count
    sharing = _sharing(recipe, count)
    samplers = max(1, min(round(count / 2), count - 1)) if sharing is Sharing.APART else count
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
    yield from context_knobs(plan.shape, load.trainer)


def _shorter(recipe: RlRecipe, plan: StagePlan, fits: Callable[[Changes], bool]) -> Changes:
    """The longest rollouts that fit with everything else set, in whole thousands; empty where none do."""
    name = plan.stage.context_name
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
