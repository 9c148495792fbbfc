"""Dense and hybrid search: a page is as near to a query as its nearest passage, by cosine; two rankings fused into one.

Blocks of passages are compared by matrix products, which may differ in their last digits from machine to machine and with the
number of queries. They only choose candidates, with a margin wider than that error; candidates are scored anew in float64, one
by one, rounded, and ordered by score and page number. So a batch, a single query and another machine give the same list.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sanderling.core.errors import UserError
from sanderling.world.dense.embedders import CachedEmbedder, Embedder, Kind, Vectors, embed_units, open_embedder, opens_socket
from sanderling.world.dense.vectors import DIRECTORY, DenseInfo, DenseSettings, read_arrays, read_info
from sanderling.world.disk.index import Ranked, Ranker
from sanderling.world.local import LocalWorld

_MARGIN = 1e-4
_DIGITS = 6
_BLOCK_VALUES = 4_000_000  # 16 MB as float32
_KEPT_BYTES = 512_000_000
"""Up to here, what is stored as float16 is kept as float32 once used: converting it costs ten times what comparing does."""
_EXACT_PLACES = 2_000
_NONE = np.float32(-2.0)  # below every cosine


class DenseIndex(Ranker):
    """Ranks by nearness.

    Args:
        info: of the arrays.
        vectors: (rows, dimension), each passage of unit length.
        owners: (rows,), the page of each, rising.
        embedder: of the queries; UserError when it is not the one the vectors were made by.

    """

    def __init__(self, info: DenseInfo, vectors: NDArray[np.floating], owners: NDArray[np.uint32], embedder: Embedder) -> None:
        settings = info.settings
        check_embedder(settings, embedder)
        self.identity = f"dense-{settings.identity}"
        self._info = info
        self._vectors = vectors
        self._embedder = embedder
        self._starts = np.flatnonzero(np.diff(owners, prepend=np.uint32(0xFFFFFFFF))).astype(np.int64)
        self._pages = owners[self._starts].astype(np.int64)
        self._ends = np.append(self._starts[1:], len(owners))
        self._kept: dict[int, Vectors] = {}
        self._blocks = _blocks(self._ends, max(_BLOCK_VALUES // settings.dimension, 1))

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """The nearest pages, none for a query without a word; queries are embedded in one call, and the passages read once."""
        asked = [number for number, query in enumerate(queries) if query.strip()]
        found: list[Ranked] = [[] for _ in queries]
        if limit < 1 or not asked or not len(self._pages):
            return found
        texts = [queries[number] for number in asked]
        vectors = embed_units(self._embedder, texts, Kind.QUERY, self._info.settings.prefixes)
        for number, vector, places in zip(asked, vectors, self._candidates(vectors, limit, hidden), strict=True):
            if vector.any():
                found[number] = self._exact(vector, places, limit)
        return found

    def _candidates(self, vectors: Vectors, limit: int, hidden: Collection[int]) -> list[NDArray[np.int64]]:
        """For each query the places in ``_pages`` that may be among its best, by approximate score."""
        shown = ~np.isin(self._pages, np.fromiter(hidden, np.int64, len(hidden))) if hidden else None
        kept = [_Best(limit) for _ in vectors]
        for first, last in self._blocks:
            rows = slice(int(self._starts[first]), int(self._ends[last - 1]))
            block = self._block(rows)
            scores = np.maximum.reduceat(block @ vectors.T, self._starts[first:last] - rows.start, axis=0)
            if shown is not None:
                scores[~shown[first:last]] = _NONE
            for best, column in zip(kept, scores.T, strict=True):
                best.take(first, column)
        return [best.places for best in kept]

    def _block(self, rows: slice) -> Vectors:
        """Rows as float32; a view of the file where it holds float32."""
        if self._vectors.size * 4 > _KEPT_BYTES or self._vectors.dtype == np.float32:
            return np.asarray(self._vectors[rows], dtype=np.float32)
        if rows.start not in self._kept:
            self._kept[rows.start] = np.asarray(self._vectors[rows], dtype=np.float32)
        return self._kept[rows.start]

    def _exact(self, vector: Vectors, places: NDArray[np.int64], limit: int) -> Ranked:
        """The best of some places, each row scored by itself: neither the order nor the number of rows tells in a score."""
        wide = vector.astype(np.float64)
        scored: Ranked = []
        for part in np.array_split(places, len(places) // _EXACT_PLACES + 1):
            counts = self._ends[part] - self._starts[part]
            offsets = np.cumsum(counts) - counts
            rows = np.repeat(self._starts[part] - offsets, counts) + np.arange(counts.sum())
            scores = (self._vectors[rows].astype(np.float64) * wide).sum(axis=1)
            best = np.maximum.reduceat(scores, offsets) if len(part) else scores
            scored += zip(self._pages[part].tolist(), np.round(best, _DIGITS).tolist(), strict=True)
        scored.sort(key=lambda pair: (-pair[1], pair[0]))
        return scored[:limit]


class _Best:
    """The places of one query that may still be among its best."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._floor = _NONE + np.float32(0.5)
        self.places = np.zeros(0, np.int64)
        self._scores = np.zeros(0, np.float32)

    def take(self, first: int, scores: NDArray[np.float32]) -> None:
        """Look at the scores of a block whose first place is ``first``."""
        near = np.flatnonzero(scores >= self._floor)
        if not len(near):
            return
        self.places = np.concatenate([self.places, near + first])
        self._scores = np.concatenate([self._scores, scores[near]])
        if len(self._scores) > self._limit:
            cut = np.partition(self._scores, -self._limit)[-self._limit]
            self._floor = max(self._floor, np.float32(cut - _MARGIN))
            kept = self._scores >= self._floor
            self.places, self._scores = self.places[kept], self._scores[kept]


def _blocks(ends: NDArray[np.int64], rows: int) -> list[tuple[int, int]]:
    """Runs of pages, each with about so many passages."""
    blocks: list[tuple[int, int]] = []
    first = start = 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, start + rows, side="right")), first + 1)
        blocks.append((first, last))
        first, start = last, int(ends[last - 1])
    return blocks


def check_embedder(settings: DenseSettings, embedder: Embedder) -> None:
    """Raises UserError when vectors of these settings were made by another embedder."""
    if embedder.model != settings.model or embedder.dimension != settings.dimension:
        raise UserError(
            f"The dense index was made by {settings.model} with {settings.dimension} dimensions, and {embedder.model} has "
            f"{embedder.dimension}: use the same embedder, or embed the world again."
        )


def fitting_info(directory: Path, fingerprint: str, pages: int) -> DenseInfo:
    """The manifest of a world's dense index. Raises UserError when there is none, or none of exactly these pages."""
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
    return info


def open_dense(directory: Path, fingerprint: str, pages: int, embedder: Embedder) -> DenseIndex:
    """The dense index of a world. Raises UserError when there is none of exactly these pages and this embedder."""
    info, place = fitting_info(directory, fingerprint, pages), directory / DIRECTORY
    return DenseIndex(info, *read_arrays(place, info), embedder)


# Fusion

RRF_K = 60
DEPTH = 100


class HybridRanker(Ranker):
    """Several rankings of the same pages as one, by reciprocal rank fusion: each list adds 1 / (60 + rank) to its pages.

    Cormack et al., SIGIR 2009. Scores of the lists need not be comparable. The first ``depth`` pages of each are fused, so a
    page that all rank low can be missed; a longer list is fused from as many as are asked for.
    """

    def __init__(self, rankers: Sequence[Ranker], depth: int = DEPTH) -> None:
        self._rankers = tuple(rankers)
        self._depth = depth
        self.identity = f"rrf-{RRF_K}-{depth}:" + "+".join(ranker.identity or "lexical" for ranker in rankers)

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """The best pages of the fused lists; each ranker is asked once."""
        depth = max(self._depth, limit)
        lists = [ranker.rank_many(queries, depth, hidden) for ranker in self._rankers]
        return [fuse(ranked, limit) for ranked in zip(*lists, strict=True)]


def fuse(ranked: Sequence[Ranked], limit: int) -> Ranked:
    """One list of several, best first, equal scores by page number."""
    scores: dict[int, float] = {}
    for each in ranked:
        for rank, (number, _) in enumerate(each, start=1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (RRF_K + rank)
    order = sorted(((number, round(score, 9)) for number, score in scores.items()), key=lambda pair: (-pair[1], pair[0]))
    return order[: max(limit, 0)]


# A world searched as asked

QUERIES = "queries.sqlite"
"""Beside the vectors: what an endpoint said of queries, so that the same query has the same vector for ever."""


class SearchMode(StrEnum):
    """Who orders the pages."""

    LEXICAL = "lexical"
    DENSE = "dense"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class SearchChoice:
    """How a world is searched."""

    mode: SearchMode = SearchMode.LEXICAL
    embedder: str = ""
    """Names the embedder; empty: the one the index was made with."""


LEXICAL = SearchChoice()


def open_for_queries(directory: Path, fingerprint: str, pages: int, choice: SearchChoice) -> tuple[DenseInfo, Embedder]:
    """The manifest of a world's dense index, and the embedder of its queries. Raises UserError as `open_dense`."""
    info = fitting_info(directory, fingerprint, pages)
    spec = choice.embedder or info.embedder
    embedder = open_embedder(spec, info.settings.dimension)
    check_embedder(info.settings, embedder)
    return info, CachedEmbedder(embedder, directory / DIRECTORY / QUERIES) if opens_socket(spec) else embedder


def ranked_world(directory: Path, world: LocalWorld, choice: SearchChoice) -> LocalWorld:
    """The world with the ranker that was asked for. Raises UserError when its dense index is missing or does not fit."""
    if choice.mode is SearchMode.LEXICAL:
        return world
    info, embedder = open_for_queries(directory, world.pages_fingerprint, world.page_count, choice)
    place = directory / DIRECTORY
    dense = DenseIndex(info, *read_arrays(place, info), embedder)
    ranker = dense if choice.mode is SearchMode.DENSE else HybridRanker([world.lexical, dense])
    return world.with_ranker(ranker, waits=opens_socket(choice.embedder or info.embedder))
