"""What a person reads while a recipe runs."""

import io

import pytest
from rich.console import Console

from sanderling.runs.progress import Report


@pytest.fixture
def report() -> Report:
    return Report(Console(file=io.StringIO(), width=120))


def shown(report: Report) -> str:
    assert isinstance(report.console.file, io.StringIO)
    return report.console.file.getvalue()


def test_figures_and_alarms_are_whole_on_a_narrow_terminal() -> None:
    report = Report(Console(file=io.StringIO(), width=80))
    note = "reward 0.62, held out 0.58, signal 75%, age 0.4, learning 31%; ALARM: query_style, think_length, group_variance"
    with report.task("dr-venus-4b, stage one", 4_000, start=3_999) as advance:
        advance(1, note)
    assert "4000/4000" in shown(report)
    assert " ".join(shown(report).split()).endswith(note)


def test_a_failure_inside_passes_through(report: Report) -> None:
    with pytest.raises(RuntimeError), report.task("Work", 3) as advance:
        advance(2)
        raise RuntimeError
    assert "2/3" in shown(report)


def test_lines_titles_and_notes_are_shown_as_they_are(report: Report) -> None:
    path = "/runs/[bold]x[/]/" + "long/" * 40 + "report.html"
    report.say(path)
    with report.task("[red]Work", 1) as advance:
        advance(1, "[run] 1")
    assert f"  {path}\n" in shown(report)
    assert "[red]Work" in shown(report)
    assert "[run] 1" in shown(report)
