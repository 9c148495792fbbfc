"""A MediaWiki XML dump (Wikipedia's ``pages-articles``), plain or compressed by bzip2 or gzip, and its wikitext as Markdown.

Articles become pages; redirects, talk, files and templates are counted. Addresses are those of the dump's own site, unless a
base is given. A dump that declares entities is refused from there on; one cut in the middle keeps what came before. Links to
redirects are not resolved: the dump may name them later.
"""

import bz2
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from xml.parsers import expat

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Reason, Skipped, world_extra
from sanderling.world.sources.links import address, base_of, markdown_link

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


class WikipediaSource(FileSource[tuple[_Article, str]]):
    """A dump; its base is that of the dump's own site, unless one is given."""

    what = "a MediaWiki XML dump"
    needs = "mwparserfromhell"

    def reader(self) -> Callable[[tuple[_Article, str]], Page | Skipped]:
        return self._page

    def documents(self) -> Iterator[tuple[_Article, str] | Skipped]:
        """The articles, each with the address of the dump's own site."""
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
        base = base_of(self.base_url or own_base, self.path.name.partition(".")[0])
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


# Wikitext as Markdown, read by `mwparserfromhell`: headings as ``#`` lines, links to articles; templates, references, files and
# categories go, and links to other sites are their words. What only a template would say (infobox facts) is lost.

_HEADING = re.compile(r"^(={1,6})([^=\n]{1,500})\1[ \t]*$", re.MULTILINE)
_MARK = "\ue000"
"""Stands for ``#`` until the text is plain: at a line's start that would be a numbered list."""
_OPEN, _BAR, _CLOSE = "\ue001", "\ue002", "\ue003"
"""Stand around a link's number and words until the text is plain."""
_EQUALS = "\ue004"
"""Stands for ``=`` at a line's start until the text is plain: of headings without an end the parser dies with its process."""
_MARKS = re.compile("[\ue000-\ue004]")
_LINE_EQUALS = re.compile("^=", re.MULTILINE)
_LINK = re.compile("\ue001([0-9]+)\ue002([^\ue001-\ue003]*)\ue003")
_EDGE = re.compile(
    r"(\{[{|]|\[\[|\[(?=[a-z]*:?//)|<!--|<(?!(?:br|hr|li|d[dt]|t[dhr]|wbr)\b)[a-z]+)|(\}\}|\|\}|\]\]?|-->|</[a-z]+|/>)",
    re.IGNORECASE,
)
_TORN = re.compile(r"<(?!(?:br|hr|li|d[dt]|t[dhr]|wbr)\b)[a-z]+(?![a-z]|[^<>]*>)", re.IGNORECASE)
_TORN_COST = 10
"""Of a tag without its own end, which the parser looks for again and again, against an element that stays open."""
_OPENED_BY = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "[", "-->": "<!--"}
_ELEMENT = re.compile(r"^[*#:;]+|\{[{|]|\||\[\[?|<|&|''", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def elements(text: str) -> int:
    """How many objects the parser would make of a text, about: list marks, templates and their fields, links, tags."""
    return sum(len(found) if found[0] in "*#:;" else 1 for found in _ELEMENT.findall(text))


def nesting(text: str) -> int:
    """How many templates, links and tags are open at once, at most; what is never closed stays open; torn ones count more.

    The parser takes time in proportion to this and to the length.
    """
    still_open: Counter[str] = Counter()
    depth = deepest = 0
    last = ""
    for opening, closing in _EDGE.findall(text):
        if opening:
            last = opening.lower()
            still_open[last] += 1
            depth += 1
            deepest = max(deepest, depth)
            continue
        opened = last if closing == "/>" else _OPENED_BY.get(closing) or "<" + closing[2:].lower()
        if still_open[opened]:
            still_open[opened] -= 1
            depth -= 1
    return deepest + _TORN_COST * len(_TORN.findall(text))


def read_wikitext(text: str, address: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """The words of an article with its links, and the addresses that it links to, in order, each once.

    ``address``: of a title; empty: a link to it is its words. Raises what the parser raises for text that it cannot take.
    """
    with world_extra():
        import mwparserfromhell
        from mwparserfromhell.nodes import Text
    marked = _HEADING.sub(lambda found: f"\n{_MARK * len(found[1])} {found[2].strip()}\n", _MARKS.sub("", text))
    code = mwparserfromhell.parse(_LINE_EQUALS.sub(_EQUALS, marked))
    addresses: list[str] = []
    for link in code.filter_wikilinks():
        title = " ".join(str(link.title).partition("#")[0].replace("_", " ").split())
        if ":" not in title:
            addresses.append(address(title[:1].upper() + title[1:]) if title else "")
            if link.text is None:
                link.text = link.title
            link.text.nodes.insert(
                0, Text(f"{_OPEN}{len(addresses) - 1}{_BAR}")
            )  # through `link.text =` it would be parsed again
            link.text.nodes.append(Text(_CLOSE))
        elif not title.startswith(":"):  # a file or category: its words are not the article's
            try:
                code.remove(link)
            except ValueError:  # within a link that went before
                continue
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() == "ref"):
        try:
            code.remove(tag)
        except ValueError:  # within a tag that went before
            continue

    def write(found: re.Match[str]) -> str:
        url, words = addresses[int(found[1])], found[2]
        return markdown_link(words, url) if url and words.strip() else words

    plain = str(code.strip_code(normalize=True, collapse=True)).replace(_MARK, "#").replace(_EQUALS, "=")
    plain = _MARKS.sub("", _LINK.sub(write, plain))
    return _BLANK_LINES.sub("\n\n", plain).strip(), tuple(dict.fromkeys(url for url in addresses if url))
