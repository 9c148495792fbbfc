"""Others' records from where they lie, read by `data`'s importer: files of any layout, and AgentToLeaP's folders of results.

Files may be in any layout that can be imported; what a layout says beside its messages (a verdict of those who made the record,
the benchmark it names, whether such files are published because they are right) is read here.

AgentToLeaP writes folders in three styles: ``TASK/traj_I/``, ``TASK_run_I/`` and ``TASK/``, each with a ``result.json``; the
folder of an attempt that was killed lacks it. ``TASK-context-N/`` without one is a later part of an attempt's context. The
harness copies judged attempts to ``success/`` and ``fail/``, the latter also those that its judge failed on: a copy is no
attempt of its own, but a verdict. Whether ``x_run_2`` is the second run of x or a task of that name follows from ``task_id`` in
its file, then by the benchmark's ids and the folder's neighbours. Memory holds one record.
"""

import filecmp
import json
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.core.record import Trajectory
from sanderling.core.types import Ending
from sanderling.data.importing import Import, find_places
from sanderling.data.layouts import REPEATED, layout_named
from sanderling.evaluate.peers.records import Found, Lost


class Records(ABC):
    """Others' records, one after the other. Iterating again reads them again, in the same order."""

    def __init__(self, sources: Sequence[Path]) -> None:
        self.sources = list(sources)
        self.left: Counter[str] = Counter()
        """What the last reading left out: ``unread`` entries, ``files`` without a recording, ``copies`` of attempts, ``parts``
        of contexts, ``contradictions`` (published as right and as wrong), ``unsure`` verdicts that may be another attempt's."""

    @property
    @abstractmethod
    def files(self) -> list[Path]:
        """All that is read, in order."""

    @abstractmethod
    def __iter__(self) -> Iterator[Found | Lost]:
        """Raises UserError when nothing at all can be read."""


def open_records(sources: Sequence[Path], layout: str = "", tasks: Iterable[str] = ()) -> Records:
    """Records of files, or of AgentToLeaP's folders. Raises UserError for both at once, and for sources that are not there."""
    if layout:
        layout_named(layout)
    missing = next((source for source in sources if not source.exists()), None)
    if missing is not None:
        raise UserError(f"There is no file or folder {missing}: check the path.")
    leaps = [_holds_results(source) for source in sources] if layout in ("", "agenttoleap") else [False]
    if all(leaps):
        return LeapFolders(sources, tasks)
    if any(leaps):
        raise UserError("Folders of AgentToLeaP's results and other files cannot be scored together: score each by itself.")
    return RecordedFiles(sources, layout)


# Files ----------------------------------------------------------------------------------------------------------------------

_TRAINING = "these are published as training data, which is chosen for being right"
_CASE_VERDICTS = {"CORRECT": True, "INCORRECT": False}


class RecordedFiles(Records):
    """The trajectories of files and folders in any layout."""

    def __init__(self, sources: Sequence[Path], layout: str = "") -> None:
        """``layout``: records of another one are left out. Raises UserError for a source that is not there."""
        super().__init__(sources)
        self._layout = layout
        self._places = find_places(self.sources).files

    @property
    def files(self) -> list[Path]:
        return [place.path for place in self._places]

    def __iter__(self) -> Iterator[Found | Lost]:
        reading = Import(*self.sources, layout=self._layout if is_outside(self._layout) else "")
        any_read = False
        for one in reading:
            if isinstance(one, Trajectory) and self._layout in ("", reading.layout):
                any_read = True
                yield _found(one, reading.layout)
        self.left = Counter(unread=reading.report.unread, files=len(reading.left_files))
        if not any_read:
            held = f"no trajectory in the layout {self._layout}" if self._layout else "questions and no trajectory"
            raise UserError(f"{', '.join(map(str, self.sources))} holds {held}: give a file with trajectories.")


def _found(one: Trajectory, layout: str) -> Found:
    inner = one.meta.get("fields")
    fields: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    named = fields.get("benchmark")
    right_dialogue = layout == "agenttoleap" and "query" not in fields and "success" not in fields
    published, chosen = (True, "AgentToLeaP's file of dialogues holds right ones alone") if right_dialogue else (None, "")
    if layout == "literesearcher-cases":
        verdict, correct = fields.get("judge_verdict"), fields.get("judge_correct")
        published = _CASE_VERDICTS.get(verdict.strip().upper()) if isinstance(verdict, str) else None
        published = correct if published is None and isinstance(correct, bool) else published
        chosen = "LiteResearcher's cases are picked by hand among right answers"
    elif layout in ("webdancer-chatml", "redsearcher-sft", "dr-venus-sft"):
        is_a_run = layout == "dr-venus-sft" and (one.ending is not None or "prediction" in fields)
        chosen = "" if is_a_run else _TRAINING
    return Found(
        one,
        layout,
        # Ours say which attempt they are; one that was tried again is there twice, and refused.
        number=one.seeds.attempt if layout == "sanderling" else None,
        published=published,
        named_set=named if isinstance(named, str) else "",
        chosen=chosen,
        chosen_if_right=layout == "literesearcher-cases",
    )


# AgentToLeaP's folders ------------------------------------------------------------------------------------------------------

FAILED = "the run failed; its record does not say whether the model, a tool or the harness did"
_RESULT = "result.json"
_HEAD = 1 << 20
_VERDICTS = {"success": True, "fail": False}
_TRAJ = re.compile(r"traj_(\d{1,9})")
_RUN = re.compile(r"(.+)_run_(\d{1,9})")
_PART = re.compile(r".+-context-\d+")
_WORKER = re.compile(r"worker_\d+")


@dataclass(frozen=True)
class _Attempt:
    """One attempt's folder, or a copy of it."""

    folder: Path
    root: Path
    """What all tasks of a run stand in."""
    task: str
    """At first perhaps with the number of a run behind it."""
    number: int | None
    published: bool | None = None

    @property
    def result(self) -> Path:
        """Its record, whether it is there or not."""
        return self.folder / _RESULT


class LeapFolders(Records):
    """The attempts in folders of one run, task by task.

    A run that failed (``success`` is false) is an outage: its file does not say whose, so it is unscored. An attempt that has
    no whole record was begun and not ended. Where an attempt before it left no readable record, the harness, which numbers what
    it could read, gives verdicts to the wrong attempts: such verdicts are left out.
    """

    def __init__(self, sources: Sequence[Path], tasks: Iterable[str] = ()) -> None:
        """``tasks``: ids that are known to be tasks. Raises UserError where the folders are of several runs."""
        super().__init__(sources)
        self._found: Counter[str] = Counter()
        self._attempts, only_right = self._find(set(tasks))
        self._chosen = "the folders hold copies of right attempts alone" if only_right else ""

    @property
    def files(self) -> list[Path]:
        return [one.result for one in self._attempts if one.result.exists()]

    def __iter__(self) -> Iterator[Found | Lost]:
        self.left = self._found.copy()
        any_read = False
        for _, attempts in groupby(self._attempts, key=lambda one: one.task):
            in_order = True
            for place, one in enumerate(attempts):
                found, number = _read(one), one.number or 0
                in_order = in_order and number == place and isinstance(found, Trajectory)
                if isinstance(found, Trajectory):
                    any_read = True
                    self.left["unsure"] += one.published is not None and not in_order
                    published = one.published if in_order else None
                    yield Found(found, "agenttoleap", one.task, number, published, chosen=self._chosen)
                else:
                    yield Lost(one.task, number, found)
        if not any_read:
            raise UserError(f"None of the {len(self._attempts):,} results of AgentToLeaP can be read: check the folder.")

    def _find(self, tasks: set[str]) -> tuple[list[_Attempt], bool]:
        """All attempts, and whether only copies of right ones are there."""
        beside = {_RESULT, *REPEATED}
        paths = (path for source in self.sources for path in sorted(source.resolve().rglob("*.json")) if path.name in beside)
        placed = [_placed(folder) for folder in dict.fromkeys(path.parent for path in paths)]
        self._found["parts"] = placed.count(None)
        folders = [one for one in placed if one is not None]
        if not folders:
            places = ", ".join(map(str, self.sources))
            raise UserError(f"{places} holds no result of AgentToLeaP: give the folder with its tasks.")
        for is_copy, above in ((False, lambda one: one.root), (True, lambda one: one.root.parent)):
            several = {above(one) for one in folders if (one.published is not None) is is_copy}
            if len(several) > 1:
                names = ", ".join(sorted(path.name for path in several))
                raise UserError(f"The folders hold the results of several runs ({names}): score each by itself.")
        named = _without_run_numbers(folders, tasks)
        own, copies = [one for one in named if one.published is None], [one for one in named if one.published is not None]
        attempts = _numbered(own)
        self._take_copies(attempts, copies)
        in_order = sorted(attempts.values(), key=lambda one: (_natural(one.task), one.number or 0))
        return in_order, not own and all(one.published for one in copies)

    def _take_copies(self, attempts: dict[tuple[str, int], _Attempt], copies: Sequence[_Attempt]) -> None:
        """Give attempts the verdict that their copies stand for; a copy whose attempt is gone takes its place."""
        verdicts: defaultdict[tuple[str, int], set[bool]] = defaultdict(set)
        for one in copies:
            key = (one.task, one.number or 0)
            was = attempts.setdefault(key, replace(one, number=key[1], published=None))
            self._found["copies"] += was.folder != one.folder
            if not _same(was.result, one.result):
                raise UserError(f"{was.result} and {one.result} differ and have one name: give the folders of one run.")
            verdicts[key].add(bool(one.published))
        for key, found in verdicts.items():
            self._found["contradictions"] += len(found) > 1
            attempts[key] = replace(attempts[key], published=found.pop() if len(found) == 1 else None)


def _holds_results(folder: Path) -> bool:
    """Whether a folder looks like AgentToLeaP's.

    Others, too, call their files so: here the beginning names the history, even of a file that is cut off.
    """

    def is_like_a_result(path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return b'"conversation_history"' in file.read(_HEAD)
        except OSError:
            return False

    return folder.is_dir() and any(is_like_a_result(path) for path in folder.rglob(_RESULT))


def _placed(folder: Path) -> _Attempt | None:
    """Whose folder it is; None: a part of a context."""
    traj = _TRAJ.fullmatch(folder.name)
    if traj is None and _PART.fullmatch(folder.name) and not (folder / _RESULT).exists():
        return None
    task = folder.parent if traj else folder
    root = task.parent.parent if _WORKER.fullmatch(task.parent.name) else task.parent
    return _Attempt(folder, root, task.name, int(traj[1]) if traj else None, _VERDICTS.get(root.name))


def _without_run_numbers(folders: Sequence[_Attempt], tasks: set[str]) -> list[_Attempt]:
    """The same, with the number of a run taken off the names that have one."""
    known = tasks | {one.task for one in folders if one.number is not None}
    runs = [_RUN.fullmatch(one.task) if one.number is None else None for one in folders]
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for one, run in zip(folders, runs, strict=True):
        neighbours[run[1] if run else one.task].add(one.task)
    found = []
    for one, run in zip(folders, runs, strict=True):
        is_run = run is not None and (
            _field(one.result, "task_id") == run[1]
            or (one.task not in known and (run[1] in known or len(neighbours[run[1]]) > 1))
        )
        found.append(replace(one, task=run[1], number=int(run[2])) if run is not None and is_run else one)
    return found


def _numbered(folders: Sequence[_Attempt]) -> dict[tuple[str, int], _Attempt]:
    """By task and number; those without one get the lowest that is free."""
    found: dict[tuple[str, int], _Attempt] = {}
    for one in sorted(folders, key=lambda folder: folder.number is None):
        free = next(number for number in range(len(folders) + 1) if (one.task, number) not in found)
        key = (one.task, free if one.number is None else one.number)
        if key in found:
            raise UserError(f"{one.folder} and {found[key].folder} are both attempt {key[1]} of {one.task!r}: remove one.")
        found[key] = replace(one, number=key[1])
    return found


def _read(one: _Attempt) -> Trajectory | str:
    """The record of an attempt, or why there is none."""
    if not one.result.exists():
        return "begun, and not ended"
    try:
        reading = Import(one.result, name=f"{one.task}/{one.number}")
        records = [each for each in reading if isinstance(each, Trajectory) and each.meta.get("layout") == "agenttoleap"]
    except UserError:
        records = []
    if len(records) != 1:
        return "its record is cut off, or none"
    model = _field(one.folder / "meta_config.json", "model")
    changes: dict[str, Any] = {"model": model if isinstance(model, str) else ""}
    fields = records[0].meta.get("fields")
    if isinstance(fields, dict) and fields.get("success") is False:
        changes |= {"ending": Ending.POLICY_OUTAGE, "detail": FAILED}
    return records[0].model_copy(update=changes)


def _field(path: Path, name: str) -> Any:
    """A field of a JSON file; None where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found.get(name) if isinstance(found, dict) else None


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return one.exists() == other.exists()


def _natural(task: str) -> tuple[int, str]:
    return (int(task), "") if task.isdecimal() and len(task) < 19 else (10**18, task)
