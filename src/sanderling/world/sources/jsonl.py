"""Pages from JSON lines, line by line, in the layouts of `world.jsonl`; here a line that is no page is a reason, not an error.

Files may be compressed by gzip or zstd (as the corpus of LiteResearcher is).
Knows no further fields.
"""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.jsonl import page_of
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


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
        except OSError as error:  # what unpacks has no number for its errors, the system has
            yield Skipped(f"after line {number}", Reason.DAMAGED if error.errno is None else Reason.UNREADABLE)

    def _lines(self) -> Iterator[bytes | None]:
        """The lines; None for one past the limit, of which no more than that is held."""
        most = self.limits.document_bytes
        with _opened(self.path) as lines:
            while line := lines.readline(most + 1):
                if len(line) <= most or line.endswith(b"\n"):
                    yield line
                    continue
                while (rest := lines.readline(most)) and not rest.endswith(b"\n"):
                    pass
                yield None


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """The file's bytes, unpacked where gzip or zstd packed them."""
    with path.open("rb") as file:
        head = file.read(4)
    if head == _ZSTD:
        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return gzip.open(path) if head.startswith(_GZIP) else path.open("rb")


def _read(numbered: tuple[int, bytes]) -> Page | Skipped:
    number, line = numbered
    where = f"line {number}"
    try:
        record = json.loads(line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Skipped(where, Reason.NOT_A_PAGE)
    return read_record(record, where)


def read_record(record: Any, where: str) -> Page | Skipped:
    """The page of one record, or why there is none."""
    try:
        page = page_of(record)
    except (ValueError, KeyError, TypeError):
        return Skipped(where, Reason.NOT_A_PAGE)
    if not page.url.strip():
        return Skipped(where, Reason.NO_URL)
    return page if page.text.strip() else Skipped(where, Reason.EMPTY)
