"""Pages by number (their order in the world) and by the key of their address; which pages enter a world, and what they hash to.

A part of a world is an SQLite file, written once and then only read.
"""

import hashlib
import json
import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Protocol, Self

from pydantic import BaseModel

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.text import clean, is_text


@contextmanager
def writable(what: str | Path, *kinds: type[Exception]) -> Iterator[None]:
    """Tell in one sentence that something cannot be written: OSErrors, and errors of these kinds. Raises UserError."""
    try:
        yield
    except UserError:
        raise
    except (OSError, *kinds) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"Cannot write {what} ({why}): free some space or choose another place.") from error


class WorldCounts(Frozen):
    """What became of the pages that were given; ``not_text``: kept by address without a body, which is binary noise."""

    read: int = 0
    kept: int = 0
    not_text: int = 0
    empty: int = 0
    duplicate: int = 0
    no_url: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class Intake(BaseModel):
    """Admits pages to a world, counts them, and hashes those that are kept, in order.

    The fingerprint is a chain, ``f(n) = SHA-256(f(n-1) + SHA-256(page n))``: it goes on where it was when pages are added.
    """

    fingerprint: str = hashlib.sha256(b"sanderling world 2").hexdigest()
    tally: dict[str, int] = dict.fromkeys(WorldCounts.model_fields, 0)

    def take_in(self, page: Page, add: Callable[[Page], int | None]) -> int | None:
        """Clean, store, count and hash a page; its number, or None where it is left out (``add``: its URL is taken)."""
        self.tally["read"] += 1
        url, title, text = clean(page.url).strip(), " ".join(clean(page.title).split()), clean(page.text)
        if not url or not text.strip():
            self.tally["empty" if url else "no_url"] += 1
            return None
        readable = is_text(text)
        kept = Page(
            url=url,
            title=title if is_text(title) else "",
            text=text if readable else "",
            links=tuple(clean(link) for link in page.links),
            date=clean(page.date),
            source=clean(page.source),
        )
        number = add(kept)
        if number is None:
            self.tally["duplicate"] += 1
            return None
        self.tally["kept"] += 1
        self.tally["not_text"] += not readable
        record = [kept.url, kept.title, kept.text, list(kept.links), kept.date, kept.source, readable]
        own = hashlib.sha256(json.dumps(record, ensure_ascii=False).encode("utf-8")).digest()
        self.fingerprint = hashlib.sha256(bytes.fromhex(self.fingerprint) + own).hexdigest()
        return number


class PageStore(Protocol):
    """Pages by number (KeyError: there is none), and numbers by URL key (`canonical_url`). Raises OSError as its files do."""

    def get(self, number: int) -> Page: ...

    def find(self, key: str) -> int | None: ...


class SqlitePages:
    """The pages of a world's parts (path and number of pages of each), from any thread. Raises OSError."""

    def __init__(self, parts: Sequence[tuple[Path, int]]) -> None:
        self._ends = list(accumulate(count for _path, count in parts))
        self._lock = threading.Lock()
        with self._errors():
            self._connections = [sqlite3.connect(read_only_uri(path), uri=True, check_same_thread=False) for path, _ in parts]
        for part in range(len(parts)):
            self._row(part, "PRAGMA schema_version")

    def count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def get(self, number: int) -> Page:
        if not 0 <= number < self.count():
            raise KeyError(number)
        select = "SELECT url, title, text, links, date, source FROM pages WHERE number = ?"
        row = self._row(bisect_right(self._ends, number), select, number)
        if row is None:
            raise OSError(f"page {number} is missing from its file")
        url, title, text, links, date, source = row
        return Page.model_construct(  # it was validated when it was written
            url=url, title=title, text=text, links=tuple(json.loads(links)), date=date, source=source
        )

    def all(self, first: int = 0) -> Iterator[Page]:
        return map(self.get, range(first, self.count()))

    def find(self, key: str) -> int | None:
        found = (self._row(part, "SELECT number FROM pages WHERE key = ?", key) for part in range(len(self._ends)))
        return next((row[0] for row in found if row is not None), None)

    def signatures(self) -> Iterator[tuple[int, bytes]]:
        """The signatures of pages, by number; pages of few words have none."""
        with self._errors():
            for connection in self._connections:
                yield from connection.execute("SELECT number, signature FROM signatures ORDER BY number")

    def _row(self, part: int, sql: str, *values: int | str) -> tuple | None:
        try:
            with self._lock:
                return self._connections[part].execute(sql, values).fetchone()
        except sqlite3.Error:
            with self._errors():  # entered only here: ten rows are read for one search
                raise

    def _errors(self) -> AbstractContextManager[None]:
        return _readable()


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"the page store cannot be read: {error}") from error


def read_only_uri(path: Path) -> str:
    """A file of pages for SQLite, of a finished part that nobody writes."""
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


class MemoryPages:
    """Pages in memory."""

    def __init__(self) -> None:
        self._pages: list[Page] = []
        self._numbers: dict[str, int] = {}

    def get(self, number: int) -> Page:
        return self._pages[number]

    def find(self, key: str) -> int | None:
        return self._numbers.get(key)

    def add(self, page: Page) -> int | None:
        """Store a page under the next number; None when its URL is taken."""
        number = len(self._pages)
        if self._numbers.setdefault(canonical_url(page.url), number) < number:
            return None
        self._pages.append(page)
        return number
