"""A recipe's report: stages, comparisons, curves and trajectories to read, as data, one HTML file and a terminal table.

The page, the JSON beside it and the table are views of :class:`RecipeReport`; none of them computes a figure. Sentences of the
verdict are made from the numbers, whichever way they went.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Self

from markupsafe import Markup
from pydantic import Field, field_validator, model_validator
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.types import Ending
from sanderling.evaluate.reports.reading import Reading, reading_facts, step_title
from sanderling.evaluate.result import EvalResult, Record
from sanderling.evaluate.statistics import Interval, paired_difference
from sanderling.report import charts
from sanderling.report.charts import Bar, Difference, Part, figure, legend, note
from sanderling.report.numbers import chance, duration, ending_words, mean, memory, percent, points, span
from sanderling.report.page import render as rendered
from sanderling.runs.files import replace_file

ENOUGH_QUESTIONS = 200
"""With fewer held-out questions a run is a check of the machinery, and its report claims nothing."""


class Fact(Record):
    """One labelled line, such as a world's number of pages."""

    label: str
    value: str


class FactSheet(Record):
    """A titled list of facts: a world, the model, the tokenizer."""

    title: str
    facts: tuple[Fact, ...]


class RunFacts(Record):
    """What was run, where, and what it cost."""

    command: str
    seed: int
    date: str
    machine: str
    version: str  # of the package
    seconds: float
    peak_memory_mb: float | None = None
    """Upper bound: the main process and as many workers as ran at once, each as large as the largest."""


class Stage(Record):
    """One row of the table."""

    name: str
    n: int  # questions
    attempts: int  # at each question
    pass_at_1: float | None
    pass_at_1_interval: Interval | None  # 95%
    pass_at_4: float | None  # None with fewer than four attempts
    pass_at_4_interval: Interval | None
    endings: dict[Ending, int]
    unscored: int
    turns: float | None  # mean over scored episodes
    calls: float | None
    browse_share: float | None  # visits among all tool calls
    browse_share_correct: float | None
    browse_share_wrong: float | None
    tokens: float | None  # mean sampled tokens of an episode
    seconds: float  # of making this stage and evaluating it
    command: str
    seed: int
    invalid_because: str = ""
    note: str = ""

    @classmethod
    def of(cls, name: str, result: EvalResult, *, seconds: float, note: str = "") -> Self:
        """The row of an evaluation; ``seconds`` is what the whole stage took."""
        four = result.pass_at_k.get(4)
        return cls(
            name=name,
            n=len(result.questions),
            attempts=result.attempts,
            pass_at_1=result.pass_at_1.value,
            pass_at_1_interval=result.pass_at_1.interval,
            pass_at_4=four.value if four else None,
            pass_at_4_interval=four.interval if four else None,
            endings=result.endings,
            unscored=result.unscored,
            turns=result.mean_turns,
            calls=result.mean_calls,
            browse_share=result.browse.overall,
            browse_share_correct=result.browse.correct,
            browse_share_wrong=result.browse.wrong,
            tokens=result.mean_sampled_tokens,
            seconds=seconds,
            command=result.command,
            seed=result.seed,
            invalid_because=result.invalid_because,
            note=note,
        )


class Comparison(Record):
    """Two stages on the same questions, pass@1."""

    candidate: str
    baseline: str
    candidate_pass_at_1: float
    baseline_pass_at_1: float  # both over the paired questions only
    difference: float
    interval: Interval  # 95% bootstrap interval of the difference over questions
    p_value: float  # two-sided sign-flip test
    questions: int
    dropped: int  # questions without a scored attempt on one side
    seed: int
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

    @model_validator(mode="after")
    def _parallel(self) -> Self:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.name!r} has {len(self.x)} x and {len(self.y)} y values")
        return self


class Chart(Record):
    """A learning curve or several on the same axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    smooth: int = Field(default=1, ge=1)  # points in the moving average that is drawn over the raw line; 1: raw only
    percent: bool = False  # whether y values are shares to be shown as percentages
    log: bool = False  # whether the y axis is logarithmic: for a loss that falls by a factor
    note: str = ""


class RecipeReport(Record):
    """A whole run of a recipe.

    Example: ``write_report(RecipeReport(title="tiny", ...), Path("runs/tiny"))``
    """

    schema_version: int = 1
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


def compare(
    candidate: tuple[str, EvalResult], baseline: tuple[str, EvalResult], *, seed: int, enough: int = ENOUGH_QUESTIONS
) -> Comparison:
    """Compare two evaluations of the same questions by pass@1.

    Raises ValueError when the questions differ, UserError when none was scored for both.
    """
    (name, result), (other_name, other) = candidate, baseline
    ids = [question.id for question in result.questions]
    if ids != [question.id for question in other.questions]:
        raise ValueError(f"{name} and {other_name} were not evaluated on the same questions")
    ours, theirs = result.per_question(), other.per_question()
    both = [i for i in ids if i in ours and i in theirs]
    if not both:
        raise UserError(f"No question was scored for both {name} and {other_name}: evaluate again once the outage is over.")
    nan = float("nan")
    found = paired_difference([ours.get(i, nan) for i in ids], [theirs.get(i, nan) for i in ids], seed=seed)
    problems = [f"the run of {n} is invalid" for n, r in (candidate, baseline) if not r.valid]
    if found.questions < enough:
        problems.append(f"{found.questions} questions are fewer than the {enough} a claim needs")
    figures = {
        "candidate_pass_at_1": sum(ours[i] for i in both) / len(both),
        "baseline_pass_at_1": sum(theirs[i] for i in both) / len(both),
        "difference": found.difference,
    }
    return Comparison(
        candidate=name,
        baseline=other_name,
        interval=found.interval,
        p_value=found.p_value,
        questions=found.questions,
        dropped=found.dropped,
        seed=seed,
        valid=not problems,
        verdict=_verdict(name, other_name, figures, found.interval, found.p_value, found.questions, problems),
        **figures,
    )


def better(*results: tuple[str, EvalResult]) -> tuple[str, EvalResult]:
    """The one with the higher pass@1; the first of equals. Raises ValueError for none."""
    return max(results, key=lambda pair: -1.0 if pair[1].pass_at_1.value is None else pair[1].pass_at_1.value)


def _verdict(
    name: str, other: str, figures: dict[str, float], interval: Interval, p: float, n: int, problems: Sequence[str]
) -> str:
    """The comparison in plain words, made from its numbers."""
    change = f"{points(figures['difference'])} points"
    span = f"95% interval {points(interval.low)} to {points(interval.high)}"
    rates = f"{figures['candidate_pass_at_1']:.1%} against {figures['baseline_pass_at_1']:.1%}"
    detail = f"{rates} pass@1 on the same {n} questions, {change} ({span}, {chance(p)})"
    if interval.low > 0:
        claim = f"{name} is better than {other}: {detail}. The whole interval lies above zero."
    elif interval.high < 0:
        claim = f"{name} is worse than {other}: {detail}. The whole interval lies below zero."
    else:
        claim = f"This run does not show that {name} differs from {other}: {detail}. The interval includes zero."
    if not problems:
        return claim
    return f"{claim} But {' and '.join(problems)}, so nothing is claimed."


# The page -----------------------------------------------------------------------------------------------------------------

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


# The table ----------------------------------------------------------------------------------------------------------------

_COLUMNS = ("Stage", "n", "Pass@1", "95% interval", "Pass@4", "Answered", "Turns", "Browse", "Time")


def stage_cells(stage: Stage) -> tuple[str, ...]:
    """One row of text, a cell for each column."""
    return (
        stage.name + (" (invalid)" if stage.invalid_because else ""),
        f"{stage.n}×{stage.attempts}" + (f", {stage.unscored} unscored" if stage.unscored else ""),
        percent(stage.pass_at_1),
        span(stage.pass_at_1_interval),
        percent(stage.pass_at_4),
        percent(_answered(stage), 0),
        mean(stage.turns),
        percent(stage.browse_share, 0),
        duration(stage.seconds),
    )


def terminal_table(stages: Sequence[Stage], *, title: str = "") -> Table:
    """A rich table that keeps every figure whole at 80 columns. Names are text, never rich markup."""
    heading = Text(title) if title else None
    table = Table(title=heading, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for index, name in enumerate(_COLUMNS):
        header = name.replace(" ", "\n")  # no heading is wider than the figures under it
        table.add_column(header, justify="left" if index == 0 else "right", no_wrap=index > 1)
    for stage in stages:
        table.add_row(*map(Text, stage_cells(stage)))
    return table


def print_stages(console: Console, stages: Sequence[Stage], comparison: Comparison | None = None, *, title: str = "") -> None:
    """The table, the comparison in plain words, and what makes a stage invalid."""
    console.print(terminal_table(stages, title=title))
    if comparison is not None:
        console.print(Text(comparison.verdict))
    for stage in stages:
        if stage.invalid_because:
            console.print(Text(f"{stage.name} is invalid: {stage.invalid_because}", style="red"))


def _answered(stage: Stage) -> float | None:
    total = sum(stage.endings.values())
    return sum(n for ending, n in stage.endings.items() if ending.has_answer) / total if total else None
