"""A profile out of recorded calls: how often they failed, and, where the records hold any, how long they took.

Contract: plain shares of what was recorded. Records that hold events in full (one status for each query or URL) are counted by
them; imports by what their observations say. Those tell a dead page, but not why it was dead: it counts as not found. A call
that timed out without a word about its parts counts as one. Delays come from events of one part with a delay, when there are
at least 20 of a kind; imported records hold none, and the base profile's delays stay. Noise in results and pages cannot be read
off a record, and stays too. Knows no world.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sanderling.core.errors import UserError
from sanderling.core.observations import read_observation
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import ToolStatus
from sanderling.world.dynamics.profile import WEB, DynamicsProfile, Latency, SearchFaults, VisitFaults

FEWEST_DELAYS = 20
_PARTS = 10**6
"""Shares are rounded down to one of so many, so that together they are never above 1."""
_FAILURES = {
    "search": (ToolStatus.TIMEOUT, ToolStatus.RATE_LIMITED, ToolStatus.EMPTY),
    "visit": (
        ToolStatus.TIMEOUT,
        ToolStatus.RATE_LIMITED,
        ToolStatus.NOT_FOUND,
        ToolStatus.GONE,
        ToolStatus.BLOCKED,
        ToolStatus.PAYWALLED,
    ),
}


@dataclass(frozen=True)
class FittedProfile:
    """A profile and what it was fitted to."""

    profile: DynamicsProfile
    queries: int
    visits: int
    search_delays: int
    """How many delays were recorded; below `FEWEST_DELAYS` none is used."""
    visit_delays: int


def fit_profile(trajectories: Iterable[Trajectory], name: str = "fitted", base: DynamicsProfile = WEB) -> FittedProfile:
    """The base profile with failures (and delays) as recorded. Raises UserError when no call was recorded.

    A kind of call that was not recorded keeps the base's failures.
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
    return {status.value: met[role][status] * _PARTS // total / _PARTS for status in _FAILURES[role]}


def _latency(seconds: list[float], base: Latency) -> Latency:
    if len(seconds) < FEWEST_DELAYS:
        return base
    median, p95 = (round(float(value), 4) for value in np.quantile(seconds, (0.5, 0.95)))
    return Latency(median_s=median, p95_s=p95)
