"""Dense and hybrid search: a page is as near to a query as its nearest passage, by cosine; two rankings fused into one.

Blocks of passages are compared by matrix products, which may differ in their last digits from machine to machine and with the
number of queries. They only choose candidates, with a margin wider than that error; candidates are scored anew in float64, one
by one, rounded, and ordered by score and page number. So a batch, a single query and another machine give the same list.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import Embedder, Kind, Vectors, embed_units, open_embedder, opens_socket
from sanderling.world.dense.vectors import DIRECTORY, DenseInfo, DenseSettings, read_arrays, read_info
from sanderling.world.disk.index import Ranked, Ranker, SearchMode
from sanderling.world.local import LocalWorld

_MARGIN = 1e-4
_DIGITS = 6
_BLOCK_VALUES = 4_000_000  # 16 MB as float32
_KEPT_BYTES = 512_000_000
"""Up to here vectors are kept as float32 in memory: converting float16 costs ten times what comparing does."""
_NONE = np.float32(-2.0)  # below every cosine
RRF_K = 60
DEPTH = 100


class DenseIndex(Ranker):
    """Ranks by nearness: ``vectors`` of unit length, as ``embedder`` made them, and their pages, rising."""

    def __init__(
        self, settings: DenseSettings, vectors: NDArray[np.floating], owners: NDArray[np.uint32], embedder: Embedder
    ) -> None:
        self.identity = f"dense-{settings.identity}"
        self._settings = settings
        self._vectors = vectors
        self._wide = np.asarray(vectors, np.float32) if vectors.size * 4 <= _KEPT_BYTES else vectors
        self._embedder = embedder
        self._pages, self._starts = np.unique(owners.astype(np.int64), return_index=True)
        self._ends = np.append(self._starts[1:], len(owners))
        rows = max(_BLOCK_VALUES // settings.dimension, 1)
        cuts = np.searchsorted(self._starts, np.arange(0, len(owners), rows))
        self._cuts = np.unique(np.append(cuts, len(self._pages))).tolist()
        """Numbers of pages at which blocks of about so many rows begin and end."""

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """The nearest pages, none for a query without a word; queries are embedded in one call, and the passages read once."""
        asked = [number for number, query in enumerate(queries) if query.strip()]
        found: list[Ranked] = [[] for _ in queries]
        if limit < 1 or not asked or not len(self._pages):
            return found
        vectors = embed_units(self._embedder, [queries[number] for number in asked], Kind.QUERY, self._settings.prefixes)
        scores = np.empty((len(self._pages), len(asked)), np.float32)
        for first, last in pairwise(self._cuts):
            rows = slice(int(self._starts[first]), int(self._ends[last - 1]))
            near = np.asarray(self._wide[rows], np.float32) @ vectors.T
            scores[first:last] = np.maximum.reduceat(near, self._starts[first:last] - rows.start, axis=0)
        if hidden:
            scores[np.isin(self._pages, list(hidden))] = _NONE
        for number, vector, column in zip(asked, vectors, scores.T, strict=True):
            cut = np.partition(column, -limit)[-limit] - _MARGIN if limit < len(column) else _NONE
            if vector.any():
                found[number] = self._exact(vector, np.flatnonzero((column >= cut) & (column > _NONE)), limit)
        return found

    def _exact(self, vector: Vectors, places: NDArray[np.int64], limit: int) -> Ranked:
        """The best of some places, each row scored by itself: neither the order nor the number of rows matters to a score."""
        wide = vector.astype(np.float64)
        scored: Ranked = []
        for place in places.tolist():
            rows = self._vectors[self._starts[place] : self._ends[place]].astype(np.float64)
            scored.append((int(self._pages[place]), round(float((rows * wide).sum(axis=1).max()), _DIGITS)))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]


class HybridRanker(Ranker):
    """Several rankings as one, by reciprocal rank fusion (Cormack et al., SIGIR 2009): each adds 1 / (60 + rank) to its pages.

    The first 100 of each are fused, or as many as are asked for. Equal scores are ordered by page number.
    """

    def __init__(self, rankers: Sequence[Ranker]) -> None:
        self._rankers = tuple(rankers)
        self.identity = f"rrf-{RRF_K}-{DEPTH}:" + "+".join(ranker.identity or "lexical" for ranker in rankers)

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        lists = [ranker.rank_many(queries, max(DEPTH, limit), hidden) for ranker in self._rankers]
        found: list[Ranked] = []
        for ranked in zip(*lists, strict=True):
            scores: dict[int, float] = {}
            for each in ranked:
                for rank, (number, _) in enumerate(each, start=1):
                    scores[number] = scores.get(number, 0.0) + 1.0 / (RRF_K + rank)
            rounded = [(number, round(score, 9)) for number, score in scores.items()]
            found.append(sorted(rounded, key=lambda pair: (-pair[1], pair[0]))[: max(limit, 0)])
        return found


def open_for_queries(directory: Path, fingerprint: str, pages: int) -> tuple[DenseInfo, Embedder]:
    """A world's dense manifest and the embedder of its queries. Raises UserError unless both fit these pages as they are."""
    info = read_info(directory / DIRECTORY)
    if info is None:
        raise UserError(
            f"{directory} has no dense index: make one with `sanderling world embed {directory} --embedder hashed`."
        )
    if info.world != fingerprint or info.pages != pages:
        raise UserError(
            f"The dense index of {directory} holds {info.pages:,} pages and is not of the world as it is ({pages:,} pages): "
            f"run `sanderling world embed {directory}` again."
        )
    settings = info.settings
    embedder = open_embedder(info.embedder, settings.dimension)
    if embedder.model != settings.model or embedder.dimension != settings.dimension:
        raise UserError(
            f"The dense index was made by {settings.model} with {settings.dimension} dimensions, and {embedder.model} has "
            f"{embedder.dimension}: use the same embedder, or embed the world again."
        )
    return info, embedder


def ranked_world(directory: Path, world: LocalWorld, mode: SearchMode) -> LocalWorld:
    """The world with the ranker that was asked for. Raises UserError when its dense index is missing or does not fit."""
    if mode is SearchMode.LEXICAL:
        return world
    info, embedder = open_for_queries(directory, world.pages_fingerprint, world.page_count)
    dense = DenseIndex(info.settings, *read_arrays(directory / DIRECTORY, info), embedder)
    ranker = dense if mode is SearchMode.DENSE else HybridRanker([world.lexical, dense])
    return world.with_ranker(ranker, waits=opens_socket(info.embedder))
