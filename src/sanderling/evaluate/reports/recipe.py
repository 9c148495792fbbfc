"""A recipe's report: stages, comparisons, curves and trajectories to read, as data, one HTML file and a terminal table.

The page, the JSON beside it and the table are views of :class:`RecipeReport`; none of them computes a figure. Sentences of the
verdict are made from the numbers, whichever way they went.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

from markupsafe import Markup
from pydantic import Field, field_validator
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.evaluate.reports.page import ending_parts, endings_legend
from sanderling.evaluate.reports.reading import Reading, step_title
from sanderling.evaluate.result import EvalResult, Record
from sanderling.evaluate.statistics import Interval, paired_difference
from sanderling.report import charts
from sanderling.report.charts import Bar, Difference, figure, legend, note
from sanderling.report.numbers import chance, duration, mean, percent, points, span
from sanderling.report.page import render as rendered
from sanderling.runs.files import replace_file

ENOUGH_QUESTIONS = 200  # with fewer held-out questions a run is a check of the machinery, and its report claims nothing
HTML_NAME = "report.html"
JSON_NAME = "report.json"


class FactSheet(Record):
    """A titled list of facts: a world, the model, the tokenizer."""

    title: str
    facts: dict[str, str]


class RunFacts(Record):
    """What was run, and where."""

    command: str
    seed: int
    date: str
    machine: str
    version: str  # of the package
    seconds: float


class Stage(Record):
    """One row of the table: a model and its evaluation."""

    name: str
    result: EvalResult
    seconds: float  # of making this stage and evaluating it
    note: str = ""


class Comparison(Record):
    """Two stages on the same questions, pass@1."""

    candidate: str
    baseline: str
    difference: float
    interval: Interval  # 95% bootstrap interval of the difference over questions
    p_value: float  # two-sided sign-flip test
    questions: int
    valid: bool  # both runs are valid, and there are enough questions for a claim
    verdict: str  # the comparison in plain words


class Series(Record):
    """One line of a chart; a value of None is a gap, and so is one that is not finite."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]

    @field_validator("y", mode="before")
    @classmethod
    def _gaps(cls, values: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(None if value is None or not isfinite(value) else value for value in values)


class Chart(Record):
    """A learning curve or several on the same axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    smooth: int = Field(default=1, ge=1)  # points in the moving average that is drawn over the raw line; 1: raw only
    percent: bool = False  # whether y values are shares to be shown as percentages
    log: bool = False  # whether the y axis is logarithmic: for a loss that falls by a factor


class RecipeReport(Record):
    """A whole run of a recipe.

    Example: ``write_report(RecipeReport(title="tiny", ...), Path("runs/tiny"))``
    """

    schema_version: int = 2
    title: str
    summary: str = ""  # one or two sentences on what the recipe does
    run: RunFacts
    sheets: tuple[FactSheet, ...] = ()  # worlds, model, data: whatever a reader needs to know of the material
    stages: tuple[Stage, ...]
    comparison: Comparison | None = None  # the one the recipe was made for
    other_comparisons: tuple[Comparison, ...] = ()
    remarks: tuple[str, ...] = ()  # what else should be said in plain words, such as that this was a quick run
    charts: tuple[Chart, ...] = ()
    readings: tuple[Reading, ...] = ()
    settings: str = ""  # the recipe as TOML, as resolved


def compare(candidate: tuple[str, EvalResult], baseline: tuple[str, EvalResult], *, seed: int) -> Comparison:
    """Compare two evaluations of the same questions by pass@1.

    Raises ValueError when the questions differ, UserError when none was scored for both.
    """
    (name, result), (other_name, other) = candidate, baseline
    if [one.id for one in result.questions] != [one.id for one in other.questions]:
        raise ValueError(f"{name} and {other_name} were not evaluated on the same questions")
    ours, theirs = result.per_question(), other.per_question()
    both = [one.id for one in result.questions if one.id in ours and one.id in theirs]
    if not both:
        raise UserError(f"No question was scored for both {name} and {other_name}: evaluate again once the outage is over.")
    found = paired_difference([ours[id] for id in both], [theirs[id] for id in both], seed=seed)
    problems = [f"the run of {n} is invalid" for n, r in (candidate, baseline) if not r.valid]
    if len(both) < ENOUGH_QUESTIONS:
        problems.append(f"{len(both)} questions are fewer than the {ENOUGH_QUESTIONS} a claim needs")
    low, high = found.interval
    rates = " against ".join(f"{sum(side[id] for id in both) / len(both):.1%}" for side in (ours, theirs))
    spread = f"95% interval {points(low)} to {points(high)}, {chance(found.p_value)}"
    detail = f"{rates} pass@1 on the same {len(both)} questions, {points(found.difference)} points ({spread})"
    if low > 0:
        claim = f"{name} is better than {other_name}: {detail}. The whole interval lies above zero."
    elif high < 0:
        claim = f"{name} is worse than {other_name}: {detail}. The whole interval lies below zero."
    else:
        claim = f"This run does not show that {name} differs from {other_name}: {detail}. The interval includes zero."
    return Comparison(
        candidate=name,
        baseline=other_name,
        difference=found.difference,
        interval=found.interval,
        p_value=found.p_value,
        questions=len(both),
        valid=not problems,
        verdict=f"{claim} But {' and '.join(problems)}, so nothing is claimed." if problems else claim,
    )


def better(*results: tuple[str, EvalResult]) -> tuple[str, EvalResult]:
    """The one with the higher pass@1; the first of equals. Raises ValueError for none."""
    return max(results, key=lambda pair: -1.0 if pair[1].pass_at_1.value is None else pair[1].pass_at_1.value)


# The page -----------------------------------------------------------------------------------------------------------------


def write_report(report: RecipeReport, directory: Path) -> Path:
    """Write ``report.json`` and ``report.html``, each whole or not at all; returns the path of the page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    replace_file(directory / HTML_NAME, render(report))
    return directory / HTML_NAME


def render(report: RecipeReport) -> str:
    """The page. The same report gives the same page."""
    main = report.comparison
    sentences = [one.verdict for one in (*([main] if main else []), *report.other_comparisons)] + list(report.remarks)
    sentences += [f"{one.name} is invalid: {one.result.invalid_because}" for one in report.stages if not one.result.valid]
    open_ = main is None or not main.valid or main.interval.low <= 0 <= main.interval.high
    means = [one.result.pass_at_1.value for one in report.stages]
    return rendered(
        "recipe.html",
        report.title,
        report=report,
        sentences=sentences,
        tone="open" if main is None or open_ else "gain" if main.interval.low > 0 else "loss",
        heads=("Stage", "Questions", "Pass@1", "Pass@4", "Endings", "Turns", "Browse", "Time"),
        best=max((value for value in means if value is not None), default=None),
        endings=lambda stage: charts.stack(ending_parts(stage.result)),
        endings_key=endings_legend([one.result for one in report.stages]),
        figures=list(_figures(report)),
        charts=[_chart(chart) for chart in report.charts],
        step_title=step_title,
    )


def _figures(report: RecipeReport) -> Iterator[Markup]:
    shares = [Bar(stage.name, stage.result.pass_at_1.value, stage.result.pass_at_1.interval) for stage in report.stages]
    yield figure("Pass@1, with 95% intervals", charts.bars(shares, title="Pass@1 of each stage with its 95% interval"))
    if compared := [one for one in (report.comparison, *report.other_comparisons) if one is not None]:
        shown = [Difference(one.candidate, one.baseline, one.difference, one.interval) for one in compared]
        plot = charts.differences(shown, title="Paired differences in pass@1 with their 95% intervals, in points")
        yield figure("Paired differences in pass@1 on the same questions, in points, with 95% intervals", plot)


def _chart(chart: Chart) -> Markup:
    lines = [charts.Line(series.name, series.x, series.y) for series in chart.series]
    plot = charts.curves(
        lines, title=chart.title, x_label=chart.x_label, y_label=chart.y_label, window=chart.smooth, percent=chart.percent,
        log=chart.log,
    )  # fmt: skip
    below = note(f"Faint: raw; strong: moving average of {chart.smooth} points.") if chart.smooth > 1 else None
    return figure(chart.title, plot, legend([line.name for line in lines]) if len(lines) > 1 else None, below)


# The table ----------------------------------------------------------------------------------------------------------------

_COLUMNS = ("Stage", "n", "Pass@1", "95% interval", "Pass@4", "Answered", "Turns", "Browse", "Time")


def _cells(stage: Stage) -> tuple[str, ...]:
    """A cell for each column."""
    result, four = stage.result, stage.result.pass_at_k.get(4)
    total = sum(result.endings.values())
    answered = sum(count for ending, count in result.endings.items() if ending.has_answer) / total if total else None
    return (
        stage.name + ("" if result.valid else " (invalid)"),
        f"{len(result.questions)}×{result.attempts}" + (f", {result.unscored} unscored" if result.unscored else ""),
        percent(result.pass_at_1.value),
        span(result.pass_at_1.interval),
        percent(four and four.value),
        percent(answered, 0),
        mean(result.mean_turns),
        percent(result.visit_share, 0),
        duration(stage.seconds),
    )


def print_stages(console: Console, stages: Sequence[Stage], comparison: Comparison | None = None, *, title: str = "") -> None:
    """The table, whole at 80 columns, the comparison in plain words, and what makes a stage invalid. Names are never markup."""
    table = Table(title=Text(title), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for index, name in enumerate(_COLUMNS):
        header = name.replace(" ", "\n")  # no heading is wider than the figures under it
        table.add_column(header, justify="left" if index == 0 else "right", no_wrap=index > 1)
    for stage in stages:
        table.add_row(*map(Text, _cells(stage)))
    console.print(table)
    if comparison is not None:
        console.print(Text(comparison.verdict))
    for stage in stages:
        if not stage.result.valid:
            console.print(Text(f"{stage.name} is invalid: {stage.result.invalid_because}", style="red"))
