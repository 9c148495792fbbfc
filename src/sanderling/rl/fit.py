"""What a step of reinforcement learning will take: memory of trainer and sampler, how many sessions fit, and time.

Pure arithmetic over `plan`, importable without torch. Figures are in bytes, per device, for the longest rollout; a step's time
is for mean ones. What training takes is `plan.estimate`'s; here come what rollouts, gains and a reference add to it.
"""

from dataclasses import dataclass
from enum import StrEnum

from sanderling.train.config import Precision, TrainerConfig
from sanderling.train.fit import MFU, Load, estimate
from sanderling.train.shape import Shape

PROBE_TOKENS = 64
"""About that long is what is teacher-forced at a turn's boundary: probe and answer."""
DECODE_SHARE = 0.5
"""The share of a device's memory bandwidth that sampling is reckoned to reach. A guess: no server has been measured."""
_LEAST_SLOTS, _LEAST_CAPACITY = 8, 256
"""Of the cache in this process, which grows by doubling (`policy/kv_cache`)."""
_TILE = 8192
"""Tokens that the scorer hands an MLP at a time where training says nothing."""


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
    heads, pairs = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    per_token = 2 * shape.hidden * 4 + shape.hidden * 4 + (2 * heads + 2 * pairs) * width
    per_token += 2 * (heads - pairs) * width if width == 4 else 0  # on CUDA keys and values are repeated for each query head
    mlp = 3 * shape.intermediate * width * min(tokens, trainer.memory.mlp_tile or _TILE)
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
