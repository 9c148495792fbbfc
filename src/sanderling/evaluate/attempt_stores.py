"""Where attempts are kept: whole records, and a row of each that says enough to go on, to judge and to count.

Two stores. `WholeRecords` has the records alone: its rows are read out of them, and a verdict that comes later is a further
record. `IndexedRecords` keeps the rows in the run's database, so that a run of many long attempts is gone on with, judged again
and reported without reading them; later verdicts stand in the rows. The records are the truth: rows that are missing, behind or
of other records are made again from them (the first and the last one are compared).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.rows import AttemptRow, accepted_digest, row_of
from sanderling.judge.verdict import META_KEY
from sanderling.runs.jsonl import TrajectoryStore
from sanderling.runs.run import Table

_ROW = TypeAdapter(AttemptRow)
_MEANING = [2, [one.name for one in fields(AttemptRow)], [one.name for one in fields(Episode)]]
"""Of rows: those of another meaning are made again."""
_HEAD = ""
"""The key that the meaning stands under."""


class AttemptStore(Protocol):
    """Attempts in the order of their making; of rows about one attempt the last counts."""

    def rows(self) -> Iterable[AttemptRow]: ...

    def append(self, trajectory: Trajectory) -> AttemptRow:
        """Keep a record for good. Raises UserError when it cannot be written."""
        ...

    def judged(self, row: AttemptRow, question: Question, verdict: dict[str, Any]) -> AttemptRow:
        """Keep a later verdict, on these accepted answers, as `judge.verdict.recorded` gives it."""
        ...


class WholeRecords:
    """Records alone."""

    def __init__(self, records: TrajectoryStore) -> None:
        self._records = records

    def rows(self) -> Iterator[AttemptRow]:
        return (row_of(trajectory, line) for line, trajectory in self._records.since(0))

    def append(self, trajectory: Trajectory) -> AttemptRow:
        return row_of(trajectory, self._records.append(trajectory))

    def judged(self, row: AttemptRow, question: Question, verdict: dict[str, Any]) -> AttemptRow:
        record = self._records.at(row.line)
        changes = {"question": question, "meta": {**record.meta, META_KEY: verdict}}
        return self.append(record.model_copy(update=changes))


class IndexedRecords:
    """Records and their rows in a table, each under its record's offset; one process writes, which reads first."""

    def __init__(
        self,
        records: TrajectoryStore,
        written: Callable[[], Table],
        read: Callable[[], AbstractContextManager[Table | None]],
    ) -> None:
        """``written`` opens the table for good, ``read`` for a look, None where there is none."""
        self.records = records
        self._written, self._read = written, read
        self._is_whole = False

    def rows(self) -> list[AttemptRow]:
        """All rows; writes nothing, so that a reader may look at a run that goes on. Of a damaged database only warns."""
        known: list[AttemptRow] = []
        try:
            with self._read() as table:
                known = self._known(table) if table is not None else []
        except UserError as error:
            warnings.warn(f"{error} Until then its attempts are read from their records.", stacklevel=2)
        return [*known, *self._behind(known)]

    def prepare(self) -> list[AttemptRow]:
        """All rows; afterwards the table says them all. Raises UserError for damaged records."""
        table = self._written()
        known = self._known(table)
        behind = list(self._behind(known))
        if not known:
            table.remove(whole=table.kind)
            table.put(_HEAD, _MEANING, durable=False)
        for row in behind:
            self._keep(row)
        self._is_whole = True
        return [*known, *behind]

    def append(self, trajectory: Trajectory) -> AttemptRow:
        if not self._is_whole:
            self.prepare()
        return self._keep(row_of(trajectory, self.records.append(trajectory)))

    def judged(self, row: AttemptRow, question: Question, verdict: dict[str, Any]) -> AttemptRow:
        if not self._is_whole:
            self.prepare()
        return self._keep(replace(row, accepted=accepted_digest(question), verdict=verdict))

    def _keep(self, row: AttemptRow) -> AttemptRow:
        # What a loss of power takes is made again.
        self._written().put(str(row.line.offset), _ROW.dump_python(row, mode="json"), durable=False)
        return row

    def _known(self, table: Table) -> list[AttemptRow]:
        """What the table says, if the records are still those that it is about: its first and its last one are."""
        if table.get(_HEAD) != _MEANING:
            return []
        try:
            rows = [_ROW.validate_python(row) for key, row in table.items() if key != _HEAD]
        except ValidationError:
            return []
        ends = {max(rows, key=lambda row: row.line.offset).line, rows[0].line} if rows else set()
        return rows if all(self.records.holds(line) for line in ends) else []

    def _behind(self, known: list[AttemptRow]) -> Iterator[AttemptRow]:
        """Rows of records that the table does not know: their process was killed before it could write them there."""
        end = max((row.line.end for row in known), default=0)
        return (row_of(trajectory, line) for line, trajectory in self.records.since(end))
