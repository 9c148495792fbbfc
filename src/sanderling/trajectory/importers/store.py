"""An import written to files: trajectories, questions, what could not be read, and the report.

Contract: every file appears whole or not at all, and the same sources give the same bytes. There is no state to resume from:
an import runs at the speed of its files, so one that was killed starts over, and what stood in place before stays until the
new file is whole. Beside ``FILE`` stand ``FILE.import.json`` (the report) and, if anything could not be read,
``FILE.unread.jsonl``.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.trajectory.codec import encode_record, encode_trajectory
from sanderling.trajectory.importers.report import ImportReport, Notes, merge_reports
from sanderling.trajectory.importers.run import Import
from sanderling.trajectory.parquet import write_parquet
from sanderling.trajectory.record import Trajectory

Progress = Callable[[int, int, int], None]
"""Bytes done, bytes in all, records so far."""


@dataclass(frozen=True)
class Written:
    """What an import wrote."""

    report: ImportReport
    report_file: Path
    unread_file: Path | None


class _Lines:
    """A file of lines that takes its name when it is whole, if it is wanted then."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.count = 0
        self.wanted = True

    def write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self.count += 1

    @classmethod
    @contextmanager
    def at(cls, path: Path) -> Iterator["_Lines"]:
        """Lines for ``path``; a failure leaves what stood there as it was."""
        partial = path.with_name(path.name + ".partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                lines = cls(file)
                yield lines
                file.flush()
                os.fsync(file.fileno())
            if lines.wanted:
                partial.replace(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"Cannot write {path} ({error.strerror}): choose another place, or free some space.") from error
        finally:
            partial.unlink(missing_ok=True)


def import_to(sources: Sequence[Path], out: Path | None, questions: Path | None, progress: Progress) -> Written:
    """Import ``sources``; trajectories go to ``out`` (.jsonl or .parquet), questions to ``questions`` (.jsonl).

    Raises UserError for a source that is not there or holds nothing known, and for an output that cannot be written.
    """
    base = out or questions
    if base is None:
        raise UserError("There is no place to write to: give --out FILE, --questions FILE, or both.")
    _check(sources, out, questions)
    unread_file = base.with_name(base.name + ".unread.jsonl")
    with ExitStack() as stack:
        unread = stack.enter_context(_Lines.at(unread_file))
        reading = Import(sources, on_unread=lambda place, value: unread.write(_unread_line(place, value)))
        asked = stack.enter_context(_Lines.at(questions)) if questions else None
        notes = Notes()
        stream = _trajectories(reading, asked, notes, progress)
        if out is not None and out.suffix == ".parquet":
            write_parquet(out, (found for found, _ in stream))
        else:
            lines = stack.enter_context(_Lines.at(out)) if out else None
            for _, line in stream:
                if lines is not None:
                    lines.write(line)
        unread.wanted = unread.count > 0
    report = merge_reports([reading.report, ImportReport(odd=notes.oddities())])
    report_file = base.with_name(base.name + ".import.json")
    told = {"sources": [str(source) for source in sources], "out": _name(out), "questions": _name(questions)}
    replace_file(
        report_file, json.dumps(told | report.as_json(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    )
    return Written(report, report_file, unread_file if unread.wanted else None)


def _check(sources: Sequence[Path], out: Path | None, questions: Path | None) -> None:
    if out is not None and out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{out} is neither .jsonl nor .parquet: end its name in one of these.")
    read = {source.resolve() for source in sources}
    for target in (out, questions):
        if target is not None and target.resolve() in read:
            raise UserError(f"{target} is read and written: choose another place for the output.")
        if target is not None and read & set(target.resolve().parents):
            raise UserError(
                f"{target} lies in a folder that is read, so that the next import would read it: choose another place."
            )


def _trajectories(
    reading: Import, asked: _Lines | None, notes: Notes, progress: Progress
) -> Iterator[tuple[Trajectory, bytes]]:
    """The trajectories that can be written, with their lines; questions go their own way."""
    for number, found in enumerate(reading, start=1):
        progress(reading.bytes_done, reading.bytes_total, number)
        try:
            if isinstance(found, Trajectory):
                yield found, encode_trajectory(found)
            elif asked is not None:
                asked.write(encode_record(found))
        except UserError as error:
            notes.add("unwritable", found.id, error)
    progress(reading.bytes_total, reading.bytes_total, 0)


def _unread_line(place: str, value: Any) -> bytes:
    try:
        return encode_record({"place": place, "value": value})
    except UserError:
        return encode_record({"place": place, "value": ascii(value)[:10_000]})


def _name(path: Path | None) -> str | None:
    return None if path is None else path.name
