"""Progress of long work, as a person sees it: a bar with remaining time, and lines of figures. Knows no stage's content."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[..., None]


class Report:
    """Where a recipe's stages tell how far they are."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, title: str, total: int, start: int = 0) -> Iterator[Callable[..., None]]:
        """A bar; call what it gives with the number of units done since, and an optional short note."""
        columns = (
            TextColumn("  {task.description:<26}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with Progress(*columns, console=self.console) as progress:
            bar = progress.add_task(title, total=total, completed=start, note="")

            def advance(units: int = 1, note: str | None = None) -> None:
                progress.update(bar, advance=units)
                if note is not None:
                    progress.update(bar, note=note)

            yield advance

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(f"  {text}", highlight=False)
