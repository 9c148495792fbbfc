"""What a sweep found: its figures made of results, as data (``sweep.json``), as a page and as a table for the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from rich import box
from rich.table import Table
from rich.text import Text

from sanderling.core.config import Frozen
from sanderling.evaluate.result import EvalResult
from sanderling.evaluate.statistics import RESAMPLES, FloatArray, Interval
from sanderling.merge.settings import MergeSettings
from sanderling.report.charts import Bar, Line, bars, curves, figure, legend
from sanderling.report.numbers import percent, points, span
from sanderling.report.page import render

RULE = "highest mean over skills of pass@1; of equal points the one nearest to the middle"
_AXES = {
    "weight": "the second model's share",
    "scale": "the scale λ of what is added to the base",
    "density": "the density",
}


class Score(Frozen):
    """A share of right attempts with its 95% interval."""

    value: float
    interval: Interval
    questions: int
    unscored: int = 0
    """Attempts that ended in an outage: in no mean."""

    def __str__(self) -> str:
        return f"{percent(self.value)} ({span(self.interval)})"


class Measured(Frozen):
    """A model's figures."""

    name: str
    """Of an input: its directory. Of a point: its value."""
    at: tuple[float, ...]
    """Where in the sweep it lies; empty for an input."""
    sha256: str
    """Of its weights."""
    skills: dict[str, Score]
    mean: Score | None
    """Over skills, each weighing the same; None when a skill could not be measured."""
    invalid_because: str = ""

    @property
    def mean_value(self) -> float:
        return self.mean.value if self.mean else float("nan")

    @property
    def short(self) -> str:
        """A point's value, or the last part of an input's path that is not just "model"."""
        path = Path(self.name)
        return self.name if self.at else path.parent.name or path.name if path.name == "model" else path.name


class Gain(Frozen):
    """How far the best point is above the better input, on the same questions, in the mean over skills."""

    over: str
    difference: float
    interval: Interval


class SweepReport(Frozen):
    """A finished sweep."""

    command: str
    settings: MergeSettings
    axis: str
    how: dict[str, Any]
    """All that figures depend on: questions, worlds, profile, agent, judges, attempts."""
    inputs: tuple[Measured, ...]
    points: tuple[Measured, ...]
    best: tuple[float, ...] | None
    gain: Gain | None
    """None when no point, or no input, could be measured."""
    version: str
    machine: str
    date: str
    seconds: float
    """Of the run that finished it."""

    @property
    def chosen(self) -> Measured | None:
        """The best point."""
        return next((point for point in self.points if point.at == self.best), None)

    @property
    def skills(self) -> list[str]:
        """Their names, in the order they were given."""
        return list(dict.fromkeys(name for item in (*self.inputs, *self.points) for name in item.skills))


# -- figures -------------------------------------------------------------------------------------------------------------


def measured(name: str, at: tuple[float, ...], sha256: str, results: Mapping[str, EvalResult]) -> Measured:
    """One model's figures from its results on every skill."""
    broken = [f"{skill}: {result.invalid_because}" for skill, result in results.items() if not result.valid]
    skills: dict[str, Score] = {}
    for skill, result in results.items():
        found = result.pass_at_1
        if found.value is not None and found.interval is not None:
            skills[skill] = Score(
                value=found.value, interval=found.interval, questions=found.questions, unscored=result.unscored
            )
    mean = None
    if not broken and len(skills) == len(results):
        values = [np.array(list(result.per_question().values()), dtype=np.float64) for result in results.values()]
        figure, interval = mean_over_skills(values)
        mean = Score(value=figure, interval=interval, questions=sum(score.questions for score in skills.values()))
    return Measured(name=name, at=at, sha256=sha256, skills=skills, mean=mean, invalid_because=" ".join(broken))


def gain(chosen: Mapping[str, EvalResult], other: Mapping[str, EvalResult], over: str) -> Gain:
    """The paired difference of two models over the questions that both have a scored attempt at."""
    skills: list[FloatArray] = []
    for skill, result in chosen.items():
        mine, theirs = result.per_question(), other[skill].per_question()
        skills.append(np.array([mine[name] - theirs[name] for name in mine if name in theirs], dtype=np.float64))
    difference, interval = mean_over_skills(skills)
    return Gain(over=over, difference=difference, interval=interval)


def mean_over_skills(skills: Sequence[FloatArray], seed: int = 0) -> tuple[float, Interval]:
    """The mean of the skills' means with its 95% interval: questions are resampled within each skill.

    ``skills``: for each skill, one figure for each of its questions; none may be empty.
    """
    rng = np.random.default_rng(seed)
    drawn: list[FloatArray] = []
    for values in skills:
        counts = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=RESAMPLES)
        drawn.append(counts @ values / len(values))
    low, high = np.quantile(np.mean(drawn, axis=0), [0.025, 0.975])
    return float(np.mean([values.mean() for values in skills])), Interval(float(low), float(high))


# -- for people ----------------------------------------------------------------------------------------------------------


def sentences(report: SweepReport) -> list[str]:
    """What the sweep shows, in sentences made of its numbers."""
    chosen = report.chosen
    if chosen is None or chosen.mean is None:
        return ["No point could be measured: too many attempts ended in outages."]
    each = "; ".join(f"{name} {score}" for name, score in chosen.skills.items())
    lines = [f"Best at {report.axis} {chosen.name}: {chosen.mean} in the mean over skills ({each})."]
    if chosen.sha256 in {item.sha256 for item in report.inputs}:
        lines.append("It is an input itself, bit for bit: no merge between them was better.")
    elif report.gain is not None:
        low, high = report.gain.interval
        side = "above" if low > 0 else "below" if high < 0 else "not to be told from"
        over = next(item.short for item in report.inputs if item.name == report.gain.over)
        lines.append(
            f"That is {points(report.gain.difference)} points beside the better input, {over} (95% interval {points(low)} to "
            f"{points(high)}): {side} it."
        )
    lines.append("The questions that chose the best of several points flatter it: measure it on others before a claim.")
    return lines


def terminal_table(report: SweepReport) -> Table:
    """Inputs and points with every skill, the mean, and intervals."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0))
    for place, name in enumerate(_headings(report)):
        table.add_column(Text(name), justify="left" if not place else "right", no_wrap=place > 0)
    for item in (*report.inputs, *report.points):
        table.add_row(*[Text(cell) for cell in _cells(report, item)], style="bold" if item == report.chosen else "")
    return table


def page(report: SweepReport) -> str:
    """The page. The same report gives the same page."""
    chosen = report.chosen or (report.points[0] if report.points else None)
    asked = {name: score.questions for name, score in chosen.skills.items()} if chosen else {}
    return render(
        "sweep.html",
        f"Sweep of {report.settings.method} merges",
        report=report,
        axis=_axis(report),
        names=report.skills,
        told=sentences(report),
        figures=_figures(report),
        headings=_headings(report),
        rows=[_cells(report, item) for item in (*report.inputs, *report.points)],
        inputs=", ".join(item.name for item in report.inputs),
        counts=", ".join(f"{name} {count}" for name, count in asked.items()),
        rule=RULE,
    )


def _axis(report: SweepReport) -> str:
    many = report.axis == "weight" and len(report.settings.models) > 2
    return "the models' shares" if many else _AXES[report.axis]


def _figures(report: SweepReport) -> list[Markup]:
    """The curve along the axis (where shares of several models are swept: a bar a point), and inputs beside the best."""
    if any(len(point.at) > 1 for point in report.points):
        means = [Bar(point.name, point.mean.value, point.mean.interval) for point in report.points if point.mean]
        first = figure("Pass@1 in the mean over skills, by the models' shares", bars(means, title="Every point"))
    else:
        ordered = sorted(report.points, key=lambda point: point.at)
        xs = [point.at[0] for point in ordered]
        lines = [Line(name, xs, [_value(point.skills.get(name)) for point in ordered]) for name in report.skills]
        lines.append(Line("mean", xs, [_value(point.mean) for point in ordered]))
        mark = report.best[0] if report.best else None
        plot = curves(lines, title="Pass@1 along the axis", x_label=_axis(report), y_label="pass@1", percent=True, mark=mark)
        first = figure("Pass@1 at every point; upright: the best", plot, legend([line.name for line in lines]))
    compared = [(item.short, item) for item in report.inputs]
    compared += [(f"{report.axis} {item.name}", item) for item in report.points if item == report.chosen]
    shown = [
        Bar(f"{skill} · {name}", item.skills[skill].value, item.skills[skill].interval)
        for skill in report.skills
        for name, item in compared
        if skill in item.skills
    ]
    second = figure("Inputs and the best point, with 95% intervals", bars(shown, title="Inputs and the best point"))
    return [first, second]


def _headings(report: SweepReport) -> list[str]:
    return [report.axis, *report.skills, "mean"]


def _cells(report: SweepReport, item: Measured) -> list[str]:
    mark = " (best)" if item == report.chosen else ""
    mark += " (invalid)" if item.invalid_because else ""
    scores = [*(item.skills.get(name) for name in report.skills), item.mean]
    return [item.short + mark, *("–" if score is None else str(score) for score in scores)]


def _value(score: Score | None) -> float | None:
    return None if score is None else score.value
