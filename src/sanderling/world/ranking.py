"""What orders a world's pages for a query: the contract of full-text, dense and fused ranking.

Knows page numbers, not pages.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

Ranked = list[tuple[int, float]]
"""Page numbers with scores, best first, equal scores by page number."""


class Ranker(Protocol):
    """Orders pages; may be called from many threads."""

    @property
    def identity(self) -> str:
        """What the order depends on beside the pages; empty for the world's own full-text index."""
        ...

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        """The ``limit`` best pages outside ``hidden``; fewer where fewer are found."""
        ...

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """As `rank` for each query, to the last digit."""
        ...


class FullText(Protocol):
    """A full-text index: `index.TextIndex`, or what answers in its place."""

    page_count: int

    @property
    def frequency(self) -> Callable[[str], int]:
        """Number of pages that contain a term."""
        ...

    def search(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        """As `Ranker.rank`."""
        ...


class LexicalRanker:
    """The full-text index as a ranker."""

    def __init__(self, index: FullText) -> None:
        self._index = index

    @property
    def identity(self) -> str:
        return ""

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        return self._index.search(query, limit, hidden)

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        return [self.rank(query, limit, hidden) for query in queries]
