"""Recorded trajectories and question sets, of other systems and our own, into the record, without losing any.

Memory holds one entry and a piece of its file; two imports of the same files give the same records, ids included. Every entry
becomes a trajectory, a question, or is counted as unread; a file without a known entry is no recording, and left. Ids are the
file's folder and name, and the entry's place in it; our own records keep theirs, with ``~2`` behind one that was met before.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates
from sanderling.core.record import NodeKind, Question, Trajectory, encode_record, encode_trajectory
from sanderling.data.conversation import ImportReport
from sanderling.data.fields import ANSWER_KEYS, QUESTION_KEYS
from sanderling.data.layouts import LAYOUTS, REPEATED, entries_in, layout_named, layout_of
from sanderling.data.messages import messages_in
from sanderling.data.tables import JSON_NAMES, PACKED_NAMES, PARQUET_NAMES, Item, Remark, Rows, Unread, Value, open_rows
from sanderling.runs.files import check_places, replace_file
from sanderling.runs.jsonl import Lines, TrajectoryStore, is_store
from sanderling.runs.parquet import is_trajectory_parquet, read_parquet, write_parquet
from sanderling.runs.run import DATABASE, records

_GIVE_UP = 1_000
"""Entries in no known layout at the beginning of a file, after which it is no recording."""
_TEXTS = frozenset(("messages", "conversations", "meta", "extra_info", "reward_model", *QUESTION_KEYS, *ANSWER_KEYS))
"""Columns of Parquet that are read even where they hold bytes: some writers do not say that theirs are text."""
OnUnread = Callable[[str, Any, str, int], None]
"""Handed the place of every entry that could not be read, its value (or the text), a code that says why, and for how many
entries it stands, in files that hold any that could."""
Progress = Callable[[int, int, int], None]
"""Bytes done, bytes in all, records so far."""


class LeftOutWarning(UserWarning):
    """A part of what was given could not be read."""


@dataclass(frozen=True)
class Place:
    """One file of an import."""

    path: Path
    name: str
    """What the ids in it begin with: its folder and its name without the suffix, wherever the folder lies. Files that would
    share it are named by their whole path below the source; where that is still shared, by a number."""
    label: str
    """How a person finds it: its path below the source."""


@dataclass(frozen=True)
class Places:
    """The files of an import, in the order in which they are read."""

    files: tuple[Place, ...]
    repeated: tuple[str, ...]
    """Files left out because another one beside them holds the same conversation."""


def importable(path: Path) -> bool:
    """Whether a file's name says that it could be imported."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in PACKED_NAMES
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return bool(last) and (last[0] in JSON_NAMES or (last[0] in PARQUET_NAMES and not packed))


def find_places(sources: Sequence[Path]) -> Places:
    """The files of sources: each a file, whatever its name, or a directory, of which every importable file is taken.

    Raises UserError for a source that is not there.
    """
    found: list[tuple[Path, str]] = []
    for source in sources:
        if source.is_dir():
            below = sorted(path for path in source.rglob("*") if importable(path) and path.is_file())
            found += [(path, path.relative_to(source).as_posix()) for path in below]
        elif source.exists():
            found.append((source, source.name))
        else:
            raise UserError(f"There is no file or directory {source}: check the path.")
    results = {path.parent for path, _ in found if path.name == "result.json"}
    repeated = [label for path, label in found if path.name in REPEATED and path.parent in results]
    taken: dict[Path, tuple[Path, str]] = {}
    for path, label in found:
        if not (path.name in REPEATED and path.parent in results):
            taken.setdefault(path.resolve(), (path, label))
    shared = Counter(_short_name(path) for path, _ in taken.values())
    used: Counter[str] = Counter()
    places: list[Place] = []
    for path, label in taken.values():
        # Bytes of a name that are not UTF-8 are U+FFFD in ids, which every format has to hold.
        name = without_surrogates(_short_name(path) if shared[_short_name(path)] == 1 else label)
        used[name] += 1
        places.append(Place(path, name if used[name] == 1 else f"{name}~{used[name]}", without_surrogates(label)))
    return Places(tuple(places), tuple(repeated))


def _short_name(path: Path) -> str:
    stem = path.name
    for suffix in (*PACKED_NAMES, *JSON_NAMES, *PARQUET_NAMES):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
    return f"{path.resolve().parent.name}/{stem}"


class Import:
    """The trajectories and questions of some files. Iterating again reads them again.

    Example: ``for found in (reading := Import(folder)): ...``, then ``reading.report``.
    """

    def __init__(self, *sources: Path | str, name: str = "", on_unread: OnUnread | None = None, layout: str = "") -> None:
        """Raises UserError for a source that is not there, and for a directory without a file that could be imported.

        ``name``: what ids begin with, where the one source is a file. ``layout``: the layout that is asked before all others,
        by its name or as ``file.py:name``.
        """
        self._sources = ", ".join(map(str, sources))
        self._on_unread: OnUnread = on_unread or (lambda *_: None)
        self._layouts = ({layout: layout_named(layout)} if layout else {}) | LAYOUTS
        places = find_places([Path(source) for source in sources])
        self._repeated = places.repeated
        self._places = [replace(place, name=name) if name else place for place in places.files]
        if not self._places:
            raise UserError(f"{self._sources} holds no recorded file: give .json, .jsonl or .parquet files.")
        self._names = {place.name for place in self._places}
        self.bytes_total = sum(place.path.stat().st_size for place in self._places)
        self._reset()

    def _reset(self) -> None:
        self.report = ImportReport()
        """What was met so far, of the files that are done: all of it when the iteration has ended."""
        self.left_files: list[tuple[str, str]] = []
        """Files that are no recordings, so far, and why each of them is none."""
        self._own_ids: set[str] = set()
        self._bytes_before = self._size = 0
        self._open: Rows | None = None
        self.layout = ""
        """The layout of the last record handed out."""

    @property
    def bytes_done(self) -> int:
        return self._bytes_before + (self._size * self._open.done // max(1, self._open.total) if self._open else 0)

    def __iter__(self) -> Iterator[Trajectory | Question]:
        """Raises UserError at the end when nothing at all was in a known layout."""
        self._reset()
        skipped = ImportReport()
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
        if not self.report.files:
            if told is not None and len(self._places) == 1:
                raise told
            raise UserError(
                f"{self._sources} holds no recorded trajectory: give files in a layout that docs/data-import.md lists."
            )
        self.report.absorb(skipped)

    def _file(self, place: Place) -> Iterator[Trajectory | Question]:
        """One file. Raises UserError when nothing in it is in a known layout; what was counted is then forgotten."""
        notes = ImportReport(files=1)
        index = known = 0
        held: list[tuple[str, Any, str, int]] = []  # unread entries, while nobody knows whether the file is a recording

        def leave(value: Any, code: str, entries: int = 1) -> None:
            notes.unread += entries
            notes.add(code, f"{place.name}#{index}", value, entries)
            held.append((f"{place.name}#{index}", value, code, entries))
            if known:
                self._on_unread(*held.pop())

        for item in self._items(place.path):
            if isinstance(item, Remark):
                notes.add(item.code, place.name, item.text, item.count)
                continue
            if isinstance(item, Unread):
                notes.entries += item.entries
                leave(item.text, item.code, item.entries)
                index += item.entries
                continue
            for entry in [item.value] if isinstance(item.value, Trajectory) else entries_in(item.value, self._layouts):
                found = self._entry(entry, f"{place.name}#{index}", notes)
                if found is None:
                    leave(entry, "odd_entry")
                index += 1
                if found is not None:
                    known += 1
                    for one in held:
                        self._on_unread(*one)
                    held.clear()
                    yield found
            if not known and index >= _GIVE_UP:
                break
        if not known:
            raise UserError(
                f"{place.path} holds no recorded trajectory or question: give a file in a layout of docs/data-import.md."
            )
        self.report.absorb(notes)

    def _items(self, path: Path) -> Iterator[Item]:
        """The file's values. What cannot be read of our own Parquet ends it, and counts with all that follows."""
        self._open = open_rows(path, texts=_TEXTS)
        if not is_trajectory_parquet(path):
            yield from self._open
            return
        try:
            for trajectory in read_parquet(path):
                self._open.done += 1
                yield Value(trajectory)
        except UserError as error:
            yield Unread("damaged_file", str(error), max(1, self._open.total - self._open.done))

    def _entry(self, entry: Any, id: str, notes: ImportReport) -> Trajectory | Question | None:
        """One entry, with what every record of an import has; None when it is in no known layout."""
        notes.entries += 1
        notes.layout, found = "sanderling", entry
        if not isinstance(entry, Trajectory):
            for key in ("messages", "conversations"):  # JSON text of a list, or columns
                if isinstance(entry, dict) and isinstance(entry.get(key), (str, dict)):
                    messages = messages_in(entry, key)
                    entry = entry if messages is None else entry | {key: messages}
            notes.layout = layout_of(entry, self._layouts)
            found = self._layouts[notes.layout].read(entry, id, notes) if notes.layout else None
            if found is None:
                return None
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
        own, number = found.id, 1
        while own in self._own_ids or (own.rpartition("#")[0] in self._names and own.rpartition("#")[2].isdigit()):
            number += 1  # it was met, or another file of this import may give it to one of its entries
            own = f"{found.id}~{number}"
        self._own_ids.add(own)
        if own != found.id:
            notes.add("duplicate_id", found.id)
            found = found.model_copy(update={"id": own})
        return found


class ImportResult(NamedTuple):
    """What a file or tree held."""

    trajectories: tuple[Trajectory, ...]
    questions: tuple[Question, ...]
    """From files that hold questions only."""
    report: ImportReport


def import_all(*sources: Path | str, name: str = "") -> ImportResult:
    """Everything in some files and folders, in memory. Raises UserError when nothing in them is in a known layout."""
    found = list(reading := Import(*sources, name=name))
    trajectories = tuple(one for one in found if isinstance(one, Trajectory))
    return ImportResult(trajectories, tuple(one for one in found if isinstance(one, Question)), reading.report)


def open_trajectories(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file or a folder, one by one, with flat memory: a run, a store, Parquet, or what can be imported.

    A store's torn last line, and what an import could not read, are left out with a warning. Raises UserError when there are no
    trajectories to be had, and for other damage of a store.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"There is no file {path}: give a store (.jsonl), a .parquet file, or recorded files.")
    if not path.is_file():
        return records(path) if (path / DATABASE).is_file() else _imported(path)
    if is_trajectory_parquet(path):
        return read_parquet(path)
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    is_ours = is_store(head) and (head.strip() or path.suffix == ".jsonl")  # it begins as our records do, or is an empty store
    return iter(TrajectoryStore(path)) if is_ours else _imported(path)


def _imported(path: Path) -> Iterator[Trajectory]:
    reading, trajectories = Import(path), 0
    for found in reading:
        if isinstance(found, Trajectory):
            trajectories += 1
            yield found
    if not trajectories:
        told = f"{path} holds {reading.report.questions} questions and no trajectories"
        raise UserError(f"{told}: give a file with trajectories.")
    warn_of_left_out(path, reading.report)


def warn_of_left_out(path: Path, report: ImportReport) -> None:
    """Warn where a part of what was given could not be read."""
    files = report.odd["not_a_recording"]
    entries = f"{report.unread:,} {'entry' if report.unread == 1 else 'entries'} that could not be read"
    others = f"{files:,} {'file' if files == 1 else 'files'} without a recording in a known layout"
    parts = ([entries] if report.unread else []) + ([others] if files else [])
    if parts:
        warnings.warn(
            f"{path}: left out are {' and '.join(parts)}; sanderling data import {path} says which, and why.",
            LeftOutWarning,
            stacklevel=3,
        )


class Written(NamedTuple):
    """What an import wrote."""

    report: ImportReport
    trajectories: int
    """Lines of them: all that were met, but for those that no line can hold."""
    report_file: Path
    unread_file: Path | None
    left_files: list[tuple[str, str]]
    """Files in no known layout, and what was said of each."""


def import_to(
    sources: Sequence[Path], out: Path | None, questions: Path | None, progress: Progress, layout: str = ""
) -> Written:
    """Import ``sources``; trajectories go to ``out`` (.jsonl or .parquet), questions to ``questions`` (.jsonl).

    Every file appears whole or not at all, and the same sources give the same bytes. There is no state to resume from: an
    import runs at the speed of its files, so one that was killed starts over. Beside ``FILE`` stand ``FILE.import.json`` (the
    report) and, if anything could not be read, ``FILE.unread.jsonl``: a line for each entry, with its place and why. Raises
    UserError for a source that is not there or holds nothing known, and for an output that cannot be written.
    """
    base = out or questions
    if base is None:
        raise UserError("There is no place to write to: give --out FILE, --questions FILE, or both.")
    if out is not None and out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{out} is neither .jsonl nor .parquet: end its name in one of these.")
    if questions is not None and questions.suffix != ".jsonl":
        raise UserError(f"{questions} is not .jsonl, as files of questions are: end its name so.")
    unread_file, report_file = (base.with_name(base.name + ending) for ending in (".unread.jsonl", ".import.json"))
    check_places(sources, [place for place in (out, questions, unread_file, report_file) if place is not None])
    with ExitStack() as stack:
        unread = stack.enter_context(Lines(unread_file, keep_empty=False))

        def left_out(place: str, value: Any, code: str, entries: int = 1) -> None:
            told = {"place": place, "code": code} | ({"entries": entries} if entries != 1 else {})
            try:
                unread.add(encode_record(told | {"value": value}))
            except UserError:
                unread.add(encode_record(told | {"value": ascii(value)[:10_000]}))

        reading = Import(*sources, on_unread=left_out, layout=layout)
        asked = stack.enter_context(Lines(questions)) if questions else None
        stream = _writable(reading, asked, progress, left_out)
        if out is not None and out.suffix == ".parquet":
            count = write_parquet(out, (found for found, _ in stream))
        else:
            lines = stack.enter_context(Lines(out)) if out else None
            count = 0
            for _, line in stream:
                count += 1
                if lines is not None:
                    lines.add(line)
    told = {
        "left_files": [{"file": file, "reason": reason} for file, reason in reading.left_files],
        "sources": [str(source) for source in sources],
        "out": None if out is None else out.name,
        "questions": None if questions is None else questions.name,
    }
    report = reading.report
    text = json.dumps(told | report.as_json(), ensure_ascii=False, indent=1)
    replace_file(report_file, text.encode("utf-8", "replace") + b"\n")
    return Written(report, count, report_file, unread_file if unread.count else None, reading.left_files)


def _writable(
    reading: Import, asked: Lines | None, progress: Progress, left_out: Callable[[str, Any, str], None]
) -> Iterator[tuple[Trajectory, bytes]]:
    """The trajectories that can be written, with their lines; questions go their own way."""
    unwritable = ImportReport()  # the stream's own report begins anew with it
    for number, found in enumerate(reading, start=1):
        progress(reading.bytes_done, reading.bytes_total, number)
        try:
            if isinstance(found, Trajectory):
                yield found, encode_trajectory(found)
            elif asked is not None:
                asked.add(encode_record(found))
        except UserError as error:
            unwritable.add("unwritable", found.id, error)
            left_out(found.id, str(error), "unwritable")
    progress(reading.bytes_total, reading.bytes_total, 0)
    reading.report.absorb(unwritable)
