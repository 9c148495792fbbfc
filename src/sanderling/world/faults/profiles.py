"""How a world misbehaves, as data: delays, failures, noise in results, tampered pages; and the draws that decide on each call.

A profile is one of `PROFILES` or a TOML file; all chances are 0 by default. What is drawn is a pure function of (world seed,
episode seed, what is asked, occurrence), whatever else is asked: ``FaultyWorld(world, get_faults("web"), seed=7)``.
"""

import hashlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from sanderling.core.config import Frozen, read_config
from sanderling.core.errors import UserError
from sanderling.core.observations import read_observation
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import ToolStatus

Chance = Annotated[float, Field(ge=0, le=1)]
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_ENCODER = json.JSONEncoder(separators=(",", ":"))
Choice = TypeVar("Choice")
FEWEST_DELAYS = 20
_PARTS = 10**6  # shares are rounded down to one of so many, so that together they are never above 1


class Latency(Frozen):
    """A log-normal delay in seconds, by its median and its 95th percentile."""

    median_s: float = Field(default=0.0, ge=0)
    p95_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p95_s < self.median_s:
            raise ValueError(f"p95_s ({self.p95_s:g}) lies below median_s ({self.median_s:g})")
        return self

    def seconds(self, u: float) -> float:
        """The delay of quantile ``u``, to the millisecond: exp(ln m + z(u) ln(p95 / m) / z(0.95))."""
        if self.median_s == 0:
            return 0.0
        return round(self.median_s * math.exp(standard_normal(u) * math.log(self.p95_s / self.median_s) / _Z95), 3)


class _Failures(Frozen):
    """Chances of things of which one at most happens to a call. These two pass when it is tried again."""

    timeout: Chance = 0.0
    rate_limited: Chance = 0.0

    @model_validator(mode="after")
    def _together(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ValueError(f"the chances add up to {total:g}, and only one of these can happen to a call")
        return self


class SearchFaults(_Failures):
    """What a query meets instead of its results."""

    empty: Chance = 0.0


class VisitFaults(_Failures):
    """What a visit meets instead of its page; these stay for the episode."""

    not_found: Chance = 0.0
    gone: Chance = 0.0
    blocked: Chance = 0.0
    paywalled: Chance = 0.0


class ResultNoise(Frozen):
    """What is odd about a list of results: chances for each of its ranks or results."""

    rank_noise: float = Field(default=0.0, ge=0, le=20)
    """Standard deviation, in ranks, of what is added to each result's rank before they are put in order; cut at twice that."""
    near_duplicate: Chance = 0.0  # a copy on another site follows it
    contradicting: Chance = 0.0  # a copy with other numbers follows it
    spam: Chance = 0.0  # a page that only repeats the query stands there
    leaking_snippet: Chance = 0.0  # it is four times as long, and may hold the answer
    misleading_snippet: Chance = 0.0  # its numbers are not the page's


class PageNoise(Frozen):
    """What is odd about a page that can be read."""

    stale: Chance = 0.0  # an earlier state: without the sentences that name the page's newest year
    injected: Chance = 0.0  # it holds an instruction to whoever reads it by machine (`faults.world.order`)


class FaultProfile(Frozen):
    """How a world misbehaves: ``FaultProfile(name="dead", visit=VisitFaults(not_found=0.5))``."""

    name: str = "custom"
    search_latency: Latency = Latency()
    visit_latency: Latency = Latency()
    timeout_s: float = Field(default=30.0, ge=0)  # how long a call takes that times out
    search: SearchFaults = SearchFaults()
    visit: VisitFaults = VisitFaults()
    results: ResultNoise = ResultNoise()
    pages: PageNoise = PageNoise()


_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
TEXTS: Mapping[str, Any] = _TABLES["texts"]
PROFILES = {name: FaultProfile(name=name, **fields) for name, fields in _TABLES["profiles"].items()}


def get_faults(name: str) -> FaultProfile:
    """A named profile, or that of a TOML file. Raises UserError when there is neither, or the file does not hold one."""
    if name in PROFILES:
        return PROFILES[name]
    if Path(name).is_file():
        return read_config(FaultProfile, Path(name))
    raise UserError(f"There are no faults {name!r}: choose {', '.join(PROFILES)}, or give a TOML file.")


def with_injections(profile: FaultProfile, share: float) -> FaultProfile:
    """The profile with another share of pages that hold instructions; its name says so. Raises ValueError outside [0, 1]."""
    pages = PageNoise(stale=profile.pages.stale, injected=share)
    return profile.model_copy(update={"pages": pages, "name": f"{profile.name}-injected-{share:g}"})


def standard_normal(u: float) -> float:
    """The standard normal value below which a share ``u`` in [0, 1) of all values lies; the ends are cut at 2^-54."""
    return _NORMAL.inv_cdf(min(max(u, 2**-54), 1 - 2**-53))


def choose(u: float, chances: Mapping[Choice, float]) -> Choice | None:
    """The choice whose stretch of [0, 1) holds ``u``, the stretches laid end to end in order; None past the last."""
    reached = 0.0
    for choice, chance in chances.items():
        reached += chance
        if u < reached:
            return choice
    return None


@dataclass(frozen=True)
class Draws:
    """The draws of one episode in one world: ``Draws(7, 3).uniform("visit", "https://a.example", 0)``."""

    world_seed: int
    episode_seed: int

    def uniform(self, *key: str | int) -> float:
        """A number in [0, 1) for a key: the first 53 bits of the SHA-256 of its JSON, after that of the seeds."""
        text = _ENCODER.encode((self.world_seed, self.episode_seed, *key))
        return (int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big") >> 11) / 2**53

    def happens(self, chance: float, *key: str | int) -> bool:
        """Whether something of this chance happens; never for 0, always for 1."""
        return chance > 0 and self.uniform(*key) < chance


@dataclass(frozen=True)
class FittedProfile:
    """A profile and how many queries, visits and delays of each it was fitted to."""

    profile: FaultProfile
    queries: int
    visits: int
    search_delays: int
    visit_delays: int


def fit_profile(trajectories: Iterable[Trajectory], name: str = "fitted") -> FittedProfile:
    """`web` with failures, and delays if enough, as recorded; a kind of call that was not recorded keeps its own.

    Records that hold events (one status for each query or URL) are counted by them, imports by what their observations say: a
    dead page there counts as not found. Noise cannot be read off a record. Raises UserError when no call was recorded.
    """
    met: dict[str, Counter[ToolStatus]] = {"search": Counter(), "visit": Counter()}
    delays: dict[str, list[float]] = {"search": [], "visit": []}
    nodes = (node for trajectory in trajectories for node in trajectory.branch())
    for node in (node for node in nodes if node.kind is NodeKind.OBSERVATION):
        events = [event for event in node.events if event.role in met]
        for event in events:
            lost = (event.status,) if event.status is ToolStatus.TIMEOUT else ()
            met[event.role].update(event.parts or lost)
            if len(event.parts) == 1 and event.latency_s > 0 and event.parts[0] is not ToolStatus.TIMEOUT:
                delays[event.role].append(event.latency_s)
        if not any(event.parts for event in events):
            reading = read_observation(node.text)
            met["search"].update(ToolStatus.OK if block.hits else ToolStatus.EMPTY for block in reading.blocks)
            met["visit"].update(ToolStatus.NOT_FOUND if page.dead else ToolStatus.OK for page in reading.extracts)
    update: dict[str, Any] = {"name": name}
    for role, faults in (("search", SearchFaults), ("visit", VisitFaults)):
        if total := met[role].total():
            shares = {fault: met[role][ToolStatus(fault)] * _PARTS // total / _PARTS for fault in faults.model_fields}
            update[role] = faults(**shares)
        if len(delays[role]) >= FEWEST_DELAYS:
            median, p95 = (round(float(value), 4) for value in np.quantile(delays[role], (0.5, 0.95)))
            update[f"{role}_latency"] = Latency(median_s=median, p95_s=p95)
    queries, visits = met["search"].total(), met["visit"].total()
    if not queries + visits:
        raise UserError("No call of search or visit is recorded there: give trajectories whose tools were called.")
    profile = PROFILES["web"].model_copy(update=update)
    return FittedProfile(profile, queries, visits, len(delays["search"]), len(delays["visit"]))
