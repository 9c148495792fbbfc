"""What others' records are to the rest of this room, whatever file or folder they came from. Knows no layout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sanderling.core.record import Trajectory


@dataclass(frozen=True)
class Found:
    """One recorded attempt."""

    trajectory: Trajectory
    """As the import gives it."""
    layout: str
    task: str = ""
    """The task's own name, where the place of the record says it; it is the benchmark's id of the question."""
    number: int | None = None
    """Of the attempt, where its place says it."""
    published: bool | None = None
    """The verdict of those who made it; None: none is recorded."""
    named_set: str = ""
    """The benchmark's name as the record has it."""
    chosen: str = ""
    """Why such records are a selection; empty: nothing says that they are."""
    chosen_if_right: bool = False
    """They are one only where all of them are published as right."""


@dataclass(frozen=True)
class Lost:
    """An attempt that was made and has no readable record."""

    task: str
    number: int
    why: str


@dataclass
class Left:
    """What a reading left out; complete when the reading has ended."""

    unread: int = 0
    """Entries that could not be read at all."""
    files: int = 0
    """Files that hold no recording, or nothing of the layout that was asked for."""
    questions: int = 0
    """Questions without a trajectory."""
    copies: int = 0
    """The same attempt found a second time."""
    parts: int = 0
    """Parts of an attempt's context: they stand in the whole record as well."""
    other_layouts: int = 0
    """Records in another layout than the one that was asked for."""
    contradictions: int = 0
    """Attempts that are published as right and as wrong."""
    unsure_verdicts: int = 0
    """Published verdicts that may be another attempt's."""


@dataclass(frozen=True)
class Sources:
    """Which files were read."""

    names: tuple[str, ...]
    """Of files and folders as they were given, without their places."""
    sha256: str
    """Of the bytes of all that was read, in order."""


class Records(Protocol):
    """Others' records, one after the other. Iterating again reads them again, in the same order."""

    @property
    def left(self) -> Left:
        """Of the last reading."""
        ...

    def sources(self) -> Sources:
        """Where they come from. Raises UserError for a file that cannot be read."""
        ...

    def __iter__(self) -> Iterator[Found | Lost]:
        """Raises UserError when nothing at all can be read."""
        ...
