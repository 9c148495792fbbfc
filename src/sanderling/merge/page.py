"""A sweep as a page that needs nothing else and as a table for the terminal; the same figures, none computed here."""

from pathlib import Path

from markupsafe import Markup
from rich import box
from rich.table import Table
from rich.text import Text

from sanderling.merge.axis import Axis
from sanderling.merge.report import Measured, Score, SweepReport
from sanderling.report.charts import Bar, Line, bars, curves, figure, legend
from sanderling.report.numbers import percent, points, span
from sanderling.report.page import render as rendered
from sanderling.runs.files import replace_file

HTML_NAME = "sweep.html"
_AXES = {
    Axis.WEIGHT: "the second model's share",
    Axis.SCALE: "the scale λ of what is added to the base",
    Axis.DENSITY: "the density",
}


def write_page(report: SweepReport, directory: Path) -> Path:
    """Write the page, whole or not at all; returns its path."""
    replace_file(directory / HTML_NAME, render(report))
    return directory / HTML_NAME


def render(report: SweepReport) -> str:
    """The page. The same report gives the same page."""
    title = f"Sweep of {report.settings.method} merges"
    chosen = report.chosen or (report.points[0] if report.points else None)
    asked = {name: score.questions for name, score in chosen.skills.items()} if chosen else {}
    return rendered(
        "sweep.html",
        title,
        report=report,
        axis=_AXES[report.axis],
        names=skill_names(report),
        told=told(report),
        figures=_figures(report),
        headings=_headings(report),
        rows=[_cells(report, item) for item in (*report.inputs, *report.points)],
        inputs=", ".join(item.name for item in report.inputs),
        counts=", ".join(f"{name} {count}" for name, count in asked.items()),
        searches=", ".join(f"{name} {mode}" for name, mode in report.search.items()),
    )


def skill_names(report: SweepReport) -> list[str]:
    """The skills, in the order they were given."""
    return list(dict.fromkeys(name for item in (*report.inputs, *report.points) for name in item.skills))


def told(report: SweepReport) -> list[str]:
    """What the sweep shows, in sentences made of its numbers."""
    chosen = report.chosen
    if chosen is None or chosen.mean is None:
        return ["No point could be measured: too many attempts ended in outages."]
    each = "; ".join(f"{name} {_score(score)}" for name, score in chosen.skills.items())
    lines = [f"Best at {report.axis} {chosen.name}: {_score(chosen.mean)} in the mean over skills ({each})."]
    if chosen.sha256 in {item.sha256 for item in report.inputs}:
        lines.append("It is an input itself, bit for bit: no merge between them was better.")
    elif report.gain is not None:
        found = report.gain
        side = "above" if found.interval.low > 0 else "below" if found.interval.high < 0 else "not to be told from"
        lines.append(
            f"That is {points(found.difference)} points beside the better input, {_short_path(found.over)} (95% interval "
            f"{points(found.interval.low)} to {points(found.interval.high)}): {side} it."
        )
    lines.append("The questions that chose the best of several points flatter it: measure it on others before a claim.")
    return lines


def terminal_table(report: SweepReport) -> Table:
    """Inputs and points with every skill, the mean, and intervals."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for place, name in enumerate(_headings(report)):
        table.add_column(Text(name), justify="left" if not place else "right", no_wrap=place > 0)
    for item in (*report.inputs, *report.points):
        style = "bold" if item.value is not None and item.value == report.best else ""
        table.add_row(*[Text(cell) for cell in _cells(report, item)], style=style)
    return table


def _figures(report: SweepReport) -> list[Markup]:
    names = skill_names(report)
    xs = sorted(point.value for point in report.points if point.value is not None)
    by_value = {point.value: point for point in report.points}
    lines = [Line(name, xs, [_value(by_value[x].skills.get(name)) for x in xs]) for name in names]
    lines.append(Line("mean", xs, [_value(by_value[x].mean) for x in xs]))
    plot = curves(
        lines, title="Pass@1 along the axis", x_label=_AXES[report.axis], y_label="pass@1", percent=True, mark=report.best
    )
    chosen = [report.chosen] if report.chosen else []
    shown = [
        Bar(f"{name} · {_named(report, item)}", item.skills[name].value, item.skills[name].interval)
        for name in names
        for item in (*report.inputs, *chosen)
        if name in item.skills
    ]
    return [
        figure("Pass@1 at every point; upright: the best", plot, legend([line.name for line in lines])),
        figure("Inputs and the best point, with 95% intervals", bars(shown, title="Inputs and the best point")),
    ]


def _headings(report: SweepReport) -> list[str]:
    return [report.axis.value, *skill_names(report), "mean"]


def _cells(report: SweepReport, item: Measured) -> list[str]:
    mark = " (best)" if item.value is not None and item.value == report.best else ""
    mark += " (invalid)" if item.invalid_because else ""
    return [_short(item) + mark, *[_score(item.skills.get(name)) for name in skill_names(report)], _score(item.mean)]


def _named(report: SweepReport, item: Measured) -> str:
    """An input by its short name, a point by what was swept."""
    return _short(item) if item.value is None else f"{report.axis} {item.name}"


def _short(item: Measured) -> str:
    """A point's value, or an input's short name."""
    return _short_path(item.name) if item.value is None else item.name


def _short_path(name: str) -> str:
    """The last part of an input's path that is not just "model"."""
    path = Path(name)
    return path.parent.name or path.name if path.name == "model" else path.name


def _score(score: Score | None) -> str:
    return "–" if score is None else f"{percent(score.value)} ({span(score.interval)})"


def _value(score: Score | None) -> float | None:
    return None if score is None else score.value
