"""One HTML page: its title, text, links, date and canonical address.

The text is what `resiliparse` takes for the main content (the whole body, where that leaves next to nothing), as Markdown, with
its links. `Document.links` are those of the whole page, taken before boilerplate is cut: a navigation bar still links. Scripts
are not run.
"""

import re
from collections.abc import Callable
from html import unescape
from itertools import accumulate
from typing import TYPE_CHECKING

from sanderling.world.sources.base import Document, Limits, Reason, Resolver, markdown_link, resolve, tidy_line, world_extra

if TYPE_CHECKING:
    from resiliparse.parse.html import HTMLTree

_POWER = re.compile(r"([\d)]|\b(?:[a-z]|[kcm]m))<sup\b[^>]*>\s*([-+\u2212]?[0-9a-z]{1,4})\s*</sup>", re.IGNORECASE)
"""Behind a number, a variable or a unit; behind a longer word it is a footnote."""
_RAW = re.compile(r"<!--.*?-->|<(script|style|xmp|iframe|noembed|noframes)\b.*?</\1>", re.DOTALL)
"""What a serialized page holds that is no markup, though it may look like it."""
_VOID = "area|base|basefont|bgsound|br|col|embed|hr|img|input|keygen|link|meta|param|source|track|wbr"
_TAG = re.compile(rf"<(/?)(?!(?:{_VOID})[\s/>])[A-Za-z]")  # of an element that may hold others: the slash of its end
_HREF = re.compile(r"<a(?:rea)?\s(?:[^>\"]|\"[^\"]*\")*?(?<=\s)href=\"([^\"]*)\"")
_LINK_WORDS = re.compile(r"<a\b[^>]*>(.*?)</a>", re.DOTALL)
_ANY_TAG = re.compile(r"<[^>]*>")
_DATES = ("article:published_time", "date", "dc.date", "dcterms.date", "datepublished")
_LEAST_CHARS = 120
_MOST_LINKED = 0.7  # of a list's letters, the share within links past which it is navigation


def read_html(source: str, url: str, limits: Limits, follow: Callable[[str], str] | None = None) -> Document | Reason:
    """Read a page that lies at ``url``; see `documents.read_document`."""
    source = source.encode("utf-8", "replace").decode()
    tree = _parsed(source)
    if tree.body is None:
        return Reason.EMPTY
    body = _RAW.sub("", tree.body.html)
    most_depth = max(accumulate(-1 if slash else 1 for slash in _TAG.findall(body)), default=0)
    if most_depth > limits.depth:
        return Reason.TOO_NESTED
    base = resolve(url, _attribute(tree, "base[href]", "href")) if "<base" in source else ""
    target = Resolver(url, base, follow)
    links = target.all(unescape(href) for href in _HREF.findall(body))
    title = " ".join((tree.title or "").split())
    if not title and (heading := tree.body.query_selector("h1")) is not None:
        title = tidy_line(" ".join((heading.text or "").split()))
    canonical = resolve(url, _attribute(tree, 'link[rel="canonical"]', "href")) if "canonical" in source else ""
    given: dict[str, str] = {}
    for meta in tree.document.query_selector_all("meta[content]").values() if tree.document else ():
        name = meta.getattr("property") or meta.getattr("name") or meta.getattr("itemprop") or ""
        given.setdefault(name.lower(), (meta.getattr("content") or "").strip())
    date = next((given[name] for name in _DATES if given.get(name)), "")
    text = markdown(_main_content(tree), target)
    if len(text) < _LEAST_CHARS:
        text = markdown(_reduced(_parsed(source), main=False), target)
    return Document(title, text, links, date, canonical) if text else Reason.EMPTY


def _parsed(source: str) -> "HTMLTree":
    """The tree, with ``menu`` in place of ``ul``: HTML treats them alike, and `resiliparse` drops most ``ul`` elements."""
    with world_extra():
        from resiliparse.parse.html import HTMLTree
    source = _POWER.sub(r"\1^\2", source)  # 2<sup>31</sup> is not 231
    return HTMLTree.parse(re.sub("<(/?)(?:ul|UL)", r"<\1menu", source))


def _attribute(tree: "HTMLTree", query: str, name: str) -> str:
    found = tree.document.query_selector(query) if tree.document else None
    return (found.getattr(name) or "").strip() if found else ""


def _main_content(tree: "HTMLTree") -> str:
    """Reduced HTML of the main content. Changes the tree: hides lists of links, which are navigation."""
    lists = tree.body.query_selector_all("menu").values() if tree.body else []  # iterating over the library's takes its square
    within = 0  # how many of the next lists are within a hidden one
    for bullets in lists:
        if within:
            within -= 1
            continue
        inner = bullets.inner_html
        linked = _ANY_TAG.sub("", "".join(_LINK_WORDS.findall(inner)))
        if len(linked) > _MOST_LINKED * len(_ANY_TAG.sub("", inner).strip()):
            bullets.setattr("aria-expanded", "false")  # the main content is without what has this attribute
            within = inner.count("<menu")
    return _reduced(tree, main=True)


def _reduced(tree: "HTMLTree", *, main: bool) -> str:
    """Reduced HTML of a page, or of its main content alone."""
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(tree, preserve_formatting="minimal_html", main_content=main, alt_texts=False, links=True)


# Reduced HTML as Markdown.
_REDUCED_TAG = re.compile(r'<(/?)(h[1-6]|p|ul|ol|li|pre|a|br)(?: href="([^"]*)")?>')
_CELLS = re.compile(r" ?\t[ \t]*")
_INDENT = re.compile(r"\n[ \t]+")
_EMPTY_MARK = re.compile("^(?:#{1,6}|\ue001 *(?:-|[0-9]+[.]))[ \t]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_CODE, _ITEM_LINE = "\ue000", "\ue001"
"""Open the lines of code and of lists until spaces are tidied; private characters, which mean nothing in a text."""
_OPEN_ITEM, _BULLETS = -2, -1  # among the open lists: an item, and a list that has no numbers


def markdown(reduced: str, resolve: Callable[[str], str]) -> str:
    """The Markdown of some reduced HTML: headings, lists, code and links; everything else is plain lines.

    A link that leads nowhere else or that shows no word (a picture, a heading's own link) is its words alone.
    """
    pieces = _REDUCED_TAG.split(reduced)
    writer = _Writer(resolve)
    writer.text(pieces[0])
    for slash, name, href, text in zip(pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True):
        writer.tag(name, href or "", closing=bool(slash))
        writer.text(text)
    writer.close_link()
    # Without the layout of the reduced HTML: spaces before lines other than code, marks of nothing, runs of blank lines.
    text = _EMPTY_MARK.sub("", _INDENT.sub("\n", "\n" + "".join(writer.parts)))
    text = text.replace(_CODE, "").replace(_ITEM_LINE, "")
    text = "\n".join(tidy_line(line) for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")


class _Writer:
    """Markdown as it grows from tags and the text between them."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self.parts: list[str] = []
        self._resolve = resolve
        self._link: tuple[str, int] | None = None
        """The open link's address as written, and where its words start in ``parts``."""
        self._lists: list[int] = []
        """Open lists and items: `_OPEN_ITEM`, `_BULLETS`, or the number of the last item."""
        self._in_code = False
        self._after_item = False  # only blanks since the last item closed
        self._after_mark = False  # the words of a heading or item begin on the line of their mark

    def text(self, escaped: str) -> None:
        text = unescape(escaped) if "&" in escaped else escaped
        if self._in_code:
            text = text.expandtabs(4).replace("\n", f"\n{_CODE}    ")
        else:
            if not text.isspace():
                self._after_item = False
            if self._after_mark:
                text = text.lstrip()
                self._after_mark = not text
            if "\t" in text:
                text = _CELLS.sub(" | ", text)
        self.parts.append(text)

    def tag(self, name: str, href: str, *, closing: bool) -> None:
        if name == "a":
            self.close_link()
            if not closing and not self._in_code:
                self._link = href, len(self.parts)
            return
        if self._link is not None:  # a link that holds blocks ends with the first of them that has words
            if "".join(self.parts[self._link[1] :]).strip():
                self.close_link()
            else:
                self._link = self._link[0], len(self.parts) + 1
        mark = ""
        if name == "pre":
            self._in_code = not closing
            mark = "" if closing else f"\n{_CODE}    "
        elif name in ("ul", "ol", "li") and closing:
            del self._lists[-1:]
            self._after_item |= name == "li"
        elif name in ("ul", "ol"):
            self._lists.append(0 if name == "ol" else _BULLETS)
        elif name == "li":
            mark = self._open_item()
        elif name[0] == "h" and not closing:
            self._after_mark = True
            mark = "#" * int(name[1]) + " "
        self.parts.append(mark)

    def _open_item(self) -> str:
        sign = "-"
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            sign = f"{self._lists[-1]}."
        depth = self._lists.count(_OPEN_ITEM)
        self._lists.append(_OPEN_ITEM)
        if self.parts[-1].isspace():
            self.parts[-1] = ""
        self._after_mark = True
        apart = "" if depth or self._after_item else "\n"
        return f"{apart}\n{_ITEM_LINE}{'  ' * depth}{sign} "

    def close_link(self) -> None:
        """Write the open link, if any; it may be closed twice."""
        if self._link is None:
            return
        (href, start), self._link = self._link, None
        words = "".join(self.parts[start:])
        shown = words.strip()
        if not tidy_line(shown):
            if href.startswith("#"):
                del self.parts[start:]
        elif address := self._resolve(unescape(href)):
            before, after = words[: len(words) - len(words.lstrip())], words[len(words.rstrip()) :]
            self.parts[start:] = [before + markdown_link(shown, address) + after]
