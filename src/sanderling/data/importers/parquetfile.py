"""The rows of any Parquet file, one by one, with flat memory.

Contract: rows are read a few at a time, a row group after the other; columns of bytes (images) are left out and said so, unless
their name is one of a text. A row
group that is damaged costs what of it could not be read, and no other; a file without its footer cannot be read at all, and a
:class:`UserError` says so. Dates, decimals and maps become what JSON has for them. Of layouts it knows only
the names of fields that hold text.
"""

import base64
import datetime
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.data.importers.fields import ANSWER_KEYS, QUESTION_KEYS
from sanderling.data.importers.items import Item, Remark, Unread, Value

_BATCH_BYTES = 4 << 20
_MOST_ROWS = 512
_BUFFER = 1 << 20
_TEXT_COLUMNS = frozenset(("messages", "conversations", "meta", "extra_info", "reward_model", *QUESTION_KEYS, *ANSWER_KEYS))
"""Columns that are read even where they hold bytes: some writers do not say that theirs are text."""
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


class ParquetRows:
    """The rows of one file. ``done`` and ``total`` count them."""

    def __init__(self, path: Path) -> None:
        """Raises UserError when the file has no readable footer."""
        self.path = path
        self.done = 0
        try:
            self._file = pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
        except (*_DAMAGE, ValueError) as error:
            raise UserError(
                f"{path} is no whole Parquet file ({_line(error)}): nothing in it can be found without its last bytes, "
                "so copy or download it again."
            ) from error
        schema = self._file.schema_arrow
        self._left_out = [field.name for field in schema if _is_bytes(field.type) and field.name not in _TEXT_COLUMNS]
        self._columns = [field.name for field in schema if field.name not in self._left_out]
        self._plain = all(_is_plain(field.type) for field in schema)

    @property
    def total(self) -> int:
        return self._file.metadata.num_rows

    def items(self) -> Iterator[Item]:
        """Rows, and in the place of rows that cannot be read how many they are."""
        with self._file:
            for name in self._left_out:
                yield Remark("bytes_left_out", name)
            for group in range(self._file.metadata.num_row_groups):
                yield from self._group(group)

    def _group(self, group: int) -> Iterator[Item]:
        about = self._file.metadata.row_group(group)
        read = 0
        rows = max(1, min(_MOST_ROWS, _BATCH_BYTES * max(1, about.num_rows) // max(1, about.total_byte_size)))
        try:
            for batch in self._file.iter_batches(batch_size=rows, row_groups=[group], columns=self._columns, use_threads=False):
                for row in batch.to_pylist():
                    read += 1
                    self.done += 1
                    yield Value(row if self._plain else _as_json(row))
        except _DAMAGE as error:
            lost = about.num_rows - read
            self.done += lost
            yield Unread("damaged_row_group", f"row group {group}: {_line(error)}", lost)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_bytes(kind: pa.DataType) -> bool:
    """Whether a column holds bytes, anywhere in it."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return True
    return any(_is_bytes(kind.field(index).type) for index in range(kind.num_fields)) if kind.num_fields else False


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values of a type come out as JSON values."""
    if pa.types.is_map(kind):
        return False
    if kind.num_fields:
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    scalar = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return scalar or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _text_of(value: bytes) -> str:
    """Bytes as the text they are, or else in base64."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(value).decode("ascii")


def _as_json(value: Any) -> Any:
    """A value of Arrow's as JSON has it; a column's nesting is that of its type, so this goes no deeper."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return _text_of(value)
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
