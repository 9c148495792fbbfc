"""What a source is: a stream of pages, and of the reasons for what did not become one.

Contract: `Source.items` yields a `Page` or a `Skipped` for every document of the source, in an order that depends on the source
alone; it holds one document in memory at a time; no document, however bad, makes it raise. What cannot be opened as a source at
all is a UserError when the source is made. Knows no world: whether two pages are one is decided where they are stored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sanderling.errors import UserError
from sanderling.world.contract import Page


class Reason(StrEnum):
    """Why a document is no page."""

    EMPTY = "empty"
    """Without words (a PDF of scanned pictures is one)."""
    NO_URL = "no-url"
    NOT_A_PAGE = "not-a-page"
    """A line that is no JSON object with an address or id, and text."""
    NOT_TEXT = "not-text"
    """Binary noise."""
    OTHER_KIND = "other-kind"
    """Pictures, style sheets, programs: not a kind of document that is read."""
    NOT_AN_ARTICLE = "not-an-article"
    """A talk page, template or file page of a wiki."""
    REDIRECT = "redirect"
    NOT_OK = "not-ok"
    """Recorded with an HTTP status other than 200."""
    TOO_LARGE = "too-large"
    """Past the limit of bytes, before or after decompression."""
    TOO_NESTED = "too-nested"
    """Elements within elements past any browser's limit: reading them takes time that grows with the square."""
    ENCRYPTED = "encrypted"
    DAMAGED = "damaged"
    TRUNCATED = "truncated"
    """The file ends amid a document; what came before is kept."""
    ENTITIES = "entities"
    """XML that declares entities of its own (a billion laughs): refused from there on."""
    LINK = "link"
    """A symbolic link to a folder, or out of the folder that is read."""
    UNREADABLE = "unreadable"
    """The system refuses to read it."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that is no page."""

    where: str
    """File name, address or line number within the source."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for one document."""

    document_bytes: int = 16 * 2**20
    """Larger ones are left out; compressed ones are measured as they come out."""
    depth: int = 512
    """Elements within elements of an HTML page."""
    pdf_pages: int = 5_000


class Source(Protocol):
    """A stream of documents."""

    @property
    def name(self) -> str:
        """For records and the manifest: the file's or folder's name."""
        ...

    def items(self) -> Iterator[Page | Skipped]:
        """Every document, in order; each call starts anew."""
        ...


@contextmanager
def world_extra() -> Iterator[None]:
    """Around the import of a reader that the core does without. Raises UserError when it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(f"This source needs {error.name}: run pip install '.[world]' in sanderling's own folder.") from error
