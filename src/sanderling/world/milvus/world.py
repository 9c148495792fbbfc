"""A world whose pages and indexes lie on Milvus, by a directory that stands for it wherever a world's directory is accepted.

Search and visit are `LocalWorld`'s own, over a store and rankers that ask the server. Each batch of queries costs one search
for each kind of ranking, and one read of the pages to be shown. The server must not be written to meanwhile.
"""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.dense.embedders import Embedder, Kind, embed_units
from sanderling.world.dense.index import HybridRanker, open_for_queries
from sanderling.world.dense.vectors import DenseSettings
from sanderling.world.disk.index import MAX_QUERY_CHARS, MAX_QUERY_TERMS, FullText, Ranked, Ranker, SearchMode
from sanderling.world.local import LocalWorld
from sanderling.world.milvus import POINTER
from sanderling.world.milvus.client import MOST_HITS, MilvusStore, encoded
from sanderling.world.text import query_terms

WORDS = "words.sqlite"


class Pointer(Frozen):
    """`milvus.json`; written when everything was pushed. ``passages_collection`` is empty without vectors.

    Beside it lie the table of words, and copies of the world's manifest, near-duplicates, blocklist and settings of vectors.
    """

    uri: str
    collection: str
    name: str
    fingerprint: str
    pages: int
    passages_collection: str
    passages: int = 0


_KEPT = 4_096


def key_of(canonical: str) -> str:
    """The stored form of a canonical URL, which may be of any length."""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class MilvusPages:
    """Implements `pages.PageStore`; remembers the pages read last. May be called from many threads."""

    def __init__(self, store: MilvusStore) -> None:
        self._store = store
        self._kept: dict[int, Page] = {}
        self._lock = threading.Lock()

    def get(self, number: int) -> Page:
        return self.get_many([number])[number]

    def get_many(self, numbers: Collection[int]) -> dict[int, Page]:
        """Pages by number, all in one call. Raises KeyError for an unknown number."""
        with self._lock:
            found = {number: self._kept[number] for number in numbers if number in self._kept}
        missing = [number for number in dict.fromkeys(numbers) if number not in found]
        for at in range(0, len(missing), _KEPT):
            bodies = self._store.bodies(missing[at : at + _KEPT])
            found |= {number: Page(**json.loads(bodies[number])["page"]) for number in missing[at : at + _KEPT]}
        with self._lock:
            self._kept |= found
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found

    def find(self, key: str) -> int | None:
        return next(iter(self.find_many([key])), None)

    def find_many(self, keys: Collection[str]) -> list[int]:
        """The numbers of those of the keys that there are, in one call."""
        return self._store.numbers([key_of(key) for key in keys])


_WORD_DIGITS = 3
_VECTOR_DIGITS = 4  # a server's last digits depend on how many queries it is asked at once; a score at a step may still tell
_SPARE = 8


class MilvusText(FullText):
    """Milvus's BM25 over our own terms."""

    identity = "milvus-bm25"

    def __init__(self, store: MilvusStore, pages: int, frequency: Callable[[str], int]) -> None:
        self._store = store
        self.page_count = pages
        self.frequency = frequency

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        terms = [query_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS) for query in queries]
        asked = [encoded(" ".join(each))[0] or None for each in terms]
        return _ranked(asked, self._store.by_words, limit, hidden, 1, _WORD_DIGITS)


class MilvusDense(Ranker):
    """Nearness of passages, pooled to pages; ``settings``: how they were made."""

    def __init__(self, store: MilvusStore, settings: DenseSettings, embedder: Embedder) -> None:
        self._store = store
        self._settings = settings
        self._embedder = embedder
        self.identity = f"milvus-dense-{settings.identity}"

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        texts = [query for query in queries if query.strip()] if limit > 0 else []
        vectors = iter(embed_units(self._embedder, texts, Kind.QUERY, self._settings.prefixes) if texts else ())
        found = [next(vectors, None) if query.strip() else None for query in queries]
        asked = [vector if vector is not None and vector.any() else None for vector in found]
        return _ranked(asked, self._store.by_vectors, limit, hidden, self._settings.chunking.most, _VECTOR_DIGITS)


def _ranked(
    asked: Sequence[Any],
    search: Callable[[list[Any], int, Collection[int]], list[Ranked]],
    limit: int,
    hidden: Collection[int],
    rows_of_page: int,
    digits: int,
) -> list[Ranked]:
    """The list of each query, empty for None; a page may have several rows among the hits, and counts by its best.

    Hits come in any order among equal scores: more are fetched than asked for, and more again where a tie may reach past them.
    """
    found: list[Ranked] = [[] for _ in asked]
    missing = [number for number, one in enumerate(asked) if one is not None] if limit > 0 else []
    count = min((limit + _SPARE) * rows_of_page, MOST_HITS)
    while missing:
        unclear: list[int] = []
        for number, hits in zip(missing, search([asked[number] for number in missing], count, hidden), strict=True):
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


def _word_counts(path: Path) -> Callable[[str], int]:
    """In how many pages a word occurs, by the table of `push`; 1 for every word that it does not have. Raises UserError."""
    if not path.is_file():
        raise UserError(f"{path} is missing: push the world again.")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    lock = threading.Lock()

    @lru_cache(maxsize=100_000)
    def frequency(word: str) -> int:
        try:
            with lock:
                row = connection.execute("SELECT pages FROM words WHERE word = ?", (word,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(f"the table of words cannot be read: {error}") from error
        return row[0] if row else 1

    return frequency


class MilvusWorld(LocalWorld):
    """A world by the directory that `push.push_world` made for it."""

    def __init__(self, directory: Path, mode: SearchMode = SearchMode.LEXICAL) -> None:
        """Raises UserError when the server cannot be reached or does not hold what was pushed."""
        try:
            pointer = Pointer.model_validate_json((directory / POINTER).read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{directory / POINTER} is damaged: push the world again.") from error
        store = MilvusStore(pointer.uri, pointer.collection, pointer.passages_collection)
        if store.count() != (pointer.pages, pointer.passages):
            raise UserError(
                f"Milvus at {pointer.uri} does not hold the {pointer.pages:,} pages of {directory}: push the world again."
            )
        self._remote = MilvusPages(store)
        text = MilvusText(store, pointer.pages, _word_counts(directory / WORDS))
        ranker: Ranker = text
        if mode is not SearchMode.LEXICAL:
            info, embedder = open_for_queries(directory, pointer.fingerprint, pointer.pages)
            dense = MilvusDense(store, info.settings, embedder)
            ranker = dense if mode is SearchMode.DENSE else HybridRanker([text, dense])
        super().__init__(pointer.name, pointer.fingerprint, self._remote, text, ranker, waits=True)

    def _lists(self, queries: Sequence[str], limit: int, masked: Collection[str]) -> list[Ranked]:
        lists = self._ranker.rank_many(queries, limit, self._remote.find_many(masked))
        self._remote.get_many([number for ranked in lists for number, _ in ranked])  # before they are asked for one by one
        return lists
