"""The table of stages for the terminal (rich) and for Markdown; the same figures as on the page. Computes none."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sanderling.evaluate.report_model import Comparison, Stage
from sanderling.report.numbers import duration, ending_words, mean, percent, span

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


def markdown_table(stages: Sequence[Stage]) -> str:
    """A Markdown table with, under it, how episodes ended and what made each row."""
    rows = [_COLUMNS, ("---",) + ("---:",) * (len(_COLUMNS) - 1), *map(stage_cells, stages)]
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    lines.append("")
    for stage in stages:
        endings = ", ".join(f"{ending_words(ending)} {count}" for ending, count in stage.endings.items())
        lines.append(f"- {_cell(stage.name)}: `{stage.command.replace('`', '')}`, seed {stage.seed}; {endings}.")
    return "\n".join(lines) + "\n"


def _answered(stage: Stage) -> float | None:
    total = sum(stage.endings.values())
    return sum(n for ending, n in stage.endings.items() if ending.has_answer) / total if total else None


def _cell(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
