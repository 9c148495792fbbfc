"""Files that appear whole or not at all, packed files, places that one process holds, and work shared out among processes."""

import bz2
import errno
import gzip
import io
import lzma
import multiprocessing
import os
import signal
import stat
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from filelock import FileLock, Timeout

from sanderling.core.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")
LOCK = ".lock"  # the file that a process in a directory has locked; it outlives the lock
_WAITING = 3  # items under way for each process


@contextmanager
def or_cannot(deed: str, advice: str = "choose another place, or free some space") -> Iterator[None]:
    """Turn the system's errors into a UserError that begins "Cannot", such as ``or_cannot(f"write {path}")``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot {deed} ({error.strerror}): {advice}.") from error


class WholeFile:
    """A file in the making: it takes its place when the block ends well, and leaves no trace otherwise.

    ``durable``: bytes and name are then on the disk. ``private``: only its owner may read it.
    """

    def __init__(self, path: Path, *, durable: bool = True, private: bool = False) -> None:
        if is_device(path):
            raise PermissionError(errno.EPERM, "a device or a pipe is not replaced by a file", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self._durable = path, durable
        self._partial = path.with_name(f".{path.name}.partial")
        self.file = self._partial.open("wb")
        if private:
            os.fchmod(self.file.fileno(), stat.S_IRUSR | stat.S_IWUSR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.file.flush()
                if self._durable:
                    os.fsync(self.file.fileno())
                self._partial.replace(self.path)
                if self._durable:
                    sync(self.path.parent)
        finally:
            with suppress(OSError):  # what is thrown away needs no room, and why it is matters more
                self.file.close()
            self._partial.unlink(missing_ok=True)


def replace_file(path: Path, data: str | bytes, *, durable: bool = False, private: bool = False) -> None:
    r"""Write a whole file; text as UTF-8, with what that cannot hold as ``\udcff``, which JSON reads back.

    A device or pipe (``/dev/stdout``) is written to, never replaced.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if is_device(path):
        path.write_bytes(content)
        return
    with WholeFile(path, durable=durable, private=private) as whole:
        whole.file.write(content)


def is_device(path: Path) -> bool:
    """Whether this is /dev/null, a pipe, a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def close_directory(path: Path) -> None:
    """A directory for its owner alone, made if it is missing. Raises PermissionError for everybody's, such as /tmp."""
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    if path.stat().st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "it is everybody's", str(path))
    path.chmod(stat.S_IRWXU)


def check_places(sources: Sequence[Path], targets: Sequence[Path | None]) -> None:
    """Before long work: nothing that is read may be written, nor two things to one place. Raises UserError."""
    read, taken = {source.resolve() for source in sources}, set[Path]()
    for target in filter(None, targets):
        place = target.resolve()
        problems = {
            "is read and would be written: choose another place for the output": place in read,
            "lies in a folder that is read, so that the next run would read it: choose another place": read & {*place.parents},
            "is a folder: name a file": place.is_dir(),
            "is no plain file, and would be replaced by one: name a file": is_device(place),
            "would be written twice: give each output a place of its own": place in taken,
        }
        if wrong := next((problem for problem, found in problems.items() if found), None):
            raise UserError(f"{target} {wrong}.")
        taken.add(place)


def sync(path: Path) -> None:
    """Bring a file's bytes, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- packed files --------------------------------------------------------------------------------------------------------

PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
"""Endings of packed files that are read, and the bytes that they begin with, by which they are recognised."""


class Unpacked(io.RawIOBase):
    """A file's bytes, unpacked, up to its end or to damage, which ``damage`` then describes.

    Example: ``lines = io.BufferedReader(raw := Unpacked(path)); list(lines); raw.damage``
    """

    def __init__(self, path: Path) -> None:
        self.damage, self.is_cut = "", False
        with path.open("rb") as file:
            head = file.read(6)
        ending = next((ending for ending, begin in PACKED.items() if head.startswith(begin)), "")
        if ending == ".zst":
            import pyarrow as pa  # slow to import

            self._stream: Any = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
            self._read: Callable[[int], bytes] = self._stream.read
        else:
            self._stream = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(ending, Path.open)(path, "rb")
            self._read = self._stream.read1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._read(min(len(buffer), 8192)) if not self.damage else b""
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            self.is_cut = isinstance(error, EOFError) or "Truncated" in str(error)
            is_checksum = any(word in str(error) for word in ("CRC", "checksum", "Incorrect length"))
            what = "its checksum does not match, so that some of it may be wrong" if is_checksum else "it is damaged"
            self.damage = f"{'it is cut' if self.is_cut else what}: {error}"
            return 0
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


# -- one process at a time -----------------------------------------------------------------------------------------------


def hold(file: Path, place: Path, otherwise: str = "choose another directory") -> FileLock:
    """Lock a file until it is released or the process ends. Raises UserError, which speaks of ``place``, when that fails."""
    held = FileLock(file, thread_local=False)
    with or_cannot(f"use {place}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            held.acquire(timeout=0.05, poll_interval=0.01)  # again at once where the last holder took its file away
        except Timeout:
            raise UserError(f"Another process is at work in {place}: wait for its end, or {otherwise}.") from None
    return held


@contextmanager
def locked(place: Path, *, beside: bool = False, otherwise: str = "choose another directory") -> Iterator[None]:
    """Keep every other process out of a directory, which is made if it is missing. Raises UserError.

    ``beside``: keep them from making what will be renamed to ``place``, with a file beside it.
    """
    file, is_new = place.with_name(f"{LOCK}-{place.name}") if beside else place / LOCK, not place.exists()
    held = hold(file, place, otherwise)
    try:
        yield
    except BaseException:
        if is_new and not beside:  # what was refused leaves no directory
            with suppress(OSError):
                file.unlink()
                place.rmdir()
        raise
    finally:
        if beside:
            file.unlink(missing_ok=True)
        held.release()


# -- several processes ---------------------------------------------------------------------------------------------------


def in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    *,
    killed: str,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """What ``work`` makes of each item, in their order, by processes that call ``prepare`` first and have few items under way.

    Raises UserError, with the sentence ``killed``, when a process was killed.
    """
    context = multiprocessing.get_context("spawn")  # a caller may have threads, which no fork survives
    pool = ProcessPoolExecutor(workers, context, _begin, (prepare,))
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(killed) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(prepare: Callable[[], None] | None) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked ends this one
    if prepare is not None:
        prepare()


def end_with_parent() -> None:
    """Called in a worker: it ends as soon as its parent has ended, however that came about (``kill -9`` included)."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is no worker"

    def wait() -> None:
        parent.join()  # a pipe that the parent alone holds open: it closes when the parent ends, even by a signal
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def user_cache() -> Path:
    """Where what can be made again is kept for this user."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "sanderling"
