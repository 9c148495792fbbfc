"""How a world misbehaves, as data: delays, failures, noise in results, tampered pages; and the draws that decide on each call.

A profile is one of `PROFILES` or a TOML file. All chances are in [0, 1] and 0 by default. What is drawn is a pure function of
(world seed, episode seed, what is asked, occurrence): calls may be permuted, made at the same time, or made in another process,
and each still draws what it would have drawn alone.

    world = FaultyWorld(world, get_faults("web"), seed=7)   # of faults.world
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from sanderling.core.config import Frozen, read_config
from sanderling.core.errors import UserError
from sanderling.core.observations import read_observation
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import ToolStatus

Chance = Annotated[float, Field(ge=0, le=1)]


class Latency(Frozen):
    """A log-normal delay in seconds, by its median and its 95th percentile."""

    median_s: float = Field(default=0.0, ge=0)
    p95_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p95_s < self.median_s:
            raise ValueError(f"p95_s ({self.p95_s:g}) lies below median_s ({self.median_s:g})")
        return self


class _OneAtMost(Frozen):
    """Chances of things of which one at most happens to a call."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ValueError(f"the chances add up to {total:g}, and only one of these can happen to a call")
        return self


class SearchFaults(_OneAtMost):
    """What a query meets instead of its results."""

    timeout: Chance = 0.0
    rate_limited: Chance = 0.0
    empty: Chance = 0.0


class VisitFaults(_OneAtMost):
    """What a visit meets instead of its page. The first two pass when tried again; the others stay for the episode."""

    timeout: Chance = 0.0
    rate_limited: Chance = 0.0
    not_found: Chance = 0.0
    gone: Chance = 0.0
    blocked: Chance = 0.0
    paywalled: Chance = 0.0


class ResultNoise(Frozen):
    """What is odd about a list of results."""

    rank_noise: float = Field(default=0.0, ge=0, le=20)
    """Standard deviation, in ranks, of what is added to each result's rank before they are put in order; cut at twice that."""
    near_duplicate: Chance = 0.0
    """Per result: a copy on another site follows it."""
    contradicting: Chance = 0.0
    """Per result: a copy with other numbers follows it."""
    spam: Chance = 0.0
    """Per rank: a page that only repeats the query stands there."""
    leaking_snippet: Chance = 0.0
    """Per result: the snippet is four times as long, and may hold the answer."""
    misleading_snippet: Chance = 0.0
    """Per result: the snippet's numbers are not the page's."""


class PageNoise(Frozen):
    """What is odd about a page that can be read."""

    stale: Chance = 0.0
    """An earlier state: without the sentences that name the page's newest year."""
    injected: Chance = 0.0
    """It holds an instruction to whoever reads it by machine (`world.order`)."""


class FaultProfile(Frozen):
    """How a world misbehaves.

    Example: ``FaultProfile(name="dead", visit=VisitFaults(not_found=0.5))``
    """

    name: str = "custom"
    search_latency: Latency = Latency()
    visit_latency: Latency = Latency()
    timeout_s: float = Field(default=30.0, ge=0)
    """How long a call takes that times out."""
    search: SearchFaults = SearchFaults()
    visit: VisitFaults = VisitFaults()
    results: ResultNoise = ResultNoise()
    pages: PageNoise = PageNoise()


CALM = FaultProfile(
    name="calm", search_latency=Latency(median_s=0.15, p95_s=0.3), visit_latency=Latency(median_s=0.17, p95_s=0.35)
)
"""Nothing fails and nothing lies. Delays are those that LiteResearcher reports of its own local world (0.15 s a search,
0.17 s a page; arXiv 2604.17931), taken as medians; their 95th percentiles are ours (twice the median)."""

WEB = FaultProfile(
    name="web",
    search_latency=Latency(median_s=1.5, p95_s=4.0),
    visit_latency=Latency(median_s=7.9, p95_s=25.0),
    timeout_s=60.0,
    search=SearchFaults(timeout=0.005, rate_limited=0.005, empty=0.0),
    visit=VisitFaults(timeout=0.015, rate_limited=0.01, not_found=0.03, gone=0.005, blocked=0.03, paywalled=0.01),
    results=ResultNoise(
        rank_noise=0.5, near_duplicate=0.02, contradicting=0.005, spam=0.01, leaking_snippet=0.02, misleading_snippet=0.005
    ),
    pages=PageNoise(stale=0.02),
)
"""An ordinary day. Delays: the live figures that LiteResearcher reports (search engine about 1.5 s, page reader 7.9 s), taken
as medians; the 95th percentiles are ours. Failed visits are set after recorded calls of agents on the live web
(`fit_profile` over them): 21 of 273 visits (7.7%) met a page that could not be read, here 7.5%, and 4 (1.5%) timed out.
The records do not say why a page failed: how the share is split is ours. Empty lists (17 of 787 queries) come from the queries,
and are not drawn. The rest is ours: search failures, rate limits, noise in results and pages; small, and not measured.
"""

HOSTILE = FaultProfile(
    name="hostile",
    search_latency=Latency(median_s=3.0, p95_s=20.0),
    visit_latency=Latency(median_s=12.0, p95_s=60.0),
    timeout_s=90.0,
    search=SearchFaults(timeout=0.05, rate_limited=0.1, empty=0.02),
    visit=VisitFaults(timeout=0.08, rate_limited=0.05, not_found=0.1, gone=0.03, blocked=0.1, paywalled=0.05),
    results=ResultNoise(
        rank_noise=2.0, near_duplicate=0.1, contradicting=0.1, spam=0.15, leaking_snippet=0.05, misleading_snippet=0.1
    ),
    pages=PageNoise(stale=0.15),
)
"""A bad day, to see what breaks: all numbers are ours, set so that an episode of ten visits meets about four failures, and so
that nearly every list of ten results holds something to distrust. Instructions within pages stay off here too."""

PROFILES = {profile.name: profile for profile in (CALM, WEB, HOSTILE)}


def get_faults(name: str) -> FaultProfile:
    """A named profile, or that of a TOML file. Raises UserError when there is neither, or the file does not hold one."""
    if name in PROFILES:
        return PROFILES[name]
    if Path(name).is_file():
        return read_config(FaultProfile, Path(name))
    raise UserError(f"There are no dynamics {name!r}: choose {', '.join(PROFILES)}, or give a TOML file.")


def with_injections(profile: FaultProfile, share: float) -> FaultProfile:
    """The profile with another share of pages that hold instructions; its name says so. Raises ValueError outside [0, 1]."""
    pages = PageNoise(stale=profile.pages.stale, injected=share)
    return profile.model_copy(update={"pages": pages, "name": f"{profile.name}-injected-{share:g}"})


# Draws

Choice = TypeVar("Choice")
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def uniform(*key: str | int) -> float:
    """A number in [0, 1) for a key: the first 53 bits of the SHA-256 of its JSON."""
    digest = hashlib.sha256(_ENCODER.encode(key).encode("ascii")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


def standard_normal(u: float) -> float:
    """The standard normal value below which a share ``u`` in [0, 1) of all values lies; the ends are cut at 2^-54."""
    return _NORMAL.inv_cdf(min(max(u, 2**-54), 1 - 2**-53))


def log_normal(u: float, median: float, p95: float) -> float:
    """The value of quantile ``u`` of a log-normal distribution: exp(ln m + z(u) ln(p95 / m) / z(0.95))."""
    if median == 0:
        return 0.0
    return median * math.exp(standard_normal(u) * math.log(p95 / median) / _Z95)


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
    """The draws of one episode in one world.

    Example: ``Draws(world_seed=7, episode_seed=3).uniform("visit", "https://a.example", 0)``
    """

    world_seed: int
    episode_seed: int

    def uniform(self, *key: str | int) -> float:
        """A number in [0, 1)."""
        return uniform(self.world_seed, self.episode_seed, *key)

    def happens(self, chance: float, *key: str | int) -> bool:
        """Whether something of this chance happens; never for 0, always for 1."""
        return chance > 0 and self.uniform(*key) < chance


# A profile out of recorded calls

FEWEST_DELAYS = 20
_FAILURES = {"search": tuple(SearchFaults.model_fields), "visit": tuple(VisitFaults.model_fields)}
_PARTS = 10**6
"""Shares are rounded down to one of so many, so that together they are never above 1."""


@dataclass(frozen=True)
class FittedProfile:
    """A profile and what it was fitted to."""

    profile: FaultProfile
    queries: int
    visits: int
    search_delays: int
    """How many delays were recorded; below `FEWEST_DELAYS` none is used."""
    visit_delays: int


def fit_profile(trajectories: Iterable[Trajectory], name: str = "fitted", base: FaultProfile = WEB) -> FittedProfile:
    """The base profile with failures, and delays if any, as recorded; a kind of call that was not recorded keeps the base's.

    Records that hold events in full (one status for each query or URL) are counted by them, imports by what their observations
    say. Those tell a dead page, but not why it was dead: it counts as not found. A call that timed out without a word about its
    parts counts as one. Noise in results and pages cannot be read off a record.
    Raises UserError when no call was recorded.
    """
    met: dict[str, Counter[ToolStatus]] = {"search": Counter(), "visit": Counter()}
    delays: dict[str, list[float]] = {"search": [], "visit": []}
    for trajectory in trajectories:
        for node in trajectory.branch():
            if node.kind is NodeKind.OBSERVATION:
                _count(node, met, delays)
    queries, visits = met["search"].total(), met["visit"].total()
    if not queries + visits:
        raise UserError("No call of search or visit is recorded there: give trajectories whose tools were called.")
    profile = base.model_copy(
        update={
            "name": name,
            "search": SearchFaults(**_shares("search", met)) if queries else base.search,
            "visit": VisitFaults(**_shares("visit", met)) if visits else base.visit,
            "search_latency": _latency(delays["search"], base.search_latency),
            "visit_latency": _latency(delays["visit"], base.visit_latency),
        }
    )
    return FittedProfile(profile, queries, visits, len(delays["search"]), len(delays["visit"]))


def _count(node: Node, met: dict[str, Counter[ToolStatus]], delays: dict[str, list[float]]) -> None:
    events = [event for event in node.events if event.role in met]
    reading = read_observation(node.text)
    for event in events:
        if event.parts:
            met[event.role].update(event.parts)
        elif event.status is ToolStatus.TIMEOUT:
            met[event.role][event.status] += 1
        if len(event.parts) == 1 and event.latency_s > 0 and event.parts[0] is not ToolStatus.TIMEOUT:
            delays[event.role].append(event.latency_s)
    if not any(event.parts for event in events):
        met["search"].update(ToolStatus.OK if block.hits else ToolStatus.EMPTY for block in reading.blocks)
        met["visit"].update(ToolStatus.NOT_FOUND if page.dead else ToolStatus.OK for page in reading.extracts)


def _shares(role: str, met: dict[str, Counter[ToolStatus]]) -> dict[str, float]:
    total = met[role].total()
    return {name: met[role][ToolStatus(name)] * _PARTS // total / _PARTS for name in _FAILURES[role]}


def _latency(seconds: list[float], base: Latency) -> Latency:
    if len(seconds) < FEWEST_DELAYS:
        return base
    median, p95 = (round(float(value), 4) for value in np.quantile(seconds, (0.5, 0.95)))
    return Latency(median_s=median, p95_s=p95)
