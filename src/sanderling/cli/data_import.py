"""``sanderling data import``: recorded trajectories and question sets of other systems. Thin: `data.importing` reads."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sanderling.core.text import visible

if TYPE_CHECKING:
    from sanderling.data.importing import Progress as Report

_SECONDS = 0.2
"""Between two moves of the bar."""


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Files (.json, .jsonl, .parquet; also .gz, .bz2, .zst) or folders of them."),
    ],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Trajectories go here: .jsonl or .parquet.")] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="Question sets go here: .jsonl.")
    ] = None,
    layout: Annotated[
        str, typer.Option("--layout", metavar="NAME", help="Asked before all other layouts; file.py:name for one of your own.")
    ] = "",
) -> None:
    """Bring recorded trajectories and question sets into the record; layouts are recognised, none is asked for.

    Messages nobody can classify are kept raw and counted. Beside the output stand FILE.import.json (the report) and, for
    entries that could not be read at all, FILE.unread.jsonl. Files appear whole or not at all; a killed import starts over.
    """
    from sanderling.data.importing import import_to

    with _bar() as report:
        written = import_to(sources, out, questions, report, layout)
    console = Console()
    console.print(written.report)
    found = written.report
    if found.questions and questions is None:
        console.print(f"{found.questions:,} questions were met and not written: give --questions FILE to keep them.")
    if found.trajectories and out is None:
        console.print(f"{found.trajectories:,} trajectories were met and not written: give --out FILE to keep them.")
    if written.unread_file is not None:
        console.print(
            f"{found.unread:,} entries could not be read; they are in {visible(str(written.unread_file))}.", markup=False
        )
    if written.left_files:
        console.print(f"{len(written.left_files):,} files are no recordings and were left: the report names each.")
    console.print(f"Report: {visible(str(written.report_file))}", soft_wrap=True, highlight=False, markup=False)


@contextmanager
def _bar() -> Iterator["Report"]:
    """A bar over the bytes of all sources."""
    columns = (
        SpinnerColumn(),
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[records]:,} records"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    moved = 0.0
    met = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None, records=0)

        def report(done: int, total: int, records: int) -> None:
            nonlocal moved, met
            now, met = time.monotonic(), max(met, records)
            if done >= total or now - moved >= _SECONDS:
                moved = now
                bar.update(task, completed=done, total=total, records=met)

        yield report
