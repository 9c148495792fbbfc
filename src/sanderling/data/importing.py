"""Recorded trajectories and question sets, of other systems and our own, into the record, without losing any.

Memory holds one entry and a piece of its file; two imports of the same files give the same records, ids included. Every entry
becomes a trajectory, a question, or is counted as unread; a file without a known entry is no recording, and left. Ids are the
file's folder and name, and the entry's place in it; our own records keep theirs.
"""

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.plugins import resolve
from sanderling.core.record import NodeKind, Question, Trajectory, encode_record
from sanderling.data.conversation import ImportReport
from sanderling.data.layouts import LAYOUTS, REPEATED, Layout, entries_in, layout_of, messages_layout
from sanderling.data.messages import conversation_field, messages_in
from sanderling.data.questions import check_questions
from sanderling.data.tables import JSON_NAMES, PARQUET_NAMES, Unread, open_rows
from sanderling.judge.book import judged_records
from sanderling.runs.files import PACKED, check_places, is_device, or_cannot, replace_file
from sanderling.runs.jsonl import (
    Lines,
    TrajectoryStore,
    check_name,
    is_store,
    is_trajectory_parquet,
    read_parquet,
    write_trajectories,
)
from sanderling.runs.run import DATABASE
from sanderling.tools.recording import is_recording, read_recording, trajectories_of

_GIVE_UP = 1_000  # entries in no known layout at the beginning of a file, after which it is no recording
OnUnread = Callable[[str, Any, str, int], None]
"""Handed the place of an entry that could not be read, its value or text, a code that says why, and how many it stands for."""


class LeftOutWarning(UserWarning):
    """A part of what was given could not be read."""


class Place(NamedTuple):
    """One file of an import."""

    path: Path
    name: str  # what ids begin with: folder and name without the suffix or, where files share that, the path below the source
    label: str  # its path below the source


def _importable(path: Path) -> bool:
    name = path.with_suffix("").name if path.suffix.lower() in PACKED else path.name
    return name.lower().endswith(JSON_NAMES) or path.suffix.lower() in PARQUET_NAMES


def find_places(sources: Sequence[Path]) -> list[Place]:
    """The files of sources: each a file, whatever its name, a run, or a directory, of which every importable file is taken.

    Raises UserError for a source that is not there, and for a pipe.
    """
    found: dict[Path, tuple[Path, str]] = {}
    for source in sources:
        if (source / DATABASE).is_file() and any(True for _ in judged_records(source)):  # a run that has made some
            found.setdefault(source.resolve(), (source, source.name))
        elif source.is_dir():
            for path in sorted(path for path in source.rglob("*") if _importable(path) and path.is_file()):
                found.setdefault(path.resolve(), (path, path.relative_to(source).as_posix()))
        elif is_device(source):
            raise UserError(f"{source} is a device or a pipe, and what is read is read twice: save it to a file first.")
        elif source.exists():
            found.setdefault(source.resolve(), (source, source.name))
        else:
            raise UserError(f"There is no file or directory {source}: check the path.")
    shared, used, places = Counter(_short_name(path) for path, _ in found.values()), Counter[str](), list[Place]()
    for path, label in found.values():
        name = _short_name(path) if shared[_short_name(path)] == 1 else label
        used[name] += 1
        places.append(Place(path, name if used[name] == 1 else f"{name}~{used[name]}", label))
    return places


def _short_name(path: Path) -> str:
    stem = path.name
    for suffix in (*PACKED, *JSON_NAMES, *PARQUET_NAMES):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
    return f"{path.resolve().parent.name}/{stem}"


class Import:
    """The trajectories and questions of some files. Iterating again reads them again.

    Example: ``for found in (reading := Import(folder)): ...``, then ``reading.report``.
    """

    def __init__(
        self, *sources: Path | str, name: str = "", on_unread: OnUnread | None = None, layout: str = "", messages: str = ""
    ) -> None:
        """``name``: what ids begin with, where the one source is a file.

        ``layout``: asked before all others. ``messages``: a field that holds conversations.

        Raises UserError for a source that is not there, and for a directory without a file that could be imported.
        """
        self._sources, self._on_unread = ", ".join(map(str, sources)), on_unread or (lambda *_: None)
        self._field, self._layout = f"messages in {messages}" if messages else "", layout
        self._no_field = f"no entry holds a list of messages in the field {messages!r}, as --messages says"
        first = {self._field: messages_layout(messages)} if messages else {}
        self._layouts = first | ({layout: resolve(layout, LAYOUTS, "layout", Layout)} if layout else {}) | LAYOUTS
        self._places = [Place(place.path, name or place.name, place.label) for place in find_places(list(map(Path, sources)))]
        if not self._places:
            raise UserError(f"{self._sources} holds no recorded file: give .json, .jsonl or .parquet files.")
        self._reset()

    def _reset(self) -> None:
        self.report = ImportReport()
        """What was met so far, of the files that are done: all of it when the iteration has ended."""
        self.layout = ""  # of the last record handed out

    def __iter__(self) -> Iterator[Trajectory | Question]:
        """Raises UserError at the end when nothing at all was in a known layout."""
        self._reset()
        skipped = ImportReport()
        results = {place.path.parent for place in self._places if place.path.name == "result.json"}
        for place in self._places:
            if place.path.name in REPEATED and place.path.parent in results:
                skipped.add("repeats_result", place.label)
                continue
            try:
                yield from self._file(place)
            except UserError as error:
                if len(self._places) == 1:
                    raise
                skipped.add("not_a_recording", place.label, error)
                skipped.left_files.append((place.label, str(error)))
        if self._field and self._field not in self.report.layouts:
            raise UserError(f"{self._sources}: {self._no_field}.")
        if not self.report.files:
            raise UserError(f"{self._sources} holds no recorded trajectory: give files in a layout that docs/data.md lists.")
        self.report.absorb(skipped)

    def _file(self, place: Place) -> Iterator[Trajectory | Question]:
        """One file. Raises UserError when nothing in it is in a known layout; what was counted is then forgotten."""
        notes = ImportReport(files=1)
        index = known = 0
        unread: list[tuple[str, Any, str, int]] = []  # kept until it is known whether the file is a recording
        for row in _rows(place.path):
            for entry in [row] if isinstance(row, Trajectory | Unread) else entries_in(row, self._layouts):
                where, size = f"{place.name}#{index}", entry.entries if isinstance(entry, Unread) else 1
                notes.entries += size
                index += size
                found = entry if isinstance(entry, Unread) else self._entry(entry, where, notes)
                if not isinstance(found, Unread):
                    known += 1
                    yield found
                    continue
                notes.unread += size
                notes.add(found.code, where, found.text or entry, size)
                unread.append((where, found.text if found is entry else entry, found.code, size))
            for one in unread if known else ():
                self._on_unread(*one)
            unread = [] if known else unread
            if not known and index >= _GIVE_UP:
                break
        if not known:
            advice = notes.advice or "give a file in a layout of docs/data.md"
            advice = self._no_field if self._field else advice
            raise UserError(f"{place.path} holds no recorded trajectory or question: {advice}.")
        self.report.absorb(notes)

    def _entry(self, entry: Any, id: str, notes: ImportReport) -> Trajectory | Question | Unread:
        """One entry, with what every record of an import has; or that it is in no known layout."""
        notes.layout, found = "sanderling", entry
        if not isinstance(entry, Trajectory):
            for key in ("messages", "conversations"):  # may be JSON text of a list
                messages = messages_in(entry, key) if isinstance(entry, dict) and isinstance(entry.get(key), str) else None
                if messages is not None:
                    entry = entry | {key: messages}
            notes.layout = layout_of(entry, self._layouts)
            may_be_talk = isinstance(entry, dict) and (not notes.layout or notes.layout == "questions" != self._layout)
            if may_be_talk and (field := conversation_field(entry)):
                return Unread("conversation_unread", f"in {field!r}")
            found = self._layouts[notes.layout].read(entry, id, notes) if notes.layout else None
            if found is None:
                return Unread("odd_entry", "")
        self.layout = notes.layout
        if isinstance(found, Question):
            notes.tally("questions")
            return found
        notes.tally("trajectories")
        if notes.layout != "sanderling":
            return found.model_copy(update={"meta": {"layout": notes.layout, "fields": found.meta}})
        raw = sum(node.kind is NodeKind.RAW for node in found.nodes)
        for what, count in (("messages", len(found.nodes)), ("raw", raw), ("kept", len(found.nodes) - raw)):
            notes.tally(what, count)
        return found


def _rows(path: Path) -> Iterator[Any]:
    if path.is_dir():
        return judged_records(path)
    return read_parquet(path) if is_trajectory_parquet(path) else open_rows(path)


def open_trajectories(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file or a folder, one by one, with flat memory: a run, a store, Parquet, or what can be imported.

    A store's torn last line, and what an import could not read, are left out with a warning. Raises UserError when there are no
    trajectories to be had, and for other damage of a store.
    """
    path = Path(path)
    if path.is_dir():
        return judged_records(path) if (path / DATABASE).is_file() else _imported(path)
    if not path.exists():
        raise UserError(f"There is no file {path}: give a store (.jsonl), a .parquet file, or recorded files.")
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        head = file.read(64)
    if is_trajectory_parquet(path):
        return read_parquet(path)
    is_ours = is_store(head) and (head.strip() or path.suffix == ".jsonl")  # it begins as our records do, or is an empty store
    return iter(TrajectoryStore(path)) if is_ours else _imported(path)


def _imported(path: Path) -> Iterator[Trajectory]:
    reading, trajectories = Import(path), 0
    for found in reading:
        if isinstance(found, Trajectory):
            trajectories += 1
            yield found
    if not trajectories:
        raise UserError(
            f"{path} holds {reading.report.questions} questions and no trajectories: give a file with trajectories."
        )
    warn_of_left_out(path, reading.report)


def warn_of_left_out(path: Path, report: ImportReport) -> None:
    """Warn where a part of what was given could not be read."""
    parts, files = list[str](), len(report.left_files)
    if report.unread:
        parts.append(f"{report.unread:,} {'entry' if report.unread == 1 else 'entries'} that could not be read")
    if files:
        parts.append(f"{files:,} {'file' if files == 1 else 'files'} without a recording in a known layout")
    if parts:
        why = f" ({report.advice})" if report.advice else ""
        message = f"{path}: left out are {' and '.join(parts)}{why}; sanderling data import {path} says which, and why."
        warnings.warn(message, LeftOutWarning, stacklevel=3)


class Written(NamedTuple):
    """What an import wrote."""

    report: ImportReport
    trajectories: int
    report_file: Path
    unread_file: Path | None
    renamed: int  # trajectories whose id an earlier one had


def import_to(
    sources: Sequence[Path],
    out: Path | None,
    questions: Path | None,
    progress: Callable[[int], None] = lambda _: None,
    layout: str = "",
    messages: str = "",
) -> Written:
    """Import ``sources``; trajectories go to ``out`` (.jsonl or .parquet), questions to ``questions`` (.jsonl).

    Every file appears whole or not at all, and the same sources give the same bytes. Beside ``FILE`` stand
    ``FILE.import.json`` (the report) and, if anything could not be read, ``FILE.unread.jsonl``: a line for each entry, with its
    place and why. ``progress`` is told the number of records so far. Raises UserError.
    """
    base = out or questions
    if base is None:
        raise UserError("There is no place to write to: give --out FILE, --questions FILE, or both.")
    if out is not None:
        check_name(out)
    if questions is not None and questions.suffix != ".jsonl":
        raise UserError(f"{questions} is not .jsonl, as files of questions are: end its name so.")
    unread_file, report_file = (base.with_name(base.name + ending) for ending in (".unread.jsonl", ".import.json"))
    check_places(sources, [place for place in (out, questions, unread_file, report_file) if place is not None])
    check_questions(*([questions] if questions else []))
    with ExitStack() as stack:
        unread = stack.enter_context(Lines(unread_file, keep_empty=False))

        def left_out(place: str, value: Any, code: str, entries: int) -> None:
            about = {"place": place, "code": code} | ({"entries": entries} if entries != 1 else {})
            unread.add(encode_record(about | {"value": value}))

        reading = Import(*sources, on_unread=left_out, layout=layout, messages=messages)
        asked = stack.enter_context(Lines(questions)) if questions else None

        ids, renamed = set[str](), 0

        def trajectories() -> Iterator[Trajectory]:
            nonlocal renamed
            for number, found in enumerate(reading, start=1):
                progress(number)
                if isinstance(found, Trajectory):
                    id = next(name for name in _names(found.id) if name not in ids)
                    ids.add(id)
                    renamed += id != found.id
                    yield found if id == found.id else found.model_copy(update={"id": id})
                elif asked is not None:
                    asked.add(encode_record(found))

        count = write_trajectories(out, trajectories()) if out is not None else sum(1 for _ in trajectories())
    left = [{"file": file, "reason": reason} for file, reason in reading.report.left_files]
    about = {"left_files": left, "sources": list(map(str, sources)), "questions": 0} | reading.report.as_json()
    about |= {"renamed": renamed} if renamed else {}
    text = json.dumps(about, ensure_ascii=False, indent=1)
    replace_file(report_file, text.encode("utf-8", "replace") + b"\n")
    return Written(reading.report, count, report_file, unread_file if unread.count else None, renamed)


def _names(id: str) -> Iterator[str]:
    """An id, and what it is called where that is taken."""
    yield id
    yield from (f"{id}~{number}" for number in itertools.count(2))


def read_recorded(place: Path) -> tuple[tuple[Trajectory, ...], ImportReport | None]:
    """Trajectories in any known layout, with a report, or of a recording. Raises UserError without any."""
    if not place.is_file() or not is_recording(place):
        reading = Import(place)
        return tuple(one for one in reading if isinstance(one, Trajectory)), reading.report
    calls = list(read_recording(place))
    if not any(not call.outage for call in calls):
        raise UserError(f"{place} holds no call that returned: record some with sanderling ask --record.")
    return trajectories_of(calls), None
