"""What a sandbox is: its settings, and what it does for a session.

sandbox = await chosen(Rung.AUTO, SandboxLimits(), notice=print)   # of `opening`
box = await sandbox.open(None)        # one session's: its files and variables last until it is closed
done = await box.run("2 ** 100", 10)  # done.value == "1267650600228229401496703205376"
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pydantic import Field

from sanderling.core.config import Frozen


class Rung(StrEnum):
    """What runs programs, if anything does."""

    OFF = "off"
    AUTO = "auto"  # the first of those below that works here; an OCI runtime only where it is named
    BUBBLEWRAP = "bubblewrap"
    MONTY = "monty"
    OCI = "oci"


class SandboxLimits(Frozen):
    """What one session's programs may use."""

    seconds: float = Field(default=30.0, gt=0)
    """Of one call; after it the program is killed with all that it started."""
    cpu_seconds: float = Field(default=30.0, gt=0)
    """Of processor time: of one call, all its processes together."""
    memory_mb: int = Field(default=1_024, ge=64)
    """Of all processes together, files not counted."""
    files_mb: int = Field(default=256, ge=1)
    """Of all files together; they lie in memory."""
    processes: int = Field(default=64, ge=4)
    """Processes and threads at the same time."""
    output_chars: int = Field(default=10_000, ge=200)
    """Of what a call prints, its middle left out, and as many of a value or an error."""
    network: bool = False
    """Whether programs reach the network, and what listens on this machine."""


@dataclass(frozen=True)
class Still:
    """A clock that stands still but for being asked, and the seed of all randomness."""

    clock: float  # seconds since 1970
    seed: int


@dataclass(frozen=True)
class Ran:
    """What became of one call."""

    status: str  # ok, failed, seconds, cpu, memory, files, lost, or how the process ended by itself
    output: str = ""
    value: str = ""  # of the last expression
    error: str = ""  # the traceback
    files: tuple[tuple[str, int], ...] = ()  # written or changed: name and bytes


@dataclass(frozen=True)
class Text:
    """A file read as text, or why there is none."""

    text: str = ""
    title: str = ""
    problem: str = ""  # not-found, or one of `world.sources.base.Reason`, or how its reader ended


class SandboxError(Exception):
    """A sandbox cannot be started, or has gone: one sentence."""


class Box(Protocol):
    """A session's sandbox, as it is without files. Calls come one after another."""

    @property
    def is_there(self) -> bool:
        """Whether nothing has ended it since the last call."""
        return True

    async def run(self, code: str, seconds: float) -> Ran:
        """Run a program. Raises SandboxError when the sandbox has gone."""
        ...

    async def put(self, name: str, file: Path) -> None:
        """Copy a file into the scratch directory. Raises SandboxError when it cannot."""
        raise SandboxError("there are no files.")

    async def get(self, name: str, most: int) -> bytes | None:
        """A file's bytes; None: there is no such file, or it is larger."""
        return None

    async def read(self, name: str, seconds: float) -> Text:
        """A file's text, read by a process of its own."""
        return Text(problem="not-found")

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
