"""Others' records from where they lie, read by `data`'s importer: files of any layout, and AgentToLeaP's folders of results.

AgentToLeaP writes an attempt into ``TASK/traj_I/``, ``TASK_run_I/`` or ``TASK/``, each with a ``result.json``, which the folder
of an attempt that was killed lacks. ``TASK-context-N/`` without one is a later part of an attempt's context. The harness copies
judged attempts to ``success/`` and ``fail/``: a copy is no attempt of its own, but a verdict. Memory holds one record.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside
from sanderling.core.record import Question, Trajectory
from sanderling.core.types import Ending
from sanderling.data.importing import Import, find_places
from sanderling.data.layouts import REPEATED, layout_named
from sanderling.evaluate.peers.records import Found


@dataclass
class Records:
    """Others' records, one after the other. Iterating again reads them again, in the same order."""

    files: list[Path]
    read: Callable[[], Iterator[Found]]
    unread: int = 0  # entries and files, of the last reading

    def __iter__(self) -> Iterator[Found]:
        return self.read()


def open_records(sources: Sequence[Path], layout: str = "", tasks: Iterable[str] = ()) -> Records:
    """Records of files, or of AgentToLeaP's folders, whose ``tasks`` are known.

    Raises UserError for both at once, for sources that are not there, and where nothing can be read.
    """
    if layout:
        layout_named(layout)
    missing = next((source for source in sources if not source.exists()), None)
    if missing is not None:
        raise UserError(f"There is no file or folder {missing}: check the path.")
    leaps = [_holds_results(source) for source in sources] if layout in ("", "agenttoleap") else [False]
    if all(leaps):
        return _leap_folders(sources, set(tasks))
    if any(leaps):
        raise UserError("Folders of AgentToLeaP's results and other files cannot be scored together: score each by itself.")
    return _recorded_files(sources, layout)


# Files ----------------------------------------------------------------------------------------------------------------------


def _recorded_files(sources: Sequence[Path], layout: str) -> Records:
    """The trajectories of files and folders; with ``layout`` those of another one are left out."""

    def read() -> Iterator[Found]:
        reading = Import(*sources, layout=layout if is_outside(layout) else "")
        any_read = False
        for one in reading:
            if isinstance(one, Trajectory) and layout in ("", reading.layout):
                any_read = True
                yield _found(one, reading.layout)
        records.unread = reading.report.unread + len(reading.left_files)
        if not any_read:
            held = f"no trajectory in the layout {layout}" if layout else "questions and no trajectory"
            raise UserError(f"{', '.join(map(str, sources))} holds {held}: give a file with trajectories.")

    records = Records([place.path for place in find_places(sources).files], read)
    return records


def _found(one: Trajectory, layout: str) -> Found:
    """With the verdict that LiteResearcher's cases have, and our own records' attempt."""
    if layout == "sanderling":
        return Found(one, layout, number=one.seeds.attempt)
    fields = one.meta.get("fields")
    verdict = str(fields.get("judge_verdict")).strip().upper() if isinstance(fields, dict) else ""
    published = {"CORRECT": True, "INCORRECT": False}.get(verdict) if layout == "literesearcher-cases" else None
    return Found(one, layout, published=published)


# AgentToLeaP's folders ------------------------------------------------------------------------------------------------------

FAILED = "the run failed; its record does not say whether the model, a tool or the harness did"
_RESULT = "result.json"
_VERDICTS = {"success": True, "fail": False}


class _Attempt(NamedTuple):
    """One attempt's folder, or a copy of it."""

    task: str
    number: int
    folder: Path
    root: Path  # what all tasks of a run stand in

    @property
    def result(self) -> Path:
        """Its record, whether it is there or not."""
        return self.folder / _RESULT

    @property
    def verdict(self) -> bool | None:
        """What it stands for as a copy; None: it is none."""
        return _VERDICTS.get(self.root.name)


def _leap_folders(sources: Sequence[Path], tasks: set[str]) -> Records:
    """The attempts of one run, task by task.

    A run that failed (``success`` is false) is an outage: its file does not say whose. The harness numbers what it could read,
    so where an attempt left no readable record, verdicts of those behind it may be another's, and are left out.
    """
    beside = {_RESULT, *REPEATED}
    paths = (path for source in sources for path in sorted(source.resolve().rglob("*.json")) if path.name in beside)
    folders = list(dict.fromkeys(path.parent for path in paths))
    whole = [folder for folder in folders if (folder / _RESULT).exists() or not re.fullmatch(r".+-context-\d+", folder.name)]
    tasks = tasks | {folder.parent.name for folder in whole if folder.name.startswith("traj_")}
    placed = [_placed(folder, tasks) for folder in whole]
    for of in (
        [one.root for one in placed if one.verdict is None],
        [one.root.parent for one in placed if one.verdict is not None],
    ):
        if len(set(of)) > 1:
            names = ", ".join(sorted({path.name for path in of}))
            raise UserError(f"The folders hold the results of several runs ({names}): score each by itself.")
    attempts, verdicts = _with_verdicts(placed)

    def read() -> Iterator[Found]:
        any_read = False
        for task, group in groupby(attempts, key=lambda one: one.task):
            in_order = True
            for at, one in enumerate(group):
                found = _read(one)
                in_order = in_order and one.number == at and isinstance(found, Trajectory)
                any_read = any_read or isinstance(found, Trajectory)
                if isinstance(found, str):
                    asked = Question(id=task, text="")
                    found = Trajectory(id="", question=asked, nodes=(), leaf=None, ending=Ending.CANCELLED, detail=found)
                published = verdicts.get((task, one.number)) if in_order else None
                yield Found(found, "agenttoleap", task, one.number, published)
        if not any_read:
            raise UserError(f"None of the {len(attempts):,} results of AgentToLeaP can be read: check the folder.")

    return Records([one.result for one in attempts if one.result.exists()], read)


def _with_verdicts(placed: Sequence[_Attempt]) -> tuple[list[_Attempt], dict[tuple[str, int], bool | None]]:
    """The attempts in order, and what copies say of them: nothing where one is in both folders.

    A copy whose attempt is gone takes its place.
    """
    attempts: dict[tuple[str, int], _Attempt] = {}
    verdicts: dict[tuple[str, int], bool | None] = {}
    for one in sorted(placed, key=lambda one: one.verdict is not None):
        key = one.task, one.number
        held = attempts.setdefault(key, one)
        if held is not one and one.verdict is None:
            raise UserError(f"{one.folder} and {held.folder} are both attempt {one.number} of {one.task!r}: remove one.")
        if one.verdict is None:
            continue
        verdicts[key] = one.verdict if verdicts.get(key, one.verdict) is one.verdict else None
    return sorted(attempts.values()), verdicts


def _holds_results(folder: Path) -> bool:
    """Whether a folder looks like AgentToLeaP's: others, too, call their files so, but here the beginning names the history."""

    def is_like_a_result(path: Path) -> bool:
        with path.open("rb") as file:
            return b'"conversation_history"' in file.read(1 << 20)

    return folder.is_dir() and any(map(is_like_a_result, folder.rglob(_RESULT)))


def _placed(folder: Path, tasks: set[str]) -> _Attempt:
    """Whose folder it is. ``x_run_2`` is a run of x where its record says so or x is a known task, else a task of that name."""
    if traj := re.fullmatch(r"traj_(\d+)", folder.name):
        return _Attempt(folder.parent.name, int(traj[1]), folder, folder.parent.parent)
    run = re.fullmatch(r"(.+)_run_(\d+)", folder.name)
    known = run is not None and run[1] in tasks and folder.name not in tasks
    if run is not None and (known or _field(folder / _RESULT, "task_id") == run[1]):
        return _Attempt(run[1], int(run[2]), folder, folder.parent)
    return _Attempt(folder.name, 0, folder, folder.parent)


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
    model, fields = _field(one.folder / "meta_config.json", "model"), records[0].meta.get("fields")
    changes: dict[str, Any] = {"model": model if isinstance(model, str) else ""}
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
