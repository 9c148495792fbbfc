"""Where attempts are kept: whole records, and a row of each that says enough to go on, to judge and to count.

Two stores. `WholeRecords` has the records alone: its rows are read out of them, and a verdict that comes later is a further
record. `IndexedRecords` keeps the rows in an index beside them, so that a run of many long attempts is gone on with, judged
again and reported without reading them; later verdicts stand in the index. The records are the truth: an index that is missing,
torn, behind or of other records is made again from them (the first and the last one are compared; whoever edits one in between
removes the index). Knows no judge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from sanderling.core.record import Question, Trajectory, decode_record, encode_record
from sanderling.evaluate.episodes import Episode
from sanderling.evaluate.rows import AttemptRow, accepted_digest, row_of
from sanderling.judge.verdict import META_KEY
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore

VERSION = 2
"""Of the meaning of rows: those of another version are made again."""
_ROW = TypeAdapter(AttemptRow)
_HEAD = {"index": VERSION, "row": [one.name for one in fields(AttemptRow)], "episode": [one.name for one in fields(Episode)]}


class AttemptStore(Protocol):
    """Attempts in the order of their making; of rows about one attempt the last counts."""

    def rows(self) -> Iterable[AttemptRow]: ...

    def append(self, trajectory: Trajectory) -> AttemptRow:
        """Keep a record for good. Raises UserError when it cannot be written."""
        ...

    def judged(self, row: AttemptRow, question: Question, verdict: dict[str, Any]) -> AttemptRow:
        """Keep a later verdict, on these accepted answers, as `reward.verdict.recorded` gives it."""
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
    """Records and their index; one process writes, which reads first."""

    def __init__(self, records: TrajectoryStore, index: Path) -> None:
        self.records = records
        self._log = JsonlLog(index, durable=False)  # what a loss of power takes is made again
        self._is_whole = False

    def rows(self) -> list[AttemptRow]:
        """All rows; writes nothing, so that a reader may look at a run that goes on."""
        known, _ = self._known()
        return [*known, *self._behind(known)]

    def prepare(self) -> list[AttemptRow]:
        """All rows; afterwards the index says them all. Raises UserError for damaged records."""
        known, is_clean = self._known()
        rows = [*known, *self._behind(known)]
        if not is_clean or len(rows) > len(known):
            lines = (encode_record(_HEAD), *map(_line, rows))
            replace_file(self._log.path, b"".join(line + b"\n" for line in lines))
        self._is_whole = True
        return rows

    def append(self, trajectory: Trajectory) -> AttemptRow:
        if not self._is_whole:
            self.prepare()
        row = row_of(trajectory, self.records.append(trajectory))
        self._log.append(_fields(row))
        return row

    def judged(self, row: AttemptRow, question: Question, verdict: dict[str, Any]) -> AttemptRow:
        if not self._is_whole:
            self.prepare()
        row = replace(row, accepted=accepted_digest(question), verdict=verdict)
        self._log.append(_fields(row))
        return row

    def _known(self) -> tuple[list[AttemptRow], bool]:
        """What the index says, and whether nothing in it had to be left out."""
        try:
            head, *lines = self._log.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return [], False
        rows: list[AttemptRow] = []
        try:
            if decode_record(head) != _HEAD:
                return [], False
            rows.extend(_ROW.validate_python(decode_record(line)) for line in lines if line)
        except (ValueError, ValidationError):  # torn by a kill, or another version's: the rest is read from the records
            return (rows, False) if self._holds(rows) else ([], False)
        return (rows, not lines[-1:] or lines[-1] == b"") if self._holds(rows) else ([], False)

    def _holds(self, rows: list[AttemptRow]) -> bool:
        """Whether the records are still those that the rows are about: its first and its last one are."""
        ends = {
            row.line for row in (*rows[:1], *(max(rows, key=lambda row: row.line.offset, default=None),)) if row is not None
        }
        return all(self.records.holds(line) for line in ends)

    def _behind(self, known: list[AttemptRow]) -> Iterator[AttemptRow]:
        """Rows of records that the index does not know: their process was killed before it could write them there."""
        end = max((row.line.end for row in known), default=0)
        return (row_of(trajectory, line) for line, trajectory in self.records.since(end))


def _fields(row: AttemptRow) -> dict[str, Any]:
    return _ROW.dump_python(row, mode="json")


def _line(row: AttemptRow) -> bytes:
    return encode_record(_fields(row))
