"""Building: a stream of pages is read into a file of pages, then indexed and signed for near-duplicates.

A world is built beside its place and renamed at the end; pages are added to it as further files. The first pass is committed
every few seconds with the feed's mark, so an interrupted build or addition resumes from there.
"""

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import sanderling
from sanderling.core.errors import UserError
from sanderling.runs.files import locked, sync
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.duplicates import near_duplicates, save_groups, signature
from sanderling.world.disk.index import IndexBuilder, sound_index
from sanderling.world.disk.pages import DamageError, Intake, SqlitePages, WorldCounts, checksum, connected, writable
from sanderling.world.disk.parts import absorb
from sanderling.world.disk.store import (
    PagePart,
    SourceAccount,
    WorldInfo,
    groups_file,
    open_pages,
    read_manifest,
    write_manifest,
)

STAMP = "stamp"  # the file that says what is built in a place; without it nothing there is wanted any more
_ADDING = "adding"
_SECONDS = 2.0  # of reading between two commits: what a kill can cost


class Feed:
    """A stream of pages: those that are given, read once; sources make of it one that is taken up where it was left.

    ``stamp`` changes when what is read changes; empty: it cannot be taken up. ``read``: documents so far, pages or not.
    """

    stamp: str = ""

    def __init__(self, given: Iterable[Page] = ()) -> None:
        self._given = given
        self.read = 0

    def pages(self, mark: str = "") -> Iterator[Page]:
        """The pages after the one at which `mark` gave this; of the empty mark, all."""
        for page in self._given:
            self.read += 1
            yield page

    def mark(self) -> str:
        """Where the stream is: after the page that `pages` gave last."""
        return ""

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        """What became of the documents of each source, up to a mark; none where pages are given, not documents."""
        return ()


_TABLES = (
    """CREATE TABLE IF NOT EXISTS pages (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL,
    title TEXT NOT NULL, text TEXT NOT NULL, links TEXT NOT NULL, date TEXT NOT NULL, source TEXT NOT NULL,
    checksum INTEGER NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS signatures (number INTEGER PRIMARY KEY, signature BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS state (value TEXT NOT NULL)",
)


class PageFile(SqlitePages):
    """The last part of a world while it is written, after those ``earlier``: what was committed survives a kill."""

    def __init__(self, path: Path, earlier: SqlitePages | None = None) -> None:
        super().__init__([])
        self._earlier = SqlitePages([]) if earlier is None else earlier
        self.first = self._earlier.count()
        self._paths = [*self._earlier._paths, path]
        with writable("the pages", sqlite3.Error):
            own = connected(path.absolute().as_uri())
        self._connections = [*self._earlier._connections, own]
        try:
            self._run("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", *_TABLES, "BEGIN")
            last = self._run("SELECT max(number) FROM pages").fetchone()[0]
        except UserError:
            self.close()
            raise
        self._ends = [*self._earlier._ends, self.first if last is None else last + 1]

    def add(self, page: Page) -> int | None:
        """Store a page under the next number; None when its URL is taken."""
        number, key = self.count(), canonical_url(page.url)
        if self._earlier.find(key) is not None:
            return None
        links = json.dumps(page.links, ensure_ascii=False)
        row = (key, page.url, page.title, page.text, links, page.date, page.source)
        sealed = checksum(*(field.encode() for field in (str(number), *row)))
        stored = self._run("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row=(number, *row, sealed))
        if not stored.rowcount:
            return None
        self._ends[-1] += 1
        return number

    def sign(self, number: int, signature: bytes) -> None:
        row = (number, signature, checksum(b"%d" % number, signature))
        self._run("INSERT OR REPLACE INTO signatures VALUES (?, ?, ?)", row=row)

    def commit(self, state: str) -> None:
        """Make everything so far, and this state in place of the one before, survive a kill."""
        self._run("INSERT OR REPLACE INTO state (rowid, value) VALUES (1, ?)", row=(state,))
        self._run("COMMIT", "BEGIN")

    @property
    def state(self) -> bytes:
        row = self._run("SELECT value FROM state").fetchone()
        return b"" if row is None else row[0]

    def finish(self) -> None:
        """Make it a finished part, one file, with its state, so that a build killed after this still finds it whole."""
        self._run("COMMIT", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE")
        self.close()

    def close(self) -> None:
        self._connections[-1].close()

    def _run(self, *statements: str, row: tuple = ()) -> sqlite3.Cursor:
        with writable("the pages", sqlite3.Error):
            *others, last = statements
            for statement in others:
                self._connections[-1].execute(statement)
            return self._connections[-1].execute(last, row)


@contextmanager
def building_place(path: Path, stamp: str, *, fresh: bool = False) -> Iterator[None]:
    """Hold a directory to build in; a build that is cut short leaves its work there, and one of the same stamp goes on with it.

    One that met damage leaves nothing, since it would come no further. Raises UserError when another process or the remains of
    another build (``fresh`` removes them) are there.
    """
    with locked(path, beside=True):
        found = _stamp(path)
        if found and found != stamp and not fresh:
            raise UserError(
                f"{path} holds an interrupted build of other sources or settings: "
                "run its command again to finish it, or remove that directory to start over."
            )
        if fresh or not found:
            shutil.rmtree(path, ignore_errors=True)
        with writable(path):
            path.mkdir(exist_ok=True)
        try:
            yield
        except DamageError:
            (path / STAMP).unlink(missing_ok=True)
            raise
        finally:
            if not _stamp(path):
                shutil.rmtree(path, ignore_errors=True)


def _stamp(place: Path) -> str:
    """The stamp of the build that was interrupted here; empty: none was."""
    return (place / STAMP).read_text(encoding="utf-8") if (place / STAMP).is_file() else ""


class Stage(StrEnum):
    """What a build is doing."""

    READING = "reading"
    INDEXING = "indexing"
    COMPARING = "comparing"


Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, how much of it is done, and of how much, where that is known."""


def ignore(_stage: Stage, _done: int, _total: int | None) -> None:
    """Show no progress."""


class State(Intake):
    """How far a build has come; committed with its pages."""

    mark: str = ""
    is_read: bool = False
    is_indexed: bool = False


def fill(pages: Path, index: Path, feed: Feed, before: State, progress: Progress, earlier: SqlitePages | None = None) -> State:
    """Write what a feed gives into a file of pages and an index that has the earlier ones, from where it was left."""
    file = PageFile(pages, earlier)
    try:
        state = State.model_validate_json(file.state) if file.state else before
        if not file.state:
            file.commit(state.model_dump_json())
            (pages.parent / STAMP).write_text(feed.stamp, encoding="utf-8")
        if not state.is_read:
            _read_in(file, feed, state, progress)
        if not state.is_indexed:
            _work_through(file, index, state, progress)
        file.finish()
    finally:
        file.close()
    return state


def _read_in(file: PageFile, feed: Feed, state: State, progress: Progress) -> None:
    """The first pass: store what the feed gives."""
    last = time.monotonic()
    for page in feed.pages(state.mark):
        state.take_in(page, file.add)
        progress(Stage.READING, feed.read, None)
        if time.monotonic() - last > _SECONDS:
            state.mark = feed.mark()
            file.commit(state.model_dump_json())
            last = time.monotonic()
    state.mark, state.is_read = feed.mark(), True
    file.commit(state.model_dump_json())


def _work_through(file: PageFile, index: Path, state: State, progress: Progress) -> None:
    """The second pass: index and sign the stored pages, in one go."""
    builder, end = IndexBuilder(index), file.count()
    try:
        committed = builder.committed  # all, where it was killed just before the end
        for number, page in enumerate(file.all(file.first), start=file.first):
            if number >= committed:
                builder.add(number, page.title, page.text)
            file.sign(number, signature(page.text) or b"")
            progress(Stage.INDEXING, number + 1 - file.first, end - file.first)
        builder.finish()
    finally:
        builder.close()
    state.is_indexed = True
    file.commit(state.model_dump_json())


def build_world(
    directory: Path,
    pages: Feed | Iterable[Page],
    *,
    name: str,
    source: str,
    seed: int | None = None,
    progress: Progress = ignore,
    finish: Callable[[Path], None] | None = None,
) -> WorldInfo:
    """Build a world in a directory that does not exist or is empty, or go on with a build of the same feed.

    ``finish`` writes further files into the directory that is handed to it, before the world is in its place. Raises UserError
    when something is in the way, or when no page is left to hold.
    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    place = directory.with_name(f".{directory.name}.building")
    with building_place(place, feed.stamp):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UserError(f"{directory} is already there: choose another place, or remove it first.")
        with writable(directory):
            (place / "index-0").mkdir(exist_ok=True)
        none = {"counts": WorldCounts(), "parts": (), "index": "", "fingerprint": State().fingerprint}
        nothing = WorldInfo(name=name, source=source, seed=seed, generation=-1, **none)
        info, counts = _extended(nothing, place, feed, progress)
        if not counts.kept:
            (place / STAMP).unlink()
            reasons = [f"{account.examples[why][0]} is {why}" for account in info.accounts for why in account.examples]
            told = f" ({'; '.join(reasons[:3])}{'; …' if len(reasons) > 3 else ''})"
            raise UserError(
                f"The world {name!r} would hold no page{told if reasons else ': give pages that have a URL and text'}."
            )
        with writable(directory):
            progress(Stage.COMPARING, 0, None)
            compare_pages(place, info)
            if finish is not None:
                finish(place)
            write_manifest(place, info)
            (place / STAMP).unlink()
            for path in [*place.rglob("*"), place]:  # whole on the disk before it has its name
                sync(path)
            place.rename(directory)
            sync(directory.parent)
    return info


def add_to_world(
    directory: Path, pages: Feed | Iterable[Page], *, source: str, progress: Progress = ignore
) -> tuple[WorldInfo, WorldCounts]:
    """Add pages to a world, or go on with an addition of the same feed; its new manifest, and what became of the pages.

    Pages whose address the world has are left out and counted. Raises UserError when there is no world, or something is in the
    way.
    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    place = directory / _ADDING
    was_done = (place / f"pages-{read_manifest(directory).generation}.sqlite").exists()  # killed after its last step
    with building_place(place, feed.stamp, fresh=was_done):
        before = read_manifest(directory)  # another process may have added meanwhile
        earlier, index = open_pages(directory, before), place / f"index-{before.generation + 1}"
        with writable(directory):
            if not index.is_dir():
                sound_index(directory / before.index, earlier, before.page_count)
                link_index(directory / before.index, index)
        renamed = before.model_copy(update={"source": f"{before.source} + {source}"})
        after, counts = _extended(renamed, place, feed, progress, earlier)
        if not counts.kept:
            (place / STAMP).unlink()
            return before, counts
        with writable(directory):
            pages_file, new_index = directory / after.parts[-1].file, directory / after.index
            pages_file.unlink(missing_ok=True)  # what a killed addition left there
            linked(place / pages_file.name, pages_file)
            link_index(index, new_index)
            progress(Stage.COMPARING, 0, None)
            compare_pages(directory, after)
            for path in [*new_index.rglob("*"), new_index, pages_file]:
                sync(path)
            write_manifest(directory, after)
            (place / STAMP).unlink()
    # What neither state names goes; the state before may just be opened. Whoever has a file of pages open goes on reading it.
    named = {part.file for info in (before, after) for part in info.parts} | {before.index, after.index}
    named |= {groups_file(before.fingerprint), groups_file(after.fingerprint)}
    for pattern in ("pages-*.sqlite", "index-*", "duplicates-*.json"):
        for path in (path for path in directory.glob(pattern) if path.name not in named):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return after, counts


def _extended(
    before: WorldInfo, place: Path, feed: Feed, progress: Progress, earlier: SqlitePages | None = None
) -> tuple[WorldInfo, WorldCounts]:
    """A world's manifest with the pages of a feed, whose file and index lie in ``place`` now, and what became of them."""
    generation = before.generation + 1
    file, index = place / f"pages-{generation}.sqlite", place / f"index-{generation}"
    state = fill(file, index, feed, State(fingerprint=before.fingerprint), progress, earlier)
    counts = WorldCounts(**state.tally)
    parts, taken, count = list(before.parts), list[Path](), counts.kept
    # the new file takes over the last ones while they are not much larger: there are about as many as the pages' logarithm
    while parts and parts[-1].pages < 2 * count:
        count += parts[-1].pages
        taken.append(place.parent / parts.pop().file)
    if earlier is not None:
        for number in range(before.page_count - (count - counts.kept), before.page_count):
            earlier.get(number)  # no damage is taken over unseen
    absorb(file, taken)
    update = {
        "package": sanderling.__version__,
        "counts": before.counts + counts,
        "accounts": (*before.accounts, *feed.accounts(state.mark)),
        "generation": generation,
        "parts": (*parts, PagePart(file=file.name, pages=count, bytes=file.stat().st_size)),
        "index": index.name,
        "fingerprint": state.fingerprint,
    }
    return before.model_copy(update=update), counts


def compare_pages(directory: Path, info: WorldInfo) -> None:
    """Find a world's near-duplicates and write them down by URL, for masks to reach."""
    pages = open_pages(directory, info)
    groups = near_duplicates(pages.signatures())
    save_groups(directory, info.fingerprint, [[pages.get(number).url for number in group] for group in groups])


def linked(file: str | Path, target: str | Path) -> None:
    """Make ``target`` a second name of a file that never changes; a copy on a file system without links. Raises OSError."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)


def link_index(index: Path, target: Path) -> None:
    """Make ``target`` a second name of all files of an index, which tantivy never changes; it is whole or absent."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(index, partial, copy_function=linked, ignore=shutil.ignore_patterns("*.lock"))
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
