"""Building: a stream of pages is read in, then indexed, signed and linked; a kill at any moment loses seconds.

A place is a directory in which one process builds, guarded by a lock that ends with the process. What was read in is committed
every few seconds together with the feed's mark, so that the same command goes on from there; so is the second pass over the
stored pages. Memory does not grow with the number of pages. `store` makes a world of what lies here.
"""

import fcntl
import glob
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url, site
from sanderling.world.contract import Page
from sanderling.world.disk.duplicates import signature
from sanderling.world.disk.index import IndexBuilder, is_whole, write_note
from sanderling.world.disk.pages import Counts, Intake, PageFile

_LOCK, _STAMP = "lock", "stamp"
_SECONDS = 2.0
"""Of reading between two commits: what a kill can cost."""
_INDEXED = 20_000
"""Pages between two commits of the index, which cost more."""


class SourceAccount(BaseModel):
    """What became of the documents of one source; counted up while it is read."""

    model_config = ConfigDict(extra="forbid")

    name: str
    documents: int = 0
    pages: int = 0
    skipped: dict[str, int] = {}
    """By reason (`sources.base.Reason`)."""
    examples: dict[str, list[str]] = {}
    """Where the first few of each reason are."""


class Feed:
    """A stream of pages: those that are given, read once; sources make of it one that is taken up where it was left.

    `pages(mark)` goes on after the page at which `mark()` gave that mark.
    """

    stamp: str = ""
    """Changes when what is read changes: an interrupted build goes on only with an equal one. Empty: it cannot be taken up."""

    def __init__(self, given: Iterable[Page] = ()) -> None:
        self._given = given
        self._read = 0

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after a mark; of the empty mark, all. Raises ValueError where they cannot be taken up in the middle."""
        if mark:
            raise ValueError("these pages cannot be taken up in the middle")
        for page in self._given:
            self._read += 1
            yield page

    def mark(self) -> str:
        """Where the stream is: after the page that `pages` gave last."""
        return ""

    def total(self) -> int | None:
        """How many documents there are, where that is known."""
        return len(self._given) if isinstance(self._given, list | tuple) else None

    def read(self) -> int:
        """How many documents were read so far, pages or not."""
        return self._read

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents of each source, up to a mark; none where pages are given, not documents."""
        return ()


# Links


class Leads(StrEnum):
    """Where a link leads: to a page of the world, to a page that its sites lack, or to another site."""

    INSIDE = "inside"
    DEAD = "dead"
    OUTSIDE = "outside"


class LinkCounts(Counts):
    """Links of pages by where they lead (`Leads`); a link that two pages have counts twice."""

    inside: int = 0
    dead: int = 0
    outside: int = 0


def leads(link: str, find: Callable[[str], int | None], has_site: Callable[[str], bool]) -> Leads:
    """Where a link leads; what lies on sites of which it holds no page, a world cannot know.

    ``find``: the number of a page by its key; ``has_site``: whether any page lies on a site.
    """
    key = canonical_url(link)
    if find(key) is not None:
        return Leads.INSIDE
    return Leads.DEAD if has_site(site(key)) else Leads.OUTSIDE


# The place


@dataclass
class Place:
    """A directory that one process holds to build in."""

    path: Path
    finished: bool = False
    """Nothing in it is wanted any more."""


@contextmanager
def building_place(path: Path, stamp: str, *, fresh: bool) -> Iterator[Place]:
    """Hold a place to build in; what a killed build of the same stamp left there stays.

    Left unfinished, a place with a stamp stays, so that the build can go on from it. Raises UserError when another process
    builds there, when remains of another build lie there (``fresh`` removes them), or when it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        for remains in path.parent.glob(f"{glob.escape(path.name)}-*.gone"):
            shutil.rmtree(remains, ignore_errors=True)
        lock = _locked(path)
    except OSError as error:
        raise UserError(f"Cannot write to {path.parent} ({error.strerror}): choose another place.") from error
    with lock:
        found = _stamp_of(path)
        if found and found != stamp and not fresh:
            raise UserError(
                f"{path} holds an interrupted build of other sources or settings: "
                "run its command again to finish it, or remove that directory to start over (as --fresh does, if it is there)."
            )
        if fresh or not found:
            for remains in path.iterdir():
                if remains.is_dir():
                    shutil.rmtree(remains, ignore_errors=True)
                elif remains.name != _LOCK:
                    remains.unlink(missing_ok=True)
        place = Place(path)
        try:
            yield place
        finally:
            if place.finished or not _stamp_of(path):
                _remove(path)


def _remove(path: Path) -> None:
    """Take a directory away in one step, so that whoever builds here next begins with an empty one."""
    gone = path.with_name(f"{path.name}-{os.getpid()}.gone")
    with suppress(FileNotFoundError):  # it has become the world itself
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _locked(place: Path) -> IO[bytes]:
    """The place's lock file, locked. Raises UserError when another process has it, OSError when it cannot be made."""
    lock = (place / _LOCK).open("ab")
    with suppress(BlockingIOError, FileNotFoundError):  # held by another process, or just finished by it: not ours either way
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_ino == (place / _LOCK).stat().st_ino:
            return lock
    lock.close()
    raise UserError(f"Another process is building in {place}: wait for it, or stop it first.")


def _stamp_of(place: Path) -> str:
    """The stamp of the build that was interrupted here; empty: none was, or it cannot be taken up."""
    try:
        return (place / _STAMP).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def unmark(directory: Path) -> None:
    """Remove what marks a directory as a place to build in."""
    for name in (_LOCK, _STAMP):
        (directory / name).unlink(missing_ok=True)


@contextmanager
def writable(place: Path) -> Iterator[None]:
    """Tell in one sentence that files cannot be written. Raises UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {place} ({error.strerror}): free some space or choose another place.") from error


# The two passes


class Stage(StrEnum):
    """What a build is doing."""

    READING = "reading"
    INDEXING = "indexing"
    COMPARING = "comparing"


Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, how much of it is done, and of how much, where that is known."""


def ignore(_stage: Stage, _done: int, _total: int | None) -> None:
    """Show no progress."""


class State(BaseModel):
    """How far a build has come; committed with its pages."""

    model_config = ConfigDict(extra="forbid")

    stamp: str
    mark: str = ""
    fingerprint: str
    tally: dict[str, int]
    is_read: bool = False
    indexed: int = 0
    """Number of the next page of the second pass."""
    links: LinkCounts = LinkCounts()


def read_in(file: PageFile, feed: Feed, fingerprint: str, progress: Progress) -> State:
    """Store what the feed gives from where it was left, and return the state at its end, committed."""
    if file.state:
        state = State.model_validate_json(file.state)
    else:
        state = State(stamp=feed.stamp, fingerprint=fingerprint, tally=Intake().tally)
        file.commit(state.model_dump_json())
        (file.path.parent / _STAMP).write_text(feed.stamp, encoding="utf-8")
    if state.is_read:
        return state
    intake, last = Intake(state.fingerprint, state.tally), time.monotonic()

    def commit() -> None:
        state.mark, state.fingerprint, state.tally = feed.mark(), intake.fingerprint, intake.tally
        file.commit(state.model_dump_json())

    for page in feed.pages(state.mark):
        intake.take_in(page, file.add)
        progress(Stage.READING, feed.read(), feed.total())
        if time.monotonic() - last > _SECONDS:
            commit()
            last = time.monotonic()
    state.is_read, state.indexed = True, file.first
    commit()
    return state


def work_through(file: PageFile, index: Path, state: State, progress: Progress) -> State:
    """The second pass: index, sign and follow the links of the stored pages, from where it was left.

    ``index``: a directory with the pages before this file's, or empty. It is whole, and noted so, when this returns.
    """
    if is_whole(index, file.end):
        return state
    find, has_site = lru_cache(maxsize=100_000)(file.find), lru_cache(maxsize=100_000)(file.has_site)
    builder, tally, done = IndexBuilder(index), Counter[str](), state.indexed

    def commit() -> None:
        state.indexed, state.links = done, state.links + LinkCounts(**tally)
        file.commit(state.model_dump_json())
        tally.clear()

    try:
        indexed = builder.committed
        for number, stored in file.pages(done):
            if number >= indexed:
                builder.add(number, stored.page.title, stored.page.text)
            if (row := signature(stored.page.text)) is not None:
                file.sign(number, row.tobytes())
            tally.update(leads(link, find, has_site).value for link in stored.page.links)
            done = number + 1
            progress(Stage.INDEXING, done - file.first, file.end - file.first)
            if (done - file.first) % _INDEXED == 0:
                builder.commit()
                commit()
        builder.finish()
    finally:
        builder.close()
    commit()
    with writable(index):
        write_note(index, file.end)
    return state
