"""Files of JSON lines: logs and stores of trajectories that survive ``kill -9``, and files that appear whole or not at all.

A log or store grows by one ``write`` of one line under a file lock, flushed to the disk (unless a log is told not to wait for
it), so a crash can only tear the *last* line. Reading drops a torn last line with a warning; the next append cuts it off first.
Any other unreadable line is damage that nobody here can explain, and a UserError names its file and line. A file that does not
exist yet is empty. Ids may repeat.
"""

import fcntl
import os
import stat
import tempfile
import warnings
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from sanderling.core.errors import UserError
from sanderling.core.record import (
    NewerSchemaError,
    Trajectory,
    check_json,
    decode_record,
    decode_trajectory,
    encode_record,
    encode_trajectory,
)
from sanderling.runs.files import refuse_device, sync
from sanderling.runs.parquet import write_parquet

_BLOCK = 1 << 16
_HEAD = b'{"schema_version":'
"""How every record of a trajectory begins."""


class TornLineWarning(UserWarning):
    """The last line of a store was cut off by a crash and is left out."""


class Line(NamedTuple):
    """Where a record stands in its store."""

    offset: int
    size: int
    """Bytes, without the newline."""
    crc: int
    """Checksum of these bytes: tells whether they are still the same."""

    @property
    def end(self) -> int:
        """Where the next line begins."""
        return self.offset + self.size + 1


class _Lines:
    """A file of JSON lines: the crash-safe core of both stores."""

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        self.path = Path(path)
        self._durable = durable

    def _open(self) -> int:
        """A handle for appending. Raises UserError when the file cannot be opened or made."""
        try:
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            except FileNotFoundError:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"Cannot open {self.path} for writing ({error.strerror}): choose another place.") from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UserError(f"{self.path} is a device or a pipe, which keeps nothing: choose another place.")
        return handle

    def _append(self, line: bytes) -> int:
        """Add one line durably; returns its offset. Raises UserError when that fails; the file is then as it was before."""
        is_new = self._durable and not self.path.exists()
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            offset = self._write(handle, line + b"\n")
        finally:
            os.close(handle)
        if is_new:
            sync(self.path.parent)  # the new file's name too
        return offset

    def _write(self, handle: int, data: bytes) -> int:
        end, joint = self._mend(handle)
        rest = memoryview(joint + data)
        try:
            while rest:
                rest = rest[os.write(handle, rest) :]
            if self._durable:
                os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, end)
            raise UserError(f"Cannot write to {self.path} ({error.strerror}): free some space and run again.") from error
        return end + len(joint)

    def _mend(self, handle: int) -> tuple[int, bytes]:
        """Cut off a torn last line. Returns the end of the file and what must stand before the next line."""
        size = os.fstat(handle).st_size
        tail = _tail(handle, size)
        if not tail:
            return size, b""
        if is_whole(tail):
            return size, b"\n"
        if tail[:1] not in (b"{", b"\0"):  # no beginning of a record, nor the zeros that a loss of power leaves
            raise UserError(f"{self.path} ends in something that is no record: choose another place, or mend its last line.")
        warnings.warn(f"{self.path}: the torn last line ({len(tail)} bytes) is cut off", TornLineWarning, stacklevel=5)
        os.ftruncate(handle, size - len(tail))
        return size - len(tail), b""

    def _since(self, offset: int) -> Iterator[tuple[int, Line, Any]]:
        """The lines from an offset on, at which one begins: their numbers from there, where they stand, their JSON values."""
        if not self.path.exists():
            return
        start = offset
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                for number, line in enumerate(file, start=1):
                    try:
                        plain = line.removesuffix(b"\n")
                        yield number, Line(offset, len(plain), zlib.crc32(plain)), decode_record(line)
                        offset += len(line)
                    except ValueError as error:
                        if not line.endswith(b"\n"):
                            warnings.warn(f"{self.path}: the torn last line is left out", TornLineWarning, stacklevel=3)
                            return
                        raise self._damaged(number, error, start) from error
        except OSError as error:
            raise UserError(f"Cannot read {self.path} ({error.strerror}): check the path.") from error

    def _damaged(self, number: int, error: Exception, start: int = 0) -> UserError:
        """What to tell the person about an unreadable line, counted from an offset on."""
        with self.path.open("rb") as file:
            number += sum(file.read(min(_BLOCK, start - at)).count(b"\n") for at in range(0, start, _BLOCK))
        if isinstance(error, NewerSchemaError):
            return UserError(f"Line {number} of {self.path} cannot be read yet: {error}.")
        return UserError(f"Line {number} of {self.path} is damaged ({error}): remove that line or restore the file.")


class JsonlLog(_Lines):
    """An append-only log of JSON objects, such as metrics.

    ``durable=False``: a line is the system's when ``append`` returns, and outlives the process, but not a loss of power.

    Example: ``JsonlLog(path).append({"step": 3, "loss": 0.5})``
    """

    def append(self, record: dict[str, Any]) -> None:
        """Add one object. Raises UserError when it is not JSON or the file cannot be written."""
        check_json(record, "record")
        self._append(encode_record(record))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, _, value in self._since(0):
            if not isinstance(value, dict):
                raise self._damaged(number, ValueError("it is not a JSON object"))
            yield value

    def read_all(self) -> list[dict[str, Any]]:
        """Every object, in the order written."""
        return list(self)


class TrajectoryStore(_Lines):
    """An append-only store of trajectories, one line each.

    Example: ``store = TrajectoryStore("runs/a.jsonl"); done = store.ids(); store.append(trajectory)``
    """

    def prepare(self) -> None:
        """Make sure, before long work begins, that the store can be appended to.

        Raises UserError when it cannot, or when the file holds something else.
        """
        handle = self._open()
        head = os.pread(handle, 64, 0)
        os.close(handle)
        if not is_store(head):
            raise UserError(f"{self.path} holds something else than trajectories: choose another place.")

    def append(self, trajectory: Trajectory) -> Line:
        """Add one trajectory durably. Raises UserError when it is not JSON or the file cannot be written."""
        encoded = encode_trajectory(trajectory)
        return Line(self._append(encoded), len(encoded), zlib.crc32(encoded))

    def __iter__(self) -> Iterator[Trajectory]:
        return (trajectory for _, trajectory in self.since(0))

    def since(self, offset: int) -> Iterator[tuple[Line, Trajectory]]:
        """The trajectories from an offset on, at which a line begins, and where they stand. Raises UserError."""
        for number, line, value in self._since(offset):
            try:
                yield line, decode_trajectory(value)
            except ValueError as error:
                raise self._damaged(number, error, offset) from error

    def at(self, line: Line) -> Trajectory:
        """The trajectory that stands there. Raises UserError when something else does."""
        if not self.holds(line):
            raise UserError(f"{self.path} has changed while it was in use: run again.")
        return next(trajectory for _, trajectory in self.since(line.offset))

    def holds(self, line: Line) -> bool:
        """Whether this very line still stands there. Raises UserError when the file cannot be read."""
        try:
            with self.path.open("rb") as file:
                file.seek(line.offset)
                found = file.read(line.size)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UserError(f"Cannot read {self.path} ({error.strerror}): check the path.") from error
        return len(found) == line.size and zlib.crc32(found) == line.crc

    def read_all(self) -> list[Trajectory]:
        """Every trajectory, in the order written."""
        return list(self)

    def ids(self) -> set[str]:
        """The ids that are stored, for commands that go on where they stopped."""
        return {value["id"] for _, _, value in self._since(0) if isinstance(value, dict) and isinstance(value.get("id"), str)}


def is_store(head: bytes) -> bool:
    """Whether a file with these first bytes (64 are enough) is a store of trajectories, an empty or a torn one included."""
    return head.startswith(_HEAD) or _HEAD.startswith(head.rstrip())


def _tail(handle: int, size: int) -> bytes:
    """What follows the last newline."""
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(_BLOCK, start)
        start -= step
        tail = os.pread(handle, step, start) + tail
    return tail.rpartition(b"\n")[2]


def is_whole(tail: bytes) -> bool:
    """Whether a last line without newline is whole: no proper prefix of a JSON object is JSON."""
    try:
        return isinstance(decode_record(tail), dict)
    except ValueError:
        return False


# Whole files ---------------------------------------------------------------------------------------------------------------


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
