"""Importing a file or a tree of files: picks the importer by layout, gives ids, counts."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.errors import UserError
from sanderling.trajectory.importers import drvenus, literesearcher, webdancer
from sanderling.trajectory.importers.layouts import Layout, read_entries
from sanderling.trajectory.importers.report import ImportReport, Notes, merge_reports
from sanderling.trajectory.record import NodeKind, Question, Trajectory

_SUFFIXES = (".json", ".jsonl")
_READERS = {
    Layout.DR_VENUS_SFT: drvenus.read_trajectory,
    Layout.DR_VENUS_RL: drvenus.read_trajectory,
    Layout.LITERESEARCHER_CASES: literesearcher.read_trajectory,
    Layout.WEBDANCER_CHATML: webdancer.read_trajectory,
}


@dataclass(frozen=True)
class ImportResult:
    """What a file or tree held."""

    trajectories: tuple[Trajectory, ...]
    questions: tuple[Question, ...]
    """From files that hold questions only."""
    report: ImportReport


def import_file(path: Path | str, *, name: str | None = None) -> ImportResult:
    """The trajectories of one file. ``name``: what ids begin with; its folder and name when None.

    Raises UserError when the file cannot be read or is in none of the layouts.
    """
    path = Path(path)
    read = read_entries(path)
    name = name or f"{path.resolve().parent.name}/{path.stem}"
    notes = Notes()
    for index, line in read.unreadable:
        notes.add("unreadable_line", f"{name}#{index}", line)
    entries = read.entries
    if read.layout is Layout.LITERESEARCHER_CASES:
        entries = tuple(enumerate(_cases(read.entries, name, notes)))
    if read.layout is Layout.QUESTIONS:
        return _questions(entries, name, notes)
    found = [_trajectory(read.layout, entry, f"{name}#{index}", notes) for index, entry in entries]
    messages = sum(len(_messages(read.layout, entry) or ()) for _, entry in entries)
    return _result([trajectory for trajectory in found if trajectory], [], messages, notes)


def import_tree(directory: Path | str) -> ImportResult:
    """Every ``.json`` and ``.jsonl`` file below a directory, in the order of their paths.

    A file in none of the layouts is counted as ``not_a_recording``. Raises UserError when the directory does not exist or holds
    no recording at all.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UserError(f"There is no directory {directory}: give the directory of the recorded trajectories.")
    paths = sorted(path for path in directory.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    short = Counter(f"{path.resolve().parent.name}/{path.stem}" for path in paths)
    results, skipped = [], Notes()
    for path in paths:
        label = path.relative_to(directory)
        alone = short[f"{path.resolve().parent.name}/{path.stem}"] == 1
        try:
            results.append(import_file(path, name=None if alone else label.as_posix()))
        except UserError as error:
            skipped.add("not_a_recording", label.as_posix(), error)
    if not results:
        raise UserError(f"{directory} holds no recorded trajectory: give a directory with files in a known layout.")
    report = merge_reports([*(result.report for result in results), ImportReport(odd=skipped.oddities())])
    trajectories = tuple(trajectory for result in results for trajectory in result.trajectories)
    return ImportResult(trajectories, tuple(question for result in results for question in result.questions), report)


def _cases(entries: tuple[tuple[int, Any], ...], name: str, notes: Notes) -> list[Any]:
    cases: list[Any] = []
    for index, entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("cases"), list):
            cases += entry["cases"]
        else:
            notes.add("odd_entry", f"{name}#{index}", entry)
    return cases


def _messages(layout: Layout, entry: Any) -> list[Any] | None:
    """An entry's messages as the file has them, or None when it has none."""
    found = entry.get("steps" if layout is Layout.LITERESEARCHER_CASES else "messages") if isinstance(entry, dict) else None
    return found if isinstance(found, list) else None


def _trajectory(layout: Layout, entry: Any, id: str, notes: Notes) -> Trajectory | None:
    if _messages(layout, entry) is None:
        notes.add("odd_entry", id, entry)
        return None
    trajectory = _READERS[layout](entry, id, notes)
    return trajectory.model_copy(update={"meta": {"layout": layout.value, "fields": trajectory.meta}})


def _questions(entries: tuple[tuple[int, Any], ...], name: str, notes: Notes) -> ImportResult:
    questions = []
    for index, entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("question"), str):
            questions.append(webdancer.read_question(entry))
        else:
            notes.add("odd_entry", f"{name}#{index}", entry)
    return _result([], questions, 0, notes)


def _result(trajectories: list[Trajectory], questions: list[Question], messages: int, notes: Notes) -> ImportResult:
    kinds = [node.kind for trajectory in trajectories for node in trajectory.nodes]
    raw = kinds.count(NodeKind.RAW)
    report = ImportReport(
        files=1,
        trajectories=len(trajectories),
        questions=len(questions),
        messages=messages,
        kept=len(kinds) - raw,
        raw=raw,
        odd=notes.oddities(),
    )
    return ImportResult(tuple(trajectories), tuple(questions), report)
