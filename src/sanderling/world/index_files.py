"""The index as a directory: written along with the pages, noted when whole, filled anew when it is missing, damaged or old.

A note beside the index's files holds its version and their sizes. An index that is whole is never written to again: one that
shall grow is linked into another directory first, which costs no copy, because the files of tantivy's segments never change.
Knows page numbers and texts through `PageStore` only.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

from sanderling.runs.files import replace_file
from sanderling.world.index import INDEX_VERSION, IndexBuilder, TextIndex
from sanderling.world.pages import PageStore

_NOTE = "sanderling.json"
_FILLING = ".index-"


def _note(index: Path, pages: int) -> dict[str, object]:
    files = {
        path.name: path.stat().st_size for path in sorted(index.iterdir()) if path.name != _NOTE and path.suffix != ".lock"
    }
    return {"version": INDEX_VERSION, "pages": pages, "files": files}


def write_note(index: Path, pages: int) -> None:
    """Say that an index is whole. Raises OSError."""
    replace_file(index / _NOTE, json.dumps(_note(index, pages)))


def is_whole(index: Path, pages: int) -> bool:
    """Whether an index of this version and of so many pages is there, by its note."""
    try:
        return json.loads((index / _NOTE).read_text(encoding="utf-8")) == _note(index, pages)
    except (OSError, ValueError):
        return False


def open_index(index: Path, pages: int) -> TextIndex | None:
    """The index, or None when it must be filled anew."""
    if not is_whole(index, pages):
        return None
    try:
        opened = TextIndex.open(index)
    except (OSError, ValueError):
        return None
    return opened if opened.page_count == pages else None


def fill_anew(index: Path, store: PageStore, count: int) -> TextIndex:
    """Index the stored pages: in the world's directory where that can be written, else in memory."""
    try:
        for remains in index.parent.glob(f"{_FILLING}*"):
            if not _is_alive(remains.name.removeprefix(_FILLING).partition("-")[0]):
                shutil.rmtree(remains, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=f"{_FILLING}{os.getpid()}-", dir=index.parent))
    except OSError:
        return _fill(IndexBuilder(None), store, count)
    filled = _fill(IndexBuilder(place), store, count)
    write_note(place, count)
    place.chmod(0o755)
    shutil.rmtree(index, ignore_errors=True)
    try:
        place.rename(index)
    except OSError:  # another process put its own there first; ours lives on in its open files
        shutil.rmtree(place, ignore_errors=True)
    return filled


def _is_alive(pid: str) -> bool:
    """Whether the process that names a temporary directory still runs."""
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def _fill(builder: IndexBuilder, store: PageStore, count: int) -> TextIndex:
    for number in range(count):
        page = store.get(number).page
        builder.add(number, page.title, page.text)
    return builder.finish()


def link_index(index: Path, target: Path) -> None:
    """Make ``target`` a second name of all files of an index; it is whole or absent. Raises OSError.

    What is written to one is not written to the other: every file of an index is replaced, never changed.
    """
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for path in index.iterdir():
        if path.suffix == ".lock":
            continue
        try:
            os.link(path, partial / path.name)
        except OSError:  # a file system without links
            shutil.copy2(path, partial / path.name)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
