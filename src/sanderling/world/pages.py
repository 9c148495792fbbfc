"""Pages by number (their order in the world) and by the key of their URL; which pages enter a world, and what they hash to.

`Intake` decides for every kind of store, and keeps count of the pages that do not enter. Knows no index and no file.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Protocol

from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page
from sanderling.world.manifest import WorldCounts
from sanderling.world.text import clean, is_text

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

    def admit(self, page: Page) -> StoredPage | None:
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

    def keep(self, stored: StoredPage) -> None:
        """Count and hash a page that was stored."""
        self.tally["kept"] += 1
        self.tally["not_text"] += not stored.readable
        page = stored.page
        record = [page.url, page.title, page.text, list(page.links), page.date, page.source, stored.readable]
        own = hashlib.sha256(json.dumps(record, ensure_ascii=False).encode("utf-8")).digest()
        self.fingerprint = hashlib.sha256(bytes.fromhex(self.fingerprint) + own).hexdigest()

    def refuse_second(self) -> None:
        """Count a page whose URL is taken."""
        self.tally["duplicate"] += 1


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
