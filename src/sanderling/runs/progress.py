"""How far long work is, on a terminal; and where a number comes from: this machine in words, the command line."""

import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class Advance(Protocol):
    """Moves a bar on by ``units``; a ``note`` stands below the bar until the next one."""

    def __call__(self, units: int = 1, note: str | None = None) -> None: ...


class Report:
    """Where the stages of long work show how far they are."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, title: str, total: int, start: int = 0) -> Iterator[Advance]:
        """A bar of ``total`` units, ``start`` of which were done before; call what it gives as units are done."""
        words, bar = TextColumn("  {task.description:<26}", markup=False), BarColumn(bar_width=20)
        columns = (words, bar, MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        progress, below = Progress(*columns, console=self.console), Text(style="dim")
        task, shown = progress.add_task(title, total=total, completed=start), Group(progress)

        def advance(units: int = 1, note: str | None = None) -> None:
            progress.update(task, advance=units)
            if note is not None:  # on lines of its own: figures and alarms are longer than what a bar leaves of a line
                below.plain = f"    {note}"
                shown.renderables[1:] = [below] if note else []

        try:
            with Live(shown, console=self.console):
                yield advance
        finally:  # an error does not stand behind the bar
            if not self.console.is_interactive:
                self.console.print()

    def say(self, text: str) -> None:
        """One line, shown as it is."""
        self.console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)


def machine() -> str:
    """The machine in words, without a name: usable cores, architecture, processor, memory, system and Python versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    info = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*: (.*)$", info.read_text(errors="replace"), re.M) if info.is_file() else []
    parts = [f"{cores} core{'s' * (cores != 1)} {platform.machine()}", *models[:1], f"{gigabytes:.0f} GB"]
    return ", ".join([*parts, platform.system(), f"Python {platform.python_version()}"])


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command as a person would type it again: the program by its name, arguments quoted.

    A canary is left out (``--canary …``, ``canary=…``): it decrypts its benchmark, and commands stand in what is published.
    """
    program, *rest = sys.argv if arguments is None else arguments
    told = [shlex.quote(Path(program).name)]
    for before, word in pairwise(["", *rest]):
        name = re.match(r"(--canary|(--set=)?canary)=", word)
        told.append("…" if before == "--canary" else f"{name[0]}…" if name else shlex.quote(word))
    return " ".join(told)
