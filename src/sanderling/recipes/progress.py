"""Progress of long work, as a person sees it: a bar with remaining time, and lines of figures. Knows no stage's content."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, units: int = 1, note: str | None = None) -> None:
        """``units`` more are done; a ``note`` stands behind the bar until the next one."""
        ...


class Report:
    """Where a recipe's stages tell how far they are."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, title: str, total: int, start: int = 0) -> Iterator[Advance]:
        """A bar of ``total`` units, ``start`` of which were done before; call what it gives as units are done."""
        columns = (
            TextColumn("  {task.description:<26}", markup=False),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
        )
        with Progress(*columns, console=self.console) as progress:
            bar = progress.add_task(title, total=total, completed=start, note="")

            def advance(units: int = 1, note: str | None = None) -> None:
                progress.update(bar, advance=units)
                if note is not None:
                    progress.update(bar, note=note)

            yield advance

    def say(self, text: str) -> None:
        """One line, shown as it is."""
        self.console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)
