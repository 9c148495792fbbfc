"""Worlds on disk: one directory with a manifest, the pages and an index that can be rebuilt from them.

A world is built in a temporary directory beside its place and renamed at the end, so that a world is whole or absent,
whatever interrupts the build. Pages stream: memory does not grow with the world. The index is rebuilt when it is missing,
damaged or of another version.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import sanderling
from sanderling.errors import UserError
from sanderling.files import sync
from sanderling.world.contract import Page
from sanderling.world.index import INDEX_VERSION, IndexBuilder, TextIndex
from sanderling.world.local import LocalWorld, take_in
from sanderling.world.manifest import WorldCounts, WorldInfo, read_manifest, write_manifest
from sanderling.world.pages import Intake, PageWriter, SqlitePages

_PAGES = "pages.sqlite"
_INDEX = "index"
_INDEX_NOTE = "sanderling.json"


def build_world(
    directory: Path,
    pages: Iterable[Page],
    *,
    name: str,
    source: str,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> WorldInfo:
    """Build a world from pages, in their order.

    Args:
        directory: where the world will be; must not exist, or be empty.
        pages: read once, streaming.
        name: short name for records.
        source: the builder and what it was given.
        seed: of a generated world.
        progress: called with the number of pages read, after each.
        finish: writes further files into the world's directory, which is handed to it, before the world is in its place.

    Raises UserError when the place is taken or cannot be written, or when no page is left to hold.

    """
    directory = directory.absolute()
    _require_free(directory)
    with _under_construction(directory) as place:
        intake = _write(place, pages, progress)
        if not intake.counts.kept:
            raise UserError(f"The world {name!r} would hold no page: give pages that have a URL and text.")
        info = WorldInfo(
            name=name,
            source=source,
            seed=seed,
            package=sanderling.__version__,
            counts=WorldCounts(**asdict(intake.counts)),
            pages_bytes=(place / _PAGES).stat().st_size,
            fingerprint=intake.fingerprint,
        )
        if finish is not None:
            finish(place)
        with _refused_files(directory):
            write_manifest(place, info)
            _sync(place)
        _require_free(directory)
        place.rename(directory)
    return info


def open_world(directory: Path) -> LocalWorld:
    """Open a world for reading. Raises UserError when there is none, when it is of another format, or torn."""
    info = read_manifest(directory)
    file = directory / _PAGES
    if not file.is_file() or file.stat().st_size != info.pages_bytes:
        raise UserError(f"The pages of {directory} are missing or torn: copy the world again, or build it again.")
    pages = SqlitePages(file)
    try:
        count = pages.count()
        index = _open_index(directory / _INDEX, count) or _rebuild_index(directory, pages, count)
    except OSError as error:
        raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error
    return LocalWorld(info.name, info.fingerprint, pages, index)


def _require_free(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} is already there: choose another place, or remove it first.")


@contextmanager
def _under_construction(target: Path) -> Iterator[Path]:
    """A temporary directory beside the target, removed unless it was renamed; remains of killed builds go first."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_remains(target)
        place = Path(tempfile.mkdtemp(prefix=f"{_prefix(target)}{os.getpid()}-", dir=target.parent))
    except OSError as error:
        raise UserError(f"Cannot write to {target.parent} ({error.strerror}): choose another place.") from error
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _prefix(target: Path) -> str:
    return f".{target.name}.building-"


def _remove_remains(target: Path) -> None:
    for remains in target.parent.iterdir():
        name = remains.name
        pid = name.removeprefix(_prefix(target)).partition("-")[0] if name.startswith(_prefix(target)) else ""
        if pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(remains, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write(place: Path, pages: Iterable[Page], progress: Callable[[int], None] | None) -> Intake:
    with _refused_files(place):
        (place / _INDEX).mkdir()
    intake, index, writer = Intake(), IndexBuilder(place / _INDEX), PageWriter(place / _PAGES)
    try:
        for page in pages:
            take_in(page, intake, writer.add, index)
            if progress is not None:
                progress(intake.counts.read)
        index.finish()
        writer.finish()
    finally:
        index.close()
        writer.close()
    with _refused_files(place):
        _write_note(place / _INDEX, intake.counts.kept)
    return intake


@contextmanager
def _refused_files(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {place} ({error.strerror}): free some space or choose another place.") from error


def _sync(directory: Path) -> None:
    """Bring all files to the disk before the directory gets its name."""
    for path in [*directory.rglob("*"), directory]:
        sync(path)


def _note(index: Path, pages: int) -> dict[str, object]:
    files = {
        path.name: path.stat().st_size
        for path in sorted(index.iterdir())
        if path.name != _INDEX_NOTE and path.suffix != ".lock"
    }
    return {"version": INDEX_VERSION, "pages": pages, "files": files}


def _write_note(index: Path, pages: int) -> None:
    (index / _INDEX_NOTE).write_text(json.dumps(_note(index, pages)), encoding="utf-8")


def _open_index(index: Path, pages: int) -> TextIndex | None:
    """The index, or None when it must be rebuilt."""
    try:
        note = json.loads((index / _INDEX_NOTE).read_text(encoding="utf-8"))
        if note != _note(index, pages):
            return None
        opened = TextIndex.open(index)
    except (OSError, ValueError):
        return None
    return opened if opened.page_count == pages else None


def _rebuild_index(directory: Path, pages: SqlitePages, count: int) -> TextIndex:
    """Index the stored pages anew: in the world's directory where that can be written, else in memory."""
    try:
        place = Path(tempfile.mkdtemp(prefix=".index-", dir=directory))
    except OSError:
        return _fill(IndexBuilder(None), pages, count)
    index = _fill(IndexBuilder(place), pages, count)
    _write_note(place, count)
    place.chmod(0o755)
    shutil.rmtree(directory / _INDEX, ignore_errors=True)
    try:
        place.rename(directory / _INDEX)
    except OSError:  # another process put its own there first; ours lives on in its open files
        shutil.rmtree(place, ignore_errors=True)
    return index


def _fill(builder: IndexBuilder, pages: SqlitePages, count: int) -> TextIndex:
    for number in range(count):
        page = pages.get(number).page
        builder.add(number, page.title, page.text)
    return builder.finish()
