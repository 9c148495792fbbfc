"""Files that appear whole or not at all, and names that last. Knows no format; raises OSError as the system does."""

import os
from pathlib import Path


def replace_file(path: Path, data: str | bytes, *, durable: bool = False) -> None:
    """Write a file (text as UTF-8) in place of what stood there; a failure leaves that as it was.

    ``durable``: bytes and name are on the disk when this returns. A device or pipe (``/dev/stdout``) is written to, never
    replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as stream:
            stream.write(data.encode("utf-8") if isinstance(data, str) else data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file's bytes, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
