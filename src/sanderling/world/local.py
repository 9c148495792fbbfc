"""A world on this machine: pages, an index over them, snippets and extracts. Implements `contract.World`.

The same code serves a world opened from a directory (`store.open_world`) and one built in memory (`LocalWorld.in_memory`, for
tests and RL workers). Opens no socket, draws no random number, reads no clock. May be called from many threads.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.world.addresses import asked_part, canonical_set, canonical_url
from sanderling.world.contract import NO_OCCASION, Occasion, Page, SearchesTogether, SearchHit, SearchReply, VisitReply
from sanderling.world.filters import without_links
from sanderling.world.index import MAX_QUERY_CHARS, MAX_QUERY_TERMS, FullText, IndexBuilder, LexicalRanker, Ranked, Ranker
from sanderling.world.pages import Intake, MemoryPages, PageStore, StoredPage
from sanderling.world.passages import read_page, snippet
from sanderling.world.text import Flow, content_terms, flow

_CACHED_PAGES = 256
_LONGEST_SNIPPET_SOURCE = 200_000
_LONGEST_TITLE = 300
"""Characters of a title, or a date, that are shown; a page may give a book as its title."""
_LIGHTEST = 0.1
"""Of the heaviest word's weight: what weighs less does not move a snippet, and stands on half of the pages."""


class LocalWorld(SearchesTogether):
    """Pages with search and visit.

    Args:
        name: for records.
        fingerprint: SHA-256 over the pages in order.
        pages: the store.
        index: over exactly these pages; it weighs the words of snippets whoever ranks.
        ranker: orders the pages; the index by default.
        waits: whether ranker or store ask a server.

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
        self._waits = waits
        self._name = name
        self._fingerprint = fingerprint
        self._pages = pages
        self._index = index
        self._ranker: Ranker = LexicalRanker(index) if ranker is None else ranker
        self._laid_out: Callable[[int], tuple[Page, Flow]] = lru_cache(maxsize=_CACHED_PAGES)(self._lay_out)

    @staticmethod
    def in_memory(pages: Iterable[Page], *, name: str) -> "LocalWorld":
        """Build a world in memory. Raises UserError when no page is left to hold."""
        intake, store, index = Intake(), MemoryPages(), IndexBuilder(None)
        for page in pages:
            take_in(page, intake, store.add, index)
        if not intake.counts.kept:
            raise UserError(f"The world {name!r} would hold no page: give pages that have a URL and text.")
        return LocalWorld(name, intake.fingerprint, store, index.finish())

    @property
    def name(self) -> str:
        return self._name

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the pages in order, and over who ranks them where that is not the full-text index."""
        identity = self._ranker.identity
        return hashlib.sha256(f"{self._fingerprint} {identity}".encode()).hexdigest() if identity else self._fingerprint

    @property
    def pages_fingerprint(self) -> str:
        """SHA-256 over the pages in order, whoever ranks them."""
        return self._fingerprint

    @property
    def page_count(self) -> int:
        return self._index.page_count

    @property
    def waits(self) -> bool:
        return self._waits

    def frequency(self, term: str) -> int:
        """In how many pages a term occurs."""
        return self._index.frequency(term)

    @property
    def lexical(self) -> LexicalRanker:
        """The full-text index as a ranker."""
        return LexicalRanker(self._index)

    def with_ranker(self, ranker: Ranker, *, waits: bool = False) -> "LocalWorld":
        """The same pages, ordered by another ranker; ``waits``: it asks a server."""
        return LocalWorld(self._name, self._fingerprint, self._pages, self._index, ranker, waits=waits)

    def search_many(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> tuple[SearchReply, ...]:
        """Rank pages; see `contract.World`. Raises OSError when the store, or an embedder elsewhere, cannot be read."""
        lists = self._ranker.rank_many(queries, limit, self._hidden(canonical_set(occasion.masked)))
        return tuple(self._reply(*each, snippet_words, occasion) for each in zip(queries, lists, strict=True))

    def _hidden(self, keys: Collection[str]) -> list[int]:
        """The numbers of masked pages."""
        return [number for key in keys if (number := self._pages.find(key)) is not None]

    def _reply(self, query: str, ranked: Ranked, snippet_words: int, occasion: Occasion) -> SearchReply:
        if not ranked:
            return SearchReply(query=query, hits=(), status=ToolStatus.EMPTY)
        weights = self._weights(query)
        hits = tuple(self._hit(number, score, weights, max(snippet_words, 1)) for number, score in ranked)
        if occasion.masked:
            hidden = canonical_set(occasion.masked).__contains__
            hits = tuple(
                replace(h, snippet=without_links(h.snippet, h.url, hidden), title=without_links(h.title, h.url, hidden))
                for h in hits
            )
        return SearchReply(query=query, hits=hits)

    def visit(
        self,
        url: str,
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
    ) -> VisitReply:
        """Read a page; see `contract.World`. Raises OSError when the store has become unreadable."""
        key, hidden = canonical_url(url), canonical_set(occasion.masked)
        number = None if key in hidden else self._pages.find(key)
        if number is None:
            return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND)
        stored = self._pages.get(number)
        page, title = stored.page, _shown(stored.page.title)
        if not stored.readable:
            return VisitReply(url=page.url, title=title, text="", status=ToolStatus.NOT_TEXT)
        found = read_page(page.text, goal, asked_part(url), max(max_words, 1))
        if found.part > found.parts:
            return VisitReply(page.url, title, "", ToolStatus.NOT_FOUND, part=found.part, parts=found.parts)
        text = found.text
        if hidden:
            title, text = (without_links(each, page.url, hidden.__contains__) for each in (title, text))
        return VisitReply(url=page.url, title=title, text=text, part=found.part, parts=found.parts)

    def page(self, url: str) -> Page | None:
        """The whole page of an address, or None; for builders and judges, not for agents."""
        number = self._pages.find(canonical_url(url))
        return None if number is None else self._pages.get(number).page

    def all_pages(self, first: int = 0) -> Iterator[Page]:
        """Every page in order, from the ``first`` on; for builders and judges, not for agents.

        Raises OSError when the store has become unreadable.
        """
        return (self._pages.get(number).page for number in range(first, self.page_count))

    def _weights(self, query: str) -> dict[str, float]:
        """Inverse document frequency of the query's words, but for those that say next to nothing."""
        total = self._index.page_count
        words = content_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS)
        counts = {word: self._index.frequency(word) for word in words}
        weights = {word: math.log1p((total - n + 0.5) / (n + 0.5)) for word, n in counts.items() if n}
        least = _LIGHTEST * max(weights.values(), default=0.0)
        return {word: weight for word, weight in weights.items() if weight >= least}

    def _hit(self, number: int, score: float, weights: dict[str, float], snippet_words: int) -> SearchHit:
        page, laid_out = self._laid_out(number)
        text = snippet(laid_out, weights, snippet_words)
        return SearchHit(title=_shown(page.title), url=page.url, snippet=text, date=_shown(page.date), score=score)

    def _lay_out(self, number: int) -> tuple[Page, Flow]:
        page = self._pages.get(number).page
        return page, flow(page.title, page.text[:_LONGEST_SNIPPET_SOURCE])


def _shown(title: str) -> str:
    return title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE].rstrip()} …"


def take_in(page: Page, intake: Intake, add: Callable[[StoredPage], int | None], index: IndexBuilder) -> None:
    """One page on its way into a world: admitted, stored, indexed, counted."""
    stored = intake.admit(page)
    if stored is None:
        return
    number = add(stored)
    if number is None:
        intake.refuse_second()
        return
    intake.keep(stored)
    index.add(number, stored.page.title, stored.page.text)
