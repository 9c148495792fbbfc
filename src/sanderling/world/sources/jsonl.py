"""Pages from JSON lines, line by line: the layouts of LiteResearcher (flat, nested), Search-R1 and OpenResearcher.

As `world.jsonl`, but a line that is no page is a reason, not an error. Files may be compressed by gzip.
Knows no further fields.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from sanderling.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.jsonl import page_of
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class JsonlSource(DocumentSource[tuple[int, bytes]]):
    """A file of JSON lines."""

    path: Path
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raises UserError when there is no such file."""
        if not self.path.is_file():
            raise UserError(f"There is no file {self.path}: give a file of JSON lines.")

    @property
    def name(self) -> str:
        return self.path.name

    def documents(self, skip: int) -> Iterator[tuple[int, bytes] | Skipped]:
        """The lines that are not blank, with their numbers in the file."""
        return islice(self._numbered(), skip, None)

    def reader(self) -> Callable[[tuple[int, bytes]], Page | Skipped]:
        return _read

    def stamp(self) -> str:
        return stamp_of("jsonl", file_facts(self.path), self.limits)

    def _numbered(self) -> Iterator[tuple[int, bytes] | Skipped]:
        number = 0
        try:
            for number, line in enumerate(self._lines(), start=1):
                if line is None:
                    yield Skipped(f"line {number}", Reason.TOO_LARGE)
                elif line.strip():
                    yield number, line
        except EOFError:
            yield Skipped(f"after line {number}", Reason.TRUNCATED)
        except zlib.error:
            yield Skipped(f"after line {number}", Reason.DAMAGED)
        except OSError as error:
            damaged = isinstance(error, gzip.BadGzipFile)
            yield Skipped(f"after line {number}", Reason.DAMAGED if damaged else Reason.UNREADABLE)

    def _lines(self) -> Iterator[bytes | None]:
        """The lines; None for one past the limit, of which no more than that is held."""
        most = self.limits.document_bytes
        with self.path.open("rb") as file:
            packed = file.read(2) == _GZIP
        with gzip.open(self.path) if packed else self.path.open("rb") as lines:
            while line := lines.readline(most + 1):
                if len(line) <= most or line.endswith(b"\n"):
                    yield line
                    continue
                while (rest := lines.readline(most)) and not rest.endswith(b"\n"):
                    pass
                yield None


def _read(numbered: tuple[int, bytes]) -> Page | Skipped:
    number, line = numbered
    where = f"line {number}"
    try:
        page = page_of(json.loads(line.decode("utf-8", "replace")))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Skipped(where, Reason.NOT_A_PAGE)
    if not page.url.strip():
        return Skipped(where, Reason.NO_URL)
    return page if page.text.strip() else Skipped(where, Reason.EMPTY)
