"""Importing files and folders as a stream: one trajectory or question after the other, with a report at the end.

Contract: memory holds one entry and a piece of its file. Two imports of the same files give the same records, ids included.
Every entry becomes a trajectory, a question, or is counted as unread and handed to ``on_unread``; a file without a known entry
is no recording, counted as one oddity and left. Ids are the file's name and
the entry's place in it; our own records keep theirs, and get ``~2`` behind it where an import has met the id before.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory
from sanderling.data.importers.conversation import messages_in
from sanderling.data.importers.items import Item, Remark, Unread, Value
from sanderling.data.importers.jsonfile import JsonValues
from sanderling.data.importers.layouts import Layout
from sanderling.data.importers.own import count_own
from sanderling.data.importers.parquetfile import ParquetRows
from sanderling.data.importers.places import PARQUET, Place, find_places
from sanderling.data.importers.registry import entries_in, reader_of
from sanderling.data.importers.report import ImportReport, Notes, merge_reports
from sanderling.data.importers.textfile import TextFile
from sanderling.runs.parquet import is_trajectory_parquet, read_parquet

_GIVE_UP = 1_000
"""Entries in no known layout at the beginning of a file, after which it is no recording."""
OnUnread = Callable[[str, Any, str, int], None]
"""Handed the place of every entry that could not be read, its value (or the text), a code that says why, and for how many
entries it stands, in files that hold any that could."""


@dataclass(frozen=True)
class ImportResult:
    """What a file or tree held."""

    trajectories: tuple[Trajectory, ...]
    questions: tuple[Question, ...]
    """From files that hold questions only."""
    report: ImportReport


class Import:
    """The trajectories and questions of some files. Iterating again reads them again.

    Example: ``for found in (reading := open_import(folder)): ...``, then ``reading.report``.
    """

    def __init__(self, sources: Iterable[Path], *, name: str | None = None, on_unread: OnUnread | None = None) -> None:
        """Raises UserError for a source that is not there, and for a directory without a file that could be imported."""
        self.sources = list(sources)
        self._on_unread = on_unread
        places = find_places(self.sources, [name] if name else [])
        self._places, self._repeated = places.files, places.repeated
        if not self._places:
            raise UserError(f"{self._told()} holds no recorded file: give .json, .jsonl or .parquet files.")
        self._names = {place.name for place in self._places}
        self.bytes_total = sum(place.path.stat().st_size for place in self._places)
        self._reset()

    def _reset(self) -> None:
        self._finished: list[ImportReport] = []
        self.left_files: list[tuple[str, str]] = []
        """Files that are no recordings, so far, and why each of them is none."""
        self._own_ids: set[str] = set()
        self._bytes_before = 0
        self._open: TextFile | ParquetRows | None = None
        self._held: list[tuple[str, Any, str, int]] | None = None
        """Unread entries of a file of which nobody knows yet whether it is a recording."""
        self._size = 0
        self.layout: Layout | None = None
        """The layout of the last record handed out."""

    @property
    def report(self) -> ImportReport:
        """What was met so far, of the files that are done: all of it when the iteration has ended."""
        return merge_reports(self._finished)

    @property
    def bytes_done(self) -> int:
        """How far the reading is, of ``bytes_total``."""
        if isinstance(self._open, ParquetRows):
            return self._bytes_before + self._size * self._open.done // max(1, self._open.total)
        return self._bytes_before + (self._open.done if self._open else 0)

    def __iter__(self) -> Iterator[Trajectory | Question]:
        """Raises UserError at the end when nothing at all was in a known layout."""
        self._reset()
        skipped = Notes()
        for label in self._repeated:
            skipped.add("repeats_result", label)
        told: UserError | None = None
        for place in self._places:
            self._size = place.path.stat().st_size
            try:
                yield from self._file(place)
            except UserError as error:
                told = told or error
                skipped.add("not_a_recording", place.label, error)
                self.left_files.append((place.label, str(error)))
            self._bytes_before += self._size
            self._open = None
        if not any(report.files for report in self._finished):
            if told is not None and len(self._places) == 1:
                raise told
            raise UserError(
                f"{self._told()} holds no recorded trajectory: give files in a layout that docs/data-import.md lists."
            )
        self._finished.append(ImportReport(odd=skipped.oddities()))

    def _file(self, place: Place) -> Iterator[Trajectory | Question]:
        """One file. Raises UserError when nothing in it is in a known layout; what was counted is then forgotten."""
        notes = Notes()
        self._held = []
        index = known = 0
        for item in self._items(place.path):
            if isinstance(item, Remark):
                notes.add(item.code, place.name, item.text, item.count)
                continue
            if isinstance(item, Unread):
                notes.entries += item.entries
                self._unread(notes, item.code, f"{place.name}#{index}", item.text, item.entries)
                index += item.entries
                continue
            for entry in [item.value] if isinstance(item.value, Trajectory) else entries_in(item.value):
                found = self._entry(entry, f"{place.name}#{index}", notes)
                index += 1
                if found is not None:
                    known += 1
                    self._hand_on()
                    yield found
            if not known and index >= _GIVE_UP:
                break
        if not known:
            raise UserError(
                f"{place.path} holds no recorded trajectory or question: give a file in a layout of docs/data-import.md."
            )
        self._finished.append(notes.report(files=1))

    def _items(self, path: Path) -> Iterator[Item]:
        if path.suffix.lower() in PARQUET or _is_parquet(path):
            rows = self._open = ParquetRows(path)
            return _own_rows(path, rows.total) if is_trajectory_parquet(path) else rows.items()
        text = self._open = TextFile(path)
        return iter(JsonValues(text.pieces()))

    def _entry(self, entry: Any, id: str, notes: Notes) -> Trajectory | Question | None:
        """One entry, or None when it is in no known layout."""
        notes.entries += 1
        notes.layout = ""
        if isinstance(entry, Trajectory):
            notes.layout = Layout.SANDERLING.value
            count_own(entry, notes)
            return self._finish(entry, Layout.SANDERLING, notes)
        prepared = _prepared(entry)
        reader = reader_of(prepared)
        if reader is None:
            self._unread(notes, "odd_entry", id, entry)
            return None
        notes.layout = reader.layout.value
        found = reader.read(prepared, id, notes)
        if found is None:
            self._unread(notes, "odd_entry", id, entry)
            return None
        return self._finish(found, reader.layout, notes)

    def _finish(self, found: Trajectory | Question, layout: Layout, notes: Notes) -> Trajectory | Question:
        """Count a record; give it what every record of an import has."""
        self.layout = layout
        if isinstance(found, Question):
            notes.tally("questions")
            return found
        notes.tally("trajectories")
        if layout is not Layout.SANDERLING:
            return found.model_copy(update={"meta": {"layout": layout.value, "fields": found.meta}})
        id, number = found.id, 1
        while id in self._own_ids or self._is_given(id):
            number += 1
            id = f"{found.id}~{number}"
        self._own_ids.add(id)
        if id != found.id:
            notes.add("duplicate_id", found.id)
            found = found.model_copy(update={"id": id})
        return found

    def _is_given(self, id: str) -> bool:
        """Whether another file of this import may give this very id to one of its entries."""
        name, mark, number = id.rpartition("#")
        return bool(mark) and number.isdigit() and name in self._names

    def _unread(self, notes: Notes, code: str, id: str, value: Any, entries: int = 1) -> None:
        notes.unread += entries
        notes.add(code, id, value, entries)
        if self._held is not None:
            self._held.append((id, value, code, entries))
        elif self._on_unread is not None:
            self._on_unread(id, value, code, entries)

    def _hand_on(self) -> None:
        """The file is a recording: what of it could not be read so far goes on its way."""
        held, self._held = self._held or [], None
        if self._on_unread is not None:
            for one in held:
                self._on_unread(*one)

    def _told(self) -> str:
        return ", ".join(map(str, self.sources))


def _prepared(entry: Any) -> Any:
    """An entry whose messages are a list, if they were JSON text or columns."""
    if not isinstance(entry, dict):
        return entry
    for key in ("messages", "conversations"):
        if isinstance(entry.get(key), (str, dict)):
            messages = messages_in(entry, key)
            entry = entry if messages is None else entry | {key: messages}
    return entry


def _own_rows(path: Path, total: int) -> Iterator[Item]:
    """Our own Parquet. What cannot be read of it ends it, and counts with all that follows."""
    read = 0
    try:
        for trajectory in read_parquet(path):
            read += 1
            yield Value(trajectory)
    except UserError as error:
        yield Unread("damaged_file", str(error), max(1, total - read))


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error


def open_import(*sources: Path | str, name: str | None = None, on_unread: OnUnread | None = None) -> Import:
    """A stream over files and folders. ``name``: what ids begin with, where the one source is a file.

    Raises UserError for a source that is not there.
    """
    return Import([Path(source) for source in sources], name=name, on_unread=on_unread)


def detect(path: Path | str) -> Layout:
    """The layout of a file's first entry that has one. Raises UserError when it has none."""
    reading = Import([Path(path)])
    for _ in reading:
        break
    assert reading.layout is not None  # an import without a known entry has raised
    return reading.layout


def import_file(path: Path | str, *, name: str | None = None) -> ImportResult:
    """Everything in one file, in memory. Raises UserError when it cannot be read or is in none of the layouts."""
    return _collected(open_import(path, name=name))


def import_tree(directory: Path | str) -> ImportResult:
    """Everything in the files below a directory, in the order of their paths, in memory.

    A file in none of the layouts is counted as ``not_a_recording``. Raises UserError when the directory does not exist or holds
    no recording at all.
    """
    if not Path(directory).is_dir():
        raise UserError(f"There is no directory {directory}: give the directory of the recorded trajectories.")
    return _collected(open_import(directory))


def _collected(reading: Import) -> ImportResult:
    found = list(reading)
    trajectories = tuple(one for one in found if isinstance(one, Trajectory))
    return ImportResult(trajectories, tuple(one for one in found if isinstance(one, Question)), reading.report)
