"""The bars of a build: one for each stage. Thin; knows stages, not worlds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sanderling.cli import exits
from sanderling.world.disk.building import Progress as Report
from sanderling.world.disk.building import Stage

_WORDS = {Stage.READING: "reading", Stage.INDEXING: "indexing", Stage.COMPARING: "near-duplicates"}
_SECONDS = 0.2
"""Between two moves of a bar: moving it at each page would cost more than the page."""


@contextmanager
def build_progress(interrupted: str) -> Iterator[Report]:
    """Show how far a build is; ``interrupted`` is said when the person stops it."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[Stage, TaskID] = {}
    moved = 0.0
    last: tuple[Stage, int, int | None] | None = None
    with Progress(*columns, console=Console(stderr=True)) as bar:

        def show() -> None:
            if last is not None:
                stage, done, total = last
                bar.update(tasks[stage], completed=done, total=total)

        def report(stage: Stage, done: int, total: int | None) -> None:
            nonlocal moved, last
            if stage not in tasks:
                _finish(bar, tasks, last)
                tasks[stage] = bar.add_task(_WORDS[stage], total=total)
            last = (stage, done, total)
            if time.monotonic() - moved > _SECONDS:
                moved = time.monotonic()
                show()

        try:
            yield report
        except KeyboardInterrupt:
            bar.console.print(interrupted)
            raise typer.Exit(exits.INTERRUPTED) from None
        _finish(bar, tasks, last)


def _finish(bar: Progress, tasks: dict[Stage, TaskID], last: tuple[Stage, int, int | None] | None) -> None:
    """Fill the bar of the stage that ended."""
    if last is not None:
        done = max(last[1], 1)
        bar.update(tasks[last[0]], completed=done, total=done)
