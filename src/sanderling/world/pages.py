"""Where pages lie: by number (their order in the world) and by the key of their URL. In memory, or in a SQLite file.

The file is opened read-only, one connection for each thread. `Intake` decides which pages enter a world, the same way for both,
and keeps count of those that do not. Knows no index.
"""

import hashlib
import json
import os
import sqlite3
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sanderling.errors import UserError
from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page
from sanderling.world.text import clean, is_text


@dataclass(frozen=True)
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
class IntakeCounts:
    """What came in, by what became of it."""

    read: int = 0
    kept: int = 0
    not_text: int = 0
    """Kept by address only: the body was binary noise."""
    empty: int = 0
    duplicate: int = 0
    no_url: int = 0


@dataclass
class Intake:
    """Admits pages to a world, and hashes them in order."""

    counts: IntakeCounts = field(default_factory=IntakeCounts)
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def admit(self, page: Page) -> StoredPage | None:
        """The page as it is stored, or None when it has no URL or no content."""
        self.counts.read += 1
        url, title, text = clean(page.url).strip(), " ".join(clean(page.title).split()), clean(page.text)
        if not url:
            self.counts.no_url += 1
            return None
        if not text.strip():
            self.counts.empty += 1
            return None
        readable = is_text(text)
        if not is_text(title):
            title = ""
        links = tuple(clean(link) for link in page.links)
        stored = Page(
            url=url, title=title, text=text if readable else "", links=links, date=clean(page.date), source=clean(page.source)
        )
        return StoredPage(stored, readable)

    def keep(self, stored: StoredPage) -> None:
        """Count and hash a page that was stored."""
        self.counts.kept += 1
        self.counts.not_text += not stored.readable
        page = stored.page
        record = [page.url, page.title, page.text, list(page.links), page.date, page.source, stored.readable]
        self._digest.update(json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n")

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the kept pages in order."""
        return self._digest.hexdigest()


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


_TABLE = """CREATE TABLE pages (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL, title TEXT NOT NULL,
text TEXT NOT NULL, links TEXT NOT NULL, date TEXT NOT NULL, source TEXT NOT NULL, readable INTEGER NOT NULL)"""


class PageWriter:
    """Writes the SQLite file of a world that is being built. Raises UserError when the disk does not take it."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE, "BEGIN"):
            self._run(statement)
        self._next = 0

    def add(self, stored: StoredPage) -> int | None:
        """Store a page under the next number; None when its URL is taken."""
        page = stored.page
        row = (self._next, canonical_url(page.url), page.url, page.title, page.text)
        row += (json.dumps(page.links, ensure_ascii=False), page.date, page.source, int(stored.readable))
        if self._run("INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row).rowcount == 0:
            return None
        self._next += 1
        return self._next - 1

    def finish(self) -> None:
        """Write what is left; the file is whole afterwards."""
        self._run("COMMIT")

    def close(self) -> None:
        """Close the file; without `finish` before, what it holds is void."""
        self._connection.close()

    def _run(self, sql: str, row: tuple = ()) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, row)
        except sqlite3.Error as error:
            raise UserError(f"Cannot write the pages ({error}): free some space or choose another place.") from error


class SqlitePages:
    """Pages in a SQLite file, read-only, from any thread."""

    def __init__(self, path: Path) -> None:
        self._uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._local = threading.local()

    def _row(self, sql: str, value: int | str) -> tuple | None:
        try:
            return self._connection().execute(sql, (value,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(f"the page store cannot be read: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        """The thread's own; a forked process opens anew, as SQLite asks."""
        process, connection = getattr(self._local, "opened", (None, None))
        if connection is None or process != os.getpid():
            connection = sqlite3.connect(self._uri, uri=True)
            self._local.opened = (os.getpid(), connection)
        return connection

    def count(self) -> int:
        """Number of pages."""
        row = self._row("SELECT count(*) FROM pages WHERE number >= ?", 0)
        return int(row[0]) if row else 0

    def get(self, number: int) -> StoredPage:
        row = self._row("SELECT url, title, text, links, date, source, readable FROM pages WHERE number = ?", number)
        if row is None:
            raise KeyError(number)
        url, title, text, links, date, source, readable = row
        page = Page(url=url, title=title, text=text, links=tuple(json.loads(links)), date=date, source=source)
        return StoredPage(page, bool(readable))

    def find(self, key: str) -> int | None:
        row = self._row("SELECT number FROM pages WHERE key = ?", key)
        return None if row is None else int(row[0])
