"""Files of JSON lines: logs and stores of trajectories that survive ``kill -9``, and files that appear whole or not at all.

A log or store grows by one ``write`` of one line under a file lock, so a crash can only tear the *last* line. Reading drops
that with a warning, and the next append cuts it off. Any other unreadable line is damage: a UserError names file and line. A
file that does not exist yet is empty. Ids may repeat.
"""

import fcntl
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

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
from sanderling.runs.files import WholeFile, or_cannot, sync

_BLOCK = 1 << 16
_HEAD = b'{"schema_version":'
"""How every record of a trajectory begins."""
Record = TypeVar("Record")


class TornLineWarning(UserWarning):
    """The last line of a store was cut off by a crash and is left out."""


class _Lines(Generic[Record]):
    """An append-only file of JSON lines. Iterating reads every record, in the order written; all methods raise UserError."""

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        """``durable=False``: a line outlives the process when ``append`` returns, but not a loss of power."""
        self.path = Path(path)
        self._durable = durable

    _encode: Callable[[Record], bytes]
    _decode: Callable[[Any], Record]
    """Raises ValueError for another value than a record's."""

    def append(self, record: Record) -> int:
        """Add one record and return where it begins; what cannot be written whole leaves the file as it was."""
        line = self._encode(record)
        is_new = self._durable and not self.path.exists()
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            end, joint = self._mend(handle)
            rest = memoryview(joint + line + b"\n")
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if self._durable:
                    os.fsync(handle)
            except OSError as error:
                os.ftruncate(handle, end)
                raise UserError(f"Cannot write to {self.path} ({error.strerror}): free some space and run again.") from error
        finally:
            os.close(handle)
        if is_new:
            sync(self.path.parent)  # the new file's name too
        return end + len(joint)

    def _open(self) -> int:
        """A handle for appending."""
        with or_cannot(f"open {self.path} for writing", "choose another place"):
            with suppress(FileExistsError):  # which opening tells better
                self.path.parent.mkdir(parents=True)
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise UserError(f"{self.path} is a device or a pipe, which keeps nothing: choose another place.")
        return handle

    def _mend(self, handle: int) -> tuple[int, bytes]:
        """Cut off a torn last line. Returns the end of the file and what must stand before the next line."""
        start = size = os.fstat(handle).st_size
        tail = b""
        while start > 0 and b"\n" not in tail:
            start, before = max(0, start - _BLOCK), start
            tail = os.pread(handle, before - start, start) + tail
        tail = tail.rpartition(b"\n")[2]
        if not tail:
            return size, b""
        with suppress(ValueError):
            if isinstance(decode_record(tail), dict):  # whole without its newline: no proper prefix of a JSON object is JSON
                return size, b"\n"
        if tail[:1] not in (b"{", b"\0"):  # no beginning of a record, nor the zeros that a loss of power leaves
            raise UserError(f"{self.path} ends in something that is no record: choose another place, or mend its last line.")
        warnings.warn(f"{self.path}: the torn last line ({len(tail)} bytes) is cut off", TornLineWarning, stacklevel=4)
        os.ftruncate(handle, size - len(tail))
        return size - len(tail), b""

    def __iter__(self) -> Iterator[Record]:
        return (record for _, record in self.with_offsets())

    def with_offsets(self) -> Iterator[tuple[int, Record]]:
        """Every record and where it begins."""
        if not self.path.exists():
            return
        offset = 0
        with or_cannot(f"read {self.path}", "check the path"), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                is_json = False
                try:
                    value = decode_record(line)
                    is_json = True
                    record = self._decode(value)
                except NewerSchemaError as error:
                    raise UserError(f"Line {number} of {self.path} cannot be read yet: {error}.") from error
                except ValueError as error:
                    if not is_json and not line.endswith(b"\n"):
                        warnings.warn(f"{self.path}: the torn last line is left out", TornLineWarning, stacklevel=3)
                        return
                    advice = "remove that line or restore the file"
                    raise UserError(f"Line {number} of {self.path} is damaged ({error}): {advice}.") from error
                yield offset, record
                offset += len(line)

    def at(self, offset: int) -> Record:
        """The record that begins there."""
        with or_cannot(f"read {self.path}", "check the path"), self.path.open("rb") as file:
            file.seek(offset)
            return self._decode(decode_record(file.readline()))


class JsonlLog(_Lines[dict[str, Any]]):
    """An append-only log of JSON objects, such as metrics.

    Example: ``JsonlLog(path).append({"step": 3, "loss": 0.5})``
    """

    def _encode(self, record: dict[str, Any]) -> bytes:
        check_json(record, "record")
        return encode_record(record)

    def _decode(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        return value


class TrajectoryStore(_Lines[Trajectory]):
    """An append-only store of trajectories, one line each.

    Example: ``store = TrajectoryStore("runs/a.jsonl"); done = store.ids(); store.append(trajectory)``
    """

    _encode = staticmethod(encode_trajectory)
    _decode = staticmethod(decode_trajectory)

    def prepare(self) -> None:
        """Make sure, before long work begins, that the store can be appended to. Raises UserError when it cannot."""
        handle = self._open()
        head = os.pread(handle, 64, 0)
        os.close(handle)
        if not is_store(head):
            raise UserError(f"{self.path} holds something else than trajectories: choose another place.")

    def ids(self) -> set[str]:
        """The ids that are stored, for commands that go on where they stopped."""
        return {record["id"] for record in JsonlLog(self.path) if isinstance(record.get("id"), str)}


def is_store(head: bytes) -> bool:
    """Whether a file with these first bytes (64 are enough) is a store of trajectories, an empty or a torn one included."""
    return head.startswith(_HEAD) or _HEAD.startswith(head.rstrip())


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a file anew, Parquet if it is called so and a store otherwise; returns how many. Raises UserError."""
    if path.suffix == ".parquet":
        from sanderling.runs.parquet import write_parquet

        return write_parquet(path, trajectories)
    return write_lines(path, (encode_trajectory(trajectory) for trajectory in trajectories))


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines as they come, in place of what stood there once all are written; returns how many. Raises UserError."""
    with Lines(path) as file:
        for line in lines:
            file.add(line)
    return file.count


class Lines(WholeFile):
    """A file of lines in the making.

    ``keep_empty=False``: where no line came, no file stands there afterwards, not even an earlier one.

    Example: ``with Lines(path) as file: file.add(b"{}")``
    """

    def __init__(self, path: Path, *, keep_empty: bool = True) -> None:
        with or_cannot(f"write {path}"):
            super().__init__(path)
        self.count, self.is_wanted = 0, keep_empty

    def add(self, line: bytes) -> None:
        """One line, without its newline. Raises UserError when there is no room."""
        with or_cannot(f"write {self.path}"):
            self.file.write(line + b"\n")
        self.count += 1
        self.is_wanted = True

    def __exit__(self, *raised: Any) -> None:
        with or_cannot(f"write {self.path}"):
            super().__exit__(*raised)
