"""What a source is: a stream of pages and of reasons for what did not become one; and what all readers of documents share.

No document, however bad, makes a source raise; what is no source at all is a UserError when the source is made.
"""

import codecs
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import ClassVar, Generic, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.world.contract import Page

Raw = TypeVar("Raw")


class Reason(StrEnum):
    """Why a document is no page."""

    EMPTY = "empty"
    NO_URL = "no-url"
    NOT_A_PAGE = "not-a-page"
    NOT_TEXT = "not-text"
    OTHER_KIND = "other-kind"  # pictures, style sheets, programs
    REDIRECT = "redirect"
    NOT_OK = "not-ok"  # recorded with an HTTP status other than 200
    TOO_LARGE = "too-large"
    TOO_NESTED = "too-nested"  # past any browser's limit
    ENCRYPTED = "encrypted"
    DAMAGED = "damaged"
    TRUNCATED = "truncated"
    LINK = "link"  # a symbolic link to a folder, or out of the folder that is read
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that is no page; ``where``: file name, address or line number within the source."""

    where: str
    reason: Reason


class Limits(Frozen):
    """Bounds for one document, and how it is read."""

    document_bytes: int = Field(default=16 * 2**20, ge=1)  # larger documents are left out, measured uncompressed
    depth: int = Field(default=512, ge=1)  # most nested elements of an HTML page


@dataclass(frozen=True, slots=True)
class Document:
    """What one file says; ``links`` are full addresses, each once, ``canonical`` the address that it gives as its own."""

    title: str
    text: str
    links: tuple[str, ...] = ()
    date: str = ""
    canonical: str = ""

    def page(self, url: str, title: str, source: str) -> Page:
        """The page at ``url``; ``title`` is for a document that has none."""
        return Page(url=url, title=self.title or title, text=self.text, links=self.links, date=self.date, source=source)


class Source(ABC):
    """A stream of documents."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The file's or folder's name, for records and the manifest."""

    @abstractmethod
    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        """A page or a reason for every document from the ``skip``-th on, in an order that depends on the source alone."""

    @abstractmethod
    def stamp(self) -> str:
        """Changes with the options, and with the content as far as names, sizes and times of change tell."""

    def bases(self) -> dict[str, str]:
        """The addresses below which it puts pages that bring none, each with a mark of the place on the disk that they name."""
        return {}


class DocumentSource(Source, Generic[Raw]):
    """A source whose documents are first fetched, in order, and then read, each by itself, so that several processes can."""

    @abstractmethod
    def documents(self) -> Iterator[Raw | Skipped]:
        """The raw documents, or why there is none."""

    @abstractmethod
    def read(self, document: Raw, /) -> Page | Skipped:
        """One document. It depends on nothing that was read before."""

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        for document in islice(self.documents(), skip, None):
            yield document if isinstance(document, Skipped) else self.read(document)


class FileSource(DocumentSource[Raw]):
    """A source that is one file."""

    what: ClassVar[str] = "a file"
    needs: ClassVar[str] = ""  # the module that reads it, where the core does without

    def __init__(self, path: str | Path, base_url: str = "", limits: Limits | None = None) -> None:
        """Raises UserError for no file, and without its reader. ``base_url``: empty: ``local://`` and the name."""
        if self.needs:
            with world_extra():
                import_module(self.needs)
        self.path, self.base_url, self.limits = Path(path), base_url, limits or Limits()
        if not self.path.is_file():
            raise UserError(f"There is no file {path}: give {self.what}.")

    @property
    def name(self) -> str:
        return self.path.name

    def stamp(self) -> str:
        return stamp_of(type(self).__name__, file_facts(self.path), self.base_url, self.limits)


def file_facts(path: Path) -> str:
    """A file's name, size and time of change."""
    try:
        stat = path.stat()
    except OSError as error:
        return f"{path.name!a} {type(error).__name__}"
    return f"{path.name!a} {stat.st_size} {stat.st_mtime_ns}"


def place_mark(path: Path) -> str:
    """A short digest that tells a file or folder from all others of this machine."""
    return stamp_of(path.resolve())[:12]


def stamp_of(*facts: object) -> str:
    """A short digest of what tells a source, and its options, from others."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(f"{fact}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]


@contextmanager
def world_extra() -> Iterator[None]:
    """Around the import of a reader that the core does without. Raises UserError when it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"This source needs {error.name}: run pip install '.[world]' in sanderling's own folder.") from error


# -- bytes as text, addresses of files and links, Markdown links ---------------------------------------------------------

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_BROKEN_SHARE = 0.3  # of the characters beyond ASCII: so many may be broken in a text that is taken for UTF-8


def decode(data: bytes, declared: str = "") -> str:
    """The text of some bytes: by byte order mark, as ISO-2022-JP or UTF-8, as ``declared``, or as the page says or suggests."""
    mark, encoding = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", "utf-8"))
    if not mark and b"\x1b$B" in data and data.isascii():
        encoding = "iso2022_jp"
    text = data[len(mark) :].decode(encoding, "replace")
    if not mark and encoding == "utf-8" and (broken := text.count("\ufffd")):
        try:
            known = codecs.lookup(declared).name if declared else ""
        except (LookupError, ValueError):
            known = ""
        foreign = sum(not char.isascii() for char in text)
        if broken > _BROKEN_SHARE * foreign or known.startswith(("iso8859", "cp125", "koi8", "latin")):
            with world_extra():
                from resiliparse.parse.encoding import bytes_to_str, detect_encoding
            suggested = detect_encoding(data, from_html_meta=True) or "utf-8"
            with suppress(LookupError, ValueError):
                text = bytes_to_str(data, declared if known else suggested, "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


_SAFE = "/-._~!*'(),:@"
_DEAD_SCHEMES = ("mailto:", "javascript:", "data:", "tel:", "about:", "irc:", "news:")
_STAND_IN = "https"


def address(base: str, path: str | bytes) -> str:
    """The address of a path below a base, which ends with a slash; parentheses stand as themselves."""
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "replace")
    return base + quote(raw, safe=_SAFE)


def base_of(given: str, name: str | bytes) -> str:
    """The base that was given, or ``local://`` and a name, with a slash at its end."""
    base = given or address("local://", name)
    return base if base.endswith("/") else base + "/"


def resolve(page: str, link: str) -> str:
    """The full address of a link on a page, without its fragment; empty when it leads nowhere that can be visited."""
    link = link.strip().partition("#")[0].strip()
    if not link or link.lower().startswith(_DEAD_SCHEMES):
        return ""
    scheme, found, rest = page.partition("://")
    try:
        if not found or urlsplit(link).scheme:
            return link
        joined = urljoin(f"{_STAND_IN}://{rest}", link)  # the standard library resolves for the schemes it knows
    except ValueError:
        return ""
    return joined if link.startswith("//") else scheme + joined[len(_STAND_IN) :]


class Resolver:
    """The addresses that the links of one ``page`` lead to, relative to its ``base`` and once ``follow`` has changed them."""

    def __init__(self, page: str, base: str = "", follow: Callable[[str], str] | None = None) -> None:
        self._page = page
        self._base = base or page
        self._follow = follow
        self._known: dict[str, str] = {}

    def __call__(self, link: str) -> str:
        """The full address, without a fragment; empty when the link leads nowhere else."""
        link = link.partition("#")[0]
        found = self._known.get(link)
        if found is None:
            found = resolve(self._base, link)
            if found and self._follow is not None:
                found = self._follow(found)
            self._known[link] = found = "" if found == self._page else found
        return found

    def all(self, links: Iterable[str]) -> tuple[str, ...]:
        """The distinct addresses of some links, in order."""
        found = dict.fromkeys(map(self, links))
        found.pop("", None)
        return tuple(found)


_BRACKETS = str.maketrans("[]", "()")
_UNSAFE = re.compile(r"[\x00-\x20<>\\\x7f]|[^\S ]")
_BALANCED = re.compile(r"(?:[^()]|\([^()]*\))*")
_TAIL = "¶\uf0c1 \t\r\f\v\xa0"  # what no line ends with: blanks, and the signs by which a heading links to itself


def markdown_link(words: str, url: str) -> str:
    """A Markdown link that every reader of links here takes whole: its words in one line, without brackets."""
    words = " ".join(words.split()).translate(_BRACKETS)
    words = f"{words} " if words.endswith("\\") else words  # which would take the bracket after it for a sign
    return f"[{words}]({link_address(url)})"


def link_address(url: str) -> str:
    """An address without blanks and angle brackets, its parentheses as they are where they come in pairs."""
    url = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace")), url)
    return url if _BALANCED.fullmatch(url) else url.replace("(", "%28").replace(")", "%29")


def tidy_line(line: str) -> str:
    """A line without the sign that links to itself, and without spaces at its end."""
    return line.rstrip(_TAIL)
