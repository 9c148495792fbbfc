"""A report as Markdown and as one page that loads nothing. Computes no figure; all text is escaped on its way in.

Figures lead to lists of the attempts behind them; every attempt of a run is listed by question, with a link where it can be
read on the page, and the command that shows any other. Texts of private benchmarks are left out unless they are asked for.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sanderling.evaluate.comparing.evidence import Evidence, by_question, evidence, ranges
from sanderling.evaluate.comparing.figures import figures
from sanderling.evaluate.comparing.model import Run, RunsReport
from sanderling.evaluate.comparing.tables import tables
from sanderling.evaluate.reading import Outcome, reading_facts, step_title
from sanderling.report.page import render

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
