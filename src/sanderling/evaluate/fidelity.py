"""Figures of a comparison of recorded calls with a world: means with their n and two 95% intervals each, and distributions.

The first interval resamples queries (or visits), the second whole questions: queries of one question depend on each other, so
the second is the honest one where questions are few. Means are over the rows in which a measure is defined. Figures of domains
are of all results together; their interval is the figure ± 1.96 standard deviations of its bootstrap over queries, because
resampling repeats lists and shifts such figures. Holds numbers and counts only: neither texts nor addresses.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from pydantic import BaseModel, ConfigDict

from sanderling.evaluate.statistics import FloatArray, IntArray, Interval, bootstrap_interval, mean_interval, wilson_interval
from sanderling.world.fidelity import MEASURES, QueryRow, VisitRow

_RESAMPLES = 2_000
_DOMAIN_RESAMPLES = 500
_CHUNK = 100
"""Resamples drawn at once: bounds memory whatever the number of questions."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


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


STEP = 5
MOST_WORDS = 100


def measures(queries: Sequence[QueryRow], visits: Sequence[VisitRow], *, seed: int) -> tuple[Figure, ...]:
    """A figure for each of `world.fidelity.MEASURES`, in that order."""
    rows: list[tuple[str, Mapping[str, float | None]]] = [(row.group, row.values) for row in [*queries, *visits]]
    return tuple(_figure(name, meaning, rows, seed) for name, meaning in MEASURES.items())


def domains(queries: Sequence[QueryRow], *, seed: int) -> tuple[Figure, ...]:
    """Concentration of all results on domains, for the recorded lists and the world's."""
    found: list[Figure] = []
    for side, lists in (
        ("recorded", [row.domains_recorded for row in queries]),
        ("world", [row.domains_world for row in queries]),
    ):
        found += _concentration(side, lists, seed)
    return tuple(found)


def lengths(values: Sequence[int]) -> Lengths:
    """The distribution of snippet lengths."""
    x = np.asarray(values, dtype=np.float64)
    cuts = range(0, MOST_WORDS + 1, STEP)
    return Lengths(
        n=len(values),
        mean=float(x.mean()) if x.size else None,
        quantiles={f"{q:g}": float(np.quantile(x, q)) for q in QUANTILES} if x.size else {},
        cumulative=tuple(float((x <= cut).mean()) for cut in cuts) if x.size else (),
    )


def distance(a: Sequence[int], b: Sequence[int]) -> float | None:
    """Greatest difference of the two empirical distribution functions, in [0, 1]; None when one is empty."""
    if not a or not b:
        return None
    x, y = np.sort(np.asarray(a)), np.sort(np.asarray(b))
    at = np.concatenate([x, y])
    return float(np.abs(np.searchsorted(x, at, "right") / x.size - np.searchsorted(y, at, "right") / y.size).max())


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
        gold_questions=len({row.group for row in queries if row.gold_ranks is not None}),
        gold_ranks_recorded=_ranks([row.gold_ranks[0] for row in queries if row.gold_ranks is not None], k),
        gold_ranks_world=_ranks([row.gold_ranks[1] for row in queries if row.gold_ranks is not None], k),
    )


def _ranks(ranks: Sequence[int], k: int) -> tuple[int, ...]:
    """How many have rank 1, 2, … k, and how many none; empty for no list at all."""
    counts = Counter(ranks)
    return tuple(counts[rank] for rank in [*range(1, k + 1), 0]) if ranks else ()


def by_question(groups: Sequence[str], values: FloatArray, *, seed: int) -> Interval | None:
    """95% percentile bootstrap of the mean of all values, resampling whole groups; None for fewer than two groups.

    Where all values are 0 or all are 1, Wilson's interval over the groups, as a bootstrap would have no width.
    ``groups``, ``values``: one of each for a row (N), values finite.
    """
    names = sorted(set(groups))
    if len(names) < 2:
        return None
    if bool((values == 0.0).all()) or bool((values == 1.0).all()):
        return wilson_interval(len(names) * float(values[0]), len(names))
    place = {name: index for index, name in enumerate(names)}
    at = np.array([place[group] for group in groups])
    sums, counts = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    rng = np.random.default_rng([seed, 1])
    drawn = (rng.integers(0, len(names), (_CHUNK, len(names))) for _ in range(_RESAMPLES // _CHUNK))
    means = np.concatenate([sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1) for chosen in drawn])
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(low), float(high))


def _figure(name: str, meaning: str, rows: Sequence[tuple[str, Mapping[str, float | None]]], seed: int) -> Figure:
    defined = [(group, value) for group, values in rows if (value := values.get(name)) is not None]
    if not defined:
        return Figure(name=name, meaning=meaning, n=0, value=None, interval=None)
    values = np.array([value for _, value in defined], dtype=np.float64)
    is_share = not ("words" in name or name.startswith("results"))
    found = (mean_interval if is_share else bootstrap_interval)(values, seed=seed)
    interval = found if len(defined) > 1 else None
    grouped = by_question([group for group, _ in defined], values, seed=seed)
    value = float(values.mean())
    return Figure(name=name, meaning=meaning, n=len(defined), value=value, interval=interval, interval_by_question=grouped)


def _concentration(side: str, lists: Sequence[tuple[str, ...]], seed: int) -> list[Figure]:
    names = sorted(set(chain.from_iterable(lists)))
    whose = "recorded results" if side == "recorded" else "results of the world"
    wanted = {
        f"top1_{side}": f"Share of all {whose} from their commonest domain",
        f"top5_{side}": f"Share of all {whose} from their five commonest domains",
        f"entropy_{side}": f"Entropy of the domains of all {whose}, in bits",
    }
    n = sum(map(len, lists))
    if not n:
        return [Figure(name=name, meaning=meaning, n=0, value=None, interval=None) for name, meaning in wanted.items()]
    place = {name: index for index, name in enumerate(names)}
    rows = np.repeat(np.arange(len(lists)), [len(listed) for listed in lists])
    columns = np.array([place[name] for listed in lists for name in listed])
    counts = list(Counter(chain.from_iterable(lists)).values())
    most = sorted(counts, reverse=True)
    entropy = sum(-count / n * math.log2(count / n) for count in counts) + 0.0
    values = (most[0] / n, sum(most[:5]) / n, entropy)
    spreads = _resampled(rows, columns, len(lists), seed).std(axis=0)
    return [
        Figure(name=name, meaning=meaning, n=n, value=value, interval=_around(value, float(spread), name))
        for (name, meaning), value, spread in zip(wanted.items(), values, spreads, strict=True)
    ]


def _around(value: float, spread: float, name: str) -> Interval:
    most = float("inf") if name.startswith("entropy") else 1.0
    return Interval(max(0.0, value - 1.96 * spread), min(most, value + 1.96 * spread))


def _resampled(rows: IntArray, columns: IntArray, lists: int, seed: int) -> FloatArray:
    """Top-1 share, top-5 share and entropy of the domains of resampled lists: (resamples, 3).

    ``rows``, ``columns``: for each result (N) the number of its list and of its domain.
    """
    rng = np.random.default_rng([seed, 2])
    found = np.empty((_DOMAIN_RESAMPLES, 3))
    for index in range(_DOMAIN_RESAMPLES):
        weights = np.bincount(rng.integers(0, lists, lists), minlength=lists).astype(np.float64)
        counts = np.bincount(columns, weights[rows])
        shares = counts[counts > 0] / max(1.0, float(counts.sum()))
        best = np.sort(shares)[::-1]
        found[index] = best[:1].sum(), best[:5].sum(), -(shares * np.log2(shares)).sum()
    return found
