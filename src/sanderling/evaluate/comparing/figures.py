"""The report's plots, each with a link to what it is of. Computes no figure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sanderling.core.types import Ending
from sanderling.evaluate import bars
from sanderling.evaluate.columns import bin_edges, columns
from sanderling.evaluate.comparing.evidence import group_id, pair_id
from sanderling.evaluate.comparing.model import Run, RunsReport
from sanderling.evaluate.format import duration, ending_words, money
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.page import figure
from sanderling.evaluate.plots import legend
from sanderling.evaluate.scaling import Curve, scaling

_MOST_BARS = 24
"""Of a plot of groups, those of all runs together."""


def plots(report: RunsReport, known: frozenset[str]) -> Html:
    """All of them; ``known``: the lists of attempts that the page has."""
    found = [_averages(report), _differences(report, known), *_scaling(report), *_groups(report, known), _endings(report)]
    found += [*_spreads(report), *_spending(report)]
    return tag("div", *[one for one in found if one is not None], class_="grid2")


def _averages(report: RunsReport) -> Html:
    items = [
        bars.Bar(
            run.name, run.result.pass_at_1.value, run.result.pass_at_1.interval, _style(report, place), f"#attempts-{place}"
        )
        for place, run in enumerate(report.runs)
    ]
    return figure("avg@k, with 95% intervals", bars.bars(items, title="avg@k of each run with its 95% interval"))


def _differences(report: RunsReport, known: frozenset[str]) -> Html | None:
    if not report.pairs:
        return None
    items = []
    for place, pair in enumerate(report.pairs):
        ids = [id for id in (pair_id(place, "better"), pair_id(place, "worse")) if id in known]
        items.append(
            bars.Difference(pair.name, pair.baseline, pair.found.difference, pair.found.interval, f"#{ids[0]}" if ids else "")
        )
    plot = bars.differences(items, title="Paired differences with their 95% intervals, in points")
    return figure("Paired differences on the same questions, in points, with 95% intervals", plot)


def _scaling(report: RunsReport) -> Iterator[Html]:
    several = [(place, run) for place, run in enumerate(report.runs) if run.result.attempts > 1]
    for place, run in several:
        curves = _curves(run)
        plot = scaling(curves, title=f"{run.name}: shares over the number of attempts")
        link = tag("p", _link(f"#attempts-{place}", "the attempts"), class_="quiet")
        yield figure(f"{run.name}: with more attempts", plot, legend([curve.name for curve in curves]), link)
    if len(several) > 1:
        curves = [Curve(run.name, run.result.pass_at_k) for _, run in several]
        plot = scaling(curves, title="pass@k of the runs")
        links = _among([_link(f"#attempts-{place}", run.name) for place, run in several])
        yield figure("pass@k of the runs", plot, legend([curve.name for curve in curves]), links)


def _curves(run: Run) -> list[Curve]:
    result = run.result
    found = [Curve("pass@k", result.pass_at_k), Curve("majority of k", result.majority)]
    found += [Curve(f"best of k by {name}", curve) for name, curve in result.best_of.items()]
    found.append(Curve("pass^k", result.pass_hat_k))
    return [curve for curve in found if curve.by_k]


def _groups(report: RunsReport, known: frozenset[str]) -> Iterator[Html]:
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
                items.append(bars.Bar(label, value, interval, _style(report, place), f"#{id}" if id in known else ""))
        left = f", the {most} largest of {len(every)}" if len(every) > most else ""
        plot = bars.bars(items, title=f"avg@k by {name}")
        yield figure(f"avg@k by {name}{left}", plot, *_named(report))


def _size(report: RunsReport, name: str, group: str) -> int:
    return max(one.attempts for run in report.runs if (one := run.result.groups.get(name, {}).get(group)) is not None)


def _endings(report: RunsReport) -> Html:
    rows = []
    for run in report.runs:
        parts = [bars.Part(ending_words(e), run.result.endings.get(e, 0), f"e-{e}") for e in Ending]
        rows.append(join(tag("dt", run.name), tag("dd", bars.stack(parts))))
    seen = [ending for ending in Ending if any(run.result.endings.get(ending) for run in report.runs)]
    keys = tag("p", *(tag("span", ending_words(e), class_=f"key e-{e}") for e in seen), class_="legend")
    link = tag("p", _link("#endings", "which attempts"), class_="quiet")
    return figure("How attempts ended", tag("dl", *rows, class_="stacks"), keys, link)


def _spreads(report: RunsReport) -> Iterator[Html]:
    """Turns and calls of right and wrong attempts, a plot for each run."""
    for place, run in enumerate(report.runs):
        for what, counts in (("turns", run.result.turn_counts), ("tool calls", run.result.call_counts)):
            most = max((value for by_value in counts.values() for value in by_value), default=0)
            if not most:
                continue
            edges = bin_edges(most)
            names = [name for name in ("right", "wrong") if name in counts]
            binned = [[_between(counts[name], low, high) for low, high in _bins(edges)] for name in names]
            title = f"{run.name}: {what} of right and wrong attempts"
            plot = columns(names, edges, binned, title=title, x_label=f"{what}, as shares of each")
            link = tag("p", _link(f"#attempts-{place}", "the attempts"), class_="quiet")
            yield figure(title, plot, legend(names), link)


def _bins(edges: Sequence[int]) -> list[tuple[int, int]]:
    """A bin is above one edge, up to the next; the first has 0 too."""
    return [(low if low else -1, high) for low, high in pairwise(edges)]


def _between(counts: dict[int, int], low: int, high: int) -> int:
    return sum(count for value, count in counts.items() if low < value <= high)


def _spending(report: RunsReport) -> Iterator[Html]:
    time = [
        bars.Bar(run.name, spent.seconds, spent.seconds_interval, _style(report, place), "#took")
        for place, run in enumerate(report.runs)
        if (spent := run.result.spending) is not None and spent.seconds is not None
    ]
    if time:
        plot = bars.amounts(time, title="Time for each right answer", write=duration)
        yield figure("Time for each right answer, with 95% intervals", plot)
    cost = [
        bars.Bar(run.name, one.right, one.right_interval, _style(report, place), "#took")
        for place, run in enumerate(report.runs)
        if (one := run.result.cost) is not None and one.right is not None
    ]
    if cost:
        yield figure(
            "Cost of each right answer, with 95% intervals", bars.amounts(cost, title="Cost of a right answer", write=money)
        )


def _style(report: RunsReport, place: int) -> str:
    """A colour of its own for each run, where there are several."""
    return f"s{place % 6}" if len(report.runs) > 1 else ""


def _named(report: RunsReport) -> list[Html]:
    return [legend([run.name for run in report.runs])] if len(report.runs) > 1 else []


def _link(href: str, words: str) -> Html:
    return tag("a", words, href=href)


def _among(links: Sequence[Html]) -> Html:
    return tag("p", *(part for place, link in enumerate(links) for part in ((", " if place else ""), link)), class_="quiet")
