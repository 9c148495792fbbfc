"""AgentToLeaP's output folders: which attempts they hold, by the names of folders alone.

Three styles: ``TASK/traj_I/``, ``TASK_run_I/`` and ``TASK/``, each with a ``result.json``; the folder of an attempt that was
killed lacks it. ``TASK-context-N/`` without one is a later part of an attempt's context. The harness copies judged attempts to
``success/`` and ``fail/``, the latter also those that its judge failed on: a copy is no attempt of its own, but a verdict.
Whether ``x_run_2`` is the second run of x or a task of that name is told by ``task_id`` in its file, then by the benchmark's
ids and the folder's neighbours. Reads nothing but these ``task_id``s, and compares copies byte by byte.
"""

import filecmp
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.data.layouts import REPEATED
from sanderling.evaluate.peers.contract import Left

RESULT = "result.json"
_HEAD = 1 << 20
_VERDICTS = {"success": True, "fail": False}
_TRAJ = re.compile(r"traj_(\d{1,9})")
_RUN = re.compile(r"(.+)_run_(\d{1,9})")
_PART = re.compile(r".+-context-\d+")
_WORKER = re.compile(r"worker_\d+")


@dataclass(frozen=True)
class Folder:
    """One attempt's folder."""

    path: Path
    root: Path
    """What all tasks of a run stand in."""
    name: str
    """Of the task, perhaps with the number of a run behind it."""
    number: int | None
    published: bool | None = None

    @property
    def result(self) -> Path:
        """Its record, whether it is there or not."""
        return self.path / RESULT


@dataclass(frozen=True)
class Attempt:
    """One attempt: where its record stands, and whose it is."""

    path: Path
    task: str
    number: int
    published: bool | None


@dataclass(frozen=True)
class Tree:
    """All attempts of a run, by task and number."""

    attempts: tuple[Attempt, ...]
    only_right: bool
    """They are copies of right ones, and neither the run nor its wrong ones are there."""


def holds_results(folder: Path) -> bool:
    """Whether a folder looks like AgentToLeaP's: others, too, call their files so."""
    return folder.is_dir() and any(_is_like_a_result(path) for path in folder.rglob(RESULT))


def _is_like_a_result(path: Path) -> bool:
    """Whether its beginning names the history, which stands before anything long; a cut off file does so as well."""
    try:
        with path.open("rb") as file:
            return b'"conversation_history"' in file.read(_HEAD)
    except OSError:
        return False


def attempts_in(sources: Sequence[Path], tasks: Iterable[str], left: Left) -> Tree:
    """All attempts below the folders. ``tasks``: ids that are known to be tasks.

    Raises UserError where the folders are of several runs, or two attempts have one name.
    """
    found = [_placed(path) for path in _folders(sources)]
    left.parts += sum(one is None for one in found)
    folders = [one for one in found if one is not None]
    if not folders:
        raise UserError(f"{', '.join(map(str, sources))} holds no result of AgentToLeaP: give the folder with its tasks.")
    own = [one for one in folders if one.published is None]
    copies = [one for one in folders if one.published is not None]
    _require_one_run(own, copies)
    named = _named([*own, *copies], set(tasks))
    attempts = _numbered(named[: len(own)])
    _take_copies(attempts, named[len(own) :], left)
    in_order = sorted(attempts.values(), key=lambda one: (_natural(one.task), one.number))
    return Tree(tuple(in_order), not own and all(one.published for one in copies))


def _folders(sources: Sequence[Path]) -> Iterator[Path]:
    """Folders with a record, or with what stands beside one, each once."""
    seen: set[Path] = set()
    for source in sources:
        for path in sorted(source.resolve().rglob("*.json")):
            if (path.name == RESULT or path.name in REPEATED) and path.parent not in seen:
                seen.add(path.parent)
                yield path.parent


def _placed(path: Path) -> Folder | None:
    """Whose folder it is; None: a part of a context."""
    traj = _TRAJ.fullmatch(path.name)
    if traj is None and _PART.fullmatch(path.name) and not (path / RESULT).exists():
        return None
    task = path.parent if traj else path
    root = task.parent.parent if _WORKER.fullmatch(task.parent.name) else task.parent
    return Folder(path, root, task.name, int(traj[1]) if traj else None, _VERDICTS.get(root.name))


def _require_one_run(own: Sequence[Folder], copies: Sequence[Folder]) -> None:
    roots = dict.fromkeys(one.root for one in own)
    above = dict.fromkeys(one.root.parent for one in copies)
    for several in (roots, above):
        if len(several) > 1:
            names = ", ".join(sorted(path.name for path in several))
            raise UserError(f"The folders hold the results of several runs ({names}): score each by itself.")


def _named(folders: Sequence[Folder], tasks: set[str]) -> list[Folder]:
    """The same, with the number of a run taken off the names that have one."""
    known = tasks | {one.name for one in folders if one.number is not None}
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for one in folders:
        run = _RUN.fullmatch(one.name) if one.number is None else None
        neighbours[run[1] if run else one.name].add(one.name)
    return [_with_number(one, known, neighbours) for one in folders]


def _with_number(one: Folder, known: set[str], neighbours: dict[str, set[str]]) -> Folder:
    run = _RUN.fullmatch(one.name) if one.number is None else None
    if run is None:
        return one
    taken_off = replace(one, name=run[1], number=int(run[2]))
    if _task_id(one.result) == run[1]:
        return taken_off
    if one.name in known:
        return one
    return taken_off if run[1] in known or len(neighbours[run[1]]) > 1 else one


def _task_id(path: Path) -> str:
    """As the record says it; empty where it does not."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    return str(found.get("task_id", "")) if isinstance(found, dict) else ""


def _numbered(folders: Sequence[Folder]) -> dict[tuple[str, int], Attempt]:
    """By task and number; those without one get the lowest that is free."""
    found: dict[tuple[str, int], Attempt] = {}
    for one in sorted(folders, key=lambda folder: folder.number is None):
        free = next(number for number in range(len(folders) + 1) if (one.name, number) not in found)
        key = (one.name, free if one.number is None else one.number)
        if key in found:
            raise UserError(f"{one.path} and {found[key].path.parent} are both attempt {key[1]} of {one.name!r}: remove one.")
        found[key] = Attempt(one.result, *key, one.published)
    return found


def _take_copies(attempts: dict[tuple[str, int], Attempt], copies: Sequence[Folder], left: Left) -> None:
    """Give attempts the verdict that their copies stand for; a copy whose attempt is gone takes its place."""
    said: defaultdict[tuple[str, int], set[bool]] = defaultdict(set)
    for one in copies:
        key = (one.name, one.number or 0)
        was = attempts.get(key)
        if was is not None and not _same(was.path, one.result):
            raise UserError(f"{was.path} and {one.result} differ and have one name: give the folders of one run.")
        left.copies += was is not None
        said[key].add(bool(one.published))
        attempts.setdefault(key, Attempt(one.result, *key, None))
    for key, verdicts in said.items():
        left.contradictions += len(verdicts) > 1
        attempts[key] = replace(attempts[key], published=verdicts.pop() if len(verdicts) == 1 else None)


def _same(one: Path, other: Path) -> bool:
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return one.exists() == other.exists()


def _natural(task: str) -> tuple[int, str]:
    return (int(task), "") if task.isdecimal() and len(task) < 19 else (10**18, task)
