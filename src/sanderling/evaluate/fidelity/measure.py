"""How far a world resembles recorded calls that it was not built from: the measure, its figures, and what they cannot show.

The values of each recorded query and visit are `world.fidelity`'s; here they become means with their n and two 95% intervals
each, and distributions. The first interval resamples queries (or visits), the second whole questions: queries of one question
depend on each other, so the second is the honest one where questions are few. Means are over the rows in which a measure is
defined. Figures of domains are of all results together; their interval is the figure ± 1.96 standard deviations of its
bootstrap over queries, because resampling repeats lists and shifts such figures. A report holds numbers and counts only:
neither texts nor addresses.

Example: ``measure_fidelity(Path("worlds/w"), Path("recorded"), Path("report"), FidelityConfig(k=5)).parts[0].figures``
"""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import numpy as np
from pydantic import ConfigDict, Field

import sanderling
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.core.types import ToolStatus
from sanderling.data.recorded_source import read_recorded
from sanderling.evaluate.reports.recipe import RunFacts
from sanderling.evaluate.statistics import (
    FloatArray,
    Interval,
    bootstrap_interval,
    constant_interval,
    mean_interval,
)
from sanderling.runs.files import or_cannot
from sanderling.runs.provenance import command_line, machine, peak_memory_mb
from sanderling.world.contract import World, answered
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import read_manifest
from sanderling.world.fidelity import (
    MEASURES,
    QueryRow,
    Settings,
    VisitRow,
    compare_searches,
    compare_visits,
    recorded_calls,
    weight_of_top,
)
from sanderling.world.opening import open_as_met
from sanderling.world.recorded import BuiltFrom, Unit, read_built_from, sides, was_asked

UNSEEN = "held out"
BUILT_IN = "built in (upper bound)"
LIMITS = (
    "Nothing here was measured against today's web: the only reference is what was recorded, and no live engine was asked.",
    "The recorded lists come from commercial engines that are not named, at dates that are not known, in several set-ups; two "
    "live engines, or one on two days, would not agree fully either, and how far they would is not known here.",
    "The world ranks by words; a commercial engine ranks by much else. Low agreement of ranks is not low quality for an agent: "
    "relevance was judged by nobody, and whether agents do equally well in both is another measure.",
    "Coverage is bounded by what was recorded. A world of recorded trajectories holds the pages that others met; it does not "
    "know what else the web would have shown.",
    "Recorded extracts were written by a language model that was given a goal; the world cuts passages. Shared words measure "
    "both differences at once. Why a recorded visit failed is mostly not told.",
    "Answering pages and leaks are found by words, and nobody judged them. Answering pages are those that recorded agents "
    "opened, mostly from the recorded lists themselves: the recorded side of these figures is favoured by construction.",
    "Latencies were not recorded in trajectories, so none are compared. A domain is a host name without www.",
)
"""What the figures cannot show, in plain words."""
STEP = 5
"""Words between two points of a distribution of lengths."""
_MOST_WORDS = 100
_RESAMPLES = 2_000
_DOMAIN_RESAMPLES = 500
_CHUNK = 100
"""Resamples drawn at once: bounds memory whatever the number of questions."""


class FidelityConfig(Frozen):
    """What a comparison depends on."""

    k: int = Field(10, ge=1)
    """Results compared of each list."""
    p: float = 0.9
    """Persistence of rank-biased overlap, between 0 and 1."""
    snippet_words: int = Field(30, ge=1)
    """Most words of the world's snippets."""
    built_in: bool = False
    """Also compare what the world was built from: an upper bound."""
    seed: int = 0
    """Of the intervals."""
    search: SearchMode = SearchMode.LEXICAL

    @property
    def settings(self) -> Settings:
        return Settings(k=self.k, p=self.p, snippet_words=self.snippet_words)


class _Model(Frozen):
    model_config = ConfigDict(ser_json_inf_nan="null")


class Figure(_Model):
    """One number."""

    name: str
    meaning: str
    n: int
    """Rows in which it is defined."""
    value: float | None
    interval: Interval | None
    """95%, over queries or visits; None for fewer than two."""
    interval_by_question: Interval | None = None
    """95%, over questions; None where there is one question only."""


class Lengths(_Model):
    """Words of all snippets of one side."""

    n: int
    mean: float | None
    quantiles: dict[str, float]
    cumulative: tuple[float, ...]
    """Share of the snippets with at most 0, 5, 10 ... words."""


class Part(_Model):
    """The figures of one set of recorded trajectories."""

    label: str
    remark: str
    trajectories: int
    questions: int
    searches: int
    distinct_queries: int
    asked_before: int
    """Queries that trajectories of the build made too, word for word: left out of every figure of unseen trajectories."""
    empty_lists: int
    visits: int
    figures: tuple[Figure, ...]
    domains: tuple[Figure, ...]
    snippets_recorded: Lengths
    snippets_world: Lengths
    snippet_distance: float | None
    """Kolmogorov-Smirnov distance of the two distributions of lengths."""
    visits_recorded: dict[str, int]
    """Status -> count."""
    visits_world: dict[str, int]
    gold_questions: int = 0
    """Questions with a known answering page."""
    gold_ranks_recorded: tuple[int, ...] = ()
    """Lists whose first answering page has rank 1, 2, … k; last, those that list none."""
    gold_ranks_world: tuple[int, ...] = ()


class FidelityReport(_Model):
    """All figures with what made them."""

    run: RunFacts
    world: str
    world_source: str
    fingerprint: str
    pages: int
    settings: dict[str, float]
    weight_of_top_k: float
    """Share of the weight of rank-biased overlap within the first k ranks; the rest is extrapolated."""
    parts: tuple[Part, ...]
    same_question: int
    """Trajectories that were not built in, but whose question was: compared in no part."""
    remarks: tuple[str, ...]
    limits: tuple[str, ...] = LIMITS


# A comparison ---------------------------------------------------------------------------------------------------------------


def measure_fidelity(directory: Path, against: Path, out: Path, config: FidelityConfig) -> FidelityReport:
    """Compare a world's directory with recorded trajectories, or a recording, and write page and JSON into ``out``.

    Raises UserError when no trajectory is left to compare, or when a recorded world does not say what it was built from.
    """
    from sanderling.evaluate.fidelity.page import write_fidelity

    if not 0.0 < config.p < 1.0:
        raise UserError(f"--p is {config.p:g}: give a number between 0 and 1, such as 0.9.")
    started = time.perf_counter()
    manifest, known = read_manifest(directory), read_built_from(directory)
    world = open_as_met(directory, search=config.search)
    with or_cannot(f"make {out}", "choose another place with --out"):
        out.mkdir(parents=True, exist_ok=True)
    comparison = _Comparison(world, manifest.source, known, config)
    parts, same_question, remarks = comparison.parts(read_recorded(against).trajectories)
    run = RunFacts(
        command=command_line(),
        seed=config.seed,
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        version=sanderling.__version__,
        seconds=round(time.perf_counter() - started, 1),
        peak_memory_mb=round(peak_memory_mb(0)),
    )
    report = FidelityReport(
        run=run,
        world=world.name,
        world_source=manifest.source,
        fingerprint=world.fingerprint,
        pages=world.page_count,
        settings={name: float(value) for name, value in vars(config.settings).items()},
        weight_of_top_k=weight_of_top(config.k, config.p),
        parts=tuple(parts),
        same_question=same_question,
        remarks=tuple(remarks),
    )
    write_fidelity(report, out)
    return report


@dataclass(frozen=True)
class _Comparison:
    """A world to be compared; ``known``: the trajectories it was built from, None for one that remembers none."""

    world: World
    source: str
    known: BuiltFrom | None
    config: FidelityConfig

    def parts(self, trajectories: Sequence[Trajectory]) -> tuple[list[Part], int, list[str]]:
        """The parts, how many trajectories were left out for their question, and remarks."""
        known = self.known
        if known is None:
            if self.source.startswith("recorded"):
                raise UserError("This recorded world does not say which trajectories it was built from: build it again.")
            remark = (
                "The world keeps no list of trajectories that it was built from, so nothing shows that these were held out."
            )
            return [self._part("recorded calls", remark, trajectories, None)], 0, [remark]
        found, parts = sides(trajectories, known), []
        if found.unseen:
            of = (
                "of questions it never saw"
                if known.unit is Unit.QUESTION
                else "though perhaps from other attempts at their questions"
            )
            remark = f"Trajectories the world was not built from, {of} (share {known.share:g}, seed {known.seed})."
            parts.append(self._part(UNSEEN, remark, found.unseen, known))
        elif not self.config.built_in:
            raise UserError(
                f"All {len(trajectories)} trajectories were built into this world, or share a question with one that was: "
                "build it again with --hold-out 0.2, give others, or ask for the upper bound with --built-in."
            )
        if self.config.built_in and found.built_in:
            remark = "Trajectories the world was built from: it knows these pages. An upper bound, no measure of fidelity."
            parts.append(self._part(BUILT_IN, remark, found.built_in, None))
        if not parts:
            raise UserError("None of these trajectories can be compared with this world: give the ones it was built beside.")
        remarks = [] if found.unseen else ["No held-out trajectory was given: there is only the upper bound."]
        if " + " in self.source:
            remarks.append(
                "This world has other sources too: nothing shows that none of them holds what these trajectories met."
            )
        return parts, len(found.same_question), remarks

    def _part(self, label: str, remark: str, trajectories: Sequence[Trajectory], known: BuiltFrom | None) -> Part:
        """``known``: what the build knew; its very queries are left out."""
        calls, settings = recorded_calls(trajectories), self.config.settings
        kept = [search for search in calls.searches if known is None or not was_asked(search, known)]
        return part(
            label,
            remark,
            compare_searches(kept, self.world, self._holds, settings),
            compare_visits(calls.visits, self.world, self._holds, settings),
            trajectories=len(trajectories),
            distinct_queries=len({search.query for search in kept}),
            asked_before=len(calls.searches) - len(kept),
            seed=self.config.seed,
            k=settings.k,
        )

    def _holds(self, url: str) -> bool:
        """Whether an agent could find a page at an address: one that is blocked is not there."""
        return answered(self.world.visit(url, max_words=1)).status is not ToolStatus.NOT_FOUND


# Figures --------------------------------------------------------------------------------------------------------------------


def part(
    label: str,
    remark: str,
    queries: Sequence[QueryRow],
    visits: Sequence[VisitRow],
    *,
    trajectories: int,
    distinct_queries: int,
    asked_before: int,
    seed: int,
    k: int = 10,
) -> Part:
    """All figures of one set of trajectories. The same rows and seed give the same figures."""
    recorded = list(chain.from_iterable(row.lengths_recorded for row in queries))
    shown = list(chain.from_iterable(row.lengths_world for row in queries))
    gold = [(row.group, row.gold_ranks) for row in queries if row.gold_ranks is not None]

    def ranks(side: int) -> tuple[int, ...]:
        counts = Counter(found[side] for _, found in gold)
        return tuple(counts[rank] for rank in [*range(1, k + 1), 0]) if gold else ()

    return Part(
        label=label,
        remark=remark,
        trajectories=trajectories,
        questions=len({row.group for row in [*queries, *visits]}),
        searches=len(queries),
        distinct_queries=distinct_queries,
        asked_before=asked_before,
        empty_lists=sum(not row.domains_recorded for row in queries),
        visits=len(visits),
        figures=measures(queries, visits, seed=seed),
        domains=domains(queries, seed=seed),
        snippets_recorded=lengths(recorded),
        snippets_world=lengths(shown),
        snippet_distance=distance(recorded, shown),
        visits_recorded=dict(sorted(Counter(row.recorded.value for row in visits).items())),
        visits_world=dict(sorted(Counter(row.world.value for row in visits).items())),
        gold_questions=len({group for group, _ in gold}),
        gold_ranks_recorded=ranks(0),
        gold_ranks_world=ranks(1),
    )


def measures(queries: Sequence[QueryRow], visits: Sequence[VisitRow], *, seed: int) -> tuple[Figure, ...]:
    """A figure for each of `world.fidelity.MEASURES`, in that order."""
    rows: list[tuple[str, Mapping[str, float | None]]] = [(row.group, row.values) for row in [*queries, *visits]]
    return tuple(_figure(name, meaning, rows, seed) for name, meaning in MEASURES.items())


def _figure(name: str, meaning: str, rows: Sequence[tuple[str, Mapping[str, float | None]]], seed: int) -> Figure:
    defined = [(group, value) for group, values in rows if (value := values.get(name)) is not None]
    if not defined:
        return Figure(name=name, meaning=meaning, n=0, value=None, interval=None)
    values = np.array([value for _, value in defined], dtype=np.float64)
    over_rows = bootstrap_interval if "words" in name or name.startswith("results") else mean_interval
    return Figure(
        name=name,
        meaning=meaning,
        n=len(defined),
        value=float(values.mean()),
        interval=over_rows(values, seed=seed) if len(defined) > 1 else None,
        interval_by_question=by_question([group for group, _ in defined], values, seed=seed),
    )


def by_question(groups: Sequence[str], values: FloatArray, *, seed: int) -> Interval | None:
    """95% bootstrap interval of the mean of all values, resampling whole groups; None for fewer than two groups.

    Where all values are 0 or all are 1, Wilson's interval over the groups, as a bootstrap would have no width.
    ``groups``, ``values``: one of each for a row (N), values finite.
    """
    names, at = np.unique(np.asarray(groups), return_inverse=True)
    if len(names) < 2:
        return None
    same = constant_interval(np.full(len(names), values[0])) if bool((values == values[0]).all()) else None
    sums, counts = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    if same is not None:
        return same
    rng = np.random.default_rng([seed, 1])
    drawn = (rng.integers(0, len(names), (_CHUNK, len(names))) for _ in range(_RESAMPLES // _CHUNK))
    means = np.concatenate([sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1) for chosen in drawn])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def domains(queries: Sequence[QueryRow], *, seed: int) -> tuple[Figure, ...]:
    """Concentration of all results on domains, for the recorded lists and the world's."""
    recorded = _concentration("recorded", "recorded results", [row.domains_recorded for row in queries], seed)
    return (*recorded, *_concentration("world", "results of the world", [row.domains_world for row in queries], seed))


def _concentration(side: str, whose: str, lists: Sequence[tuple[str, ...]], seed: int) -> list[Figure]:
    meanings = {
        f"top1_{side}": f"Share of all {whose} from their commonest domain",
        f"top5_{side}": f"Share of all {whose} from their five commonest domains",
        f"entropy_{side}": f"Entropy of the domains of all {whose}, in bits",
    }
    n = sum(map(len, lists))
    if not n:
        return [Figure(name=name, meaning=meaning, n=0, value=None, interval=None) for name, meaning in meanings.items()]
    counts = list(Counter(chain.from_iterable(lists)).values())
    most = sorted(counts, reverse=True)
    values = (most[0] / n, sum(most[:5]) / n, sum(-count / n * math.log2(count / n) for count in counts) + 0.0)
    _, columns = np.unique(np.array(list(chain.from_iterable(lists))), return_inverse=True)
    rows = np.repeat(np.arange(len(lists)), [len(listed) for listed in lists])
    rng, drawn = np.random.default_rng([seed, 2]), np.empty((_DOMAIN_RESAMPLES, 3))
    for index in range(_DOMAIN_RESAMPLES):
        weights = np.bincount(rng.integers(0, len(lists), len(lists)), minlength=len(lists)).astype(np.float64)
        drawn[index] = _shares(np.bincount(columns, weights[rows]).astype(np.float64))
    found = []
    for (name, meaning), value, spread in zip(meanings.items(), values, drawn.std(axis=0).tolist(), strict=True):
        largest = math.inf if name.startswith("entropy") else 1.0
        around = Interval(max(0.0, value - 1.96 * spread), min(largest, value + 1.96 * spread))
        found.append(Figure(name=name, meaning=meaning, n=n, value=value, interval=around))
    return found


def _shares(counts: FloatArray) -> tuple[float, float, float]:
    """Top-1 share, top-5 share and entropy of counts of domains."""
    shares = counts[counts > 0] / max(1.0, float(counts.sum()))
    best = np.sort(shares)[::-1]
    return float(best[:1].sum()), float(best[:5].sum()), float(-(shares * np.log2(shares)).sum())


def lengths(values: Sequence[int]) -> Lengths:
    """The distribution of snippet lengths."""
    x = np.asarray(values, dtype=np.float64)
    return Lengths(
        n=len(values),
        mean=float(x.mean()) if x.size else None,
        quantiles={f"{q:g}": float(np.quantile(x, q)) for q in (0.1, 0.25, 0.5, 0.75, 0.9)} if x.size else {},
        cumulative=tuple(float((x <= cut).mean()) for cut in range(0, _MOST_WORDS + 1, STEP)) if x.size else (),
    )


def distance(a: Sequence[int], b: Sequence[int]) -> float | None:
    """Greatest difference of the two empirical distribution functions, in [0, 1]; None when one is empty."""
    if not a or not b:
        return None
    x, y = np.sort(np.asarray(a)), np.sort(np.asarray(b))
    at = np.concatenate([x, y])
    return float(np.abs(np.searchsorted(x, at, "right") / x.size - np.searchsorted(y, at, "right") / y.size).max())
