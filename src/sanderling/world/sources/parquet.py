"""A Parquet file of records, a page each, as corpora are published: the layouts of `world.jsonl`, by the names of the columns.

Rows are read a few at a time, and only the columns that a page is made of. What is damaged costs its group of rows, no more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.jsonl import NAMES
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of
from sanderling.world.sources.jsonl import read_record

_ROWS = 64
Row = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class ParquetSource(DocumentSource[Row]):
    """A Parquet file."""

    path: Path
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raises UserError when there is no such file, it is no Parquet file, or has no column of words."""
        if not self.path.is_file():
            raise UserError(f"There is no file {self.path}: give a Parquet file.")
        try:
            columns = self._columns()
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.path} is no Parquet file, or not a whole one: get it again.") from error
        if not columns:
            raise UserError(f"{self.path} has none of the columns {', '.join(sorted(NAMES))}: it holds no pages.")

    @property
    def name(self) -> str:
        return self.path.name

    def documents(self, skip: int) -> Iterator[Row | Skipped]:
        """The rows with their numbers from 1."""
        columns = self._columns()
        with pq.ParquetFile(self.path) as file:
            start = 0
            for group in range(file.metadata.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if end > skip:
                    yield from self._rows(file, columns, group, (start, max(start, skip), end))
                start = end

    def reader(self) -> Callable[[Row], Page | Skipped]:
        return self._read

    def stamp(self) -> str:
        return stamp_of("parquet", file_facts(self.path), self.limits)

    def total(self) -> int:
        with pq.ParquetFile(self.path) as file:
            return file.metadata.num_rows

    def _columns(self) -> list[str]:
        with pq.ParquetFile(self.path) as file:
            return [name for name in file.schema_arrow.names if name in NAMES]

    @staticmethod
    def _rows(file: pq.ParquetFile, columns: list[str], group: int, rows: tuple[int, int, int]) -> Iterator[Row | Skipped]:
        """The rows of a group; ``rows``: the number before its first, before the first that is wanted, and of its last."""
        before, done, end = rows
        try:
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=columns):
                records = batch.slice(min(max(0, done - before), batch.num_rows)).to_pylist()
                before += batch.num_rows
                for record in records:
                    done += 1
                    yield done, record
        except (pa.ArrowException, OSError, ValueError):
            yield from (Skipped(f"row {number}", Reason.DAMAGED) for number in range(done + 1, end + 1))

    def _read(self, row: Row) -> Page | Skipped:
        number, record = row
        where = f"row {number}"
        size = sum(len(value) for value in record.values() if isinstance(value, str | bytes))
        return Skipped(where, Reason.TOO_LARGE) if size > self.limits.document_bytes else read_record(record, where)
