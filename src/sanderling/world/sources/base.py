"""What a source is: a stream of pages, and of the reasons for what did not become one.

No document, however bad, makes a source raise; what is no source at all is a UserError when the source is made.
"""

import bz2
import gzip
import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa
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
    NOT_A_RECORDING = "not-a-recording"
    NOT_TEXT = "not-text"
    OTHER_KIND = "other-kind"  # pictures, style sheets, programs
    NOT_AN_ARTICLE = "not-an-article"  # a talk page, template or file page of a wiki
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


class HtmlExtractor(StrEnum):
    """Who tells the main content of an HTML page from what stands around it."""

    RESILIPARSE = "resiliparse"
    TRAFILATURA = "trafilatura"  # slower by far, better on news and blogs; where it finds nothing, the quick one is asked


class Limits(Frozen):
    """Bounds for one document, and how it is read."""

    document_bytes: int = Field(default=16 * 2**20, ge=1)
    """Larger documents are left out; compressed ones are measured as they come out."""
    depth: int = Field(default=512, ge=1)
    """Elements within elements of an HTML page."""
    extractor: HtmlExtractor = HtmlExtractor.RESILIPARSE


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


def stamp_of(*facts: object) -> str:
    """A short digest of what tells a source, and its options, from others."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(f"{fact}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]


def opened(path: Path) -> gzip.GzipFile | bz2.BZ2File | io.BufferedReader:
    """A file's bytes, unpacked where gzip, bzip2 or zstd packed them."""
    with path.open("rb") as file:
        head = file.read(4)
    if head == b"\x28\xb5\x2f\xfd":
        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    if head.startswith(b"BZh"):
        return bz2.open(path)
    return gzip.open(path) if head.startswith(b"\x1f\x8b") else path.open("rb")


@contextmanager
def world_extra(what: str = "This source", extra: str = "world") -> Iterator[None]:
    """Around the import of a reader that the core does without. Raises UserError when it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"{what} needs {error.name}: run pip install '.[{extra}]' in sanderling's own folder.") from error
