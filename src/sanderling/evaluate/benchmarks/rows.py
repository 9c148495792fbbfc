"""The rows of a file, whatever its format, one by one: CSV, TSV, JSON lines, JSON lists, Parquet and xlsx; text packed or not.

Contract: the format is told by the content, never by the name; memory holds a few rows; what stands in a cell is handed on as
it is. A row that cannot be read is handed on as :class:`Broken` in its place. What is no data at all (a pointer of Git LFS, a
page to log in) is a :class:`UserError` that says so. Knows no benchmark.
"""

import csv
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.data.importers.items import Unread as UnreadValue
from sanderling.data.importers.items import Value
from sanderling.data.importers.jsonfile import JsonValues
from sanderling.data.importers.textfile import TextFile
from sanderling.evaluate.benchmarks.xlsx import sheet_rows

_LONGEST_CELL = 64 << 20
_HEAD = 4_096
_LIST_NAMES = ("data", "Data", "rows", "questions", "examples")
"""Under which a file that is one object holds its list."""
_NO_DATA = (
    (re.compile(r"\s*version https://git-lfs"), "is a pointer of Git LFS and not the data: fetch it with git lfs pull."),
    (
        re.compile(r"(?i)\s*<(?:!doctype|html|head|\?xml)"),
        "is a web page and not the data: log in where it comes from, accept its terms, and download it again.",
    ),
)


@dataclass(frozen=True)
class Broken:
    """A row that cannot be read."""

    about: str


def read_rows(path: Path, skip: Collection[str] = ()) -> Iterator[dict[str, Any] | Broken]:
    """The rows of a file in order. ``skip``: columns of Parquet that are not read at all.

    Raises UserError when it is no table, or cannot be opened.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    if magic[:4] == b"PAR1":
        return _parquet(path, skip)
    if magic[:4] == b"PK\x03\x04":
        return _table(path, sheet_rows(path))
    if magic[:4] in (b"\xd0\xcf\x11\xe0", b"%PDF", b"PK\x05\x06"):
        raise UserError(f"{path} is no table that can be read: save it as CSV, JSON lines, Parquet or xlsx.")
    return _text(path)


def _parquet(path: Path, skip: Collection[str]) -> Iterator[dict[str, Any] | Broken]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            columns = [name for name in file.schema_arrow.names if name not in skip]
            for batch in file.iter_batches(batch_size=64, columns=columns, use_threads=False):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path} is no whole Parquet file ({reason}): copy or download it again.") from error


def _text(path: Path) -> Iterator[dict[str, Any] | Broken]:
    pieces = _strict(path)
    head = ""
    for piece in pieces:
        head += piece
        if len(head) >= _HEAD:
            break
    for pattern, told in _NO_DATA:
        if pattern.match(head):
            raise UserError(f"{path} {told}")
    if "\0" in head[:_HEAD]:
        raise UserError(f"{path} is no table that can be read: give CSV, JSON lines, Parquet or xlsx.")
    pieces = itertools.chain([head], pieces)
    return _json(path, pieces) if head.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else _csv(path, pieces)


def _strict(path: Path) -> Iterator[str]:
    """Pieces of text. Raises UserError where bytes mean no letters, or a packed file ends early."""
    for piece in TextFile(path).pieces():
        if isinstance(piece, str):
            yield piece
        elif piece.code == "not_utf8":
            raise UserError(f"{path} is not UTF-8 (near {piece.text[:60]!r}): convert it, for example with iconv.")
        elif piece.code == "truncated_file":
            raise UserError(f"{path} ends early ({piece.text}): copy or download it again.")


def _json(path: Path, pieces: Iterator[str]) -> Iterator[dict[str, Any] | Broken]:
    objects = _objects(path, pieces)
    first, second = next(objects, None), next(objects, None)
    if isinstance(first, dict) and second is None:
        inner = next((first[name] for name in _LIST_NAMES if isinstance(first.get(name), list)), None)
        yield from map(_object, inner or [first])
    else:
        yield from itertools.chain([one for one in (first, second) if one is not None], objects)


def _objects(path: Path, pieces: Iterator[str]) -> Iterator[dict[str, Any] | Broken]:
    for item in JsonValues(iter(pieces)):
        if isinstance(item, Value):
            yield _object(item.value)
        elif isinstance(item, UnreadValue):
            yield Broken(f"no JSON: {item.text[:60]}")
        elif item.code == "truncated_file":
            raise UserError(f"{path} ends early ({item.text}): copy or download it again.")


def _object(value: Any) -> dict[str, Any] | Broken:
    return value if isinstance(value, dict) else Broken("no JSON object")


def _csv(path: Path, pieces: Iterable[str]) -> Iterator[dict[str, Any] | Broken]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))  # the module has but one limit for everybody
    lines = _lines(pieces)
    first = next(lines, "").removeprefix("\ufeff")
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
    return _table(path, _cells(reader))


def _cells(reader: Iterator[list[str]]) -> Iterator[list[Any] | Broken]:
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Broken(str(error))


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    r"""Lines with their ends. Only \n ends one: \r and other separators may stand within a cell."""
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + piece).split("\n")
        yield from (line + "\n" for line in whole)
    if rest:
        yield rest


def _table(path: Path, cells: Iterator[list[Any] | Broken]) -> Iterator[dict[str, Any] | Broken]:
    """Rows by the names in the first one. Empty rows are none."""
    header = next(cells, [])
    if isinstance(header, Broken) or not any(header):
        raise UserError(f"{path} has no heading that names its columns: its first line must.")
    names = [str(name or "").strip() or (f"column {index + 1}" if index else "") for index, name in enumerate(header)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{path} has two columns {name!r}: rename one of them, since nothing tells which is meant.")
    for row in cells:
        if isinstance(row, Broken):
            yield row
        elif len(row) != len(names) and any(cell not in ("", None) for cell in row):
            yield Broken(f"{len(row)} cells under {len(names)} columns")
        elif any(cell not in ("", None) for cell in row):
            yield dict(zip(names, row, strict=True))
