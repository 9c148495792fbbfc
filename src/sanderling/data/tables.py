"""The rows of any file, one by one with flat memory: JSON, JSON lines, CSV and TSV (also with ``.gz``), Parquet, xlsx.

What cannot be read is handed on in its place as `Unread`, what is odd about the file itself as `Remark`. Text is UTF-8, or
UTF-16 with a mark; other bytes are read as Windows-1252 and counted. A gzip file that ends early gives all that stands before
its end.

Example: ``[item.value for item in open_rows(Path("a.csv")) if isinstance(item, Value)] == [{"question": "Who?"}]``
"""

import base64
import codecs
import csv
import datetime
import gzip
import itertools
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from python_calamine import CalamineError, CalamineWorkbook

from sanderling.core.errors import UserError
from sanderling.runs.files import or_cannot

JSON_NAMES = (".json", ".jsonl", ".ndjson")
PARQUET_NAMES = (".parquet", ".pq")
_LIST_NAMES = ("data", "Data", "rows", "questions", "examples")
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_FOREIGN = re.compile("[\udc80-\udcff]+")  # how ``surrogateescape`` shows bytes that are not UTF-8
_BLANKS = " \t\r\n\0\ufeff"
_NO_BLANK = re.compile(f"[^{_BLANKS}]")
_NEAR_END = 16  # an error this near to the end of what was read may be a word or a number that goes on
_SHOWN = 400
_NEXT_VALUE = re.compile(r"\n[{\[]")
_BYTES = re.compile(r"binary(?!\w*:)")
_LFS = re.compile(r"\s*version https://git-lfs")
_WEB_PAGE = re.compile(r"(?i)\s*<(?:!doctype|html|head|\?xml)")
_DAMAGE = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True)
class Value:
    """One row: an object of JSON, a line of a table, a row of Parquet; whatever JSON value stands in its place."""

    value: Any


@dataclass(frozen=True)
class Unread:
    """Rows that could not be read, in their place; ``text`` says how they look, or why."""

    code: str
    text: str
    entries: int = 1


@dataclass(frozen=True)
class Remark:
    """Something odd about the file itself, by which no row is lost."""

    code: str
    text: str
    count: int = 1


Item = Value | Unread | Remark


def open_rows(path: Path, *, skip: Collection[str] = (), texts: Collection[str] | None = None) -> Iterator[Item]:
    """The rows of a file, told by its content, and by its name where that leaves it open.

    ``skip``: columns of Parquet that are not read at all. ``texts``: the only columns of bytes that are; None: all of them.
    Raises UserError for a file that cannot be opened, and for what is no data: a pointer of Git LFS, a page to log in.
    """
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        magic = file.read(4)
    if magic == b"PAR1" or path.suffix.lower() in PARQUET_NAMES:
        return _parquet_rows(path, skip, texts)
    if magic == b"PK\x03\x04":
        return _sheet_rows(path)
    if magic in (b"\xd0\xcf\x11\xe0", b"%PDF", b"PK\x05\x06"):
        raise UserError(f"{path} is no table that can be read: save it as CSV, JSON lines, Parquet or xlsx.")
    return _TextRows(path).items()


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
        elif item.code == "damaged_file":
            raise UserError(f"{path} is no whole Parquet file ({item.text}): copy or download it again.")
        elif isinstance(item, Unread):
            yield Unread(item.code, item.text if item.code == "unreadable_row" else f"no JSON: {item.text[:60]}")


class _TextRows:
    """JSON, JSON lines, CSV or TSV.

    JSON is values one after the other, or one list, whose items are the rows; a list of messages is one row. After damage the
    next row is the next line that begins as a value does.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = self._decoded()
        self._remarks: list[Remark] = []
        self._text, self._at = "", 0
        self._decoder = json.JSONDecoder(strict=False)

    def items(self) -> Iterator[Item]:
        """Every value, and what could not be read in its place. Raises UserError for what is no data."""
        self._more(4_096)
        head = self._text[:4_096]
        if _LFS.match(head):
            raise UserError(f"{self._path} is a pointer of Git LFS and not the data: fetch it with git lfs pull.")
        if _WEB_PAGE.match(head):
            advice = "log in where it comes from, accept its terms, and download it again."
            raise UserError(f"{self._path} is a web page and not the data: {advice}")
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
        with self._path.open("rb") as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"
            stream: Any = gzip.GzipFile(fileobj=file) if packed else file
            piece, damage = _read(stream)
            mark, encoding = next(((mark, name) for mark, name in _MARKS if piece.startswith(mark)), (b"", "utf-8"))
            if encoding != "utf-8":
                self._remarks.append(Remark("not_utf8_file", f"read as {encoding}"))
            decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if encoding == "utf-8" else "replace")
            piece = piece[len(mark) :]
            while True:
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
        while not (found := _NO_BLANK.search(self._text, self._at)):
            self._at = len(self._text)
            if not self._more():
                return ""
        self._at = found.start()
        return found[0]

    def _json(self) -> Iterator[Item]:
        """Values one after the other, most often one a line; of a list its items."""
        shown = ""
        while char := self._skip_blank():
            if char == "[":
                yield from self._list()
            elif char == ",":  # after a value that had a line for itself
                self._at += 1
                self._remarks.append(Remark("mended_line", shown))
            else:
                shown = self._text[self._at : self._at + _SHOWN]
                item = self._next()
                yield Unread("unreadable_line", item.text.partition("\n")[0]) if isinstance(item, Unread) else item

    def _list(self) -> Iterator[Item]:
        """The items of a list; all of them as one value where they are messages."""
        self._at += 1
        messages: list[Any] = []
        talks: bool | None = None
        while (char := self._skip_blank()) and char != "]":
            if char == ",":
                self._at += 1
                continue
            item = self._next()
            if talks is None:
                talks = isinstance(item, Value) and is_conversation([item.value])
            if talks and isinstance(item, Value):
                messages.append(item.value)
            else:
                yield item
        if messages:
            yield Value(messages)
        if char:
            self._at += 1
        else:
            self._remarks.append(Remark("truncated_file", "the list has no end"))

    def _next(self) -> Value | Unread:
        """The value that begins here. After damage go to the next line that begins as a value does."""
        while True:
            size, shown = len(self._text) - self._at, self._text[self._at : self._at + _SHOWN]
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
                if isinstance(value, (int, float)) and end == len(self._text) and self._more():
                    continue  # a number may go on
                self._at = end
                return Value(value)
            except (ValueError, RecursionError) as error:  # too many digits or levels, too
                broken = isinstance(error, json.JSONDecodeError)
                cut = broken and (error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_END)
                if not (cut and self._more(max(1, size))):
                    break
        self._at += 1
        while not (found := _NEXT_VALUE.search(self._text, self._at)):
            self._at = max(self._at, len(self._text) - 1)
            if not self._more():
                break
        self._at = found.start() if found else len(self._text)
        return Unread("unreadable_value" if found else "unreadable_rest", shown)

    def _csv(self) -> Iterator[Item]:
        csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))  # the module has but one limit for everybody

        def lines() -> Iterator[str]:
            while self._at < len(self._text) or self._more():
                end = self._text.find("\n", self._at)  # alone ends a line: \r and other separators may stand within a cell
                if end < 0 and self._more(max(1, len(self._text) - self._at)):
                    continue
                start, self._at = self._at, len(self._text) if end < 0 else end + 1
                yield self._text[start : self._at]

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
        return stream.read1(1 << 20), ""
    except (EOFError, OSError, zlib.error) as error:
        return b"", str(error)


def _western(found: re.Match[str]) -> str:
    """Bytes in Windows-1252, or in Latin-1 where that has none."""
    data = found[0].encode("utf-8", "surrogateescape")
    return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in data)


def _table(path: Path, cells: Iterator[list[Any]]) -> Iterator[Item]:
    """Rows by the names in the first one. Empty rows are none."""
    header = next(cells, [])
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
        if len(row) != len(names) and any(row):
            yield Unread("unreadable_row", f"{len(row)} cells under {len(names)} columns")
        elif any(cell not in ("", None) for cell in row):
            yield Value(dict(zip(names, row, strict=True)))


def _sheet_rows(path: Path) -> Iterator[Item]:
    """The first sheet of a workbook. Raises UserError for what is no workbook."""
    try:
        rows = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (CalamineError, OSError, IndexError) as error:
        raise UserError(f"{path} is no workbook (.xlsx) that can be read ({error}): unpack it, or save it as CSV.") from error
    return _table(path, iter(_as_json(rows)))


def _parquet_rows(path: Path, skip: Collection[str], texts: Collection[str] | None) -> Iterator[Item]:
    """Parquet, a few rows at a time. What stands behind damage counts as unread. Raises UserError without a readable footer."""
    try:
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except _DAMAGE as error:
        raise UserError(
            f"{path} is no whole Parquet file ({_line(error)}): nothing in it can be found without its last bytes, "
            "so copy or download it again."
        ) from error
    with file:
        bytes_in = [
            f.name for f in file.schema_arrow if texts is not None and _BYTES.search(str(f.type)) and f.name not in texts
        ]
        yield from (Remark("bytes_left_out", name) for name in bytes_in)
        columns = [name for name in file.schema_arrow.names if name not in bytes_in and name not in skip]
        left, size = file.metadata.num_rows, path.stat().st_size
        few = max(1, min(512, (4 << 20) * left // max(1, size)))
        try:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(batch_size=few, row_groups=[group], columns=columns, use_threads=False):
                    for row in batch.to_pylist():
                        left -= 1
                        yield Value(_as_json(row))
        except _DAMAGE as error:
            yield Unread("damaged_file", _line(error), left)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


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
