"""Append-only JSONL stores that survive ``kill -9``.

Contract: a record is written by one ``write`` of one line under a file lock, then flushed to the disk (unless a log is told not
to wait for it), so a crash can only tear the *last* line. Reading drops a torn last line with a warning; the next append cuts
it off first. Any other unreadable line is damage that nobody here can explain, and a :class:`UserError` names its file and
line. A store that does not exist yet is empty. Ids may repeat. Knows nothing of what the records mean.
"""

import fcntl
import os
import stat
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
from sanderling.runs.files import sync

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

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable

    def open(self) -> int:
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

    def append(self, line: bytes) -> int:
        """Add one line durably; returns its offset. Raises UserError when that fails; the file is then as it was before."""
        is_new = self._durable and not self.path.exists()
        handle = self.open()
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

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Line numbers from 1, and the JSON values. Raises UserError for a damaged line."""
        return ((number, value) for number, _, value in self.since(0))

    def since(self, offset: int) -> Iterator[tuple[int, Line, Any]]:
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
                        raise self.damaged(number + self.before(start), error) from error
        except OSError as error:
            raise UserError(f"Cannot read {self.path} ({error.strerror}): check the path.") from error

    def before(self, offset: int) -> int:
        """How many lines stand before it."""
        with self.path.open("rb") as file:
            return sum(file.read(min(_BLOCK, offset - at)).count(b"\n") for at in range(0, offset, _BLOCK))

    def damaged(self, number: int, error: Exception) -> UserError:
        """What to tell the person about an unreadable line."""
        if isinstance(error, NewerSchemaError):
            return UserError(f"Line {number} of {self.path} cannot be read yet: {error}.")
        return UserError(f"Line {number} of {self.path} is damaged ({error}): remove that line or restore the file.")


class JsonlLog:
    """An append-only log of JSON objects, such as metrics.

    ``durable=False``: a line is the system's when ``append`` returns, and outlives the process, but not a loss of power.

    Example: ``JsonlLog(path).append({"step": 3, "loss": 0.5})``
    """

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        self._lines = _Lines(Path(path), durable=durable)

    @property
    def path(self) -> Path:
        return self._lines.path

    def append(self, record: dict[str, Any]) -> None:
        """Add one object. Raises UserError when it is not JSON or the file cannot be written."""
        check_json(record, "record")
        self._lines.append(encode_record(record))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, value in self._lines:
            if not isinstance(value, dict):
                raise self._lines.damaged(number, ValueError("it is not a JSON object"))
            yield value

    def read_all(self) -> list[dict[str, Any]]:
        """Every object, in the order written."""
        return list(self)


class TrajectoryStore:
    """An append-only store of trajectories, one line each.

    Example: ``store = TrajectoryStore("runs/a.jsonl"); done = store.ids(); store.append(trajectory)``
    """

    def __init__(self, path: Path | str) -> None:
        self._lines = _Lines(Path(path))

    @property
    def path(self) -> Path:
        return self._lines.path

    def prepare(self) -> None:
        """Make sure, before long work begins, that the store can be appended to.

        Raises UserError when it cannot, or when the file holds something else.
        """
        handle = self._lines.open()
        head = os.pread(handle, 64, 0)
        os.close(handle)
        if not is_store(head):
            raise UserError(f"{self.path} holds something else than trajectories: choose another place.")

    def append(self, trajectory: Trajectory) -> Line:
        """Add one trajectory durably. Raises UserError when it is not JSON or the file cannot be written."""
        encoded = encode_trajectory(trajectory)
        return Line(self._lines.append(encoded), len(encoded), zlib.crc32(encoded))

    def __iter__(self) -> Iterator[Trajectory]:
        return (trajectory for _, trajectory in self.since(0))

    def since(self, offset: int) -> Iterator[tuple[Line, Trajectory]]:
        """The trajectories from an offset on, at which a line begins, and where they stand. Raises UserError."""
        for number, line, value in self._lines.since(offset):
            try:
                yield line, decode_trajectory(value)
            except ValueError as error:
                raise self._lines.damaged(number + self._lines.before(offset), error) from error

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
        return {value["id"] for _, value in self._lines if isinstance(value, dict) and isinstance(value.get("id"), str)}


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
