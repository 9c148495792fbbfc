"""A report as one page that loads nothing; all text is escaped on its way in. Computes no figure.

Figures lead to lists of the attempts behind them; every attempt of a run is listed by question, with a link where it can be
read on the page, and the command that shows any other. Texts of private benchmarks are left out unless they are asked for.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sanderling.core.types import Ending
from sanderling.evaluate.reports.compare import Evidence, Run, RunsReport, by_question, evidence, pair_id
from sanderling.evaluate.reports.reading import Outcome, step_title
from sanderling.evaluate.reports.tables import tables
from sanderling.evaluate.result import EvalResult
from sanderling.report import charts
from sanderling.report.charts import Curve, Difference, Part, figure, legend, note
from sanderling.report.numbers import ending_words
from sanderling.report.page import render, tag

_HOW = (
    "avg@k is the mean share of right attempts, each question weighing the same. Intervals are 95%: percentile bootstrap over "
    "questions, one draw for all figures of a run (Wilson where all are right or all wrong, "
    "none where they are alike otherwise). pass@k and pass^k are unbiased; ties "
    "in a majority share. Differences are paired by question; p-values come from sign "
    "flips, adjusted by Holm where there are several. Unscored attempts (outages) are in no mean, and counted. Cost is tokens "
    "times the prices that the run was told, prompts in full; where a server did not say what it took, it is not known."
)
_SHOWN = 160  # characters of a question in the list


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
        figures=list(figures(report, known)),
        tables=list(tables(report)),
        known=known,
        runs=runs,
        how=_HOW,
        step_title=step_title,
    )


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as they are written briefly.

    Example: ``ranges([0, 1, 2, 5]) == "0–2, 5"``
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in parts)


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


# Charts -------------------------------------------------------------------------------------------------------------------


def figures(report: RunsReport, known: frozenset[str]) -> Iterator[Markup]:
    """All of them; ``known``: the lists of attempts that the page has."""
    if report.pairs:
        yield _differences(report, known)
    for place, run in enumerate(report.runs):
        if (result := run.result).attempts > 1:
            found = {"pass@k": result.pass_at_k, "majority of k": result.majority, "pass^k": result.pass_hat_k}
            curves = [Curve(name, {k: (one.value, one.interval) for k, one in curve.items()}) for name, curve in found.items()]
            plot = charts.scaling(curves, title=f"{run.name}: shares over the number of attempts")
            attempts = note(_link(f"#attempts-{place}", "the attempts"))
            yield figure(f"{run.name}: with more attempts", plot, legend(list(found)), attempts)
    rows = [(run.name, ending_parts(run.result)) for run in report.runs]
    keys = endings_legend([run.result for run in report.runs])
    yield figure("How attempts ended", charts.stacks(rows), keys, note(_link("#endings", "which attempts")))


def _differences(report: RunsReport, known: frozenset[str]) -> Markup:
    items = []
    for place, pair in enumerate(report.pairs):
        ids = [id for id in (pair_id(place, "better"), pair_id(place, "worse")) if id in known]
        href = f"#{ids[0]}" if ids else ""
        items.append(Difference(pair.name, pair.baseline, pair.found.difference, pair.found.interval, href))
    plot = charts.differences(items, title="Paired differences with their 95% intervals, in points")
    return figure("Paired differences on the same questions, in points, with 95% intervals", plot)


def ending_parts(result: EvalResult) -> list[Part]:
    """A stacked bar of how attempts ended."""
    return [Part(ending_words(ending), result.endings.get(ending, 0), f"e-{ending}") for ending in Ending]


def endings_legend(results: Sequence[EvalResult]) -> Markup:
    """Swatches of the endings that occur."""
    seen = [ending for ending in Ending if any(result.endings.get(ending) for result in results)]
    return legend({ending_words(ending): f"e-{ending}" for ending in seen})


def _link(href: str, words: str) -> Markup:
    return tag("a", words, href=href)
