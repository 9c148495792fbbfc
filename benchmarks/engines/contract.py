"""What a search engine has to do to be measured beside the world's own: be built from terms, opened, and rank page numbers.

Every engine is given the same terms (the world's tokenisation, title twice) and the same query terms (English stop words out)
and is asked through `LocalWorld.with_ranker`, so that pages, snippets and masks cost the same for all of them.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from sanderling.world.disk.index import MAX_QUERY_TERMS, Ranked, Ranker
from sanderling.world.text import query_terms


class Engine(Protocol):
    """An engine in one directory of its own."""

    note: str
    """What a reader of its figures has to know."""

    def missing(self) -> str:
        """Why it cannot run here; empty when it can."""
        ...

    def build(self, directory: Path, documents: Iterable[str]) -> None:
        """Index documents, each the terms of a page separated by spaces, in the order of their numbers."""
        ...

    def open(self, directory: Path) -> Ranker:
        """Open what was built, for reading."""
        ...


class TermRanker(Ranker):
    """A ranker that is asked with terms: engines give ``name`` and ``best``."""

    name: str

    def best(self, terms: Sequence[str], limit: int) -> Ranked:
        """The best pages for some terms."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        return self.name

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        terms = query_terms(query, MAX_QUERY_TERMS)
        found = self.best(terms, limit + len(hidden)) if terms else []
        return sorted((pair for pair in found if pair[0] not in hidden), key=lambda pair: (-pair[1], pair[0]))[:limit]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        return [self.rank(query, limit, hidden) for query in queries]
