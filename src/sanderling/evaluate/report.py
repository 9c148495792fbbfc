"""A report as one HTML file that needs nothing else, and the same figures as JSON beside it.

The page loads nothing (its own content-security policy forbids it), follows the reader's light or dark scheme, and is whole
without script: the script only shows the points of a curve. All text comes in through :mod:`~sanderling.evaluate.markup`, which
escapes it. Computes no figure.
"""

from collections.abc import Iterator
from pathlib import Path

from sanderling.evaluate import report_stages
from sanderling.evaluate.format import duration, memory, percent, points
from sanderling.evaluate.markup import Html, join, tag
from sanderling.evaluate.page import figure, page, section
from sanderling.evaluate.plots import Line, curves, legend
from sanderling.evaluate.report_model import Chart, Comparison, FactSheet, RecipeReport
from sanderling.evaluate.report_readings import readings_html
from sanderling.runs.files import replace_file

HTML_NAME = "report.html"
JSON_NAME = "report.json"


def write_report(report: RecipeReport, directory: Path) -> Path:
    """Write ``report.json`` and ``report.html``, each whole or not at all; returns the path of the page."""
    replace_file(directory / JSON_NAME, report.model_dump_json(indent=1) + "\n")
    replace_file(directory / HTML_NAME, render(report))
    return directory / HTML_NAME


def render(report: RecipeReport) -> str:
    """The page. The same report gives the same page."""
    return page(report.title, _header(report), tag("main", *_sections(report)), _footer(report))


def _header(report: RecipeReport) -> Html:
    run = report.run
    return tag(
        "header",
        tag("p", "Sanderling · recipe report", class_="eyebrow"),
        tag("h1", report.title),
        tag("p", report.summary, class_="summary") if report.summary else None,
        tag("p", " · ".join([run.date, f"sanderling {run.version}", f"seed {run.seed}", run.machine]), class_="meta"),
    )


def _sections(report: RecipeReport) -> Iterator[Html]:
    yield _verdict(report)
    yield section("results", "Results", report_stages.table_html(report.stages), *_figures(report))
    if report.charts:
        yield section("curves", "Learning curves", tag("div", *map(_chart, report.charts), class_="grid2"))
    if report.readings:
        note = tag("p", "Chosen by rule, not by hand. Thoughts, calls and observations are verbatim.", class_="quiet")
        yield section("episodes", "Episodes to read", note, readings_html(report.readings))
    if report.sheets:
        yield section("material", "Material", tag("div", *map(_sheet, report.sheets), class_="grid2"))
    if report.settings:
        block = tag("details", tag("summary", "The recipe as it was run"), tag("pre", report.settings), class_="settings")
        yield section("settings", "Settings", block)


def _verdict(report: RecipeReport) -> Html:
    main = report.comparison
    said = [tag("p", main.verdict, class_="lead")] if main else []
    said += [tag("p", other.verdict) for other in report.other_comparisons]
    said += [tag("p", remark) for remark in report.remarks]
    said += [tag("p", f"{s.name} is invalid: {s.invalid_because}") for s in report.stages if s.invalid_because]
    block = tag("div", *said, class_=f"verdict {_tone(main)}") if said else None
    return tag("section", tag("h2", "What this run shows"), block, _cards(report), id="verdict")


def _tone(comparison: Comparison | None) -> str:
    if comparison is None or not comparison.valid or comparison.interval.low <= 0 <= comparison.interval.high:
        return "open"
    return "gain" if comparison.interval.low > 0 else "loss"


def _cards(report: RecipeReport) -> Html:
    run, main = report.run, report.comparison
    figures = [(percent(stage.pass_at_1), f"pass@1, {stage.name}") for stage in report.stages[-1:]]
    if main is not None:
        figures.append((points(main.difference), f"points over {main.baseline}"))
    figures += [(f"{stage.n:,}", "held-out questions") for stage in report.stages[-1:]]
    figures += [(duration(run.seconds), "wall time"), (memory(run.peak_memory_mb), "of memory at most")]
    return tag("div", *[tag("div", tag("b", f), tag("span", label), class_="card") for f, label in figures], class_="cards")


def _figures(report: RecipeReport) -> Iterator[Html]:
    figures = [figure("Pass@1, with 95% intervals", report_stages.pass_bars(report.stages))]
    compared = [c for c in (report.comparison, *report.other_comparisons) if c is not None]
    if compared:
        caption = "Paired differences in pass@1 on the same questions, in points, with 95% intervals"
        figures.append(figure(caption, report_stages.difference_plot(compared)))
    figures.append(figure("How episodes ended", report_stages.endings_bars(report.stages)))
    yield tag("div", *figures, class_="grid2")


def _chart(chart: Chart) -> Html:
    lines = [Line(series.name, series.x, series.y) for series in chart.series]
    plot = curves(
        lines,
        title=chart.title,
        x_label=chart.x_label,
        y_label=chart.y_label,
        window=chart.smooth,
        percent=chart.percent,
        log=chart.log,
    )
    remarks = [chart.note, f"Faint: raw; strong: moving average of {chart.smooth} points." if chart.smooth > 1 else ""]
    note = tag("p", " ".join(filter(None, remarks)), class_="quiet") if any(remarks) else None
    return figure(chart.title, plot, legend([line.name for line in lines]) if len(lines) > 1 else None, note)


def _sheet(sheet: FactSheet) -> Html:
    rows = [join(tag("dt", fact.label), tag("dd", fact.value)) for fact in sheet.facts]
    return tag("div", tag("h3", sheet.title), tag("dl", *rows, class_="facts"), class_="sheet")


def _footer(report: RecipeReport) -> Html:
    run = report.run
    return tag(
        "footer",
        tag(
            "p",
            "Made by ",
            tag("code", run.command),
            f" with seed {run.seed}, sanderling {run.version}, on {run.machine}, {run.date}.",
        ),
        tag(
            "p",
            "Intervals are 95%: percentile bootstrap over questions (Wilson where all are "
            "right or all wrong). Differences are paired "
            "by question; their p-values come from sign flips. Unscored attempts (outages) are in no mean, and counted. "
            "Memory is an upper bound: the main process and as many workers as ran at once, each at the size of the largest. "
            f"The same figures for machines: {JSON_NAME}.",
        ),
    )
