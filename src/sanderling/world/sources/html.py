"""One HTML page: its title, text, links, date and canonical address.

The text is what `resiliparse` takes for the main content (the whole body, where that leaves next to nothing), headings as ``#``
lines, list items as ``-`` lines, code indented by four spaces. Links are taken from the document before boilerplate goes, so a
navigation bar still links. Scripts are not run; what only a script would show is unknown. Does not know where the page lies.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sanderling.world.sources.contract import Limits, Reason, world_extra
from sanderling.world.sources.decoding import decode
from sanderling.world.sources.links import resolve, resolve_all
from sanderling.world.text import is_text

if TYPE_CHECKING:
    from resiliparse.parse.html import ElementNode, HTMLTree

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
_FLAT_TEXT = "area base br col embed hr img input link meta source track wbr p li dt dd tr td th thead tbody tfoot option"
_FLAT = frozenset(_FLAT_TEXT.split())
"""Elements that hold nothing, or that the next of their kind closes: they make no depth by themselves."""
_DATES = tuple(
    f'meta[{attribute}="{name}"]'
    for name in ("article:published_time", "date", "dc.date", "DC.date", "dcterms.date", "datePublished")
    for attribute in ("property", "name", "itemprop")
)
_BULLET_MARK = "\U000f0001"
"""Opens the items of a bullet list within the tree; of the private signs, one that `resiliparse` does not drop as an icon."""
_BULLET = re.compile(rf"^( *)(?:• |\d+\. {_BULLET_MARK}\s*)", re.MULTILINE)
_CELLS = re.compile(r" ?\t[ \t]*")
_PERMALINKS = "¶\uf0c1"
_BLANK_LINES = re.compile(r"\n{3,}")
_LEAST_CHARS = 120
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


def read_html(data: bytes, url: str, limits: Limits, charset: str = "") -> Document | Reason:
    """Read a page that lies at ``url``; ``charset`` as its sender declared. Never raises for any bytes."""
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    source = decode(data, charset)
    if not source.strip():
        return Reason.EMPTY
    if not is_text(source):
        return Reason.NOT_TEXT
    with world_extra():
        from resiliparse.parse.html import HTMLTree
    tree = HTMLTree.parse(source.encode("utf-8", "replace").decode())
    if tree.body is None:
        return Reason.EMPTY
    if _guessed_depth(source) > limits.depth and _is_deeper(tree, limits.depth):
        return Reason.TOO_NESTED
    base = resolve(url, _attribute(tree, "base[href]", "href")) or url
    links = tuple(link for link in resolve_all(base, _hrefs(tree)) if link != url)
    title = " ".join((tree.title or "").split()) or _first_heading(tree)
    date = next((found for query in _DATES if (found := _attribute(tree, query, "content"))), "")
    canonical = resolve(url, _attribute(tree, 'link[rel="canonical"]', "href"))
    text = _text(tree)
    return Document(title, text, links, date, canonical) if text else Reason.EMPTY


def _attribute(tree: "HTMLTree", query: str, name: str) -> str:
    found = tree.document.query_selector(query) if tree.document else None
    return (found.getattr(name) or "").strip() if found else ""


def _all(tree: "HTMLTree", query: str) -> list["ElementNode"]:
    """The elements of the body; as a list, because iterating over the library's takes time that grows with the square."""
    return tree.body.query_selector_all(query).values() if tree.body else []


def _hrefs(tree: "HTMLTree") -> list[str]:
    return [element.getattr("href") or "" for element in _all(tree, "a[href], area[href]")]


def _first_heading(tree: "HTMLTree") -> str:
    found = tree.body.query_selector("h1") if tree.body else None
    return _tidy(" ".join((found.text or "").split())) if found else ""


def _tidy(line: str) -> str:
    """A line without the sign that links to itself, and without spaces at its end."""
    return line.rstrip().rstrip(_PERMALINKS).rstrip()


def _text(tree: "HTMLTree") -> str:
    """The main content as Markdown; changes the tree."""
    from resiliparse.extract.html2text import extract_plain_text

    for heading in _all(tree, "h1, h2, h3, h4, h5, h6"):
        words = " ".join((heading.text or "").split())
        heading.text = f"{'#' * int((heading.tag or 'h1')[1])} {words}" if _tidy(words) else ""
    for code in _all(tree, "pre"):
        code.text = "\n" + "\n".join("    " + line.expandtabs(4) for line in (code.text or "").splitlines())
    _keep_bullet_lists(tree)
    text = extract_plain_text(tree, preserve_formatting=True, main_content=True, alt_texts=False)
    if len(text.strip()) < _LEAST_CHARS:
        text = extract_plain_text(tree, preserve_formatting=True, main_content=False, alt_texts=False)
    text = _BULLET.sub(r"\1- ", _CELLS.sub(" | ", text)).replace(_BULLET_MARK, "")
    text = "\n".join(_tidy(line) for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")


def _keep_bullet_lists(tree: "HTMLTree") -> None:
    """Make bullet lists of more than links into numbered ones, marked: `resiliparse` drops every ``ul`` as navigation."""
    for bullets in _all(tree, "ul"):
        linked = sum(len(link.text or "") for link in bullets.query_selector_all("a").values())
        numbered, parent = tree.create_element("ol"), bullets.parent
        if numbered is None or parent is None or linked > _MOST_LINKED * len((bullets.text or "").strip()):
            continue
        while (child := bullets.first_child) is not None:
            if child.tag == "li" and (mark := tree.create_text_node(_BULLET_MARK)) is not None:
                child.insert_before(mark, child.first_child) if child.first_child else child.append_child(mark)
            numbered.append_child(child)
        parent.replace_child(numbered, bullets)


def _guessed_depth(source: str) -> int:
    """At least the true depth, from the tags alone: quick, and too high where elements are left open."""
    open_tags: Counter[str] = Counter()
    depth = deepest = 0
    for closing, name in _TAG.findall(source):
        name = name.lower()
        if name in _FLAT:
            continue
        if not closing:
            open_tags[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif open_tags[name]:
            open_tags[name] -= 1
            depth -= 1
    return deepest


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
