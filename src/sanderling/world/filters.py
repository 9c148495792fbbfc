"""Filters over any world: what a question must not see, and links to it.

`MaskedWorld` hides the question's own source pages with their near-duplicates, and blocked sites; `GuardedWorld` hides what
gives the question away. A hidden page is in no list of results and is NOT_FOUND when visited; a link to it keeps its words and
loses its address, and its address, written out, is gone from texts and snippets. Words that a page quotes from a hidden one
stay.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from urllib.parse import urljoin

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import canonical_set, canonical_url, page_address
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import NO_OCCASION, Occasion, SearchesTogether, SearchHit, SearchReply, VisitReply, World
from sanderling.world.cutting import Link, find_links
from sanderling.world.duplicates import load_groups
from sanderling.world.guard import Caller, Guard, GuardKind, Seen

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


BLOCKLIST_FILE = "blocklist.txt"


class MaskedWorld(SearchesTogether):
    """A world in which masks reach near-duplicates, and blocked sites do not exist.

    Args:
        world: whose pages these are.
        groups: near-duplicates by URL (`duplicates.near_duplicates`).
        blocklist: what is hidden from every question.

    """

    def __init__(self, world: World, groups: Sequence[Sequence[str]] = (), blocklist: Blocklist | None = None) -> None:
        self._world = world
        self._blocklist = blocklist or Blocklist()
        self._group_of: dict[str, frozenset[str]] = {}
        for group in groups:
            keys = frozenset(canonical_url(url) for url in group)
            self._group_of.update(dict.fromkeys(keys, keys))
        self._expanded: Callable[[frozenset[str]], frozenset[str]] = lru_cache(maxsize=256)(self._expand)
        parts = [sorted({tuple(sorted(group)) for group in self._group_of.values()})]
        parts += [sorted(self._blocklist.hosts), sorted(self._blocklist.prefixes)]
        parts += [sorted(self._blocklist.paths)] if self._blocklist.paths else []
        changed = self._group_of or self._blocklist
        digest = hashlib.sha256(json.dumps([world.fingerprint, *parts]).encode()).hexdigest()
        self._fingerprint = digest if changed else world.fingerprint

    @property
    def name(self) -> str:
        return self._world.name

    @property
    def fingerprint(self) -> str:
        """That of the world, or one of its own where groups or blocked sites change what it answers."""
        return self._fingerprint

    @property
    def page_count(self) -> int:
        """Pages of the world, hidden ones included."""
        return self._world.page_count

    @property
    def waits(self) -> bool:
        return self._world.waits

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. Asks for more results until enough are not blocked."""
        keys = self._expanded(occasion.masked)
        if not keys and not self._blocklist:
            return self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        hidden = self._hidden(keys)
        wanted, within = limit, replace(occasion, masked=keys)
        found: dict[int, SearchReply] = {}
        while missing := [number for number in range(len(queries)) if number not in found]:
            asked = [queries[number] for number in missing]
            replies = self._world.search_many(asked, limit=wanted, snippet_words=snippet_words, occasion=within)
            for number, reply in zip(missing, replies, strict=True):
                shown = [hit for hit in reply.hits if not hidden(canonical_url(hit.url))]
                if len(shown) >= limit or len(reply.hits) < wanted:
                    found[number] = reply_with(reply, shown[:limit], hidden)
            wanted *= 2
        return tuple(found[number] for number in range(len(queries)))

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """Read a page; see `contract.World`."""
        keys = self._expanded(occasion.masked)
        if not keys and not self._blocklist:
            return self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        hidden = self._hidden(keys)
        if hidden(canonical_url(url)):
            return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND)
        reply = self._world.visit(url, goal, max_words=max_words, occasion=replace(occasion, masked=keys))
        return replace(
            reply, text=without_links(reply.text, reply.url, hidden), title=without_links(reply.title, reply.url, hidden)
        )

    def _expand(self, masked: frozenset[str]) -> frozenset[str]:
        keys = canonical_set(masked)
        return keys.union(*(self._group_of[key] for key in keys if key in self._group_of))

    def _hidden(self, keys: frozenset[str]) -> Hidden:
        return lambda key: key in keys or self._blocklist.blocks(key)


def reply_with(reply: SearchReply, hits: Sequence[SearchHit], hidden: Hidden) -> SearchReply:
    """A reply with some of its hits, and no link to a hidden page in them: EMPTY where none is left."""
    clean = tuple(
        replace(hit, snippet=without_links(hit.snippet, hit.url, hidden), title=without_links(hit.title, hit.url, hidden))
        for hit in hits
    )
    status = ToolStatus.EMPTY if reply.status is ToolStatus.OK and not clean else reply.status
    return SearchReply(reply.query, clean, status, reply.latency_s)


def masked_world(world: World, directory: Path, pages: str = "") -> World:
    """A world with what its directory says about masking: its near-duplicates, and ``blocklist.txt`` where there is one.

    ``pages``: the fingerprint of the pages alone, where the world's own says more. Raises UserError when a file cannot be used.
    """
    groups = load_groups(directory, pages or world.fingerprint)
    return MaskedWorld(world, groups, read_blocklist(directory / BLOCKLIST_FILE))


def read_blocklist(path: Path) -> Blocklist:
    """The blocklist of a file; an empty one when there is no file. Raises UserError when it cannot be read."""
    try:
        return Blocklist.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Blocklist()
    except UserError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(
            f"The blocklist {path} cannot be read ({error}): write one host, URL or */path a line, in UTF-8."
        ) from error


_WHOLE_PAGE = 10**9
"""Words: more than any page has."""
_FIRST_LOOK = 20
"""Pages that are looked at for a question; twice as many while most of them hold it."""


class GuardedWorld(SearchesTogether):
    """A world in which a question's leaks do not exist.

    Example: ``GuardedWorld(world, guard).search("tidal flats", occasion=Occasion(question="q1"))``
    """

    def __init__(self, world: World, guard: Guard) -> None:
        self._world = world
        self._guard = guard
        self._leaking: dict[str, frozenset[str]] = {}
        self._fingerprint = hashlib.sha256(f"{world.fingerprint} guarded {guard.fingerprint}".encode()).hexdigest()

    @property
    def name(self) -> str:
        return self._world.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the world's own fingerprint and the guard's: what is hidden changes what is answered."""
        return self._fingerprint

    @property
    def page_count(self) -> int:
        """Pages of the world, hidden ones included."""
        return self._world.page_count

    @property
    def waits(self) -> bool:
        return self._world.waits

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`."""
        replies = self._world.search_many(queries, limit=limit, snippet_words=snippet_words, occasion=occasion)
        leaking = self._leaks(occasion.question)
        caller = Caller.of(occasion, "search")
        return tuple(self._shown(reply, leaking, caller) for reply in replies)

    def _shown(self, reply: SearchReply, leaking: frozenset[str], caller: Caller) -> SearchReply:
        hits = [hit for hit in reply.hits if not self._hides_hit(caller, hit, leaking)]
        return reply_with(reply, hits, self._guard.blocklist.blocks)

    def _hides_hit(self, caller: Caller, hit: SearchHit, leaking: frozenset[str]) -> bool:
        if canonical_url(hit.url) not in leaking:
            return self._guard.hides_hit(caller, hit)
        if self._guard.hides_address(caller, hit.url):
            return True
        page = self._whole(hit.url)
        return page is not None and self._guard.hides(caller, page)

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """Read a page; see `contract.World`."""
        caller = Caller.of(occasion, "visit")
        if self._guard.hides_address(caller, url):
            return _missing(url, 0.0)
        reply = self._world.visit(url, goal, max_words=max_words, occasion=occasion)
        if canonical_url(reply.url) != canonical_url(url) and self._guard.hides_address(caller, reply.url):
            return _missing(url, reply.latency_s)
        if reply.status is ToolStatus.OK or reply.part > reply.parts:  # past the end of a page its title is told
            shown = Seen(reply.url, reply.title, reply.text)
            page = shown if (reply.part, reply.parts) == (1, 1) else self._whole(url) or shown
            if self._guard.hides(caller, page):
                return _missing(url, reply.latency_s)
        hidden = self._guard.blocklist.blocks
        title, text = (without_links(words, reply.url, hidden) for words in (reply.title, reply.text))
        return replace(reply, title=title, text=text)

    def _whole(self, url: str) -> Seen | None:
        """A page from its first word to its last; None where it cannot be read."""
        page = self._world.visit(page_address(url), max_words=_WHOLE_PAGE)
        return Seen(page.url, page.title, page.text) if page.status is ToolStatus.OK else None

    def _leaks(self, question: str) -> frozenset[str]:
        """Keys of pages that hold the question, found by a search for it."""
        known = self._leaking.get(question)
        if known is None:
            known = self._leaking[question] = self._looked_up(question)
        return known

    def _looked_up(self, question: str) -> frozenset[str]:
        text = self._guard.text_of(question)
        if not text:
            return frozenset()
        most = _FIRST_LOOK
        while True:
            hits = self._world.search(text, limit=most, snippet_words=1).hits
            pages = [page for hit in hits if (page := self._whole(hit.url)) is not None]
            found = [page for page in pages if self._is_leak(question, page)]
            if len(hits) < most or 2 * len(found) <= len(hits):
                return frozenset(canonical_url(page.url) for page in found)
            most *= 2

    def _is_leak(self, question: str, page: Seen) -> bool:
        found = self._guard.finding(question, page)
        return found is not None and found[0] is not GuardKind.REPORTED


def _missing(url: str, latency_s: float) -> VisitReply:
    return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND, latency_s=latency_s)
