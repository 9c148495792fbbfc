"""Progress of long work on a terminal: bars with the time that is left, and lines of text."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text


class Advance(Protocol):
    """Moves a bar on."""

    def __call__(self, units: int = 1, note: str | None = None) -> None:
        """``units`` more are done; a ``note`` stands below the bar until the next one."""
        ...


class _Left(ProgressColumn):
    """The time that is left, and that it is that; nothing once all is done."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        seconds = None if task.finished else task.time_remaining
        return Text("" if seconds is None else f"{timedelta(seconds=int(seconds))} left", style="progress.remaining")


class _Noted(Progress):
    """A bar, and its note on lines of its own: figures and alarms are longer than what a bar leaves of a line."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            if task.fields["note"]:
                yield Text(f"    {task.fields['note']}", style="dim")


class Report:
    """Where the stages of long work show how far they are."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, title: str, total: int, start: int = 0) -> Iterator[Advance]:
        """A bar of ``total`` units, ``start`` of which were done before; call what it gives as units are done."""
        columns = (
            TextColumn("  {task.description:<26}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _Left(),
        )
        with _Noted(*columns, console=self.console) as progress:
            bar = progress.add_task(title, total=total, completed=start, note="")

            def advance(units: int = 1, note: str | None = None) -> None:
                progress.update(bar, advance=units)
                if note is not None:
                    progress.update(bar, note=note)

            yield advance

    def say(self, text: str) -> None:
        """One line, shown as it is."""
        self.console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)
