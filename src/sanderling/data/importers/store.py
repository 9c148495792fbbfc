"""An import written to files: trajectories, questions, what could not be read, and the report.

Contract: every file appears whole or not at all, and the same sources give the same bytes. There is no state to resume from:
an import runs at the speed of its files, so one that was killed starts over, and what stood in place before stays until the
new file is whole. Beside ``FILE`` stand ``FILE.import.json`` (the report) and, if anything could not be read,
``FILE.unread.jsonl``: a line for each entry, with its place and a code that says why; the codes are the report's.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_record, encode_trajectory
from sanderling.data.importers.report import ImportReport, Notes, merge_reports
from sanderling.data.importers.run import Import
from sanderling.runs.files import replace_file
from sanderling.runs.parquet import write_parquet
from sanderling.runs.writing import Lines, check_places

Progress = Callable[[int, int, int], None]
"""Bytes done, bytes in all, records so far."""


@dataclass(frozen=True)
class Written:
    """What an import wrote."""

    report: ImportReport
    trajectories: int
    """Lines of them: all that were met, but for those that no line can hold."""
    report_file: Path
    unread_file: Path | None
    left_files: tuple[tuple[str, str], ...]
    """Files in no known layout, and what was said of each."""


def import_to(sources: Sequence[Path], out: Path | None, questions: Path | None, progress: Progress) -> Written:
    """Import ``sources``; trajectories go to ``out`` (.jsonl or .parquet), questions to ``questions`` (.jsonl).

    Raises UserError for a source that is not there or holds nothing known, and for an output that cannot be written.
    """
    base = out or questions
    if base is None:
        raise UserError("There is no place to write to: give --out FILE, --questions FILE, or both.")
    unread_file, report_file = (base.with_name(base.name + ending) for ending in (".unread.jsonl", ".import.json"))
    _check_names(out, questions)
    check_places(sources, [place for place in (out, questions, unread_file, report_file) if place is not None])
    with ExitStack() as stack:
        unread = stack.enter_context(Lines(unread_file, keep_empty=False))

        def left_out(place: str, value: Any, code: str, entries: int = 1) -> None:
            unread.add(_unread_line(place, value, code, entries))

        reading = Import(sources, on_unread=left_out)
        asked = stack.enter_context(Lines(questions)) if questions else None
        notes = Notes()
        stream = _trajectories(reading, asked, notes, progress, left_out)
        if out is not None and out.suffix == ".parquet":
            count = write_parquet(out, (found for found, _ in stream))
        else:
            lines = stack.enter_context(Lines(out)) if out else None
            count = 0
            for _, line in stream:
                count += 1
                if lines is not None:
                    lines.add(line)
    report = merge_reports([reading.report, ImportReport(odd=notes.oddities())])
    left_files = [{"file": file, "reason": reason} for file, reason in reading.left_files]
    told = {
        "left_files": left_files,
        "sources": [str(source) for source in sources],
        "out": _name(out),
        "questions": _name(questions),
    }
    replace_file(
        report_file, json.dumps(told | report.as_json(), ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    )
    return Written(report, count, report_file, unread_file if unread.count else None, tuple(reading.left_files))


def _check_names(out: Path | None, questions: Path | None) -> None:
    if out is not None and out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{out} is neither .jsonl nor .parquet: end its name in one of these.")
    if questions is not None and questions.suffix != ".jsonl":
        raise UserError(f"{questions} is not .jsonl, as files of questions are: end its name so.")


def _trajectories(
    reading: Import, asked: Lines | None, notes: Notes, progress: Progress, left_out: Callable[[str, Any, str], None]
) -> Iterator[tuple[Trajectory, bytes]]:
    """The trajectories that can be written, with their lines; questions go their own way."""
    for number, found in enumerate(reading, start=1):
        progress(reading.bytes_done, reading.bytes_total, number)
        try:
            if isinstance(found, Trajectory):
                yield found, encode_trajectory(found)
            elif asked is not None:
                asked.add(encode_record(found))
        except UserError as error:
            notes.add("unwritable", found.id, error)
            left_out(found.id, str(error), "unwritable")
    progress(reading.bytes_total, reading.bytes_total, 0)


def _unread_line(place: str, value: Any, code: str, entries: int) -> bytes:
    told = {"place": place, "code": code} | ({"entries": entries} if entries != 1 else {})
    try:
        return encode_record(told | {"value": value})
    except UserError:
        return encode_record(told | {"value": ascii(value)[:10_000]})


def _name(path: Path | None) -> str | None:
    return None if path is None else path.name
