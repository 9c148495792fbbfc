"""How a world misbehaves, as data: delays, failures, noise in results, tampered pages. Frozen, TOML-able, without torch.

All chances are in [0, 1]; the default of each is 0. Where the numbers of the named profiles come from is said beside them.
Knows no world.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sanderling.core.config import read_config
from sanderling.core.errors import UserError

Chance = Annotated[float, Field(ge=0, le=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Latency(_Settings):
    """A log-normal delay in seconds, by its median and its 95th percentile."""

    median_s: float = Field(default=0.0, ge=0)
    p95_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p95_s < self.median_s:
            raise ValueError(f"p95_s ({self.p95_s:g}) lies below median_s ({self.median_s:g})")
        return self


class _OneAtMost(_Settings):
    """Chances of things of which one at most happens to a call."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        total = sum(self.model_dump().values())
        if total > 1 + 1e-9:
            raise ValueError(f"the chances add up to {total:g}, and only one of these can happen to a call")
        return self


class SearchFaults(_OneAtMost):
    """What a query meets instead of its results; one at most."""

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


class ResultNoise(_Settings):
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


class PageNoise(_Settings):
    """What is odd about a page that can be read."""

    stale: Chance = 0.0
    """An earlier state: without the sentences that name the page's newest year."""
    injected: Chance = 0.0
    """It holds an instruction to whoever reads it by machine (see `injection`)."""


class DynamicsProfile(_Settings):
    """How a world misbehaves.

    Example: ``DynamicsProfile(name="dead", visit=VisitFaults(not_found=0.5))``
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


CALM = DynamicsProfile(
    name="calm",
    search_latency=Latency(median_s=0.15, p95_s=0.3),
    visit_latency=Latency(median_s=0.17, p95_s=0.35),
)
"""Nothing fails and nothing lies. Delays are those that LiteResearcher reports of its own local world (0.15 s a search,
0.17 s a page; arXiv 2604.17931), taken as medians; their 95th percentiles are ours (twice the median)."""

WEB = DynamicsProfile(
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
(`fit.fit_profile` over them): 21 of 273 visits (7.7%) met a page that could not be read, here 7.5%, and 4 (1.5%) timed out.
The records do not say why a page failed: how the share is split is ours. Empty lists (17 of 787 queries) come from the queries,
and are not drawn. The rest is ours: search failures, rate limits, noise in results and pages; small, and not measured.
"""

HOSTILE = DynamicsProfile(
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

NAMED = {profile.name: profile for profile in (CALM, WEB, HOSTILE)}


def get_dynamics(name: str) -> DynamicsProfile:
    """A named profile, or that of a TOML file. Raises UserError when there is neither, or the file does not hold one."""
    if name in NAMED:
        return NAMED[name]
    if Path(name).is_file():
        return read_config(DynamicsProfile, Path(name))
    raise UserError(f"There are no dynamics {name!r}: choose {', '.join(NAMED)}, or give a TOML file.")


def with_injections(profile: DynamicsProfile, share: float) -> DynamicsProfile:
    """The profile with another share of pages that hold instructions; its name says so. Raises ValueError outside [0, 1]."""
    pages = PageNoise(stale=profile.pages.stale, injected=share)
    return profile.model_copy(update={"pages": pages, "name": f"{profile.name}-injected-{share:g}"})
