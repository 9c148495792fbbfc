"""One process at a time at one place: locks that a process holds until it ends, however it ends. Knows no room."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sanderling.core.errors import UserError

LOCK = ".lock"
"""The file that a process in a directory has locked. It stays when the process is gone; the lock does not."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep every other process out of a directory, such as a run's.

    Makes the directory where there is none, and takes it away again where the block fails before anything is in it. Raises
    UserError when another process holds it, or it cannot be written.
    """
    made = not directory.exists()
    with _lock(directory / LOCK, directory):
        try:
            yield
        except BaseException:
            if made:
                _take_away(directory)
            raise


@contextmanager
def locked_place(place: Path) -> Iterator[None]:
    """Keep every other process from making what will stand at ``place``, with a file beside it that is gone afterwards.

    For what is put in its place by renaming. Makes the directory above where there is none. Raises UserError as `locked` does.
    """
    file = place.with_name(f"{LOCK}-{place.name}")
    with _lock(file, place):
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def _lock(file: Path, place: Path) -> IO[str]:
    """The file, open and locked."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = file.open("w")
        except OSError as error:
            raise UserError(
                f"Cannot use {place} ({error.strerror}): make room or mend it, or choose another with --out."
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, file):
                return handle
        except BlockingIOError:
            handle.close()
            message = f"Another process is at work in {place}: wait for its end, or choose another directory with --out."
            raise UserError(message) from None
        except BaseException:
            handle.close()
            raise
        handle.close()  # its last holder took the file away after we had opened it


def _take_away(directory: Path) -> None:
    """Where nothing is in it but the lock, which is held."""
    with suppress(OSError):  # gone already, or another process is just coming in: what failed before is what is told
        if [file.name for file in directory.iterdir()] == [LOCK]:
            (directory / LOCK).unlink()
            directory.rmdir()


def _is_at(handle: IO[str], file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), file.stat())
    except FileNotFoundError:
        return False
