"""Trajectories from whatever a person has: a store, a Parquet file, or anything that can be imported, a folder included.

Contract: one by one, with flat memory, in the order of the file. A store's torn last line is left out with a warning; its
other damage, and a file that holds no trajectories, are a :class:`UserError`. What an import could not read is left out with a
warning; what it is, and what else was odd, ``sanderling data import`` tells. Knows no layout.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.data.importers import Import, ImportReport, open_import
from sanderling.runs.jsonl import TrajectoryStore, is_store
from sanderling.runs.parquet import is_trajectory_parquet, read_parquet


class LeftOutWarning(UserWarning):
    """A part of what was given could not be read."""


def open_trajectories(path: Path | str) -> Iterator[Trajectory]:
    """The trajectories of a file or a folder, one by one. Raises UserError when there are none to be had."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"There is no file {path}: give a store (.jsonl), a .parquet file, or recorded files.")
    if path.is_file() and is_trajectory_parquet(path):
        return read_parquet(path)
    if path.is_file() and _is_store(path):
        return iter(TrajectoryStore(path))
    return _imported(path, open_import(path))


def _imported(path: Path, reading: Import) -> Iterator[Trajectory]:
    questions = trajectories = 0
    for found in reading:
        if isinstance(found, Trajectory):
            trajectories += 1
            yield found
        else:
            questions += 1
    if not trajectories:
        raise UserError(f"{path} holds {questions} questions and no trajectories: give a file with trajectories.")
    warn_of_left_out(path, reading.report)


def warn_of_left_out(path: Path, report: ImportReport) -> None:
    """Warn where a part of what was given could not be read."""
    files = sum(oddity.count for oddity in report.odd if oddity.code == "not_a_recording")
    parts = [f"{_count(report.unread, 'entry', 'entries')} that could not be read"] if report.unread else []
    parts += [f"{_count(files, 'file', 'files')} without a recording in a known layout"] if files else []
    if parts:
        warnings.warn(
            f"{path}: left out are {' and '.join(parts)}; sanderling data import {path} says which, and why.",
            LeftOutWarning,
            stacklevel=3,
        )


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _is_store(path: Path) -> bool:
    """Whether the file begins as our own records do (or is an empty store)."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    return is_store(head) and (bool(head.strip()) or path.suffix == ".jsonl")
