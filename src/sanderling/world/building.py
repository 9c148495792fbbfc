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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import IO, Protocol

from pydantic import BaseModel, ConfigDict

from sanderling.core.errors import UserError
from sanderling.runs.files import sync
from sanderling.world.addresses import canonical_url, site
from sanderling.world.contract import Page
from sanderling.world.duplicates import signature
from sanderling.world.index import IndexBuilder, is_whole, write_note
from sanderling.world.pages import Intake, PageFile


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


class Feed(Protocol):
    """A stream of pages."""

    @property
    def stamp(self) -> str:
        """Changes when what is read changes; empty: each reading may differ."""
        ...

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after a mark; of the empty mark, all."""
        ...

    def mark(self) -> str:
        """Where the stream is: after the page that `pages` gave last."""
        ...

    def total(self) -> int | None:
        """How many documents there are, where that is known."""
        ...

    def read(self) -> int:
        """How many documents were read so far, pages or not."""
        ...

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents of each source, up to a mark."""
        ...


@dataclass
class PlainFeed:
    """Pages that are read once, from their beginning."""

    given: Iterable[Page]
    stamp: str = ""
    _read: int = 0

    def pages(self, mark: str = "") -> Iterator[Page]:
        """All pages. Raises ValueError for a mark: it has none."""
        if mark:
            raise ValueError("these pages cannot be taken up in the middle")
        for page in self.given:
            self._read += 1
            yield page

    def mark(self) -> str:
        return ""

    def total(self) -> int | None:
        return len(self.given) if isinstance(self.given, list | tuple) else None

    def read(self) -> int:
        return self._read

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """None: pages are given, not documents."""
        return ()


_LOCK, _STAMP = "lock", "stamp"
_SECONDS = 2.0
"""Of reading between two commits: what a kill can cost."""
_INDEXED = 20_000
"""Pages between two commits of the index, which cost more."""


class Stage(StrEnum):
    """What a build is doing."""

    READING = "reading"
    INDEXING = "indexing"
    COMPARING = "comparing"


Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, how much of it is done, and of how much, where that is known."""


def ignore(_stage: Stage, _done: int, _total: int | None) -> None:
    """Show no progress."""


class Leads(StrEnum):
    """Where a link leads."""

    INSIDE = "inside"
    DEAD = "dead"
    OUTSIDE = "outside"


class LinkCounts(BaseModel):
    """Where the links of pages lead; a link that two pages have counts twice."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inside: int = 0
    """To pages of the world."""
    dead: int = 0
    """To pages that the world does not hold, on sites of which it holds others."""
    outside: int = 0
    """To other sites."""

    def __add__(self, other: "LinkCounts") -> "LinkCounts":
        return LinkCounts(**{name: getattr(self, name) + getattr(other, name) for name in LinkCounts.model_fields})


@dataclass(frozen=True)
class LinkJudge:
    """Tells where links lead.

    Args:
        find: the number of a page by its key.
        has_site: whether any page of the world lies on a site.

    """

    find: Callable[[str], int | None]
    has_site: Callable[[str], bool]

    def leads(self, link: str) -> Leads:
        """Where one link leads."""
        key = canonical_url(link)
        if self.find(key) is not None:
            return Leads.INSIDE
        return Leads.DEAD if self.has_site(site(key)) else Leads.OUTSIDE

    def tally(self, links: Iterable[str]) -> Counter[Leads]:
        """The links of a page, by where they lead."""
        return Counter(map(self.leads, links))


def counts_of(tally: Mapping[Leads, int]) -> LinkCounts:
    """A tally as a world's manifest has it."""
    return LinkCounts(**{lead.value: tally.get(lead, 0) for lead in Leads})


def dead_links(pages: Iterable[Page], judge: LinkJudge) -> Iterator[tuple[str, str]]:
    """Every dead link, as (page, link)."""
    for page in pages:
        for link in page.links:
            if judge.leads(link) is Leads.DEAD:
                yield page.url, link


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
            _clear(path)
        place = Place(path)
        try:
            yield place
        finally:
            if place.finished or not _stamp_of(path):
                _remove(path)


def _remove(path: Path) -> None:
    """Take a directory away in one step, so that whoever builds here next begins with an empty one."""
    gone = path.with_name(f"{path.name}-{os.getpid()}.gone")
    try:
        path.rename(gone)
    except FileNotFoundError:  # it has become the world itself
        return
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


def _clear(place: Path) -> None:
    for path in place.iterdir():
        if path.name == _LOCK:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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


def read_in(file: PageFile, feed: Feed, fingerprint: str, progress: Progress) -> State:
    """Store what the feed gives from where it was left, and return the state at its end, committed."""
    state = State.model_validate_json(file.state) if file.state else None
    if state is None:
        state = State(stamp=feed.stamp, fingerprint=fingerprint, tally=Intake().tally)
        file.commit(state.model_dump_json())
        (file.path.parent / _STAMP).write_text(feed.stamp, encoding="utf-8")
    if state.is_read:
        return state
    intake = Intake(state.fingerprint, state.tally)
    last = time.monotonic()
    for page in feed.pages(state.mark):
        intake.take_in(page, file.add)
        progress(Stage.READING, feed.read(), feed.total())
        if time.monotonic() - last > _SECONDS:
            state = state.model_copy(update={"mark": feed.mark(), "fingerprint": intake.fingerprint, "tally": intake.tally})
            file.commit(state.model_dump_json())
            last = time.monotonic()
    state = state.model_copy(
        update={
            "is_read": True,
            "mark": feed.mark(),
            "fingerprint": intake.fingerprint,
            "tally": intake.tally,
            "indexed": file.first,
        }
    )
    file.commit(state.model_dump_json())
    return state


def work_through(file: PageFile, index: Path, state: State, progress: Progress) -> State:
    """The second pass: index, sign and follow the links of the stored pages, from where it was left.

    ``index``: a directory with the pages before this file's, or empty. It is whole, and noted so, when this returns.
    """
    if is_whole(index, file.end):
        return state
    builder = IndexBuilder(index)
    try:
        judge = LinkJudge(lru_cache(maxsize=100_000)(file.find), lru_cache(maxsize=100_000)(file.has_site))
        tally, done, indexed = Counter[Leads](), state.indexed, builder.committed
        for number, stored in file.pages(done):
            if number >= indexed:
                builder.add(number, stored.page.title, stored.page.text)
            if (row := signature(stored.page.text)) is not None:
                file.sign(number, row.tobytes())
            tally.update(judge.tally(stored.page.links))
            done = number + 1
            progress(Stage.INDEXING, done - file.first, file.end - file.first)
            if (done - file.first) % _INDEXED == 0:
                builder.commit()
                state = state.model_copy(update={"indexed": done, "links": state.links + counts_of(tally)})
                file.commit(state.model_dump_json())
                tally.clear()
        builder.finish()
    finally:
        builder.close()
    state = state.model_copy(update={"indexed": done, "links": state.links + counts_of(tally)})
    file.commit(state.model_dump_json())
    with writable(index):
        write_note(index, file.end)
    return state


@contextmanager
def writable(place: Path) -> Iterator[None]:
    """Tell in one sentence that files cannot be written. Raises UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"Cannot write {place} ({error.strerror}): free some space or choose another place.") from error


def sync_tree(directory: Path) -> None:
    """Bring all files of a directory to the disk. Raises OSError."""
    for path in [*directory.rglob("*"), directory]:
        sync(path)
