"""The files below a folder: in the order of their names, those of a folder before its sub-folders; none is opened.

Symbolic links to folders are not followed. Depth is bounded by the disk alone.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from sanderling.world.sources.contract import Reason, Skipped


def files_below(root: Path) -> Iterator[Path | Skipped]:
    """Every file, and every folder that is not entered. A file as ``root`` is the one file."""
    if not root.is_dir():
        yield root
        return
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            yield Skipped(shown(root, folder), Reason.UNREADABLE)
            continue
        kinds = [(Path(entry.path), _is_folder(entry), entry.is_symlink()) for entry in entries]
        yield from (Skipped(shown(root, path), Reason.LINK) for path, is_folder, is_link in kinds if is_folder and is_link)
        yield from (path for path, is_folder, _ in kinds if not is_folder)
        waiting += [path for path, is_folder, is_link in reversed(kinds) if is_folder and not is_link]


def shown(root: Path, file: Path) -> str:
    """A file's path below the folder, as text."""
    return os.fsencode(file.relative_to(root)).decode("utf-8", "replace")


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False
