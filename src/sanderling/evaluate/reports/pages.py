"""Pages that load nothing: runs compared, and a recipe's report with its JSON and terminal table. They compute no figure.

All text is escaped on its way in. Texts of private benchmarks are left out unless they are asked for. Sentences of a recipe's
verdict are made from the numbers, whichever way they went.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from pydantic import Field
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.core.types import Ending
from sanderling.evaluate.figures import worlds_of
from sanderling.evaluate.reports.compare import Run, RunsReport, tables
from sanderling.evaluate.result import EvalResult, Record
from sanderling.evaluate.statistics import Interval, paired_difference
from sanderling.report import charts
from sanderling.report.charts import Bar, Difference, Line, Part, figure, legend, note
from sanderling.report.numbers import chance, duration, ending_words, mean, percent, points, span
from sanderling.report.page import render
from sanderling.runs.files import replace_file

# A trajectory to be read by a person ----------------------------------------------------------------------------------------

OUTCOMES = {True: "correct", False: "wrong", None: "unscored"}
_TITLES = {
    NodeKind.SYSTEM: "System prompt",
    NodeKind.QUESTION: "Question as asked",
    NodeKind.OBSERVATION: "Observation",
    NodeKind.HINT: "Notice from the loop",
    NodeKind.RAW: "Message",
    NodeKind.TURN: "Rejected attempt",
}


Reading = dict[str, Any]
"""An episode as the templates show it: ``title``, ``question``, ``outcome``, ``facts`` above it, and its ``steps``."""


def reading_of(trajectory: Trajectory, title: str, *, correct: bool | None) -> Reading:
    """A trajectory's main branch and its rejected attempts, in the order they happened."""
    main, turns = set(trajectory.path()), 0
    steps: list[dict[str, Any]] = []
    for index, node in enumerate(trajectory.nodes):
        if index in main or node.rejected:
            is_turn = node.kind is NodeKind.TURN and index in main
            turns += is_turn
            steps.append(_step(node, f"Turn {turns}" if is_turn else _TITLES[node.kind]))
    seeds, question, detail = trajectory.seeds, trajectory.question, trajectory.detail
    facts = {
        "Expected": " / ".join(question.answers) or "unknown",
        "Answered": trajectory.answer if trajectory.answer is not None else "nothing",
        "Ended": ending_words(trajectory.ending or "unknown") + (f": {detail}" if detail else ""),
        "Turns": str(turns),
        "Hops": "" if question.hops is None else str(question.hops),
        "Time": duration(trajectory.seconds),
        "Model": trajectory.model,
        "Episode": f"{trajectory.id} (run {seeds.run}, episode {seeds.episode}, attempt {seeds.attempt})",
    }
    shown = {name: value for name, value in facts.items() if value}
    return {"title": title, "question": question.text, "outcome": OUTCOMES[correct], "facts": shown, "steps": steps}


def _step(node: Node, title: str) -> dict[str, Any]:
    """A message as the template shows it; of a turn the text only where the parser found nothing in it."""
    parsed = node.kind is NodeKind.TURN and bool(node.think or node.calls or node.answer is not None)
    return {
        "title": title,
        "kind": node.kind,
        "think": (node.think or "").strip(),
        "calls": [f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in node.calls],
        "answer": node.answer,
        "text": "" if parsed else node.text.strip("\n"),
        "statuses": [f"{event.name}: {event.status.value}" for event in node.events],
        "problems": node.problems,
        "rejected": node.rejected,
    }


def pick_three(candidates: Iterable[tuple[Trajectory, bool | None]]) -> list[Reading]:
    """Up to three to read: the first right answer, the first wrong one, the first without an answer."""
    found: dict[str, Reading] = {}
    titles = ("A right answer, the first", "A wrong answer, the first", "No answer of its own accord, the first")
    for trajectory, correct in candidates:
        answered = trajectory.ending is Ending.ANSWERED
        title = titles[0 if correct else 1 if answered else 2]
        if title not in found and (not answered or correct is not None):
            found[title] = reading_of(trajectory, title, correct=correct)
    return [found[title] for title in titles if title in found]


# The page of runs -----------------------------------------------------------------------------------------------------------


def html(report: RunsReport, *, texts: bool = False) -> str:
    """The page of a comparison. ``texts``: private questions and answers, too."""
    return render(
        "runs.html",
        " · ".join(run.name for run in report.runs),
        canaries=dict.fromkeys(canary for run in report.runs if run.about for canary in run.about.canaries),
        notes=report.notes,
        figures=list(_runs_figures(report)),
        tables=list(tables(report)),
        runs=[_attempts(number, run, texts=texts) for number, run in enumerate(report.runs)],
    )


def _attempts(number: int, run: Run, *, texts: bool) -> dict[str, Any]:
    """Every attempt of a run by question, and those that can be read."""
    hidden = run.private and not texts
    records = {} if hidden else run.records
    anchors = {key: f"reading-{number}-{place}" for place, key in enumerate(records)}
    numbers: dict[tuple[str, bool | None], list[int]] = {}
    for (question, attempt), correct in run.verdicts.items():
        numbers.setdefault((question, correct), []).append(attempt)
    questions = [
        {
            "id": one.id,
            "text": "" if hidden else " ".join(run.texts.get(one.id, "").split()),
            "correct": one.correct,
            "scored": one.scored,
            "readable": [(anchor, attempt) for (question, attempt), anchor in anchors.items() if question == one.id],
            "numbers": [", ".join(map(str, numbers.get((one.id, correct), ()))) for correct in OUTCOMES],
        }
        for one in run.result.questions
    ]
    titles = {True: "A right answer", False: "A wrong answer", None: "Not scored"}
    verdicts = {key: run.verdicts[key] for key in records}
    return {
        "number": number,
        "name": run.name,
        "made_by": run.result.command,
        "command": f"sanderling show {shlex.quote(run.store)} --id QUESTION-ATTEMPT",
        "attempts": len(run.verdicts),
        "questions": questions,
        "hidden": hidden,
        "readings": [
            (anchors[key], reading_of(record, titles[verdicts[key]], correct=verdicts[key])) for key, record in records.items()
        ],
    }


def _runs_figures(report: RunsReport) -> Iterator[Markup]:
    if report.pairs:
        yield _differences((one.name, one.baseline, one.found.difference, one.found.interval) for one in report.pairs)
    for run in report.runs:
        if (result := run.result).attempts > 1:
            found = {"pass@k": result.pass_at_k, "pass^k": result.pass_hat_k}
            lines = [Line(name, list(curve), [one.value for one in curve.values()]) for name, curve in found.items()]
            title = f"{run.name}: shares over the number of attempts"
            plot = charts.curves(lines, title=title, x_label="attempts", y_label="share", percent=True)
            yield figure(f"{run.name}: with more attempts", plot, legend(list(found)))
    rows = [(run.name, _ending_parts(run.result)) for run in report.runs]
    yield figure("How attempts ended", charts.stacks(rows), _endings_legend([run.result for run in report.runs]))


def _differences(found: Iterable[tuple[str, str, float, Interval]]) -> Markup:
    title = "Paired differences on the same questions, in points, with 95% intervals"
    return figure(title, charts.differences([Difference(*one) for one in found], title=title))


def _ending_parts(result: EvalResult) -> list[Part]:
    """A stacked bar of how attempts ended."""
    return [Part(ending_words(ending), result.endings.get(ending, 0), f"e-{ending}") for ending in Ending]


def _endings_legend(results: Sequence[EvalResult]) -> Markup:
    """Swatches of the endings that occur."""
    seen = [ending for ending in Ending if any(result.endings.get(ending) for result in results)]
    return legend({ending_words(ending): f"e-{ending}" for ending in seen})


# A recipe's report ----------------------------------------------------------------------------------------------------------

ENOUGH_QUESTIONS = 200  # with fewer held-out questions a run is a check of the machinery, and its report claims nothing


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
    interval: Interval  # 95% bootstrap interval of the difference, over questions and their worlds
    p_value: float  # two-sided sign-flip test
    questions: int
    valid: bool  # both runs are valid, and there are enough questions for a claim
    verdict: str  # the comparison in plain words


class Chart(Record):
    """Learning curves on the same axes."""

    title: str
    x_label: str
    y_label: str
    lines: dict[str, dict[float, float | None]]  # by name, y by x; None is a gap
    smooth: int = Field(default=1, ge=1)  # points in the moving average that is drawn over the raw line; 1: raw only
    percent: bool = False  # whether y values are shares to be shown as percentages


class RecipeReport(Record):
    """A whole run of a recipe.

    Example: ``write_report(RecipeReport(title="tiny", ...), Path("runs/tiny"))``
    """

    schema_version: int = 3
    title: str
    summary: str = ""  # one or two sentences on what the recipe does
    command: str
    seed: int
    date: str
    machine: str
    version: str  # of the package
    seconds: float
    stages: tuple[Stage, ...]
    comparisons: tuple[Comparison, ...] = ()  # the first is the one that the recipe was made for
    remarks: tuple[str, ...] = ()  # what else should be said in plain words, such as that this was a quick run
    charts: tuple[Chart, ...] = ()
    readings: tuple[Reading, ...] = Field(default=(), exclude=True)  # on the page alone
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
    worlds = worlds_of([one for one in result.questions if one.id in set(both)])
    found = paired_difference([ours[id] for id in both], [theirs[id] for id in both], seed=seed, worlds=worlds)
    problems = [f"the run of {n} is invalid" for n, r in (candidate, baseline) if not r.valid]
    if len(both) < ENOUGH_QUESTIONS:
        problems.append(f"{len(both)} questions are fewer than the {ENOUGH_QUESTIONS} a claim needs")
    low, high = found.interval
    rates = " against ".join(f"{sum(side[id] for id in both) / len(both):.1%}" for side in (ours, theirs))
    of_worlds = f" of {len(set(worlds))} worlds" if worlds else ""
    is_alike = low == high == 0.0  # of which an interval of no width says nothing
    spread = "each of them alike" if is_alike else f"95% interval {points(low)} to {points(high)}, {chance(found.p_value)}"
    detail = f"{rates} pass@1 on the same {len(both)} questions{of_worlds}, {points(found.difference)} points ({spread})"
    claim = f"This run does not show that {name} differs from {other_name}: {detail}."
    claim += "" if is_alike else " The interval includes zero."
    if low > 0 or high < 0:
        word, side = ("better", "above") if low > 0 else ("worse", "below")
        claim = f"{name} is {word} than {other_name}: {detail}. The whole interval lies {side} zero."
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


def write_report(report: RecipeReport, directory: Path) -> Path:
    """Write ``report.json`` and ``report.html``, each whole or not at all; returns the path of the page."""
    replace_file(directory / "report.json", report.model_dump_json(indent=1) + "\n")
    page = directory / "report.html"
    replace_file(page, recipe_html(report))
    return page


def recipe_html(report: RecipeReport) -> str:
    """The page. The same report gives the same page."""
    sentences = [*(one.verdict for one in report.comparisons), *report.remarks]
    sentences += [f"{one.name} is invalid: {one.result.invalid_because}" for one in report.stages if not one.result.valid]
    main = next((one for one in report.comparisons[:1] if one.valid), None)
    means = [one.result.pass_at_1.value for one in report.stages]
    return render(
        "recipe.html",
        report.title,
        report=report,
        sentences=sentences,
        tone="gain" if main and main.interval.low > 0 else "loss" if main and main.interval.high < 0 else "open",
        best=max((value for value in means if value is not None), default=None),
        endings=lambda stage: charts.stack(_ending_parts(stage.result)),
        endings_key=_endings_legend([one.result for one in report.stages]),
        figures=list(_recipe_figures(report)),
        charts=[_chart(chart) for chart in report.charts],
    )


def _recipe_figures(report: RecipeReport) -> Iterator[Markup]:
    shares = [Bar(stage.name, stage.result.pass_at_1.value, stage.result.pass_at_1.interval) for stage in report.stages]
    yield figure("Pass@1, with 95% intervals", charts.bars(shares, title="Pass@1 of each stage with its 95% interval"))
    if report.comparisons:
        yield _differences((one.candidate, one.baseline, one.difference, one.interval) for one in report.comparisons)


def _chart(chart: Chart) -> Markup:
    lines = [Line(name, list(values), list(values.values())) for name, values in chart.lines.items()]
    longest = max((len(line.x) for line in lines), default=0)
    window = chart.smooth if longest >= 3 * chart.smooth else 1  # an average of all there is says less than the points
    plot = charts.curves(
        lines, title=chart.title, x_label=chart.x_label, y_label=chart.y_label, window=window, percent=chart.percent,
    )  # fmt: skip
    below = note(f"Faint: raw; strong: moving average of {window} points.") if window > 1 else None
    return figure(chart.title, plot, legend([line.name for line in lines]) if len(lines) > 1 else None, below)


_COLUMNS = ("Stage", "n", "Pass@1", "95% interval", "Pass@4", "Answered", "Turns", "Browse", "Time")


def print_stages(console: Console, report: RecipeReport) -> None:
    """The table, whole at 80 columns, the main comparison in plain words, and what makes a stage invalid."""
    table = Table(title=Text(report.title), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for index, name in enumerate(_COLUMNS):
        header = name.replace(" ", "\n")  # no heading is wider than the figures under it
        table.add_column(header, justify="left" if index == 0 else "right", no_wrap=index > 1)
    for stage in report.stages:
        table.add_row(*map(Text, _cells(stage)))
    console.print(table)
    for comparison in report.comparisons[:1]:
        console.print(Text(comparison.verdict))
    for stage in report.stages:
        if not stage.result.valid:
            console.print(Text(f"{stage.name} is invalid: {stage.result.invalid_because}", style="red"))


def _cells(stage: Stage) -> tuple[str, ...]:
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
