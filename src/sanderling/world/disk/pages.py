"""Pages by number (their order in the world) and by the key of their address; which pages enter a world, and what they hash to.

On disk a part of a world is an SQLite file, written once and then only read. Until `PageFile.finish` it is under construction:
what was committed survives a kill, together with the state that was committed with it, and writing goes on from there.
`SqlitePages` reads all parts of a world from any thread, and keeps a shared lock on each, so that `discard` leaves a file that
somebody still reads.
"""

import fcntl
import hashlib
import json
import os
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO, Protocol, Self

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url, site
from sanderling.world.contract import Page
from sanderling.world.text import clean, is_text


class Counts(Frozen):
    """Numbers by name that can be added up."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class WorldCounts(Counts):
    """What became of the pages that were given."""

    read: int = 0
    kept: int = 0
    not_text: int = 0
    """Of those kept: binary noise, kept by address without a body."""
    empty: int = 0
    duplicate: int = 0
    no_url: int = 0


NO_PAGES = hashlib.sha256(b"sanderling world 2").hexdigest()
"""The fingerprint of a world before its first page."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page and whether its body is text (binary noise is kept as an address without a body)."""

    page: Page
    readable: bool


class PageStore(Protocol):
    """Reading pages."""

    def get(self, number: int) -> StoredPage:
        """The page of a number. Raises KeyError when there is none, OSError when the store cannot be read."""
        ...

    def find(self, key: str) -> int | None:
        """The number of the page with this URL key (`canonical_url`)."""
        ...


@dataclass
class Intake:
    """Admits pages to a world, counts them, and hashes those that are kept, in order.

    The fingerprint is a chain, ``f(n) = SHA-256(f(n-1) + SHA-256(page n))``, so that it goes on where it was when pages
    are added, and depends on the pages and their order alone.
    """

    fingerprint: str = NO_PAGES
    """SHA-256 over the kept pages in order."""
    tally: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WorldCounts.model_fields, 0))
    """As `WorldCounts`."""

    @property
    def counts(self) -> WorldCounts:
        return WorldCounts(**self.tally)

    def _admitted(self, page: Page) -> StoredPage | None:
        """The page as it is stored, or None when it has no URL or no content."""
        self.tally["read"] += 1
        url, title, text = clean(page.url).strip(), " ".join(clean(page.title).split()), clean(page.text)
        if not url:
            self.tally["no_url"] += 1
            return None
        if not text.strip():
            self.tally["empty"] += 1
            return None
        readable = is_text(text)
        if not is_text(title):
            title = ""
        links = tuple(clean(link) for link in page.links)
        stored = Page(
            url=url, title=title, text=text if readable else "", links=links, date=clean(page.date), source=clean(page.source)
        )
        return StoredPage(stored, readable)

    def take_in(self, page: Page, add: Callable[[StoredPage], int | None]) -> int | None:
        """Admit, store, count and hash a page; its number, or None where it is not kept.

        ``add`` stores a page under the next number, and returns None when its URL is taken.
        """
        stored = self._admitted(page)
        number = None if stored is None else add(stored)
        if stored is None or number is None:
            self.tally["duplicate"] += stored is not None
            return None
        self.tally["kept"] += 1
        self.tally["not_text"] += not stored.readable
        held = stored.page
        record = [held.url, held.title, held.text, list(held.links), held.date, held.source, stored.readable]
        own = hashlib.sha256(json.dumps(record, ensure_ascii=False).encode("utf-8")).digest()
        self.fingerprint = hashlib.sha256(bytes.fromhex(self.fingerprint) + own).hexdigest()
        return number


class MemoryPages:
    """Pages in memory."""

    def __init__(self) -> None:
        self._pages: list[StoredPage] = []
        self._numbers: dict[str, int] = {}

    def add(self, stored: StoredPage) -> int | None:
        """Store a page under the next number; None when its URL is taken."""
        key = canonical_url(stored.page.url)
        if key in self._numbers:
            return None
        self._numbers[key] = len(self._pages)
        self._pages.append(stored)
        return len(self._pages) - 1

    def get(self, number: int) -> StoredPage:
        return self._pages[number]

    def find(self, key: str) -> int | None:
        return self._numbers.get(key)


# Files

_TABLES = (
    """CREATE TABLE IF NOT EXISTS pages (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL,
    title TEXT NOT NULL, text TEXT NOT NULL, links TEXT NOT NULL, date TEXT NOT NULL, source TEXT NOT NULL,
    readable INTEGER NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS signatures (number INTEGER PRIMARY KEY, signature BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sites (site TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS state (value TEXT NOT NULL)",
)
_COLUMNS = "url, title, text, links, date, source, readable"
_BLOCK = 500


def _stored(row: Sequence) -> StoredPage:
    url, title, text, links, date, source, readable = row
    page = Page.model_construct(
        url=url, title=title, text=text, links=tuple(json.loads(links)), date=date, source=source
    )  # it was validated when it was written
    return StoredPage(page, bool(readable))


def _read_only(path: Path) -> str:
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


class PageFile:
    """Writes a part of a world. Raises UserError when the disk does not take it.

    Args:
        path: a new file, or one that was left under construction.
        first: number of its first page.
        earlier: the parts before, whose addresses are taken; None: there are none.

    """

    def __init__(self, path: Path, first: int = 0, earlier: "SqlitePages | None" = None) -> None:
        self.path = path
        self.first = first
        self._earlier = earlier
        with _refused_writes():
            self._connection = sqlite3.connect(path.resolve().as_uri(), uri=True, isolation_level=None)
        try:
            self._run("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", *_TABLES, "BEGIN")
            last = self._run("SELECT max(number) FROM pages").fetchone()[0]
        except UserError:
            self.close()
            raise
        self.end = first if last is None else int(last) + 1
        """Number of the next page."""
        self._last_site = ""

    def add(self, stored: StoredPage) -> int | None:
        """Store a page under the next number; None when its URL is taken."""
        page = stored.page
        key = canonical_url(page.url)
        if self._earlier is not None and self._earlier.find(key) is not None:
            return None
        row = (self.end, key, page.url, page.title, page.text)
        row += (json.dumps(page.links, ensure_ascii=False), page.date, page.source, int(stored.readable))
        if self._run("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row=row).rowcount == 0:
            return None
        if (place := site(key)) != self._last_site:
            self._run("INSERT OR IGNORE INTO sites VALUES (?)", row=(place,))
            self._last_site = place
        self.end += 1
        return self.end - 1

    def pages(self, start: int) -> Iterator[tuple[int, StoredPage]]:
        """The stored pages from a number on; others may be written meanwhile."""
        while rows := self._run(
            f"SELECT number, {_COLUMNS} FROM pages WHERE number >= ? ORDER BY number LIMIT {_BLOCK}", row=(start,)
        ).fetchall():
            for number, *row in rows:
                yield number, _stored(row)
            start = rows[-1][0] + 1

    def find(self, key: str) -> int | None:
        """The number of a page of this part or an earlier one."""
        row = self._run("SELECT number FROM pages WHERE key = ?", row=(key,)).fetchone()
        if row is not None:
            return int(row[0])
        return None if self._earlier is None else self._earlier.find(key)

    def has_site(self, place: str) -> bool:
        """Whether a page of this part or an earlier one lies on a site (`addresses.site`)."""
        if self._run("SELECT 1 FROM sites WHERE site = ?", row=(place,)).fetchone() is not None:
            return True
        return self._earlier is not None and self._earlier.has_site(place)

    def sign(self, number: int, signature: bytes) -> None:
        self._run("INSERT OR REPLACE INTO signatures VALUES (?, ?)", row=(number, signature))

    def commit(self, state: str) -> None:
        """Make everything so far, and this state in place of the one before, survive a kill."""
        self._run("DELETE FROM state")
        self._run("INSERT INTO state VALUES (?)", row=(state,))
        self._run("COMMIT", "BEGIN")

    @property
    def state(self) -> str:
        """What was committed last; empty: nothing was."""
        row = self._run("SELECT value FROM state").fetchone()
        return "" if row is None else row[0]

    def absorb(self, part: Path, first: int) -> None:
        """Take over the part just before this one, whose first page has the number ``first``."""
        self._run("COMMIT")
        self._run("ATTACH ? AS part", row=(_read_only(part),))
        copies = (f"INSERT OR IGNORE INTO main.{name} SELECT * FROM part.{name}" for name in ("pages", "signatures", "sites"))
        self._run("BEGIN", *copies, "COMMIT", "DETACH part", "BEGIN")
        self.first = first

    def finish(self) -> None:
        """Make it a finished part, one file. Its state stays, so that a build killed after this still finds it whole."""
        self._run("COMMIT", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE")
        self.close()

    def close(self) -> None:
        """Close the file; what was not committed is void."""
        self._connection.close()

    def _run(self, *statements: str, row: tuple = ()) -> sqlite3.Cursor:
        with _refused_writes():
            for statement in statements[:-1]:
                self._connection.execute(statement, row)
            return self._connection.execute(statements[-1], row)


@contextmanager
def _refused_writes() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(f"Cannot write the pages ({error}): free some space or choose another place.") from error


@contextmanager
def _refused_reads() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"the page store cannot be read: {error}") from error


class SqlitePages:
    """The pages of a world's parts, read-only, from any thread.

    Args:
        parts: path and number of pages of each, in order.

    Raises FileNotFoundError when a part is missing or about to be discarded, another OSError when it is no such file.

    """

    def __init__(self, parts: Sequence[tuple[Path, int]]) -> None:
        self._leases = [_lease(path) for path, _count in parts]
        self._uris = [_read_only(path) for path, _count in parts]
        self._ends = list(accumulate(count for _path, count in parts))
        self._local = threading.local()
        with _refused_reads():
            for connection in self._connections():
                connection.execute("PRAGMA schema_version")

    def count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def get(self, number: int) -> StoredPage:
        if not 0 <= number < self.count():
            raise KeyError(number)
        row = self._row(bisect_right(self._ends, number), f"SELECT {_COLUMNS} FROM pages WHERE number = ?", number)
        if row is None:
            raise OSError(f"page {number} is missing from its file")
        return _stored(row)

    def all(self) -> Iterator[Page]:
        return (self.get(number).page for number in range(self.count()))

    def find(self, key: str) -> int | None:
        for part in range(len(self._ends)):
            row = self._row(part, "SELECT number FROM pages WHERE key = ?", key)
            if row is not None:
                return int(row[0])
        return None

    def has_site(self, place: str) -> bool:
        return any(self._row(part, "SELECT 1 FROM sites WHERE site = ?", place) for part in range(len(self._ends)))

    def signatures(self) -> Iterator[tuple[int, bytes]]:
        """The signatures of pages, by number; pages of few words have none."""
        with _refused_reads():
            for connection in self._connections():
                yield from connection.execute("SELECT number, signature FROM signatures ORDER BY number")

    def _row(self, part: int, sql: str, value: int | str) -> tuple | None:
        with _refused_reads():
            return self._connections()[part].execute(sql, (value,)).fetchone()

    def _connections(self) -> list[sqlite3.Connection]:
        """The thread's own; a forked process opens anew, as SQLite asks."""
        process, connections = getattr(self._local, "opened", (None, []))
        if process != os.getpid():
            connections = [sqlite3.connect(uri, uri=True) for uri in self._uris]
            self._local.opened = (os.getpid(), connections)
        return connections


def _lease(path: Path) -> IO[bytes]:
    """A shared lock on a file that is still in its place. Raises FileNotFoundError otherwise."""
    file = path.open("rb")
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise FileNotFoundError(f"{path} is about to be discarded") from None
    except OSError:  # a file system without locks: whoever adds pages there must stop the readers first
        return file
    if not path.exists() or os.fstat(file.fileno()).st_ino != path.stat().st_ino:
        file.close()
        raise FileNotFoundError(f"{path} was replaced")
    return file


def discard(path: Path) -> bool:
    """Remove a file of pages that no manifest names any more, unless somebody reads it; whether it is gone."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True
