"""Several places as one: documents, worlds and the live web, searched side by side and visited where an address belongs.

Results of the places take turns, best first, those of the place named first before the others'; each says which place it is
from. What leaves the machine is watched: a query that repeats words which only a private place has said is not sent to the web.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, zip_longest

from sanderling.core.types import ToolStatus
from sanderling.world.contract import NO_OCCASION, Occasion, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.text import STOP_WORDS, words

_SHINGLE = 4  # neighbouring words that say something: so many of a private page in a row are its text
_PLACE_OF_OWN = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Order(StrEnum):
    """How places are searched."""

    TOGETHER = "together"
    IN_TURN = "in-turn"  # a further place only where those before it found nothing


class Leaks(StrEnum):
    """What happens to a query for the web that repeats a private page."""

    HOLD = "hold"  # it is not sent, and the agent reads why
    ALLOW = "allow"


@dataclass(frozen=True)
class Outgoing:
    """A call that left the machine, or was held back."""

    what: str  # search or visit
    text: str
    sent: bool


class Together(World):
    """One world of several; a question that has more than one place to look has all of them."""

    def __init__(
        self,
        places: Sequence[World],
        order: Order = Order.TOGETHER,
        leaks: Leaks = Leaks.HOLD,
        on_outgoing: Callable[[Outgoing], None] | None = None,
    ) -> None:
        """``places``: the preferred one first; those that are not offline are the web, all others are private."""
        self._places, self._order, self._leaks = tuple(places), order, leaks
        self._tell = on_outgoing or (lambda call: None)
        self._private: set[tuple[str, ...]] = set()  # what the private places said, as runs of telling words
        self.name = " + ".join(place.name for place in places)
        self.page_count = sum(place.page_count for place in places)
        self.offline = all(place.offline for place in places)
        named = [order.value, leaks.value, *(place.fingerprint for place in places)]
        self.fingerprint = hashlib.sha256(" ".join(named).encode()).hexdigest()

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        return tuple([await self._search(query, limit, snippet_words, occasion) for query in queries])

    async def search(
        self, query: str, *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> SearchReply:
        return await self._search(query, limit, snippet_words, occasion)

    async def _search(self, query: str, limit: int, snippet_words: int, occasion: Occasion) -> SearchReply:
        async def ask(place: World) -> SearchReply:
            if not place.offline and self._held(query, "search"):
                return SearchReply(query, (), ToolStatus.BLOCKED)
            reply = await place.search(query, limit=limit, snippet_words=snippet_words, occasion=occasion)
            if place.offline:
                self._remember(hit.snippet for hit in reply.hits)
            return replace(reply, hits=tuple(replace(hit, source=place.name) for hit in reply.hits))

        if self._order is Order.TOGETHER:
            replies = (
                list(await asyncio.gather(*map(ask, self._places)))
                if not self.offline
                else [await ask(place) for place in self._places]
            )
        else:
            replies = []
            for place in self._places:
                replies.append(await ask(place))
                if replies[-1].hits:
                    break
        hits: dict[str, SearchHit] = {}
        for hit in chain.from_iterable(zip_longest(*(reply.hits for reply in replies))):
            if hit is not None:
                hits.setdefault(hit.url, hit)
        statuses = [reply.status for reply in replies]
        status = ToolStatus.OK if hits else next((s for s in statuses if s is not ToolStatus.EMPTY), ToolStatus.EMPTY)
        return SearchReply(query, tuple(hits.values())[:limit], status, max(reply.latency_s for reply in replies))

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        reply = missing(url)
        for place in sorted(self._places, key=lambda place: not place.offline):  # what is here is not fetched
            if not place.offline and (_PLACE_OF_OWN.match(url) or self._held(url, "visit")):
                continue
            reply = await place.visit(url, goal, max_words=max_words, occasion=occasion)
            if reply.status is not ToolStatus.NOT_FOUND:
                if place.offline:
                    self._remember([reply.text])
                return reply
        return reply

    def _remember(self, texts: Sequence[str] | object) -> None:
        for text in texts:  # type: ignore[attr-defined]
            self._private.update(_shingles(text))

    def _held(self, text: str, what: str) -> bool:
        """Whether a call to the web is held back; it is told either way."""
        held = self._leaks is Leaks.HOLD and not self._private.isdisjoint(_shingles(text))
        self._tell(Outgoing(what, text, not held))
        return held


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Runs of neighbouring words that say something."""
    telling = [word for word in words(text) if word not in STOP_WORDS]
    return {tuple(telling[at : at + _SHINGLE]) for at in range(len(telling) - _SHINGLE + 1)}
