"""Files that appear whole or not at all, patterns, and what must not be written over."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from sanderling.core.errors import UserError


class WholeFile:
    """A file in the making: it takes its place when the block ends well, and leaves no trace otherwise.

    ``durable``: bytes and name are then on the disk. ``private``: only its owner may read it.
    """

    is_wanted = True
    """Where it is not, no file stands there afterwards, not even an earlier one."""

    def __init__(self, path: Path, *, durable: bool = True, private: bool = False) -> None:
        refuse_device(path)
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
            if kind is not None:
                with suppress(OSError):  # what is thrown away needs no room, and why it is matters more
                    self.file.close()
                return
            try:
                self.file.flush()
                if self._durable:
                    os.fsync(self.file.fileno())
            finally:
                self.file.close()  # which writes again what could not be flushed, and may fail as well
            if self.is_wanted:
                self._partial.replace(self.path)
            else:
                self.path.unlink(missing_ok=True)
            if self._durable:
                sync(self.path.parent)
        finally:
            self._partial.unlink(missing_ok=True)


def replace_file(path: Path, data: str | bytes, *, durable: bool = False, private: bool = False) -> None:
    r"""Write a whole file; text as UTF-8, with what that cannot hold as ``\udcff``, which JSON reads back.

    A device or pipe (``/dev/stdout``) is written to, never replaced.
    """
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    with WholeFile(path, durable=durable, private=private) as whole:
        whole.file.write(content)


@contextmanager
def or_cannot(deed: str, advice: str = "choose another place, or free some space") -> Iterator[None]:
    """Turn the system's errors into a UserError that begins "Cannot", such as ``or_cannot(f"write {path}")``."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot {deed} ({error.strerror}): {advice}.") from error


def close_directory(path: Path) -> None:
    """A directory for its owner alone, made if it is missing. Raises PermissionError for everybody's, such as /tmp."""
    path.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    if path.stat().st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "it is everybody's", str(path))
    path.chmod(stat.S_IRWXU)


def refuse_device(path: Path) -> None:
    """Raise PermissionError for what a file must not take the place of: a device such as /dev/null, a pipe, a socket."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise PermissionError(errno.EPERM, "a device or a pipe is not replaced by a file", str(path))


def check_places(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    """Before long work: nothing that is read may be written, nor two things to one place. Raises UserError."""
    read, taken = {source.resolve() for source in sources}, set[Path]()
    for target in targets:
        place = target.resolve()
        wrong = ""
        if place in read:
            wrong = "is read and would be written: choose another place for the output"
        elif read & set(place.parents):
            wrong = "lies in a folder that is read, so that the next run would read it: choose another place"
        elif place.is_dir():
            wrong = "is a folder: name a file"
        elif place.exists() and not place.is_file():
            wrong = "is no plain file, and would be replaced by one: name a file"
        elif place in taken:
            wrong = "would be written twice: give each output a place of its own"
        if wrong:
            raise UserError(f"{target} {wrong}.")
        taken.add(place)


def sync(path: Path) -> None:
    """Bring a file's bytes, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
