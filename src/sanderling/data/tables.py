"""The rows of any file, one by one with flat memory: JSON, JSON lines, Parquet, CSV, TSV and xlsx, text packed or not.

What cannot be read is handed on in its place as `Unread`, what is odd about the file itself as `Remark`. Text is UTF-8, or
UTF-16 with a mark; other bytes are read as Windows-1252 and counted. A gzip, bzip2 or Zstandard file that ends early gives all
that stands before its end.

Example: ``[item.value for item in open_rows(Path("a.csv")) if isinstance(item, Value)] == [{"question": "Who?"}]``
"""

import base64
import bz2
import codecs
import csv
import datetime
import gzip
import itertools
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from python_calamine import CalamineError, CalamineWorkbook

from sanderling.core.errors import UserError

JSON_NAMES = (".json", ".jsonl", ".ndjson")
PACKED_NAMES = (".gz", ".bz2", ".zst")
PARQUET_NAMES = (".parquet", ".pq")
_LIST_NAMES = ("data", "Data", "rows", "questions", "examples")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_FOREIGN = re.compile("[\udc80-\udcff]+")
"""How ``surrogateescape`` shows bytes that are not UTF-8."""
_BLANKS = " \t\r\n\0\ufeff"
_NO_BLANK = re.compile(f"[^{_BLANKS}]")
_LARGEST = 1 << 28
"""A value longer than this (in characters) is given up."""
_NEAR_END = 16
"""An error this near to the end of what was read may be a word or a number that goes on."""
_SHOWN = 400
_FIRST_FIELD = re.compile(r'\{\s*"[^"\\]{1,64}"')
_NO_DATA = (
    (re.compile(r"\s*version https://git-lfs"), "is a pointer of Git LFS and not the data: fetch it with git lfs pull."),
    (
        re.compile(r"(?i)\s*<(?:!doctype|html|head|\?xml)"),
        "is a web page and not the data: log in where it comes from, accept its terms, and download it again.",
    ),
)
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


@dataclass(frozen=True)
class Value:
    """One row: an object of JSON, a line of a table, a row of Parquet; whatever JSON value stands in its place."""

    value: Any


@dataclass(frozen=True)
class Unread:
    """Rows that could not be read, in their place."""

    code: str
    text: str
    """How it looks, or why it could not be read."""
    entries: int = 1


@dataclass(frozen=True)
class Remark:
    """Something odd about the file itself, by which no row is lost."""

    code: str
    text: str
    count: int = 1


Item = Value | Unread | Remark


class Rows(ABC):
    """The rows of one file. ``done`` and ``total`` say how far it is read, in bytes or in rows."""

    done = 0
    total = 1

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """Every value, and what could not be read in its place."""


def open_rows(path: Path, *, skip: Collection[str] = (), texts: Collection[str] | None = None) -> Rows:
    """The rows of a file, told by its content, and by its name where that leaves it open.

    ``skip``: columns of Parquet that are not read at all. ``texts``: the only columns of bytes that are; None: all of them.
    Raises UserError for a file that cannot be opened, and for what is no data: a pointer of Git LFS, a page to log in.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    if magic[:4] == b"PAR1" or path.suffix.lower() in PARQUET_NAMES:
        return _ParquetRows(path, skip, texts)
    if magic[:4] == b"PK\x03\x04":
        return _SheetRows(path)
    if magic[:4] in (b"\xd0\xcf\x11\xe0", b"%PDF", b"PK\x05\x06"):
        raise UserError(f"{path} is no table that can be read: save it as CSV, JSON lines, Parquet or xlsx.")
    return _TextRows(path)


def question_rows(path: Path, skip: Collection[str] = ()) -> Iterator[dict[str, Any] | Unread]:
    """The rows of a file of questions, each an object. Raises UserError for a file that is not whole, or not UTF-8.

    A file that is one object with a list in it (``data``, ``rows``, ``questions``, ``examples``) holds the rows of that list.
    """

    def objects(values: Iterable[Any]) -> Iterator[dict[str, Any] | Unread]:
        return (value if isinstance(value, dict | Unread) else Unread("odd_entry", "no JSON object") for value in values)

    found = objects(_whole(path, open_rows(path, skip=skip)))
    first, second = next(found, None), next(found, None)
    if isinstance(first, dict) and second is None:
        inner = next((first[name] for name in _LIST_NAMES if isinstance(first.get(name), list)), None)
        yield from objects(inner or [first])
    else:
        yield from itertools.chain([one for one in (first, second) if one is not None], found)


def _whole(path: Path, items: Iterable[Item]) -> Iterator[Any]:
    """The values, and what is no JSON or no row; raises UserError for other damage."""
    for item in items:
        if isinstance(item, Value):
            yield item.value
        elif item.code == "not_utf8":
            raise UserError(f"{path} is not UTF-8 (near {item.text[:60]!r}): convert it, for example with iconv.")
        elif item.code == "truncated_file":
            raise UserError(f"{path} ends early ({item.text}): copy or download it again.")
        elif item.code == "damaged_row_group":
            raise UserError(f"{path} is no whole Parquet file ({item.text}): copy or download it again.")
        elif isinstance(item, Unread):
            yield Unread(item.code, item.text if item.code == "unreadable_row" else f"no JSON: {item.text[:60]}")


# Text -----------------------------------------------------------------------------------------------------------------------


class _TextRows(Rows):
    """JSON, JSON lines, CSV or TSV.

    JSON is values one after the other, or one list, whose items are the rows; a list of messages is one row. After damage the
    next row is the next line, or of values with lines of their own the next that begins as the ones before it did.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._pieces = self._decoded()
        self._remarks: list[Remark] = []
        self._text, self._at = "", 0
        self._decoder = json.JSONDecoder(strict=False)
        self.total = path.stat().st_size

    def __iter__(self) -> Iterator[Item]:
        """Raises UserError for what is no data, and for a table without a heading."""
        with self._file:
            self._more(4_096)
            head = self._text[:4_096]
            for pattern, told in _NO_DATA:
                if pattern.match(head):
                    raise UserError(f"{self._path} {told}")
            named = any(suffix.lower() in JSON_NAMES for suffix in self._path.suffixes)
            is_json = named or head.lstrip(_BLANKS)[:1] in ("{", "[")
            if not is_json and "\0" in head:
                raise UserError(f"{self._path} is no table that can be read: give CSV, JSON lines, Parquet or xlsx.")
            for item in self._json() if is_json else self._csv():
                remarks, self._remarks = self._remarks, []
                yield from (*remarks, item)
            yield from self._remarks

    def _decoded(self) -> Iterator[str]:
        """The file's text piece by piece, unpacked; bytes that are not UTF-8 as Windows-1252's characters."""
        magic = self._file.read(4)
        self._file.seek(0)
        stream: Any = self._file
        if magic[:2] == b"\x1f\x8b":
            stream = gzip.GzipFile(fileobj=self._file)
        elif magic[:3] == b"BZh":
            stream = bz2.BZ2File(self._file)
        elif magic == b"\x28\xb5\x2f\xfd":
            stream = pa.CompressedInputStream(pa.PythonFile(self._file, mode="r"), "zstd")
        piece, damage = _read(stream)
        mark, encoding = next(((mark, name) for mark, name in _MARKS if piece.startswith(mark)), (b"", "utf-8"))
        if encoding != "utf-8":
            self._remarks.append(Remark("not_utf8_file", f"read as {encoding}"))
        decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if encoding == "utf-8" else "replace")
        piece = piece[len(mark) :]
        while True:
            self.done = self._file.tell()
            text = decoder.decode(piece, final=not piece)
            first = None if text.isascii() else _FOREIGN.search(text)
            if first is not None:
                around = _FOREIGN.sub(_western, text[max(0, first.start() - 40) : first.end() + 40])
                self._remarks.append(Remark("not_utf8", around, len(_FOREIGN.findall(text))))
                text = _FOREIGN.sub(_western, text)
            yield text
            if not piece:
                break
            piece, damage = (b"", damage) if damage else _read(stream)
        if damage:
            self._remarks.append(Remark("truncated_file", damage))

    def _more(self, size: int = 1) -> bool:
        """Read on until ``size`` further characters are there; false at the end of the file."""
        parts, got = [self._text[self._at :]], 0
        while got < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            got += len(piece)
        self._text, self._at = "".join(parts), 0
        return got > 0

    def _skip_blank(self) -> str:
        """Go to the next character that is no blank and return it; empty at the end."""
        while True:
            found = _NO_BLANK.search(self._text, self._at)
            self._at = len(self._text) if found is None else found.start()
            if found is not None or not self._more():
                return "" if found is None else found[0]

    def _json(self) -> Iterator[Item]:
        """Values one after the other, most often one a line; of a list its items."""
        again, shown = "\n{", ""
        while char := self._skip_blank():
            if char == "[":
                yield from self._list()
            elif char == ",":  # after a value that had a line for itself
                self._at += 1
                self._remarks.append(Remark("mended_line", shown))
            else:
                item, shown = self._next(again if char == "{" else "\n", "unreadable_line")
                if isinstance(item, Value):
                    again = "\n"
                yield item

    def _list(self) -> Iterator[Item]:
        """The items of a list; all of them as one value where they are messages."""
        self._at += 1
        messages: list[Any] = []
        again = ""
        while (char := self._skip_blank()) and char != "]":
            if char == ",":
                self._at += 1
                continue
            first = not again
            if first:  # items begin on a new line with its blanks, or, where they share a line, with their first field
                start = self._text.rfind("\n", 0, self._at)
                blanks, field = self._text[start : self._at], _FIRST_FIELD.match(self._text, self._at)
                again = blanks + "{" if start >= 0 and not blanks.strip() else field[0] if field else ""
            item, _ = self._next(again)
            if isinstance(item, Value) and (messages or (first and is_conversation([item.value]))):
                messages.append(item.value)
            else:
                yield item
        if messages:
            yield Value(messages)
        if char:
            self._at += 1
        else:
            self._remarks.append(Remark("truncated_file", "the list has no end"))

    def _next(self, again: str, code: str = "") -> tuple[Item, str]:
        """The value that begins here, and how it begins. After damage go to the next place that begins with ``again``."""
        while True:
            size, shown = len(self._text) - self._at, self._text[self._at : self._at + _SHOWN]
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if isinstance(value, (int, float)) and end == len(self._text) and self._more():
                    continue  # a number may go on
                self._at = end
                return Value(value), shown
            except (ValueError, RecursionError) as error:  # too many digits or levels, too
                broken = isinstance(error, json.JSONDecodeError)
                cut = broken and (error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_END)
                if not (cut and size < _LARGEST and self._more(max(1, size))):
                    break
        self._at += 1
        while (found := self._text.find(again, self._at) if again else -1) < 0:
            self._at = max(self._at, len(self._text) - len(again))
            if not self._more():
                break
        self._at = found if found >= 0 else len(self._text)
        if code:
            return Unread(code, shown.partition("\n")[0]), shown
        return Unread("unreadable_value" if found >= 0 else "unreadable_rest", shown), shown

    def _csv(self) -> Iterator[Item]:
        csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))  # the module has but one limit for everybody

        def lines() -> Iterator[str]:
            while self._at < len(self._text) or self._more():
                end = self._text.find("\n", self._at)  # alone ends a line: \r and other separators may stand within a cell
                if end < 0 and self._more(max(1, len(self._text) - self._at)):
                    continue
                end = len(self._text) if end < 0 else end + 1
                line, self._at = self._text[self._at : end], end
                yield line

        first = next(found := lines(), "")
        delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
        return _table(self._path, csv.reader(itertools.chain([first], found), delimiter=delimiter, strict=True))


def is_conversation(values: list[Any]) -> bool:
    """Whether a list's items are messages, so that the list is one row and not several."""
    first = values[0] if values else None
    if not isinstance(first, dict) or not isinstance(first.get("role", first.get("from")), str):
        return False
    says = {"content", "value", "tool_calls", "function_call", "text"} & set(first)
    return bool(says) and not {"messages", "conversations", "question", "problem"} & set(first)


def _read(stream: Any) -> tuple[bytes, str]:
    """The next bytes, and why there are no more where the file is damaged."""
    try:
        at_once = getattr(stream, "read1", None)  # gives what there is, where ``read`` would fail with all of it
        return (at_once(1 << 20) if at_once else stream.read(1 << 16)) or b"", ""
    except (EOFError, OSError, zlib.error, ValueError) as error:
        return b"", str(error) or "the compressed file ends early"


def _western(found: re.Match[str]) -> str:
    """Bytes in Windows-1252, or in Latin-1 where that has none."""
    data = found[0].encode("utf-8", "surrogateescape")
    return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in data)


# Tables ---------------------------------------------------------------------------------------------------------------------


def _table(path: Path, cells: Iterator[list[Any]]) -> Iterator[Item]:
    """Rows by the names in the first one. Empty rows are none."""
    try:
        header = next(cells, [])
    except csv.Error:
        header = []
    if not any(header):
        raise UserError(f"{path} has no heading that names its columns: its first line must.")
    names = [str(name or "").strip() or (f"column {index + 1}" if index else "") for index, name in enumerate(header)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{path} has two columns {name!r}: rename one of them, since nothing tells which is meant.")
    while True:
        try:
            row = next(cells, None)
        except csv.Error as error:
            yield Unread("unreadable_row", str(error))
            continue
        if row is None:
            return
        if any(cell not in ("", None) for cell in row):
            told = f"{len(row)} cells under {len(names)} columns"
            same = len(row) == len(names)
            yield Value(dict(zip(names, row, strict=True))) if same else Unread("unreadable_row", told)


class _SheetRows(Rows):
    """The first sheet of a workbook."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Item]:
        """Raises UserError for what is no workbook."""
        try:
            sheet = CalamineWorkbook.from_path(str(self._path)).get_sheet_by_index(0)
            rows = sheet.to_python(skip_empty_area=False)
        except (CalamineError, OSError, IndexError) as error:
            raise UserError(
                f"{self._path} is no workbook (.xlsx) that can be read ({error}): unpack it, or save it as CSV."
            ) from error
        return _table(self._path, iter(_as_json(rows)))


class _ParquetRows(Rows):
    """Parquet, some rows of a row group after the other. A damaged row group costs what of it could not be read, no other."""

    def __init__(self, path: Path, skip: Collection[str], texts: Collection[str] | None) -> None:
        """Raises UserError when the file has no readable footer."""
        try:
            self._file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        except (*_DAMAGE, ValueError) as error:
            raise UserError(
                f"{path} is no whole Parquet file ({_line(error)}): nothing in it can be found without its last bytes, "
                "so copy or download it again."
            ) from error
        schema = self._file.schema_arrow
        self._left_out = [f.name for f in schema if texts is not None and _is_bytes(f.type) and f.name not in texts]
        self._columns = [f.name for f in schema if f.name not in self._left_out and f.name not in skip]
        self._plain = all(_is_plain(field.type) for field in schema)
        self.total = self._file.metadata.num_rows

    def __iter__(self) -> Iterator[Item]:
        with self._file:
            yield from (Remark("bytes_left_out", name) for name in self._left_out)
            for group in range(self._file.metadata.num_row_groups):
                about = self._file.metadata.row_group(group)
                size, read = max(1, min(512, (4 << 20) * about.num_rows // max(1, about.total_byte_size))), 0
                options: dict[str, Any] = {"row_groups": [group], "columns": self._columns, "use_threads": False}
                try:
                    for batch in self._file.iter_batches(batch_size=size, **options):
                        for row in batch.to_pylist():
                            read += 1
                            self.done += 1
                            yield Value(row if self._plain else _as_json(row))
                except _DAMAGE as error:
                    self.done += about.num_rows - read
                    yield Unread("damaged_row_group", f"row group {group}: {_line(error)}", about.num_rows - read)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_bytes(kind: pa.DataType) -> bool:
    """Whether a column holds bytes, anywhere in it."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return True
    return any(_is_bytes(kind.field(index).type) for index in range(kind.num_fields))


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type come out as JSON values."""
    if kind.num_fields and not pa.types.is_map(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    types = pa.types
    scalars = (types.is_string, types.is_large_string, types.is_boolean, types.is_null, types.is_integer, types.is_floating)
    return any(is_one(kind) for is_one in scalars)


def _as_json(value: Any) -> Any:
    """A value of Arrow's or a sheet's as JSON has it: dates in ISO's form, bytes as the text they are or else in base64."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
