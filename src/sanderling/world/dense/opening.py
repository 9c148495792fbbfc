"""A world searched as asked: by words, by nearness, or by both. Opens the dense index beside the world when it is needed."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sanderling.world.dense.cache import CachedEmbedder
from sanderling.world.dense.embedder import Embedder
from sanderling.world.dense.hybrid import HybridRanker
from sanderling.world.dense.index import check_embedder, dense_index, fitting_info
from sanderling.world.dense.registry import open_embedder, opens_socket
from sanderling.world.dense.store import DIRECTORY, DenseInfo
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


def open_for_queries(directory: Path, fingerprint: str, pages: int, choice: SearchChoice) -> tuple[DenseInfo, Embedder]:
    """The dense index of a world's directory, and the embedder of its queries.

    Raises UserError when there is no index, or none of exactly these pages and this embedder.
    """
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
    dense = dense_index(directory, info, embedder)
    ranker = dense if choice.mode is SearchMode.DENSE else HybridRanker([world.lexical, dense])
    return world.with_ranker(ranker, waits=opens_socket(choice.embedder or info.embedder))
