"""The rows of any file: JSON lines and Parquet one by one with flat memory; JSON, CSV, TSV and xlsx whole.

All but Parquet and xlsx may be packed (`runs.files.PACKED`). Text is UTF-8. A row that cannot be read is handed on in its place
as `Unread`; a damaged file that is packed, or Parquet, gives what stands before the damage, and one `Unread`. What JSON has no
number for (NaN, infinity) is null.
"""

import codecs
import csv
import datetime
import io
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from python_calamine import CalamineError, CalamineWorkbook

from sanderling.core.errors import UserError
from sanderling.data.questions import finite
from sanderling.runs.files import PACKED, Unpacked, or_cannot

JSON_NAMES = (".json", ".jsonl", ".ndjson")
PARQUET_NAMES = (".parquet", ".pq")
_OF_ROWS = {"messages", "conversations", "question", "problem"}  # what no message has, though a row may have a role or origin
_LIST_NAMES = ("data", "Data", "rows", "questions", "examples")
_PACKED_OTHERWISE = (".tar", ".tgz", ".zip", ".7z", ".rar", ".lz4", ".br", ".lzma")
_LFS = b"version https://git-lfs"
_WEB_PAGE = re.compile(rb"(?i)\s*<(?:!doctype|html|head|\?xml)")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DAMAGE = (pa.ArrowException, OSError, ValueError)
_BETWEEN = re.compile(r"[\s,]*")  # items of a list
_DECODER = json.JSONDecoder(strict=False, parse_float=finite, parse_constant=finite)


@dataclass(frozen=True)
class Unread:
    """Rows that could not be read; ``text`` says how they look, or why."""

    code: str
    text: str
    entries: int = 1


def open_rows(path: Path, *, skip: Collection[str] = ()) -> Iterator[Any]:
    """The rows of a file, each a JSON value or `Unread`; the format is told by the content, else by the name.

    ``skip``: columns of Parquet that are not read. Raises UserError for a file that cannot be opened, and for what is no data,
    such as a pointer of Git LFS or a page to log in.
    """
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        head = file.read(256)
    ending = next((suffix for suffix in reversed(path.suffixes) if suffix.lower() not in PACKED), "")
    if ending.lower() in _PACKED_OTHERWISE:
        raise UserError(f"{path} is packed in a way that is not read ({ending}): unpack it; {', '.join(PACKED)} are read.")
    if head.startswith(b"PAR1") or path.suffix.lower() in PARQUET_NAMES:
        return _parquet_rows(path, skip)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return _sheet_rows(path)
    if head.startswith(_LFS):
        raise UserError(f"{path} is a pointer of Git LFS and not the data: fetch it with git lfs pull.")
    if _WEB_PAGE.match(head):
        advice = "log in where it comes from, accept its terms, and download it again."
        raise UserError(f"{path} is a web page and not the data: {advice}")
    return _text_rows(path)


def question_rows(path: Path, skip: Collection[str] = ()) -> Iterator[dict[str, Any] | Unread]:
    """The rows of a file of questions, each an object. Raises UserError for a file that is damaged or cut.

    A file that is one object with a list in it (``data``, ``rows``, ``questions``, ``examples``) holds the rows of that list.
    """

    def objects(rows: Iterable[Any]) -> Iterator[dict[str, Any] | Unread]:
        for row in rows:
            if isinstance(row, Unread) and row.code == "damaged_file":
                raise UserError(f"{path} is damaged ({row.text}): copy or download it again.")
            if isinstance(row, Unread) and row.code == "not_utf8":
                raise UserError(f"{path} is not UTF-8 (near {row.text[:60]!r}): convert it, for example with iconv.")
            if isinstance(row, Unread) and row.code == "unreadable_line":
                row = Unread(row.code, f"no JSON: {row.text[:60]}")
            yield row if isinstance(row, dict | Unread) else Unread("odd_entry", "no JSON object")

    found = objects(open_rows(path, skip=skip))
    first, second = next(found, None), next(found, None)
    if isinstance(first, dict) and second is None:
        inner = next((first[name] for name in _LIST_NAMES if isinstance(first.get(name), list)), None)
        yield from objects(inner or [first])
    else:
        yield from itertools.chain([one for one in (first, second) if one is not None], found)


def _text_rows(path: Path) -> Iterator[Any]:
    """JSON lines, JSON, CSV or TSV, packed or not. Raises UserError for another encoding than UTF-8."""
    unpacked = Unpacked(path)
    with io.BufferedReader(unpacked, 1 << 16) as stream:
        first = next((line for line in stream if line.strip()), b"").removeprefix(codecs.BOM_UTF8)
        if first.startswith(_UTF16):
            raise UserError(f"{path} is not UTF-8 but UTF-16 or UTF-32: convert it, for example with iconv.")
        names, value = {suffix.lower() for suffix in path.suffixes}, _parsed(first) if first.endswith(b"\n") else None
        if isinstance(value, dict | list) or (first and names & {".jsonl", ".ndjson"}):
            for line in itertools.chain([first], stream):
                row = value if line is first and value is not None else _parsed(line) if line.strip() else []
                torn = unpacked.damage and isinstance(row, Unread) and not line.endswith(b"\n")
                yield from [] if torn else _rows_in(row)
        else:
            yield from _whole_rows(path, names, first + stream.read(), unpacked.damage)
    if unpacked.damage:
        yield Unread("damaged_file", unpacked.damage)


def _whole_rows(path: Path, names: set[str], data: bytes, damage: str) -> Iterator[Any]:
    """The rows of JSON, CSV or TSV; of a damaged file those that are whole. Raises UserError."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=not damage)
    except UnicodeDecodeError as error:
        near = data[max(0, error.start - 40) : error.start + 20].decode("latin-1")
        raise UserError(f"{path} is not UTF-8 (near {near!r}): convert it, for example with iconv.") from error
    if names.isdisjoint(JSON_NAMES) and text.lstrip()[:1] not in ("{", "["):
        text = text[: text.rfind("\n") + 1] if damage else text
        first = text.partition("\n")[0]
        delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
        csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))  # the module has but one limit for everybody
        cells = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        yield from _table(path, cells) if text or not damage else ()
    elif damage:
        yield from _whole_items(text)
    elif text.strip():
        try:
            yield from _rows_in(_DECODER.decode(text))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is no whole JSON ({error}): mend it, or copy it again.") from error


def _whole_items(text: str) -> Iterator[Any]:
    """The first items of a JSON list, up to where it is cut."""
    text, at = text.lstrip(), 1
    while text.startswith("[") and (begin := _BETWEEN.match(text, at)):
        try:
            item, at = _DECODER.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            return
        yield item


def _parsed(line: bytes) -> Any:
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Unread("not_utf8", line[max(0, error.start - 200) : error.start + 200].decode("latin-1").rstrip("\r\n"))
    except (ValueError, RecursionError):
        return Unread("unreadable_line", line[:400].decode("utf-8", "replace").rstrip("\r\n"))


def _rows_in(value: Any) -> Iterator[Any]:
    """The items of a list; a list of messages is one row, and so is any other value."""
    first = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}
    says = {"content", "value", "text", "tool_calls", "function_call"} & first.keys() and not _OF_ROWS & first.keys()
    if says and isinstance(first.get("role", first.get("from")), str):
        yield {"messages": value}
    else:
        yield from value if isinstance(value, list) else [value]


def _table(path: Path, cells: Iterator[list[Any]]) -> Iterator[Any]:
    """Rows by the names in the first one. Empty rows are none."""
    try:
        header = next(cells, [])
    except csv.Error as error:
        raise UserError(f"The heading of {path} cannot be read ({error}): its first line must name the columns.") from error
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
            yield dict(zip(names, row, strict=True))


def _sheet_rows(path: Path) -> Iterator[Any]:
    """The first sheet of a workbook. Raises UserError for what is no workbook."""
    try:
        rows = CalamineWorkbook.from_path(str(path)).get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (CalamineError, OSError, IndexError) as error:
        raise UserError(f"{path} is no workbook (.xlsx) that can be read ({error}): unpack it, or save it as CSV.") from error
    return _table(path, iter(_as_json(rows)))


def _parquet_rows(path: Path, skip: Collection[str]) -> Iterator[Any]:
    """Parquet, a few rows at a time. What stands behind damage counts as unread. Raises UserError without a readable footer."""
    try:
        file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except _DAMAGE as error:
        raise UserError(
            f"{path} is no whole Parquet file ({_line(error)}): nothing in it can be found without its last bytes, "
            "so copy or download it again."
        ) from error
    with file:
        columns = [name for name in file.schema_arrow.names if name not in skip]
        left = file.metadata.num_rows
        try:
            for group in range(file.num_row_groups):
                about = file.metadata.row_group(group)
                few = max(1, min(512, (4 << 20) * about.num_rows // max(1, about.total_byte_size)))
                for batch in file.iter_batches(batch_size=few, row_groups=[group], columns=columns, use_threads=False):
                    for row in batch.to_pylist():
                        left -= 1
                        yield _as_json(row)
        except _DAMAGE as error:
            yield Unread("damaged_file", _line(error), left)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _as_json(value: Any) -> Any:
    """A value of Arrow's or a sheet's as JSON has it: dates in ISO's form, bytes as the text they are, else as their number."""
    if isinstance(value, str):
        return value
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
            return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return finite(value)
    return value if isinstance(value, (int, bool)) or value is None else str(value)
