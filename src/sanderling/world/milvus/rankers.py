"""Ranking on Milvus: by its BM25 over our own terms, and by nearness of passages. Implements `index.Ranker`.

Lists come in any order among equal scores. So more is fetched than asked for, scores are rounded, and equal ones are ordered by
page number; where a tie may reach past what was fetched, more is fetched. All queries of a batch go in one call.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from sanderling.world import text as terms
from sanderling.world.dense.embedders import Embedder, Kind, embed_units
from sanderling.world.dense.vectors import DenseSettings
from sanderling.world.index import MAX_QUERY_CHARS, MAX_QUERY_TERMS, Ranked
from sanderling.world.milvus.client import MOST_HITS, MilvusStore, encoded

_WORD_DIGITS = 3
_VECTOR_DIGITS = 4
"""A server's last digits depend on how many queries it is asked at once; a score at a rounding step may still tell."""
_SPARE = 8
Fetch = Callable[[list[int], int], list[list[tuple[int, float]]]]
"""Which queries of the batch, and how many hits of each, to lists of hits."""


class MilvusText:
    """Full text."""

    def __init__(self, store: MilvusStore) -> None:
        self._store = store

    @property
    def identity(self) -> str:
        return "milvus-bm25"

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        return self.rank_many([query], limit, hidden)[0]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        asked = [_asked(query) for query in queries]

        def fetch(which: list[int], count: int) -> list[list[tuple[int, float]]]:
            return self._store.by_words([asked[number] for number in which], count, hidden)

        return _ranked([bool(text) for text in asked], limit, 1, _WORD_DIGITS, fetch)


class MilvusDense:
    """Nearness of passages, pooled to pages.

    Args:
        store: holds the passages.
        settings: how they were made.
        embedder: of the queries; the one they were made by.

    """

    def __init__(self, store: MilvusStore, settings: DenseSettings, embedder: Embedder) -> None:
        self._store = store
        self._settings = settings
        self._embedder = embedder

    @property
    def identity(self) -> str:
        return f"milvus-dense-{self._settings.identity}"

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        return self.rank_many([query], limit, hidden)[0]

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        wanted = [number for number, query in enumerate(queries) if query.strip()]
        vectors = np.zeros((len(queries), self._settings.dimension), np.float32)
        if wanted and limit > 0:
            texts = [queries[number] for number in wanted]
            vectors[wanted] = embed_units(self._embedder, texts, Kind.QUERY, self._settings.prefixes)

        def fetch(which: list[int], count: int) -> list[list[tuple[int, float]]]:
            return self._store.by_vectors(vectors[which], count, hidden)

        return _ranked([bool(row.any()) for row in vectors], limit, self._settings.chunking.most, _VECTOR_DIGITS, fetch)


def _asked(query: str) -> str:
    """What is sent of a query: its terms, never its characters."""
    return encoded(" ".join(terms.query_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS)))[0]


def _ranked(asks: list[bool], limit: int, rows_of_page: int, digits: int, fetch: Fetch) -> list[Ranked]:
    """The lists of a batch; a page may have several rows among the hits, and counts by its best."""
    found: list[Ranked] = [[] for _ in asks]
    missing = [number for number, some in enumerate(asks) if some] if limit > 0 else []
    count = min((limit + _SPARE) * rows_of_page, MOST_HITS)
    while missing:
        unclear: list[int] = []
        for number, hits in zip(missing, fetch(missing, count), strict=True):
            best: dict[int, float] = {}
            for page, score in hits:
                best[page] = max(best.get(page, -np.inf), round(score, digits))
            ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
            lowest = round(min((score for _, score in hits), default=0.0), digits)
            clear = len(ranked) > limit and ranked[limit - 1][1] > lowest
            if clear or len(hits) < count or count >= MOST_HITS:
                found[number] = ranked[:limit]
            else:
                unclear.append(number)
        missing, count = unclear, min(count * 4, MOST_HITS)
    return found
