"""How far a world resembles recorded calls that it was not built from: the measure and its figures.

The values of each recorded query and visit are `world.fidelity`'s; here they become means over the rows in which a measure is
defined, with two 95% intervals. The first resamples queries (or visits), the second whole questions: queries of one question
depend on each other, so the second is the honest one where questions are few. Figures of domains are of all results together;
their interval is the figure ± 1.96 standard deviations of its bootstrap over queries, because resampling repeats lists and
shifts such figures. A report holds numbers and counts only: neither texts nor addresses.

Example: ``measure_fidelity(Path("worlds/w"), Path("recorded"), Path("report"), FidelityConfig(k=5)).parts[0].figures``
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
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
from sanderling.evaluate.statistics import FloatArray, Interval, bootstrap_interval, constant_interval, mean_interval
from sanderling.report.numbers import MISSING, percent
from sanderling.runs.files import or_cannot, replace_file
from sanderling.runs.provenance import command_line, machine
from sanderling.world.contract import World, answered
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import read_manifest
from sanderling.world.fidelity import MEASURES, Row, Settings, compare_searches, compare_visits, recorded_calls, weight_of_top
from sanderling.world.opening import open_as_met
from sanderling.world.recorded import BuiltFrom, Unit, read_built_from, sides, was_asked

JSON_NAME = "fidelity.json"
UNSEEN = "held out"
BUILT_IN = "built in (upper bound)"
_RESAMPLES = 2_000
_DOMAIN_RESAMPLES = 500
_CHUNK = 100  # resamples drawn at once: bounds memory whatever the number of questions


class FidelityConfig(Frozen):
    """What a comparison depends on."""

    k: int = Field(10, ge=1)
    """Results compared of each list."""
    p: float = Field(0.9, gt=0.0, lt=1.0)
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
    """A mean over the n rows in which it is defined."""

    name: str
    meaning: str
    n: int
    value: float | None
    interval: Interval | None  # 95%, over queries or visits; None for fewer than two
    interval_by_question: Interval | None = None  # 95%, over questions; None where there is one question only


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
    snippet_distance: float | None  # Kolmogorov-Smirnov distance of the two distributions of the lengths of snippets
    gold_questions: int  # questions with a known answering page


class FidelityReport(_Model):
    """All figures with what made them."""

    run: RunFacts
    world: str
    world_source: str
    fingerprint: str
    pages: int
    settings: dict[str, float]
    weight_of_top_k: float  # share of the weight of rank-biased overlap within the first k ranks; the rest is extrapolated
    parts: tuple[Part, ...]
    same_question: int  # trajectories that were not built in, but whose question was: compared in no part
    remarks: tuple[str, ...]


def measure_fidelity(directory: Path, against: Path, out: Path, config: FidelityConfig) -> FidelityReport:
    """Compare a world's directory with recorded trajectories, or a recording, and write ``fidelity.json`` into ``out``.

    Raises UserError when no trajectory is left to compare, or when a recorded world does not say what it was built from.
    """
    started = time.perf_counter()
    manifest, known = read_manifest(directory), read_built_from(directory)
    world = open_as_met(directory, search=config.search)
    with or_cannot(f"make {out}", "choose another place with --out"):
        out.mkdir(parents=True, exist_ok=True)
    if known is None and manifest.source.startswith("recorded"):
        raise UserError("This recorded world does not say which trajectories it was built from: build it again.")
    parts, same_question, remarks = _parts(world, known, read_recorded(against).trajectories, config)
    if known is not None and " + " in manifest.source:
        remarks.append("This world has other sources too: nothing shows that none of them holds what these trajectories met.")
    run = RunFacts(
        command=command_line(),
        seed=config.seed,
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        version=sanderling.__version__,
        seconds=round(time.perf_counter() - started, 1),
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
    replace_file(out / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    return report


def _parts(
    world: World, known: BuiltFrom | None, trajectories: Sequence[Trajectory], config: FidelityConfig
) -> tuple[list[Part], int, list[str]]:
    """The parts, how many trajectories were left out for their question, and remarks.

    ``known``: the trajectories that the world was built from, None for one that remembers none.
    """
    if known is None:
        remark = "The world keeps no list of trajectories that it was built from, so nothing shows that these were held out."
        return [_part(world, "recorded calls", remark, trajectories, None, config)], 0, [remark]
    found, parts = sides(trajectories, known), list[Part]()
    if found.unseen:
        never = known.unit is Unit.QUESTION
        of = "of questions it never saw" if never else "though perhaps from other attempts at their questions"
        remark = f"Trajectories the world was not built from, {of} (share {known.share:g}, seed {known.seed})."
        parts.append(_part(world, UNSEEN, remark, found.unseen, known, config))
    elif not config.built_in:
        raise UserError(
            f"All {len(trajectories)} trajectories were built into this world, or share a question with one that was: "
            "build it again with --hold-out 0.2, give others, or ask for the upper bound with --built-in."
        )
    if config.built_in and found.built_in:
        remark = "Trajectories the world was built from: it knows these pages. An upper bound, no measure of fidelity."
        parts.append(_part(world, BUILT_IN, remark, found.built_in, None, config))
    if not parts:
        raise UserError("None of these trajectories can be compared with this world: give the ones it was built beside.")
    remarks = [] if found.unseen else ["No held-out trajectory was given: there is only the upper bound."]
    return parts, len(found.same_question), remarks


def _part(
    world: World,
    label: str,
    remark: str,
    trajectories: Sequence[Trajectory],
    known: BuiltFrom | None,
    config: FidelityConfig,
) -> Part:
    """``known``: what the build knew; its very queries are left out."""

    def holds(url: str) -> bool:
        """Whether an agent could find a page at an address: one that is blocked is not there."""
        return answered(world.visit(url, max_words=1)).status is not ToolStatus.NOT_FOUND

    calls = recorded_calls(trajectories)
    kept = [search for search in calls.searches if known is None or not was_asked(search, known)]
    return part(
        label,
        remark,
        compare_searches(kept, world, holds, config.settings),
        compare_visits(calls.visits, world, holds, config.settings),
        trajectories=len(trajectories),
        distinct_queries=len({search.query for search in kept}),
        asked_before=len(calls.searches) - len(kept),
        seed=config.seed,
    )


# Figures --------------------------------------------------------------------------------------------------------------------


def part(label: str, remark: str, queries: Sequence[Row], visits: Sequence[Row], *, seed: int, **counts: int) -> Part:
    """All figures of one set of trajectories. The same rows and seed give the same figures.

    ``counts``: ``trajectories``, ``distinct_queries`` and ``asked_before`` of the part.
    """
    recorded, shown = (list(chain.from_iterable(row.lengths[side] for row in queries)) for side in (0, 1))
    rows = [*queries, *visits]
    return Part(
        label=label,
        remark=remark,
        questions=len({row.group for row in rows}),
        searches=len(queries),
        empty_lists=sum(not row.domains[0] for row in queries),
        visits=len(visits),
        figures=tuple(_figure(name, rows, seed) for name in MEASURES),
        domains=tuple(one for side in (0, 1) for one in _concentration(side, [row.domains[side] for row in queries], seed)),
        snippet_distance=_distance(recorded, shown),
        gold_questions=len({row.group for row in queries if row.values.get("gold_rr_world") is not None}),
        **counts,
    )


def _figure(name: str, rows: Sequence[Row], seed: int) -> Figure:
    """A figure of `world.fidelity.MEASURES`."""
    defined = [(row.group, value) for row in rows if (value := row.values.get(name)) is not None]
    values = np.array([value for _, value in defined], dtype=np.float64)
    over_rows = bootstrap_interval if "words" in name or name.startswith("results") else mean_interval
    return Figure(
        name=name,
        meaning=MEASURES[name],
        n=len(defined),
        value=float(values.mean()) if defined else None,
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
    if bool((values == values[0]).all()) and (same := constant_interval(np.full(len(names), values[0]))) is not None:
        return same
    sums, counts = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    rng = np.random.default_rng([seed, 1])
    drawn = (rng.integers(0, len(names), (_CHUNK, len(names))) for _ in range(_RESAMPLES // _CHUNK))
    means = np.concatenate([sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1) for chosen in drawn])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def _concentration(side: int, lists: Sequence[tuple[str, ...]], seed: int) -> list[Figure]:
    """Shares of the commonest domain and of the five commonest, and entropy in bits, over all results of one side."""
    name, whose = (("recorded", "recorded results"), ("world", "results of the world"))[side]
    meanings = {
        f"top1_{name}": f"Share of all {whose} from their commonest domain",
        f"top5_{name}": f"Share of all {whose} from their five commonest domains",
        f"entropy_{name}": f"Entropy of the domains of all {whose}, in bits",
    }
    n = sum(map(len, lists))
    if not n:
        return [Figure(name=name, meaning=meaning, n=0, value=None, interval=None) for name, meaning in meanings.items()]
    _, columns = np.unique(np.array(list(chain.from_iterable(lists))), return_inverse=True)
    rows = np.repeat(np.arange(len(lists)), [len(listed) for listed in lists])
    counts = list(Counter(chain.from_iterable(lists)).values())
    most = sorted(counts, reverse=True)
    values = (most[0] / n, sum(most[:5]) / n, sum(-count / n * math.log2(count / n) for count in counts) + 0.0)
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


def _distance(a: Sequence[int], b: Sequence[int]) -> float | None:
    """Greatest difference of the two empirical distribution functions, in [0, 1]; None when one is empty."""
    if not a or not b:
        return None
    x, y = np.sort(np.asarray(a)), np.sort(np.asarray(b))
    at = np.concatenate([x, y])
    return float(np.abs(np.searchsorted(x, at, "right") / x.size - np.searchsorted(y, at, "right") / y.size).max())


# For people ----------------------------------------------------------------------------------------------------------------


def _written(name: str, value: float | Interval | None) -> str:
    """A value or an interval as a person reads it: shares in percent, words and results as counts, entropies in bits."""
    if value is None:
        return MISSING
    if isinstance(value, Interval):
        return f"{_written(name, value.low)} to {_written(name, value.high)}"
    if name.startswith("entropy"):
        return f"{value:.2f} bits"
    if "_rr_" in name:
        return f"{value:.3f}"
    return f"{value:.1f}" if "words" in name or name.startswith("results") else percent(value)


def figure_rows(part: Part) -> list[tuple[str, ...]]:
    """A row for each figure: name, n, value and both intervals."""
    rows = ((one, [_written(one.name, value) for value in (one.value, one.interval, one.interval_by_question)])
            for one in (*part.figures, *part.domains))  # fmt: skip
    return [(one.name, f"{one.n:,}", *cells) for one, cells in rows]
