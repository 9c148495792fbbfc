"""Folders of documents as worlds in the user's cache: built once, and anew when a file has come, gone or changed.

Of a folder that has changed, only what is new in it is read again. Processes that want the same folder wait for each other.
"""

import hashlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

import sanderling
from sanderling.core.errors import UserError
from sanderling.core.text import visible
from sanderling.runs.files import LOCK, close_directory, or_cannot, user_cache
from sanderling.world.contract import Page
from sanderling.world.disk.building import Stage, build_world
from sanderling.world.disk.store import open_world, read_manifest
from sanderling.world.local import LocalWorld
from sanderling.world.sources.base import Reason, Skipped, file_facts
from sanderling.world.sources.documents import FolderSource
from sanderling.world.sources.kinds import Gathering, open_sources

_FILES = "files.json"  # in a folder's world: of each file its facts, and the address of its page or why there is none
_SECONDS = 5.0  # between two lines on the work

Notice = Callable[[str], None]
"""Called with one line."""


class Documents(FolderSource):
    """A folder without its hidden folders; what an earlier world holds of it is not read again."""

    def __init__(self, place: Path, base_url: str) -> None:
        super().__init__(place, base_url)
        self.files: dict[str, list[str]] = {}  # by name: facts, the page's address, why there is none
        self._before: dict[str, list[str]] = {}
        self._world: LocalWorld | None = None

    def documents(self) -> Iterator[Path | Skipped]:
        for one in super().documents():
            path = Path(one.where) if isinstance(one, Skipped) else one.relative_to(self._root)
            if not any(part.startswith(".") for part in path.parts[:-1]):
                yield one

    def take_over(self, world: Path) -> None:
        """Use what a world holds, if this version of ours made it and it is whole."""
        try:
            if read_manifest(world).package == sanderling.__version__:
                self._before = json.loads((world / _FILES).read_text(encoding="utf-8"))
                self._world = open_world(world)
        except (UserError, OSError, ValueError):
            self._before = {}

    def read(self, file: Path) -> Page | Skipped:
        where, facts = os.fsencode(file.relative_to(self._root)).decode("utf-8", "replace"), file_facts(file)
        was, url, reason = self._before.get(where, ["", "", ""])
        known = None
        if was == facts and self._world is not None and reason != Reason.OTHER_KIND:  # which may be read by now
            known = Skipped(where, Reason(reason)) if reason else self._world.page(url)
        found = known or super().read(file)
        self.files[where] = [facts, found.url, ""] if isinstance(found, Page) else [facts, "", found.reason.value]
        return found


def documents_in(folders: Sequence[Path]) -> list[Documents]:
    """Folders, each once; those of one name have addresses and names of their own. Raises UserError for one that is none."""
    places = list(dict.fromkeys(folder.resolve() for folder in folders))
    return [Documents(one, getattr(source, "base_url", "")) for one, source in zip(places, open_sources(places), strict=True)]


def files_in(several: Iterable[Sequence[Path]]) -> Callable[[str], Path | None]:
    """From a page's address to its file in folders, of which those that were given together stand together.

    None: it is there no more, or could be one of several.
    """
    given = [source for folders in several for source in documents_in([folder for folder in folders if folder.is_dir()])]

    def found(address: str) -> Path | None:
        files = {file for source in given if (file := source.file(address)) is not None}
        return files.pop() if len(files) == 1 else None

    return found


def documents_world(source: Documents, *, notice: Notice = lambda line: None) -> Path:
    """The directory of a folder's world, built if it is not there as the folder is now.

    ``notice`` hears of work that takes a while, and of files that could not be read. Raises UserError where none can.
    """
    gathered = Gathering([source])
    states = user_cache() / "documents" / hashlib.sha256(os.fsencode(source.path) + source.base_url.encode()).hexdigest()[:16]
    world = states / gathered.stamp
    if not _is_whole(world):
        with or_cannot(
            f"keep what {source.path} says in {states}", "free some space, or let XDG_CACHE_HOME name another place"
        ):
            close_directory(states)
            with FileLock(states / LOCK):  # another process may be reading the folder: what it makes serves here, too
                if not _is_whole(world):
                    _build(world, source, gathered, notice)
    told = _left_out(world)
    if told:
        notice(f"{visible(source.name)}: {told}")
    return world


def _is_whole(world: Path) -> bool:
    try:
        open_world(world)
    except (UserError, OSError):
        return False
    return True


def _build(world: Path, source: Documents, gathered: Gathering, notice: Notice) -> None:
    """Build a folder's world, and remove all others of it."""
    earlier = [one for one in world.parent.iterdir() if one.name not in (LOCK, world.name)]
    for one in earlier:
        if not one.name.startswith(".") and one.is_dir():
            source.take_over(one)
    shutil.rmtree(world, ignore_errors=True)  # it is damaged
    last = time.monotonic()

    def progress(stage: Stage, done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last > _SECONDS:
            notice(f"{visible(source.name)}: {stage.value}, {done:,}{f' of {total:,}' if total else ''} files")
            last = time.monotonic()

    def finish(place: Path) -> None:
        (place / _FILES).write_text(json.dumps(source.files), encoding="utf-8")

    try:
        with _interruptible():
            notice(f"{visible(source.name)}: reading what is new")
            build_world(world, gathered, name=source.name, source=f"folder:{source.name}", progress=progress, finish=finish)
    except UserError as error:
        if error.__cause__ is not None or any(url for _, url, _ in source.files.values()):
            raise  # the folder is not to blame
        hint = "it is a built world, for --world" if _is_whole(source.path) else "give a folder with documents"
        raise UserError(f"Nothing in {source.path} can be read: {hint}. ({error})") from error
    for one in earlier:
        shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the work at once, though an event loop waits for it, which would first let it come to its end."""
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _left_out(world: Path) -> str:
    """Which files are in no page, and why; those of other kinds are only counted. Empty: none."""
    parts = []
    for account in read_manifest(world).accounts:
        for reason, count in account.skipped.items():
            examples = account.examples[reason][:3] if reason != Reason.OTHER_KIND else ()
            names = [visible(" ".join(name.split())) for name in examples]
            shown = ", ".join([*names, *(["…"] if count > len(names) else [])]) if names else ""
            parts.append(f"{count:,} {reason.replace('-', ' ')}{f' ({shown})' if shown else ''}")
    return f"not read: {'; '.join(parts)}" if parts else ""
