"""Files of JSON lines that survive ``kill -9``: logs and stores of trajectories; and files that appear whole or not at all.

A log or store grows by whole lines under a file lock, so a crash can only tear the *last* line. Reading drops that with a
warning, and the next append cuts it off. Any other unreadable line is damage: a UserError names file and line. A file that does
not exist yet is empty. Ids may repeat.
"""

import fcntl
import mmap
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_record
from sanderling.runs.files import WholeFile, is_device, or_cannot, sync

_HEAD = b'{"schema_version":'  # how every record of a trajectory begins
_COLUMNS = ("id", "question", "answer", "ending", "model", "record")  # of a Parquet file; the last is the whole record
_GROUP = 64  # trajectories in memory at once
Record = TypeVar("Record")


class TornLineWarning(UserWarning):
    """The last line of a store was cut off by a crash and is left out."""


class _Lines(Generic[Record]):
    """An append-only file of JSON lines. Iterating reads every record, in the order written; all methods raise UserError."""

    _encode: Callable[[Record], bytes]
    _decode: Callable[[Any], Record]  # raises ValueError for another value than a record's

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        """``durable=False``: a line outlives the process when ``append`` returns, but not a loss of power."""
        self.path = Path(path)
        self._durable = durable

    def append(self, record: Record) -> int:
        """Add one record and return where it begins; what cannot be written whole leaves the file as it was."""
        rest = memoryview(self._encode(record) + b"\n")
        is_new = self._durable and not self.path.exists()
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            begin = self._mend(handle)
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if self._durable:
                    os.fsync(handle)
            except OSError as error:
                os.ftruncate(handle, begin)
                raise UserError(f"Cannot write to {self.path} ({error.strerror}): free some space and run again.") from error
        finally:
            os.close(handle)
        if is_new:
            sync(self.path.parent)  # the new file's name too
        return begin

    def _open(self) -> int:
        """A handle for appending."""
        with or_cannot(f"open {self.path} for writing", "choose another place"):
            with suppress(FileExistsError):  # which opening tells better
                self.path.parent.mkdir(parents=True)
            if is_device(self.path):
                raise UserError(f"{self.path} is a device or a pipe, which keeps nothing: choose another place.")
            return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def _mend(self, handle: int) -> int:
        """End or cut off a last line that lacks its newline; returns where the next one begins."""
        size = os.fstat(handle).st_size
        if not size:
            return 0
        with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as text:
            end = text.rfind(b"\n") + 1
            tail = text[end:]
        if not tail:
            return size
        with suppress(ValueError):
            if isinstance(decode_record(tail), dict):  # whole without its newline: no proper prefix of a JSON object is JSON
                return size + os.write(handle, b"\n")
        if tail[:1] not in (b"{", b"\0"):  # no beginning of a record, nor the zeros that a loss of power leaves
            raise UserError(f"{self.path} ends in something that is no record: choose another place, or mend its last line.")
        warnings.warn(f"{self.path}: the torn last line ({len(tail)} bytes) is cut off", TornLineWarning, stacklevel=4)
        os.ftruncate(handle, end)
        return end

    def __iter__(self) -> Iterator[Record]:
        return (record for _, record in self.with_offsets())

    def with_offsets(self) -> Iterator[tuple[int, Record]]:
        """Every record and where it begins."""
        if not self.path.exists():
            return
        offset = 0
        with or_cannot(f"read {self.path}", "check the path"), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield offset, self._decode(decode_record(line))
                except ValueError as error:
                    if not line.endswith(b"\n") and type(error) is not ValueError:  # else it is whole, and no such record
                        warnings.warn(f"{self.path}: the torn last line is left out", TornLineWarning, stacklevel=3)
                        return
                    advice = "restore the file, remove that line, or update sanderling if a later version wrote it"
                    raise UserError(f"Line {number} of {self.path} is damaged ({error}): {advice}.") from error
                offset += len(line)

    def at(self, offset: int) -> Record:
        """The record that begins there."""
        with or_cannot(f"read {self.path}", "check the path"), self.path.open("rb") as file:
            file.seek(offset)
            return self._decode(decode_record(file.readline()))


class JsonlLog(_Lines[dict[str, Any]]):
    """An append-only log of JSON objects, such as metrics."""

    _encode = staticmethod(encode_record)

    def _decode(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        return value


class TrajectoryStore(_Lines[Trajectory]):
    """An append-only store of trajectories, one line each.

    Example: ``store = TrajectoryStore("runs/a.jsonl"); done = store.ids(); store.append(trajectory)``
    """

    _encode = staticmethod(encode_record)
    _decode = staticmethod(decode_trajectory)

    def prepare(self) -> None:
        """Raises UserError, before long work begins, when the store cannot be appended to."""
        with open(self._open(), "rb") as file:  # noqa: PTH123 (of a handle)
            if not is_store(file.read(64)):
                raise UserError(f"{self.path} holds something else than trajectories: choose another place.")

    def ids(self) -> set[str]:
        """The ids that are stored, for commands that go on where they stopped."""
        return {record["id"] for record in JsonlLog(self.path) if isinstance(record.get("id"), str)}


def is_store(head: bytes) -> bool:
    """Whether a file with these first bytes (64 are enough) is a store of trajectories, an empty or a torn one included."""
    begins = head.startswith(_HEAD) and not head[len(_HEAD) :].lstrip().startswith(b'"')  # ATIF has a name there
    return begins or _HEAD.startswith(head.rstrip())


class Lines(WholeFile):
    """A file of lines in the making; ``keep_empty=False``: where no line came, no file stands there afterwards."""

    def __init__(self, path: Path, *, keep_empty: bool = True) -> None:
        with or_cannot(f"write {path}"):
            super().__init__(path)
        self.count, self._keep_empty = 0, keep_empty

    def add(self, line: bytes) -> None:
        """One line, without its newline. Raises UserError when there is no room."""
        with or_cannot(f"write {self.path}"):
            self.file.write(line + b"\n")
        self.count += 1

    def __exit__(self, *raised: Any) -> None:
        with or_cannot(f"write {self.path}"):
            super().__exit__(*raised)
            if raised[0] is None and not self.count and not self._keep_empty:
                self.path.unlink()


def write_lines(path: Path, lines: Iterable[bytes]) -> int:
    """Write lines as they come, in place of what stood there once all are written; returns how many. Raises UserError."""
    with Lines(path) as file:
        for line in lines:
            file.add(line)
    return file.count


def check_name(path: Path) -> None:
    """Raise UserError for a file of trajectories that is called neither .jsonl nor .parquet."""
    if path.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"{path} is neither .jsonl nor .parquet: end its name in one of these.")


def check_held(path: Path) -> None:
    """Raise UserError where something else than trajectories would be written over."""
    head = b""
    with or_cannot(f"read {path}"):
        if path.is_file():
            with path.open("rb") as file:
                head = file.read(64)
    if not (is_store(head) or is_trajectory_parquet(path)):
        raise UserError(f"{path} holds something else than trajectories: choose another place.")


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a file anew, Parquet if it is called so and a store otherwise; returns how many. Raises UserError."""
    check_name(path)
    check_held(path)
    if path.suffix != ".parquet":
        return write_lines(path, map(encode_record, trajectories))
    import pyarrow as pa  # slow to import
    import pyarrow.parquet as pq

    count, waiting = 0, iter(trajectories)
    schema = pa.schema([*((name, pa.string()) for name in _COLUMNS[:-1]), (_COLUMNS[-1], pa.binary())])
    with or_cannot(f"write {path}"), WholeFile(path) as whole, pq.ParquetWriter(whole.file, schema, compression="zstd") as out:
        while group := list(islice(waiting, _GROUP)):
            texts = ((one.id, one.question.text, one.answer, one.ending, one.model) for one in group)
            rows = [[text and text.encode("utf-8", "replace").decode() for text in row] for row in texts]
            columns = [*map(list, zip(*rows, strict=True)), list(map(encode_record, group))]
            out.write_table(pa.table(columns, schema=schema))
            count += len(group)
    return count


def read_parquet(path: Path) -> Iterator[Trajectory]:
    """The trajectories of a file, a few rows in memory at a time. Raises UserError when it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=2, columns=[_COLUMNS[-1]]):
                yield from (decode_trajectory(decode_record(record)) for record in batch.column(0).to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable trajectory file ({str(error).splitlines()[0]}): write it again.") from error


def is_trajectory_parquet(path: Path) -> bool:
    """Whether a file is Parquet with our columns; false for any other file, a damaged one included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with suppress(pa.ArrowException, OSError, ValueError):
        return list(_COLUMNS) == pq.read_schema(path).names
    return False
