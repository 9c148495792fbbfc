"""Pages by number (their order in the world) and by the key of their address; which pages enter a world, and what they hash to.

A part of a world is an SQLite file, written once and then only read. What is read from it is compared with a checksum. A page
is found by its key through buckets, each of which exists and has a checksum, so damage is never taken for a missing page.
"""

import hashlib
import json
import sqlite3
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

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


class DamageError(UserError, OSError):
    """Something in a world's directory is not what was written there."""

    def __init__(self, path: str | Path, what: object) -> None:
        self.reason = reason = " ".join(str(what).split())
        super().__init__(f"{path} is damaged or cannot be read ({reason}): copy the world again, or build it again.")


def checksum(first: bytes, *more: bytes) -> int:
    """CRC-32 of some fields in their order, null characters between them; joined, a long one would be copied."""
    found = zlib.crc32(first)
    for field in more:
        found = zlib.crc32(field, zlib.crc32(b"\0", found))
    return found


def file_checksum(path: Path) -> int:
    """CRC-32 of a file's bytes. Raises OSError."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found = zlib.crc32(block, found)
    return found


def seal(data: dict[str, Any]) -> dict[str, Any]:
    """The content of a small JSON file with its checksum."""
    return data | {"checksum": checksum(json.dumps(data, sort_keys=True).encode())}


def unseal(data: Any) -> dict[str, Any]:
    """What was sealed, without the checksum. Raises ValueError for anything else."""
    content = {key: value for key, value in data.items() if key != "checksum"} if isinstance(data, dict) else {}
    if not content or data != seal(content):
        raise ValueError("its checksum does not agree")
    return content


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
        self.chain(kept)
        return number

    def chain(self, page: Page) -> None:
        """Go on with the fingerprint by a page as it is stored."""
        record = [page.url, page.title, page.text, list(page.links), page.date, page.source, bool(page.text)]
        own = hashlib.sha256(json.dumps(record, ensure_ascii=False).encode("utf-8")).digest()
        self.fingerprint = hashlib.sha256(bytes.fromhex(self.fingerprint) + own).hexdigest()


class Listed(NamedTuple):
    """What a search needs of a page; the text in UTF-8."""

    url: str
    title: str
    date: str
    text: bytes


class PageStore(Protocol):
    """Pages by number (KeyError: there is none), and numbers by URL key (`canonical_url`). Raises OSError as its files do."""

    def get(self, number: int) -> Page: ...

    def find(self, key: str) -> int | None: ...

    def listed(self, number: int) -> Listed:
        page = self.get(number)
        return Listed(page.url, page.title, page.date, page.text.encode("utf-8", "replace"))


def connected(uri: str) -> sqlite3.Connection:
    """A file of pages, whose texts are read as bytes, as they are compared."""
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    connection.text_factory = bytes
    return connection


_SELECT = "SELECT checksum, CAST(number AS TEXT), key, url, title, text, links, date, source FROM pages WHERE number = ?"
_SHORT, NUMBER_BYTES = 8, 4  # bytes of an entry in a bucket: of the key's digest, and of the page's number
BUCKET_PAGES = 16  # pages in one, on average
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite quotes names that are damaged


class SqlitePages(PageStore):
    """The pages of a world's parts (path and number of pages of each), from any thread. Raises DamageError, an OSError."""

    def __init__(self, parts: Sequence[tuple[Path, int]]) -> None:
        self._paths = [path for path, _ in parts]
        self._ends = list(accumulate(count for _path, count in parts))
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        for part, path in enumerate(self._paths):
            with self._errors(part):
                self._connections.append(connected(read_only_uri(path)))
            self._row(part, "PRAGMA schema_version")

    def count(self) -> int:
        return self._ends[-1] if self._ends else 0

    def get(self, number: int) -> Page:
        url, title, text, links, date, source = self._fields(number)
        return Page.model_construct(  # it was validated when it was written
            url=url.decode(),
            title=title.decode(),
            text=text.decode(),
            links=tuple(json.loads(links)),
            date=date.decode(),
            source=source.decode(),
        )

    def listed(self, number: int) -> Listed:
        url, title, text, _links, date, _source = self._fields(number)
        return Listed(url.decode(), title.decode(), date.decode(), text)

    def _fields(self, number: int) -> Sequence[bytes]:
        if not 0 <= number < self.count():
            raise KeyError(number)
        part = bisect_right(self._ends, number)
        return self._sound(part, self._row(part, _SELECT, number), number, f"page {number:,}")[2:]

    def all(self, first: int = 0) -> Iterator[Page]:
        return map(self.get, range(first, self.count()))

    def find(self, key: str) -> int | None:
        short = short_key(key.encode())
        for part, (start, end) in enumerate(pairwise([0, *self._ends])):
            bucket = bucket_of(short, end - start)
            row = self._row(part, "SELECT checksum, CAST(bucket AS TEXT), entries FROM buckets WHERE bucket = ?", bucket)
            entries = self._sound(part, row, bucket, "its table of addresses")[1]
            for at in range(0, len(entries), _SHORT + NUMBER_BYTES):
                if entries.startswith(short, at):
                    return int.from_bytes(entries[at + _SHORT : at + _SHORT + NUMBER_BYTES])
        return None

    def signatures(self) -> Iterator[tuple[int, bytes]]:
        """The signatures of pages, by number; pages of few words have none."""
        select = "SELECT checksum, CAST(number AS TEXT), signature FROM signatures ORDER BY number"
        for part, (start, end) in enumerate(pairwise([0, *self._ends])):
            with self._errors(part):
                rows = self._connections[part].execute(select)
                for number in range(start, end):
                    _, signature = self._sound(part, next(rows, None), number, f"the signature of page {number:,}")
                    if signature:
                        yield number, signature

    def _sound(self, part: int, row: tuple[Any, ...] | None, number: int, what: str) -> Sequence[bytes]:
        """A row without its checksum, which comes first, then the number. Raises DamageError when they do not agree."""
        fields = () if row is None else row[1:]
        if row is None or not fields or fields[0] != b"%d" % number or {*map(type, fields)} != {bytes}:
            raise DamageError(self._paths[part], f"{what} is missing")
        if row[0] != checksum(*fields):
            raise DamageError(self._paths[part], f"{what} does not agree with its checksum")
        return fields

    def _row(self, part: int, sql: str, *values: int | str) -> tuple[Any, ...] | None:
        try:
            with self._lock:
                return self._connections[part].execute(sql, values).fetchone()
        except _UNREADABLE as error:
            raise DamageError(self._paths[part], error) from error

    @contextmanager
    def _errors(self, part: int) -> Iterator[None]:
        try:
            yield
        except _UNREADABLE as error:
            raise DamageError(self._paths[part], error) from error


def short_key(key: bytes) -> bytes:
    """What stands for a key in its bucket."""
    return hashlib.blake2b(key, digest_size=_SHORT).digest()


def bucket_of(short: bytes, pages: int) -> int:
    """The bucket that a short key is in, in a part of so many pages."""
    return int.from_bytes(short) % (pages // BUCKET_PAGES + 1)


def read_only_uri(path: Path) -> str:
    """A file of pages for SQLite, of a finished part that nobody writes."""
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


class MemoryPages(PageStore):
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
