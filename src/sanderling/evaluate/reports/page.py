"""A report as Markdown and as one page that loads nothing; all text is escaped on its way in. Computes no figure.

Figures lead to lists of the attempts behind them; every attempt of a run is listed by question, with a link where it can be
read on the page, and the command that shows any other. Texts of private benchmarks are left out unless they are asked for.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from sanderling.core.types import Ending
from sanderling.evaluate.reports.compare import Evidence, Run, RunsReport, by_question, evidence, group_id, pair_id, ranges
from sanderling.evaluate.reports.reading import Outcome, reading_facts, step_title
from sanderling.evaluate.reports.tables import tables
from sanderling.evaluate.result import Estimate
from sanderling.report import charts
from sanderling.report.charts import Bar, Curve, Difference, Part, figure, legend, note
from sanderling.report.numbers import duration, ending_words, money
from sanderling.report.page import render, tag

_HOW = (
    "avg@k is the mean share of right attempts, each question weighing the same. Intervals are 95%: percentile bootstrap over "
    "questions, one draw for all figures of a run (Wilson where all are right or all wrong, "
    "none where they are alike otherwise). pass@k and pass^k are unbiased; ties "
    "in a majority share, and so do equal scores in a best of k. Differences are paired by question; p-values come from sign "
    "flips, adjusted by Holm where there are several. Unscored attempts (outages) are in no mean, and counted. Cost is tokens "
    "times the prices that the run was told, prompts in full; where a server did not say what it took, it is not known."
)
_SHOWN = 160
"""Characters of a question in the list."""


def markdown(report: RunsReport) -> str:
    """Tables and notes, for a pull request or a paper's appendix."""
    parts = ["# " + " · ".join(_cell(run.name) for run in report.runs), ""]
    parts += [f"- {note}" for note in report.notes] + ([""] if report.notes else [])
    for table in tables(report):
        parts += [f"## {_cell(table.title)}", "", *([table.about, ""] if table.about else []), _line(table.heads)]
        parts += ["| --- |" + " ---: |" * (len(table.heads) - 1), *map(_line, table.rows), ""]
    parts += [*(f"- {_cell(run.name)}: `{run.result.command.replace('`', '')}`" for run in report.runs), "", _HOW]
    return "\n".join(parts) + "\n"


def html(report: RunsReport, *, texts: bool = False) -> str:
    """The page. ``texts``: private questions and answers, too."""
    lists = evidence(report)
    known = frozenset({one.id for one in lists} | {f"attempts-{number}" for number in range(len(report.runs))})
    runs = [
        _attempts(number, run, [one for one in lists if one.run == number], texts=texts)
        for number, run in enumerate(report.runs)
    ]
    return render(
        "runs.html",
        " · ".join(run.name for run in report.runs),
        canaries=dict.fromkeys(canary for run in report.runs if run.about for canary in run.about.canaries),
        notes=report.notes,
        figures=figures(report, known),
        tables=list(tables(report)),
        known=known,
        runs=runs,
        how=_HOW,
        reading_facts=reading_facts,
        step_title=step_title,
    )


def _attempts(number: int, run: Run, lists: Sequence[Evidence], *, texts: bool) -> dict[str, Any]:
    """Every attempt of a run by question, what is behind single figures, and those that can be read."""
    hidden = run.private and not texts
    anchors = {} if hidden else {one.id: f"reading-{number}-{place}" for place, one in enumerate(run.readings)}
    rows = {one.id: f"q-{number}-{place}" for place, one in enumerate(run.result.questions)}
    by_outcome = {outcome: by_question(one for one in run.attempts if one.outcome is outcome) for outcome in Outcome}
    readable: dict[str, list[tuple[str, int]]] = {}
    for one in run.attempts:
        if one.id in anchors:
            readable.setdefault(one.question, []).append((anchors[one.id], one.attempt))
    questions = [
        {
            "id": one.id,
            "text": "" if hidden else _short(run.texts.get(one.id, "")),
            "correct": one.correct,
            "scored": one.scored,
            "readable": readable.get(one.id, ()),
            "numbers": [ranges(by_outcome[outcome].get(one.id, ())) for outcome in Outcome],
        }
        for one in run.result.questions
    ]
    return {
        "number": number,
        "name": run.name,
        "made_by": run.result.command,
        "command": f"sanderling show {shlex.quote(run.store)} --id QUESTION-ATTEMPT",
        "attempts": len(run.attempts),
        "questions": questions,
        "behind": [_behind(one, rows) for one in lists],
        "hidden": hidden,
        "readings": [(anchors[one.id], one) for one in run.readings if one.id in anchors],
    }


def _behind(one: Evidence, rows: Mapping[str, str]) -> dict[str, Any]:
    """A folded list of attempts, each question leading to its row."""
    count = sum(map(len, one.attempts.values()))
    size = f"{count:,} attempts at " if count else ""
    return {
        "id": one.id,
        "title": one.title,
        "size": f"{size}{len(one.attempts):,} question{'s' if len(one.attempts) > 1 else ''}",
        "questions": [(question, rows.get(question, ""), ranges(numbers)) for question, numbers in one.attempts.items()],
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


# Charts -------------------------------------------------------------------------------------------------------------------


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
        plot = charts.bars(time, title="Time for each right answer", write=duration)
        yield figure("Time for each right answer, with 95% intervals", plot)
    cost = [
        Bar(run.name, one.right, one.right_interval, _style(report, place), "#took")
        for place, run in enumerate(report.runs)
        if (one := run.result.cost) is not None and one.right is not None
    ]
    if cost:
        yield figure(
            "Cost of each right answer, with 95% intervals", charts.bars(cost, title="Cost of a right answer", write=money)
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
