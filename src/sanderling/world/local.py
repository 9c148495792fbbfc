"""A world on this machine: pages, an index over them, snippets and extracts. May be called from many threads."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, canonical_set, canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, Page, Reply, SearchHit, SearchReply, VisitReply, World, missing
from sanderling.world.disk.index import MAX_QUERY_CHARS, MAX_QUERY_TERMS, FullText, IndexBuilder, Ranked, Ranker
from sanderling.world.disk.pages import Intake, MemoryPages, PageStore
from sanderling.world.filters import with_hits, without_hidden
from sanderling.world.passages import read_page
from sanderling.world.snippets import Source, snippet, source
from sanderling.world.text import content_terms

_CACHED_PAGES = 512
_LONGEST_TITLE = 300  # characters of a title, or a date, that are shown; a page may give a book as its title
_LIGHTEST = 0.1  # of the heaviest word's weight: what weighs less does not move a snippet, and stands on half of the pages


class LocalWorld(World):
    """Pages with search and visit; on disk (`store.open_world`), in memory, or on a server (`milvus`).

    ``ranker``: orders the pages; the index by default. ``waits``: whether these ask a server.
    """

    def __init__(
        self,
        name: str,
        fingerprint: str,
        pages: PageStore,
        index: FullText,
        ranker: Ranker | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.name = name
        self.pages_fingerprint = fingerprint
        self.lexical = index
        self._ranker: Ranker = index if ranker is None else ranker
        identity = self._ranker.identity
        self.fingerprint = hashlib.sha256(f"{fingerprint} {identity}".encode()).hexdigest() if identity else fingerprint
        self.page_count = index.page_count
        self.frequency = index.frequency
        self._pages = pages
        self._waits = waits
        self._source: Callable[[int], Source] = lru_cache(maxsize=_CACHED_PAGES)(lambda number: source(pages.listed(number)))

    @staticmethod
    def in_memory(pages: Iterable[Page], *, name: str) -> "LocalWorld":
        """Build a world in memory. Raises UserError when no page is left to hold."""
        intake, store, index = Intake(), MemoryPages(), IndexBuilder(None)
        for page in pages:
            number = intake.take_in(page, store.add)
            if number is not None:
                kept = store.get(number)
                index.add(number, kept.title, kept.text)
        if not intake.tally["kept"]:
            raise UserError(f"The world {name!r} would hold no page: give pages that have a URL and text.")
        return LocalWorld(name, intake.fingerprint, store, index.finish())

    def with_ranker(self, ranker: Ranker, *, waits: bool = False) -> "LocalWorld":
        """The same pages, ordered by another ranker; ``waits``: it asks a server."""
        return LocalWorld(self.name, self.pages_fingerprint, self._pages, self.lexical, ranker, waits=waits)

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        def replies() -> tuple[SearchReply, ...]:
            masked = canonical_set(occasion.masked)
            lists = zip(queries, self._lists(queries, limit, masked), strict=True)
            return tuple(self._reply(query, ranked, snippet_words, masked) for query, ranked in lists)

        return await self._computed(replies)

    def _lists(self, queries: Sequence[str], limit: int, masked: Collection[str]) -> list[Ranked]:
        """The list of each query, without the pages of these keys."""
        hidden = [number for key in masked if (number := self._pages.find(key)) is not None]
        return self._ranker.rank_many(queries, limit, hidden)

    def _reply(self, query: str, ranked: Ranked, snippet_words: int, masked: frozenset[str]) -> SearchReply:
        if not ranked:
            return SearchReply(query=query, hits=(), status=ToolStatus.EMPTY)
        weights = self._weights(query)
        hits: list[SearchHit] = []
        for number, score in ranked:
            found = self._source(number)
            page, text = found.page, snippet(found, weights, max(snippet_words, 1))
            hits.append(SearchHit(_cut_short(page.title), page.url, text, _cut_short(page.date), score))
        reply = SearchReply(query=query, hits=tuple(hits))
        return with_hits(reply, reply.hits, masked.__contains__) if masked else reply

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        def reply() -> VisitReply:
            key, masked = canonical_url(url), canonical_set(occasion.masked)
            number = None if key in masked else self._pages.find(key)
            if number is None:
                return missing(url)
            page = self._pages.get(number)
            title = _cut_short(page.title)
            if not page.text:
                return VisitReply(url=page.url, title=title, text="", status=ToolStatus.NOT_TEXT)
            found = read_page(page.text, goal, asked_part(url), max(max_words, 1))
            if found.part > found.parts:
                return VisitReply(page.url, title, "", ToolStatus.NOT_FOUND, part=found.part, parts=found.parts)
            reply = VisitReply(page.url, title, found.text, part=found.part, parts=found.parts, date=_cut_short(page.date))
            return without_hidden(reply, masked.__contains__) if masked else reply

        return await self._computed(reply)

    async def _computed(self, work: Callable[[], Reply]) -> Reply:
        """In a thread where it waits for a server and an event loop has others to serve, else here."""
        if not self._waits:
            return work()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return work()
        return await asyncio.to_thread(work)

    def page(self, url: str) -> Page | None:
        """The whole page of an address, or None; for builders and judges, not for agents."""
        number = self._pages.find(canonical_url(url))
        return None if number is None else self._pages.get(number)

    def all_pages(self, first: int = 0) -> Iterator[Page]:
        """Every page in order, from the ``first`` on; for builders and judges, not for agents."""
        return map(self._pages.get, range(first, self.page_count))

    def _weights(self, query: str) -> dict[str, float]:
        """Inverse document frequency of the query's words, but for those that say next to nothing."""
        words = content_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS)
        counts = {word: self.frequency(word) for word in words}
        weights = {word: math.log1p((self.page_count - n + 0.5) / (n + 0.5)) for word, n in counts.items() if n}
        least = _LIGHTEST * max(weights.values(), default=0.0)
        return {word: weight for word, weight in weights.items() if weight >= least}


def _cut_short(title: str) -> str:
    return title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE].rstrip()} …"
