"""A MediaWiki XML dump (Wikipedia's ``pages-articles``), plain or compressed by bzip2 or gzip, and its wikitext as Markdown.

Articles become pages; redirects, talk, files and templates are counted. A dump that is cut in the middle keeps what came
before. Links to redirects are not resolved: the dump may name them later.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from xml.parsers import expat

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Reason, Skipped, opened, world_extra
from sanderling.world.sources.links import address, base_of, markdown_link

_BLOCK = 1 << 16
_Article = dict[str, str | None]


class _Reader:
    """Gathers page elements from XML events; holds one element and its text."""

    def __init__(self, most: int) -> None:
        self.done: list[_Article] = []
        """The elements of finished pages by name, None for one past ``most`` characters; ``base`` is the site's address."""
        self.last = "the start"
        self._most = most
        self._base = ""
        self._page: _Article = {}
        self._parts: list[str] = []
        self._size = 0

    def start(self, tag: str, _attributes: dict[str, str]) -> None:
        self._parts, self._size = [], 0
        if tag == "page":
            self._page = {}
        elif tag == "redirect":
            self._page[tag] = ""

    def characters(self, text: str) -> None:
        self._size += len(text)
        if self._size <= self._most:
            self._parts.append(text)

    def end(self, tag: str) -> None:
        words = "".join(self._parts)
        if tag == "base":
            self._base = self._base or words.strip().rpartition("/")[0]
        elif tag == "page":
            self.done.append({**self._page, "base": self._base})
            self.last = self._page.get("title") or ""
        elif tag in ("title", "ns"):
            self._page[tag] = " ".join(words.split())
        elif tag == "text":
            self._page[tag] = words if self._size <= self._most else None


class WikipediaSource(FileSource[_Article]):
    """A dump; its base is that of the dump's own site, unless one is given."""

    what = "a MediaWiki XML dump"
    needs = "mwparserfromhell"

    def documents(self) -> Iterator[_Article | Skipped]:
        reader = _Reader(self.limits.document_bytes)
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
        parser.CharacterDataHandler = reader.characters
        reason: Reason | None = None
        try:
            with opened(self.path) as file:
                while block := file.read(_BLOCK):
                    parser.Parse(block, False)
                    yield from reader.done
                    reader.done.clear()
            parser.Parse(b"", True)
        except EOFError:
            reason = Reason.TRUNCATED
        except expat.ExpatError as error:
            cut = (expat.errors.XML_ERROR_NO_ELEMENTS, expat.errors.XML_ERROR_UNCLOSED_TOKEN)
            reason = Reason.TRUNCATED if expat.ErrorString(error.code) in cut else Reason.DAMAGED
        except (OSError, zlib.error):
            reason = Reason.DAMAGED
        yield from reader.done
        if reason is not None:
            yield Skipped(f"after {reader.last}", reason)

    def read(self, article: _Article) -> Page | Skipped:
        title, text = article.get("title") or "", article.get("text", "")
        base = base_of(self.base_url or article["base"] or "", self.path.name.partition(".")[0])
        if "redirect" in article:
            return Skipped(title, Reason.REDIRECT)
        if article.get("ns", "") not in ("", "0"):
            return Skipped(title, Reason.NOT_AN_ARTICLE)
        if text is None:
            return Skipped(title, Reason.TOO_LARGE)
        if not title:
            return Skipped("a page without title", Reason.NO_URL)
        try:
            text, links = read_wikitext(text, lambda other: "" if other == title else _address(base, other))
        except UserError:
            raise
        except Exception:  # the parser is no validator: odd wikitext fails in its depths, with any error
            return Skipped(title, Reason.DAMAGED)
        if not text.strip():
            return Skipped(title, Reason.EMPTY)
        return Page(url=_address(base, title), title=title, text=text, links=links, source=f"wikipedia {self.name}")


def _address(base: str, title: str) -> str:
    return address(base, title.replace(" ", "_"))


_HEADING = re.compile(r"^(={1,6})([^=\n]{1,500})\1[ \t]*$", re.MULTILINE)
# Until the text is plain, these stand for ``#``, which at a line's start would be a numbered list; around a link's number and
# words; and for ``=`` at a line's start: of headings without an end the parser dies with its process.
_MARK = "\ue000"
_OPEN, _BAR, _CLOSE = "\ue001", "\ue002", "\ue003"
_EQUALS = "\ue004"
_MARKS = re.compile("[\ue000-\ue004]")
_LINE_EQUALS = re.compile("^=", re.MULTILINE)
_LINK = re.compile("\ue001([0-9]+)\ue002([^\ue001-\ue003]*)\ue003")
_BLANK_LINES = re.compile(r"\n{3,}")


def read_wikitext(text: str, address: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """The words of an article, and the addresses (``address`` of a title; empty: none) that it links to, in order.

    Templates, references, files and categories go. Raises what the parser raises for text that it cannot take.
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
            # through `link.text =` it would be parsed again
            link.text.nodes[:] = [Text(f"{_OPEN}{len(addresses) - 1}{_BAR}"), *link.text.nodes, Text(_CLOSE)]
        elif not title.startswith(":"):  # a file or category: its words are not the article's
            with suppress(ValueError):  # it is within a link that went before
                code.remove(link)
    for tag in code.filter_tags(matches=lambda tag: str(tag.tag).strip().lower() == "ref"):
        with suppress(ValueError):
            code.remove(tag)

    def write(found: re.Match[str]) -> str:
        url, words = addresses[int(found[1])], found[2]
        return markdown_link(words, url) if url and words.strip() else words

    plain = str(code.strip_code(normalize=True, collapse=True)).replace(_MARK, "#").replace(_EQUALS, "=")
    plain = _MARKS.sub("", _LINK.sub(write, plain))
    return _BLANK_LINES.sub("\n\n", plain).strip(), tuple(dict.fromkeys(url for url in addresses if url))
