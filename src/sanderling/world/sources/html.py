"""One HTML page: its title, text, links, date and canonical address.

The text is what `resiliparse` takes for the main content (the whole body, where that leaves next to nothing), as Markdown with
its links. `Document.links` are those of the whole page, taken before boilerplate goes, so a navigation bar still links. Scripts
are not run; what only a script would show is unknown. Does not know where the page lies.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from itertools import accumulate
from typing import TYPE_CHECKING

from sanderling.world.sources.contract import HtmlExtractor, Limits, Reason, world_extra
from sanderling.world.sources.decoding import decode
from sanderling.world.sources.html_text import markdown, tidy_line
from sanderling.world.sources.links import Resolver, resolve
from sanderling.world.sources.quality import main_content
from sanderling.world.text import is_text

if TYPE_CHECKING:
    from resiliparse.parse.html import ElementNode, HTMLTree

_LISTS = (("<ul", "<menu"), ("</ul", "</menu"), ("<UL", "<menu"), ("</UL", "</menu"))
_RAW = re.compile(r"<!--.*?-->|<(script|style|xmp|iframe|noembed|noframes)\b.*?</\1>", re.DOTALL)
"""What a serialized page holds that is no markup, though it may look like it."""
_TAG = re.compile(r"</?[A-Za-z][^\s/>]*")
_CHUNK = 4_096
_VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))
_HREF = re.compile(r"<a(?:rea)?\s(?:[^>\"]|\"[^\"]*\")*?(?<=\s)href=\"([^\"]*)\"")
_LINK_WORDS = re.compile(r"<a\b[^>]*>(.*?)</a>", re.DOTALL)
_ANY_TAG = re.compile(r"<[^>]*>")
_DATES = ("article:published_time", "date", "dc.date", "dcterms.date", "datepublished")
_LEAST_CHARS = 120
_MOST_WORK = 10**9
"""Depth times length past which main content is not looked for: that takes time in proportion, here some ten seconds."""
_MOST_LINKED = 0.7
"""Of a list's letters, the share within links past which it is navigation."""


@dataclass(frozen=True, slots=True)
class Document:
    """What one file says."""

    title: str
    text: str
    links: tuple[str, ...] = ()
    """Full addresses, in order, each once."""
    date: str = ""
    canonical: str = ""
    """The address that the page gives as its own; empty: none."""


def read_html(
    data: bytes, url: str, limits: Limits, charset: str = "", follow: Callable[[str], str] | None = None
) -> Document | Reason:
    """Read a page that lies at ``url``. Never raises for any bytes.

    Args:
        data: the file.
        url: its address.
        limits: bounds.
        charset: as the sender declared it.
        follow: from the address of a link to where it leads (through a redirect, to a folder's index).

    """
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    source = decode(data, charset)
    if not source.strip():
        return Reason.EMPTY
    if not is_text(source):
        return Reason.NOT_TEXT
    source = source.encode("utf-8", "replace").decode()
    tree = _parsed(source)
    if tree.body is None:
        return Reason.EMPTY
    body = _RAW.sub("", tree.body.html)
    depth = _most_depth(body)
    if depth > limits.depth or depth * len(body) > _MOST_WORK:
        depth = _guessed_depth(body)
        if depth > limits.depth and _is_deeper(tree, limits.depth):
            return Reason.TOO_NESTED
    base = resolve(url, _attribute(tree, "base[href]", "href")) if "<base" in source else ""
    target = Resolver(url, base, follow)
    links = target.all(unescape(href) for href in _HREF.findall(body))
    title = " ".join((tree.title or "").split()) or _first_heading(tree)
    canonical = resolve(url, _attribute(tree, 'link[rel="canonical"]', "href")) if "canonical" in source else ""
    date = _date(tree)
    text = ""
    if depth * len(body) <= _MOST_WORK:
        chosen = main_content(source) if limits.extractor is HtmlExtractor.TRAFILATURA else ""
        text = markdown(chosen, target) if chosen else ""
        text = text if len(text) >= _LEAST_CHARS else markdown(_main_content(tree), target)
    if len(text) < _LEAST_CHARS:
        text = markdown(_whole(_parsed(source)), target)
    return Document(title, text, links, date, canonical) if text else Reason.EMPTY


def _parsed(source: str) -> "HTMLTree":
    """The tree, with ``menu`` in place of ``ul``: HTML treats them alike, and `resiliparse` drops most ``ul`` elements."""
    with world_extra():
        from resiliparse.parse.html import HTMLTree
    for bullets, menu in _LISTS:
        source = source.replace(bullets, menu)
    return HTMLTree.parse(source)


def _attribute(tree: "HTMLTree", query: str, name: str) -> str:
    found = tree.document.query_selector(query) if tree.document else None
    return (found.getattr(name) or "").strip() if found else ""


def _date(tree: "HTMLTree") -> str:
    """The first date that the page's meta elements give, by the order of `_DATES`."""
    given: dict[str, str] = {}
    for meta in tree.document.query_selector_all("meta[content]").values() if tree.document else ():
        name = meta.getattr("property") or meta.getattr("name") or meta.getattr("itemprop") or ""
        given.setdefault(name.lower(), (meta.getattr("content") or "").strip())
    return next((given[name] for name in _DATES if given.get(name)), "")


def _all(tree: "HTMLTree", query: str) -> list["ElementNode"]:
    """The elements of the body; as a list, because iterating over the library's takes time that grows with the square."""
    return tree.body.query_selector_all(query).values() if tree.body else []


def _first_heading(tree: "HTMLTree") -> str:
    found = tree.body.query_selector("h1") if tree.body else None
    return tidy_line(" ".join((found.text or "").split())) if found else ""


def _main_content(tree: "HTMLTree") -> str:
    """Reduced HTML of the main content. Changes the tree: hides lists of links, which are navigation."""
    from resiliparse.extract.html2text import extract_plain_text

    within = 0  # how many of the next lists are within a hidden one
    for bullets in _all(tree, "menu"):
        if within:
            within -= 1
            continue
        inner = bullets.inner_html
        linked = _ANY_TAG.sub("", "".join(_LINK_WORDS.findall(inner)))
        if len(linked) > _MOST_LINKED * len(_ANY_TAG.sub("", inner).strip()):
            bullets.setattr("aria-expanded", "false")  # the main content is without what has this attribute
            within = inner.count("<menu")
    return extract_plain_text(tree, preserve_formatting="minimal_html", main_content=True, alt_texts=False, links=True)


def _whole(tree: "HTMLTree") -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(tree, preserve_formatting="minimal_html", main_content=False, alt_texts=False, links=True)


def _most_depth(body: str) -> int:
    """A serialized tree is no deeper than this: quickest, and far too high where many elements have no end."""
    depth = most = 0
    for start in range(0, len(body), _CHUNK):
        opened = body.count("<", start, start + _CHUNK)
        closed = body.count("</", start, start + _CHUNK + 1)
        most = max(most, depth + opened - closed)
        depth += opened - 2 * closed
    return most


class _Steps(dict[str, int]):
    """From a tag to what it adds to the depth."""

    def __missing__(self, tag: str) -> int:
        closes = tag.startswith("</")
        self[tag] = step = 0 if tag[1 + closes :] in _VOID else -1 if closes else 1
        return step


def _guessed_depth(body: str) -> int:
    """The depth of a serialized tree from its tags: quick, and wrong where attributes hold what looks like tags."""
    return max(accumulate(map(_Steps().__getitem__, _TAG.findall(body))), default=0)


def _is_deeper(tree: "HTMLTree", most: int) -> bool:
    """Whether the tree is deeper than ``most``, by walking it."""
    top = tree.body
    node, depth = top, 0
    while node is not None:
        if (child := node.first_child) is not None:
            node, depth = child, depth + 1
            if depth > most:
                return True
            continue
        while node is not None and node != top and node.next_sibling is None:
            node, depth = node.parent, depth - 1
        if node is None or node == top:
            return False
        node = node.next_sibling
    return False
