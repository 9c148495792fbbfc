"""Whole files of trajectories: written at once and atomically, and read at any place without holding them.

A store (:mod:`~sanderling.runs.jsonl`) grows line by line and survives a kill; what is here appears complete or not at
all, and costs one pass. Knows no record's meaning.
"""

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, encode_trajectory
from sanderling.runs.files import refuse_device
from sanderling.runs.jsonl import is_store, is_whole
from sanderling.runs.parquet import write_parquet


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a file anew, Parquet if it is called so and a store otherwise; returns how many. Raises UserError."""
    if path.suffix == ".parquet":
        return write_parquet(path, trajectories)
    return write_lines(path, (encode_trajectory(trajectory) for trajectory in trajectories))


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines as they come, in place of what stood there once all are written; returns how many. Raises UserError."""
    with Lines(path) as file:
        for line in lines:
            file.add(line)
    return file.count


class Lines:
    """A file of lines in the making: it takes its place when the block ends well, and leaves no trace otherwise.

    ``keep_empty=False``: where no line came, no file stands there afterwards, not even an earlier one.

    Example: ``with Lines(path) as file: file.add(b"{}")``
    """

    def __init__(self, path: Path, *, keep_empty: bool = True) -> None:
        self.path = path
        self.count = 0
        self._keep_empty = keep_empty
        self._partial = path.with_name(f".{path.name}.partial")
        with _sentence(path):
            refuse_device(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._partial.open("wb")

    def add(self, line: bytes) -> None:
        """One line, without its newline. Raises UserError when there is no room."""
        with _sentence(self.path):
            self._file.write(line + b"\n")
        self.count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with _sentence(self.path):
            try:
                if kind is None:
                    self._end()
                else:
                    self._give_up()
            finally:
                self._partial.unlink(missing_ok=True)

    def _end(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()  # which writes again what could not be flushed, and may fail as well
        if self.count or self._keep_empty:
            self._partial.replace(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def _give_up(self) -> None:
        with suppress(OSError):  # what is thrown away needs no room, and why it is matters more
            self._file.close()


def check_places(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    """Before long work: nothing that is read may be written, nor two things to one place.

    Raises UserError for a target that is a source, lies in a folder that is read (the next run would read it), is a folder
    or a device, or is named twice.
    """
    read = {source.resolve() for source in sources}
    taken: set[Path] = set()
    for target in targets:
        place = target.resolve()
        if place in read:
            raise UserError(f"{target} is read and would be written: choose another place for the output.")
        if read & set(place.parents):
            raise UserError(
                f"{target} lies in a folder that is read, so that the next run would read it: choose another place."
            )
        if place.is_dir():
            raise UserError(f"{target} is a folder: name a file.")
        if place.exists() and not place.is_file():
            raise UserError(f"{target} is no plain file, and would be replaced by one: name a file.")
        if place in taken:
            raise UserError(f"{target} would be written twice: give each output a place of its own.")
        taken.add(place)


@contextmanager
def _sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {path} ({error.strerror}): choose another place, or free some space.") from error


class Shelf:
    """Lines of a store by their number; in memory is one offset each. A torn last line is none, as when a store is read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._starts = array("q")
        at = 0
        for line in self._file:
            if line.strip() and (line.endswith(b"\n") or is_whole(line)):
                self._starts.append(at)
            at += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def record(self, number: int) -> dict[str, Any]:
        """One record as its JSON value."""
        self._file.seek(self._starts[number])
        return decode_record(self._file.readline())

    def close(self) -> None:
        self._file.close()


@contextmanager
def shelved(path: Path, trajectories: Iterator[Trajectory], near: Path) -> Iterator[Shelf]:
    """The trajectories of a file by number. What is no store is copied into one beside ``near`` meanwhile."""
    as_it_is = False
    if path.is_file():
        with path.open("rb") as file:
            as_it_is = is_store(file.read(64))
    if as_it_is:
        shelf = Shelf(path)
        try:
            yield shelf
        finally:
            shelf.close()
        return
    near.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=near.parent, prefix=f".{near.name}.") as place:
        copied = Path(place) / "copied.jsonl"
        write_trajectories(copied, trajectories)
        shelf = Shelf(copied)
        try:
            yield shelf
        finally:
            shelf.close()
