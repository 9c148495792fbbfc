"""A MediaWiki XML dump (Wikipedia's ``pages-articles``), plain or compressed by bzip2 or gzip.

Articles become pages; redirects, talk, files and templates are counted. Addresses are those of the dump's own site, unless a
base is given. A dump that declares entities is refused from there on; one cut in the middle keeps what came before. Links to
redirects are not resolved: the dump may name them later.
"""

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path
from xml.parsers import expat

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of, world_extra
from sanderling.world.sources.links import address
from sanderling.world.sources.wikitext import elements, nesting, read_wikitext

_BLOCK = 1 << 16
_MOST_WORK = 10**8
"""Openings times length past which an article is not read: the parser would take more than some ten seconds."""
_MOST_ELEMENTS = 200_000
"""Past which an article is not read: each is an object or more, so that they would take seconds and much memory."""


@dataclass
class _Article:
    """A page element of the dump, as far as it was read."""

    title: str = ""
    namespace: str = ""
    redirect: bool = False
    text: str = ""
    too_large: bool = False


class _EntitiesError(Exception):
    """The dump declares entities."""


@dataclass
class _Reader:
    """Gathers page elements from XML events; holds one element and its text."""

    most: int
    base: str = ""
    done: list[_Article] = field(default_factory=list)
    _page: _Article | None = None
    _parts: list[str] = field(default_factory=list)
    _size: int = 0

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        self._parts, self._size = [], 0
        if tag == "page":
            self._page = _Article()
        elif tag == "redirect" and self._page:
            self._page.redirect = True

    def characters(self, text: str) -> None:
        self._size += len(text)
        if self._size <= self.most:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        words = "".join(self._parts)
        if tag == "base" and not self.base:
            self.base = words.strip().rpartition("/")[0]
        elif self._page is None:
            return
        elif tag == "title":
            self._page.title = " ".join(words.split())
        elif tag == "ns":
            self._page.namespace = words.strip()
        elif tag == "text":
            self._page.text, self._page.too_large = words, self._size > self.most
        elif tag == "page":
            self.done.append(self._page)
            self._page = None

    def refuse(self, *_declaration: object) -> None:
        raise _EntitiesError


@dataclass(frozen=True)
class WikipediaSource(DocumentSource[tuple[_Article, str]]):
    """A MediaWiki XML dump."""

    path: Path
    base_url: str = ""
    """Empty: the dump's own site."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raises UserError when there is no such file, or `mwparserfromhell` is not installed."""
        with world_extra():
            import mwparserfromhell  # noqa: F401
        if not self.path.is_file():
            raise UserError(f"There is no file {self.path}: give a MediaWiki XML dump.")

    @property
    def name(self) -> str:
        return self.path.name

    def documents(self, skip: int) -> Iterator[tuple[_Article, str] | Skipped]:
        """The articles, each with the address of the dump's own site."""
        return islice(self._articles(), skip, None)

    def reader(self) -> Callable[[tuple[_Article, str]], Page | Skipped]:
        return self._page

    def stamp(self) -> str:
        return stamp_of("wikipedia", file_facts(self.path), self.base_url, self.limits)

    def _articles(self) -> Iterator[tuple[_Article, str] | Skipped]:
        reader = _Reader(self.limits.document_bytes)
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
        parser.CharacterDataHandler, parser.EntityDeclHandler = reader.characters, reader.refuse
        last = "the start"
        reason: Reason | None = None
        try:
            with _opened(self.path) as file:
                while block := file.read(_BLOCK):
                    parser.Parse(block, False)
                    for article in reader.done:
                        last = article.title
                        yield article, reader.base
                    reader.done.clear()
            parser.Parse(b"", True)
        except _EntitiesError:
            reason = Reason.ENTITIES
        except EOFError:
            reason = Reason.TRUNCATED
        except expat.ExpatError as error:
            cut = (expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN)
            reason = Reason.TRUNCATED if expat.ErrorString(error.code) in cut else Reason.DAMAGED
        except (OSError, zlib.error):
            reason = Reason.DAMAGED
        for article in reader.done:
            last = article.title
            yield article, reader.base
        if reason is not None:
            yield Skipped(f"after {last}", reason)

    def _page(self, found: tuple[_Article, str]) -> Page | Skipped:
        article, own_base = found
        base = self.base_url or own_base or address("local://", self.path.name.partition(".")[0])
        base = base if base.endswith("/") else base + "/"
        if article.redirect:
            return Skipped(article.title, Reason.REDIRECT)
        if article.namespace not in ("", "0"):
            return Skipped(article.title, Reason.NOT_AN_ARTICLE)
        if article.too_large or elements(article.text) > _MOST_ELEMENTS:
            return Skipped(article.title, Reason.TOO_LARGE)
        if not article.title:
            return Skipped("a page without title", Reason.NO_URL)
        if nesting(article.text) * len(article.text) > _MOST_WORK:
            return Skipped(article.title, Reason.TOO_NESTED)
        try:
            text, links = read_wikitext(article.text, lambda title: "" if title == article.title else _address(base, title))
        except UserError:
            raise
        except Exception:  # the parser is no validator: odd wikitext fails in its depths, with any error
            return Skipped(article.title, Reason.DAMAGED)
        if not text.strip():
            return Skipped(article.title, Reason.EMPTY)
        url = _address(base, article.title)
        return Page(url=url, title=article.title, text=text, links=links, source=f"wikipedia {self.name}")


def _address(base: str, title: str) -> str:
    return address(base, title.replace(" ", "_"))


def _opened(path: Path) -> "bz2.BZ2File | gzip.GzipFile | BufferedReader":
    with path.open("rb") as file:
        head = file.read(3)
    if head == b"BZh":
        return bz2.open(path)
    return gzip.open(path) if head[:2] == b"\x1f\x8b" else path.open("rb")
