"""A world searched as asked: by words, by nearness, or by both. Opens the dense index beside the world when it is needed."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sanderling.world.dense.cache import CachedEmbedder
from sanderling.world.dense.hybrid import HybridRanker
from sanderling.world.dense.index import open_dense
from sanderling.world.dense.registry import open_embedder, opens_socket
from sanderling.world.dense.store import DIRECTORY, read_info
from sanderling.world.local import LocalWorld

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


def ranked_world(directory: Path, world: LocalWorld, choice: SearchChoice) -> LocalWorld:
    """The world with the ranker that was asked for. Raises UserError when its dense index is missing or does not fit."""
    if choice.mode is SearchMode.LEXICAL:
        return world
    info = read_info(directory / DIRECTORY)
    spec = choice.embedder or (info.embedder if info else "hashed")
    embedder = open_embedder(spec, info.settings.dimension if info else 0)
    if opens_socket(spec) and info is not None:
        embedder = CachedEmbedder(embedder, directory / DIRECTORY / QUERIES)
    dense = open_dense(directory, world.pages_fingerprint, world.page_count, embedder)
    return world.with_ranker(dense if choice.mode is SearchMode.DENSE else HybridRanker([world.lexical, dense]))
