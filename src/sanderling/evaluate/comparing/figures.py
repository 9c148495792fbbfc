"""The report's plots, each with a link to what it is of. Computes no figure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup

from sanderling.core.types import Ending
from sanderling.evaluate.comparing.evidence import group_id, pair_id
from sanderling.evaluate.comparing.model import Run, RunsReport
from sanderling.evaluate.result_parts import Estimate
from sanderling.report import charts
from sanderling.report.charts import Bar, Curve, Difference, Part, figure, legend, note
from sanderling.report.markup import tag
from sanderling.report.numbers import duration, ending_words, money

_MOST_BARS = 24
"""Of a plot of groups, those of all runs together."""


def figures(report: RunsReport, known: frozenset[str]) -> list[Markup]:
    """All of them; ``known``: the lists of attempts that the page has."""
    found = [_averages(report), _differences(report, known), *_scaling(report), *_groups(report, known), _endings(report)]
    return [one for one in (*found, *_spreads(report), *_spending(report)) if one is not None]


def _averages(report: RunsReport) -> Markup:
    means = [run.result.pass_at_1 for run in report.runs]
    items = [
        Bar(run.name, mean.value, mean.interval, _style(report, place), f"#attempts-{place}")
        for place, (run, mean) in enumerate(zip(report.runs, means, strict=True))
    ]
    return figure("avg@k, with 95% intervals", charts.bars(items, title="avg@k of each run with its 95% interval"))


def _differences(report: RunsReport, known: frozenset[str]) -> Markup | None:
    if not report.pairs:
        return None
    items = []
    for place, pair in enumerate(report.pairs):
        ids = [id for id in (pair_id(place, "better"), pair_id(place, "worse")) if id in known]
        href = f"#{ids[0]}" if ids else ""
        items.append(Difference(pair.name, pair.baseline, pair.found.difference, pair.found.interval, href))
    plot = charts.differences(items, title="Paired differences with their 95% intervals, in points")
    return figure("Paired differences on the same questions, in points, with 95% intervals", plot)


def _scaling(report: RunsReport) -> Iterator[Markup]:
    several = [(place, run) for place, run in enumerate(report.runs) if run.result.attempts > 1]
    for place, run in several:
        found = _curves(run)
        plot = charts.scaling(found, title=f"{run.name}: shares over the number of attempts")
        keys = legend([curve.name for curve in found])
        yield figure(f"{run.name}: with more attempts", plot, keys, _attempts_of(place))
    if len(several) > 1:
        found = [Curve(run.name, _by_k(run.result.pass_at_k)) for _, run in several]
        links = [_link(f"#attempts-{place}", run.name) for place, run in several]
        keys = legend([curve.name for curve in found])
        yield figure(
            "pass@k of the runs", charts.scaling(found, title="pass@k of the runs"), keys, note(Markup(", ").join(links))
        )


def _curves(run: Run) -> list[Curve]:
    result = run.result
    best = {f"best of k by {name}": curve for name, curve in result.best_of.items()}
    found = {"pass@k": result.pass_at_k, "majority of k": result.majority, **best, "pass^k": result.pass_hat_k}
    return [Curve(name, _by_k(curve)) for name, curve in found.items() if curve]


def _by_k(found: Mapping[int, Estimate]) -> dict[int, tuple[float | None, tuple[float, float] | None]]:
    return {k: (one.value, one.interval) for k, one in found.items()}


def _groups(report: RunsReport, known: frozenset[str]) -> Iterator[Markup]:
    """Bars for each group, a colour for each run; the groups with most questions, where they are many."""
    names = dict.fromkeys(name for run in report.runs for name in run.result.groups)
    for name in names:
        every = list(dict.fromkeys(group for run in report.runs for group in run.result.groups.get(name, {})))
        most = max(4, _MOST_BARS // len(report.runs))
        largest = sorted(every, key=lambda group: -_size(report, name, group))[:most]
        items = []
        for group in (group for group in every if group in largest):
            for place, run in enumerate(report.runs):
                one = run.result.groups.get(name, {}).get(group)
                id = group_id(report, place, name, group)
                label = group if place == 0 else ""
                estimate = one.pass_at_1 if one else None
                value, interval = (estimate.value, estimate.interval) if estimate else (None, None)
                items.append(Bar(label, value, interval, _style(report, place), f"#{id}" if id in known else ""))
        left = f", the {most} largest of {len(every)}" if len(every) > most else ""
        plot = charts.bars(items, title=f"avg@k by {name}")
        yield figure(f"avg@k by {name}{left}", plot, *_named(report))


def _size(report: RunsReport, name: str, group: str) -> int:
    return max(one.attempts for run in report.runs if (one := run.result.groups.get(name, {}).get(group)) is not None)


def _endings(report: RunsReport) -> Markup:
    rows = [
        (run.name, [Part(ending_words(ending), run.result.endings.get(ending, 0), f"e-{ending}") for ending in Ending])
        for run in report.runs
    ]
    seen = [ending for ending in Ending if any(run.result.endings.get(ending) for run in report.runs)]
    keys = legend({ending_words(ending): f"e-{ending}" for ending in seen})
    return figure("How attempts ended", charts.stacks(rows), keys, note(_link("#endings", "which attempts")))


def _spreads(report: RunsReport) -> Iterator[Markup]:
    """Turns and calls of right and wrong attempts, a plot for each run."""
    for place, run in enumerate(report.runs):
        for what, counts in (("turns", run.result.turn_counts), ("tool calls", run.result.call_counts)):
            most = max((value for by_value in counts.values() for value in by_value), default=0)
            if not most:
                continue
            edges = charts.bin_edges(most)
            names = [name for name in ("right", "wrong") if name in counts]
            binned = [[_between(counts[name], low, high) for low, high in _bins(edges)] for name in names]
            title = f"{run.name}: {what} of right and wrong attempts"
            plot = charts.columns(names, edges, binned, title=title, x_label=f"{what}, as shares of each")
            yield figure(title, plot, legend(names), _attempts_of(place))


def _bins(edges: Sequence[int]) -> list[tuple[int, int]]:
    """A bin is above one edge, up to the next; the first has 0 too."""
    return [(low if low else -1, high) for low, high in pairwise(edges)]


def _between(counts: dict[int, int], low: int, high: int) -> int:
    return sum(count for value, count in counts.items() if low < value <= high)


def _spending(report: RunsReport) -> Iterator[Markup]:
    time = [
        Bar(run.name, spent.seconds, spent.seconds_interval, _style(report, place), "#took")
        for place, run in enumerate(report.runs)
        if (spent := run.result.spending) is not None and spent.seconds is not None
    ]
    if time:
        plot = charts.amounts(time, title="Time for each right answer", write=duration)
        yield figure("Time for each right answer, with 95% intervals", plot)
    cost = [
        Bar(run.name, one.right, one.right_interval, _style(report, place), "#took")
        for place, run in enumerate(report.runs)
        if (one := run.result.cost) is not None and one.right is not None
    ]
    if cost:
        yield figure(
            "Cost of each right answer, with 95% intervals", charts.amounts(cost, title="Cost of a right answer", write=money)
        )


def _style(report: RunsReport, place: int) -> str:
    """A colour of its own for each run, where there are several."""
    return f"s{place % 6}" if len(report.runs) > 1 else ""


def _named(report: RunsReport) -> list[Markup]:
    return [legend([run.name for run in report.runs])] if len(report.runs) > 1 else []


def _attempts_of(place: int) -> Markup:
    return note(_link(f"#attempts-{place}", "the attempts"))


def _link(href: str, words: str) -> Markup:
    return tag("a", words, href=href)
