"""What a sandbox is, and the ladder from which one is chosen.

sandbox = await chosen(Rung.AUTO, SandboxLimits(), notice=print)
box = await sandbox.open(None)        # one session's: its files and variables last until it is closed
done = await box.run("2 ** 100", 10)  # done.value == "1267650600228229401496703205376"
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sanderling.core.errors import UserError
from sanderling.tools.python.limits import Rung, SandboxLimits


@dataclass(frozen=True)
class Still:
    """A clock that stands still but for being asked, and the seed of all randomness."""

    clock: float  # seconds since 1970
    seed: int


@dataclass(frozen=True)
class Ran:
    """What became of one call."""

    status: str  # ok, failed, seconds, cpu, memory, lost, or how the process ended by itself
    output: str = ""
    value: str = ""  # of the last expression
    error: str = ""  # the traceback
    files: tuple[tuple[str, int], ...] = ()  # written or changed: name and bytes
    fresh: bool = False  # whether no variables were there


@dataclass(frozen=True)
class Text:
    """A file read as text, or why there is none."""

    text: str = ""
    title: str = ""
    problem: str = ""  # not-found, or one of `world.sources.base.Reason`, or how its reader ended
    stamp: tuple[int, ...] = ()  # changes with the file


class SandboxError(Exception):
    """A sandbox cannot be started, or has gone: one sentence."""


class Box(Protocol):
    """A session's sandbox. Calls come one after another."""

    async def run(self, code: str, seconds: float) -> Ran:
        """Run a program. Raises SandboxError when the sandbox has gone."""
        ...

    async def put(self, name: str, file: Path) -> None:
        """Copy a file into the scratch directory. Raises SandboxError when it cannot."""
        ...

    async def get(self, name: str, most: int) -> bytes | None:
        """A file's bytes; None: there is no such file, or it is larger."""
        ...

    async def read(self, name: str, seconds: float, known: Text | None = None) -> Text:
        """A file's text, read by a process of its own; ``known``: what an earlier call gave."""
        ...

    async def close(self) -> None:
        """Kill all of it and drop its files. Never raises."""
        ...


class Sandbox(Protocol):
    """Makes boxes."""

    name: str
    about: str  # what a model is told of it, in the tool's description
    files: bool  # whether programs have files

    async def open(self, still: Still | None) -> Box:
        """A box of its own for a session. Raises SandboxError."""
        ...

    async def close(self) -> None:
        """Drop what was kept warm; boxes are closed by those who opened them."""
        ...


async def chosen(rung: Rung, limits: SandboxLimits, notice: Callable[[str], None] = lambda line: None) -> Sandbox:
    """The sandbox of a rung that works here. Raises UserError with what to install."""
    if rung is Rung.OCI:
        from sanderling.tools.python.oci import oci, runtimes

        return await _first([oci(limits, runtime) for runtime in runtimes()])
    if rung is Rung.MONTY:
        from sanderling.tools.python.monty import Monty

        return Monty(limits)
    from sanderling.tools.python.bubblewrap import bubblewrap

    try:
        return await _first([bubblewrap(limits)])
    except UserError as error:
        if rung is Rung.BUBBLEWRAP:
            raise
        without = str(error)
    from sanderling.tools.python.monty import Monty

    try:
        found = Monty(limits)
    except UserError:
        raise UserError(f"{without} Or pip install pydantic-monty, for a part of Python.") from None
    notice(f"python: only a part of the language (pydantic-monty). {without}")
    return found


async def _first(sandboxes: Sequence[Sandbox]) -> Sandbox:
    """The first that runs a program. Raises UserError with what each said."""
    said: list[str] = []
    for sandbox in sandboxes:
        try:
            box = await sandbox.open(None)
            try:
                await box.run("1", 10)
            finally:
                await box.close()
            return sandbox
        except SandboxError as error:
            said.append(f"{sandbox.name}: {error}")
            await sandbox.close()
    raise UserError(f"Programs cannot be run here ({' '.join(said).rstrip('.')}).")
