"""The rows of any file, one by one with flat memory: JSON, JSON lines, Parquet, CSV, TSV and xlsx, text packed or not.

`open_rows` looks at the content, and at the name only where that leaves it open. What cannot be read is handed on in its place
as `Unread`, what is odd about the file itself as `Remark`; the caller says which of them it can bear. `question_rows` bears
less: a file of questions is whole, UTF-8, and a row of it an object.

Example: ``[item.value for item in open_rows(Path("a.csv")) if isinstance(item, Value)] == [{"question": "Who?"}]``
"""

import base64
import datetime
import decimal
import itertools
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from python_calamine import CalamineError, CalamineWorkbook

from sanderling.core.errors import UserError
from sanderling.data.text_rows import Item, Remark, Rows, TextRows, Unread, Value, table_rows

PARQUET_NAMES = (".parquet", ".pq")
_LIST_NAMES = ("data", "Data", "rows", "questions", "examples")
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


def open_rows(path: Path, *, skip: Collection[str] = (), texts: Collection[str] | None = None) -> Rows:
    """The rows of a file.

    ``skip``: columns of Parquet that are not read at all. ``texts``: the only columns of bytes that are; None: all of them.
    Raises UserError for a file that cannot be opened, and for what is no data: a pointer of Git LFS, a page to log in.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(8)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    if magic[:4] == b"PAR1" or path.suffix.lower() in PARQUET_NAMES:
        return ParquetRows(path, skip, texts)
    if magic[:4] == b"PK\x03\x04":
        return _Sheet(path)
    if magic[:4] in (b"\xd0\xcf\x11\xe0", b"%PDF", b"PK\x05\x06"):
        raise UserError(f"{path} is no table that can be read: save it as CSV, JSON lines, Parquet or xlsx.")
    return TextRows(path)


def question_rows(path: Path, skip: Collection[str] = ()) -> Iterator[dict[str, Any] | Unread]:
    """The rows of a file of questions, each an object. Raises UserError for a file that is not whole, or not UTF-8.

    A file that is one object with a list in it (``data``, ``rows``, ``questions``, ``examples``) holds the rows of that list.
    """
    objects = _objects(path, open_rows(path, skip=skip))
    first, second = next(objects, None), next(objects, None)
    if isinstance(first, dict) and second is None:
        inner = next((first[name] for name in _LIST_NAMES if isinstance(first.get(name), list)), None)
        yield from map(_object, inner or [first])
    else:
        yield from itertools.chain([one for one in (first, second) if one is not None], objects)


def _objects(path: Path, items: Iterable[Item]) -> Iterator[dict[str, Any] | Unread]:
    again = "copy or download it again."
    for item in items:
        if isinstance(item, Value):
            yield _object(item.value)
        elif item.code == "not_utf8":
            raise UserError(f"{path} is not UTF-8 (near {item.text[:60]!r}): convert it, for example with iconv.")
        elif item.code == "truncated_file":
            raise UserError(f"{path} ends early ({item.text}): {again}")
        elif item.code == "damaged_row_group":
            raise UserError(f"{path} is no whole Parquet file ({item.text}): {again}")
        elif isinstance(item, Unread):
            yield Unread(item.code, item.text if item.code == "unreadable_row" else f"no JSON: {item.text[:60]}")


def _object(value: Any) -> dict[str, Any] | Unread:
    return value if isinstance(value, dict) else Unread("odd_entry", "no JSON object")


class ParquetRows(Rows):
    """Parquet, some rows of a row group after the other. A damaged row group costs what of it could not be read, no other."""

    def __init__(self, path: Path, skip: Collection[str] = (), texts: Collection[str] | None = None) -> None:
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
    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    return any(_is_bytes(kind.field(index).type) for index in range(kind.num_fields)) if kind.num_fields else False


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type come out as JSON values."""
    types = pa.types
    if kind.num_fields and not types.is_map(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    scalars = (types.is_string, types.is_large_string, types.is_boolean, types.is_null, types.is_integer, types.is_floating)
    return any(is_one(kind) for is_one in scalars)


def _as_json(value: Any) -> Any:
    """A value of Arrow's as JSON has it: dates in ISO's form, bytes as the text they are or else in base64."""
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
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


class _Sheet(Rows):
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
        yield from table_rows(self._path, iter(_as_json(rows)))
