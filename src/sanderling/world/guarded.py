"""A world under a guard: what it hides is in no list of results, and NOT_FOUND when visited, as a missing page is.

A page is judged by its whole text, whichever part of it is asked for. For lists, the pages of a question are looked up once, by
its own words, and judged whole; every hit is judged besides by what the list shows of it. Hits that are left keep their order,
and none moves up. Links to blocked addresses lose them, as with masks. Stands beneath a world's dynamics, whose faults would
keep pages from it. Opens no socket.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from sanderling.core.types import ToolStatus
from sanderling.world.canonical import canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, SearchesTogether, SearchHit, SearchReply, VisitReply, World
from sanderling.world.guard import Caller, Guard, GuardKind, Seen
from sanderling.world.hidden_links import without_links
from sanderling.world.masking import reply_with
from sanderling.world.parts import page_address

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
