"""Links to hidden pages, taken out of texts, titles and snippets: a link keeps its words and loses its address.

A link is Markdown's, a reference, an HTML attribute, or an address that is written out, whose end is guessed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from urllib.parse import urljoin

from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import SearchHit, SearchReply, VisitReply
from sanderling.world.cutting import find_links, only_words

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

Hidden = Callable[[str], bool]  # whether an address, in canonical form, is hidden


def without_links(text: str, base: str, hidden: Hidden) -> str:
    """A page's Markdown without the addresses of hidden pages; the words of its links stay. ``base``: the page's own URL."""
    if not any(sign in text for sign in ("/", "](", "]:", "=")) and "www." not in text.lower():
        return text

    def is_hidden(address: str) -> bool:
        written = _ESCAPED.sub(r"\1", address)
        try:
            return hidden(canonical_url(written)) or hidden(canonical_url(urljoin(base, written)))
        except ValueError:  # brackets that are no IPv6 host: it is no address
            return False

    def readings(bare: str) -> Iterator[str]:
        """What a bare address may be, the longest first."""
        yield bare.rstrip(_AFTER)
        for end in reversed(list(islice(_ENDS.finditer(bare), _MOST_TRIED))):
            yield bare[: end.start()].rstrip(_AFTER)

    def erase(match: re.Match[str]) -> str:
        bare = match[0].strip("<>")
        shown = next((part for part in readings(bare) if is_hidden(part)), None)
        if shown is not None:
            return bare[len(shown) :]
        within = islice(_WITHIN.finditer(bare, 1), _MOST_TRIED)
        return "" if any(is_hidden(part) for start in within for part in readings(bare[start.start() :])) else match[0]

    if "](" in text:
        marked = (link for link in find_links(text) if text[link.start] in "![")
        text = only_words(text, (link for link in marked if any(map(is_hidden, link.addresses))))
    text = _REFERENCE.sub(lambda match: "" if is_hidden(match[1]) else match[0], text)
    text = _ATTRIBUTE.sub(lambda match: "" if is_hidden(match[1] or match[2] or match[3] or "") else match[0], text)
    return _ADDRESS.sub(erase, text)


def with_hits(reply: SearchReply, hits: Sequence[SearchHit], hidden: Hidden) -> SearchReply:
    """A reply with some of its hits, and no link to a hidden page in them: EMPTY where none is left."""
    clean = tuple(
        replace(hit, snippet=without_links(hit.snippet, hit.url, hidden), title=without_links(hit.title, hit.url, hidden))
        for hit in hits
    )
    status = ToolStatus.EMPTY if reply.status is ToolStatus.OK and not clean else reply.status
    return SearchReply(reply.query, clean, status, reply.latency_s)


def without_hidden(reply: VisitReply, hidden: Hidden) -> VisitReply:
    """A reply without links to hidden pages."""
    base = reply.moved or reply.url
    return replace(reply, text=without_links(reply.text, base, hidden), title=without_links(reply.title, base, hidden))
