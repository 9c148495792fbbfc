"""Texts without the addresses of hidden pages: links keep their words, addresses written out go.

An address is looked for wherever an agent could take one from: Markdown links and images, reference definitions, attributes of
HTML, bare addresses with or without a scheme, and addresses within addresses, as web archives have them. Where a bare address
ends is often unclear, so that its beginnings up to a mark, or up to the first letter outside ASCII, are tried too. Pure
functions; knows no world, and what is hidden is handed in.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urljoin

from sanderling.world.canonical import canonical_url
from sanderling.world.inline_links import Link, find_links

_REFERENCE = re.compile(r"^[ ]{0,3}\[[^\]\n]++\]:[ \t]*+<?(\S+?)>?(?:[ \t]+.*)?$\n?", re.MULTILINE)
_ATTRIBUTE = re.compile(r"(?<!\s)\s*+\b(?:href|src)\s*=\s*(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s\"'<>]+))", re.IGNORECASE)
_CHAR = r"[^\s()<>\[\]\"]"
_ADDRESS = re.compile(
    r"<?(?:https?://|(?<![\w@./\-])(?://|www\.|(?:[\w\-]+\.)+[a-z]{2,}(?::[0-9]+)?/))"
    rf"(?:{_CHAR}|\((?:{_CHAR}|\((?:{_CHAR}|\({_CHAR}*+\))*+\))*+\))++>?",
    re.IGNORECASE,
)
_WITHIN = re.compile(r"https?://", re.IGNORECASE)
_AFTER = ".,;:!?'*_"
_ENDS = re.compile(r"[|`\\^{}。，、；：！？（）「」『』《》“”‘’…]|(?<![^\x00-\x7f])[^\x00-\x7f]")
"""Where a bare address may have ended: marks that none holds unescaped, and the first letter outside ASCII."""
_MOST_TRIED = 8
"""Ends of one address, and addresses within one: what goes on further is no address that anybody wrote."""
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")

Hidden = Callable[[str], bool]
"""Whether an address, in canonical form, is hidden."""


def without_links(text: str, base: str, hidden: Hidden) -> str:
    """A page's Markdown without the addresses of hidden pages; the words of its links stay. ``base``: the page's own URL."""
    if not any(sign in text for sign in ("/", "](", "]:", "=")) and "www." not in text.lower():
        return text

    def is_hidden(address: str) -> bool:
        written = _ESCAPED.sub(r"\1", address)
        return hidden(canonical_url(written)) or hidden(_resolved(base, written))

    def erase(match: re.Match[str]) -> str:
        bare = match[0].strip("<>")
        shown = next((part for part in _readings(bare) if is_hidden(part)), None)
        if shown is not None:
            return bare[len(shown) :]
        return "" if any(is_hidden(part) for part in _inner(bare)) else match[0]

    if "](" in text:
        text = _unlinked(text, is_hidden)
    text = _REFERENCE.sub(lambda match: "" if is_hidden(match[1]) else match[0], text)
    text = _ATTRIBUTE.sub(lambda match: "" if is_hidden(match[1] or match[2] or match[3] or "") else match[0], text)
    return _ADDRESS.sub(erase, text)


def _unlinked(text: str, is_hidden: Hidden) -> str:
    """The text in which Markdown links that lead to a hidden address, or show an image from there, are their words."""
    parts: list[str] = []
    at = 0
    for link in _marked(text):
        if any(is_hidden(address) for address in link.addresses):
            parts += [text[at : link.start], link.words]
            at = link.end
    return "".join((*parts, text[at:]))


def _marked(text: str) -> Iterator[Link]:
    return (link for link in find_links(text) if text[link.start] in "![")


def _readings(bare: str) -> Iterator[str]:
    """What a bare address may be, the longest first."""
    yield bare.rstrip(_AFTER)
    for end in reversed(list(islice(_ENDS.finditer(bare), _MOST_TRIED))):
        yield bare[: end.start()].rstrip(_AFTER)


def _inner(bare: str) -> Iterator[str]:
    """The addresses that an address goes on with."""
    for start in islice(_WITHIN.finditer(bare, 1), _MOST_TRIED):
        yield from _readings(bare[start.start() :])


def _resolved(base: str, address: str) -> str:
    """The canonical form of an address that is relative to a page."""
    try:
        return canonical_url(urljoin(base, address))
    except ValueError:  # brackets that are no IPv6 host: it is no address
        return address
