"""A recipe's report as one HTML file that needs nothing else, and the same figures as JSON beside it. Computes no figure."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from sanderling.core.types import Ending
from sanderling.evaluate.reading import reading_facts, step_title
from sanderling.evaluate.report_model import Chart, RecipeReport, Stage
from sanderling.report import charts
from sanderling.report.charts import Bar, Difference, Part, figure, legend, note
from sanderling.report.numbers import duration, ending_words, memory, percent, points
from sanderling.report.page import render as rendered
from sanderling.runs.files import replace_file

HTML_NAME = "report.html"
JSON_NAME = "report.json"
_HEADS = {
    "Stage": "What was evaluated",
    "Questions": "Held-out questions × attempts at each",
    "Pass@1": "Mean share of right attempts, with its 95% interval (bootstrap over questions)",
    "Pass@4": "Chance that at least one of four attempts is right, unbiased",
    "Endings": "How the episodes ended",
    "Turns": "Mean model turns of an episode",
    "Browse": "Visits among all tool calls (in right / in wrong episodes)",
    "Time": "Wall time of making and evaluating the stage",
}


def write_report(report: RecipeReport, directory: Path) -> Path:
    """Write ``report.json`` and ``report.html``, each whole or not at all; returns the path of the page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    replace_file(directory / HTML_NAME, render(report))
    return directory / HTML_NAME


def render(report: RecipeReport) -> str:
    """The page. The same report gives the same page."""
    main = report.comparison
    sentences = [one.verdict for one in (*([main] if main else []), *report.other_comparisons)] + list(report.remarks)
    sentences += [f"{stage.name} is invalid: {stage.invalid_because}" for stage in report.stages if stage.invalid_because]
    return rendered(
        "recipe.html",
        report.title,
        report=report,
        sentences=sentences,
        tone=_tone(report),
        cards=list(_cards(report)),
        heads=_HEADS,
        best=max((stage.pass_at_1 for stage in report.stages if stage.pass_at_1 is not None), default=None),
        endings=lambda stage: charts.stack(_endings(stage)),
        endings_key=_endings_key(report.stages),
        figures=list(_figures(report)),
        charts=[_chart(chart) for chart in report.charts],
        reading_facts=reading_facts,
        step_title=step_title,
    )


def _tone(report: RecipeReport) -> str:
    main = report.comparison
    if main is None or not main.valid or main.interval.low <= 0 <= main.interval.high:
        return "open"
    return "gain" if main.interval.low > 0 else "loss"


def _cards(report: RecipeReport) -> Iterator[tuple[str, str]]:
    last = report.stages[-1:]
    yield from ((percent(stage.pass_at_1), f"pass@1, {stage.name}") for stage in last)
    if report.comparison is not None:
        yield points(report.comparison.difference), f"points over {report.comparison.baseline}"
    yield from ((f"{stage.n:,}", "held-out questions") for stage in last)
    yield duration(report.run.seconds), "wall time"
    yield memory(report.run.peak_memory_mb), "of memory at most"


def _figures(report: RecipeReport) -> Iterator[Markup]:
    shares = [Bar(stage.name, stage.pass_at_1, stage.pass_at_1_interval) for stage in report.stages]
    yield figure("Pass@1, with 95% intervals", charts.bars(shares, title="Pass@1 of each stage with its 95% interval"))
    compared = [one for one in (report.comparison, *report.other_comparisons) if one is not None]
    if compared:
        caption = "Paired differences in pass@1 on the same questions, in points, with 95% intervals"
        shown = [Difference(one.candidate, one.baseline, one.difference, one.interval) for one in compared]
        title = "Paired differences in pass@1 with their 95% intervals, in points"
        yield figure(caption, charts.differences(shown, title=title))
    rows = [(stage.name, _endings(stage)) for stage in report.stages]
    yield figure("How episodes ended", charts.stacks(rows), _endings_key(report.stages))


def _endings(stage: Stage) -> list[Part]:
    return [Part(ending_words(ending), stage.endings.get(ending, 0), f"e-{ending}") for ending in Ending]


def _endings_key(stages: Sequence[Stage]) -> Markup:
    """Swatches of the endings that occur."""
    present = [ending for ending in Ending if any(stage.endings.get(ending) for stage in stages)]
    return legend({ending_words(ending): f"e-{ending}" for ending in present})


def _chart(chart: Chart) -> Markup:
    lines = [charts.Line(series.name, series.x, series.y) for series in chart.series]
    plot = charts.curves(
        lines,
        title=chart.title,
        x_label=chart.x_label,
        y_label=chart.y_label,
        window=chart.smooth,
        percent=chart.percent,
        log=chart.log,
    )
    remarks = [chart.note, f"Faint: raw; strong: moving average of {chart.smooth} points." if chart.smooth > 1 else ""]
    below = note(" ".join(filter(None, remarks))) if any(remarks) else None
    return figure(chart.title, plot, legend([line.name for line in lines]) if len(lines) > 1 else None, below)
