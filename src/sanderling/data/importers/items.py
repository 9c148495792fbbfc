"""What the readers of files hand on: values in the order of the file, and what could not be read in its place."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """One JSON value: a line, an item of a list, a row, or a whole file."""

    value: Any


@dataclass(frozen=True)
class Unread:
    """Something that could not be read."""

    code: str
    text: str
    """How it looks, or why it could not be read."""
    entries: int = 1
    """How many entries of the file it stands for."""


@dataclass(frozen=True)
class Remark:
    """Something odd about the file itself; no entry is lost by it."""

    code: str
    text: str
    count: int = 1


Item = Value | Unread | Remark
