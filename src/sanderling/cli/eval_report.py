"""``sanderling eval report``: runs side by side, in the terminal, as Markdown and as one page. Thin."""

from pathlib import Path
from typing import Annotated

import typer

_NAME = 24
"""Characters of a row's name that stay on a line."""


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Directories that eval run has written.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A directory for report.html (one file that loads nothing) and report.md.")
    ] = None,
    baseline: Annotated[str, typer.Option(help="The run that others are compared with, by its name; the first.")] = "",
    readings: Annotated[int, typer.Option(min=0, help="Trajectories of each run that can be read on the page.")] = 12,
    show_texts: Annotated[bool, typer.Option("--show-texts", help="Show texts of private benchmarks too.")] = False,
) -> None:
    """Compare runs: averages with error bars, paired differences, curves over attempts, groups, endings, costs."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from sanderling.core.errors import UserError
    from sanderling.core.text import visible
    from sanderling.evaluate.comparing.model import compared, open_runs
    from sanderling.evaluate.comparing.page import html, markdown
    from sanderling.evaluate.comparing.tables import tables
    from sanderling.runs.files import replace_file

    opened = open_runs(runs, readings if out is not None else 0)
    if baseline and baseline not in {run.name for run in opened}:
        raise UserError(f"None of the runs is called {baseline!r}: there are {', '.join(run.name for run in opened)}.")
    found = compared(opened, baseline)
    console = Console(highlight=False)
    for note in found.notes:
        console.print(Text(visible(note), style="yellow"))
    for rows in tables(found):
        table = Table(title=Text(visible(rows.title), style="bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
        named = min(_NAME, max(len(row[0]) for row in rows.rows))
        for place, head in enumerate(rows.heads):
            table.add_column(
                Text(visible(head)), justify="left" if place == 0 else "right", min_width=named if place == 0 else None
            )
        for row in rows.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        console.print(table)
        if rows.about:
            console.print(Text(visible(rows.about), style="dim"))
    if out is not None:
        private = any(run.private for run in opened)
        replace_file(out / "report.md", markdown(found), private=private)
        replace_file(out / "report.html", html(found, texts=show_texts), private=private)
        console.print(Text(visible(f"{out / 'report.html'} and {out / 'report.md'} hold all of it.")))
