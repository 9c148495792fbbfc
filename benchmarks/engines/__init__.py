"""The engines that are measured side by side. Nothing is discovered: who adds one adds its file and its line here."""

from engines.bm25s import Bm25s
from engines.contract import Engine
from engines.fts5 import Fts5
from engines.milvus import MilvusLite

ENGINES: dict[str, Engine] = {"FTS5": Fts5(), "bm25s": Bm25s(), "Milvus-lite": MilvusLite()}
"""Beside the world's own index, which every world has."""
OWN = "Sanderling"
