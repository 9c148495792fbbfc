"""The calls to Milvus that a world makes, in one place. Brings `pymilvus` (the extra ``[milvus]``) when it is opened.

A world has one collection of pages (number, key of the URL, terms for the BM25 function, the page itself as JSON in parts) and,
if it was embedded, one of passages (page, vector). A failing server is a `MilvusOutageError`.
"""

import json
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from sanderling.core.errors import UserError
from sanderling.world.disk.index import Ranked

MOST_HITS = 16_384  # Milvus returns no longer lists
_TEXT_BYTES = 65_535  # the longest text of a field
_PART_CHARS = 16_000
_MOST_PARTS = 1_000
_TIMEOUT_S = 120.0


class VectorIndex(StrEnum):
    """How passages are searched: all of them, by a graph in memory, or by a graph on the servers' disks."""

    FLAT = "FLAT"
    HNSW = "HNSW"
    DISKANN = "DISKANN"


class MilvusOutageError(UserError, OSError):
    """Milvus cannot be reached or refused a call: an outage of the world, not a reply."""


class MilvusStore:
    """One world's collections, of pages (``name``) and of ``passages`` (empty: without vectors).

    ``uri``: ``http://host:19530``, or a file for milvus-lite; the token, if any, is in the environment (``MILVUS_TOKEN``).
    Raises UserError when pymilvus is not installed or the server cannot be reached.
    """

    def __init__(self, uri: str, name: str, passages: str = "") -> None:
        try:
            from pymilvus import MilvusClient
            from pymilvus.exceptions import MilvusException
        except ModuleNotFoundError as error:
            raise UserError(
                f"A world on Milvus needs {error.name}: run pip install '.[milvus]' in sanderling's own folder."
            ) from error
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs, with a traceback, what it raises as well
        self._failures: tuple[type[Exception], ...] = (MilvusException, OSError, ValueError)
        self._uri = uri
        self._pages = name
        self._passages = passages
        with self._told():
            self._client: Any = MilvusClient(uri, token=os.environ.get("MILVUS_TOKEN", ""), timeout=_TIMEOUT_S)

    def _there(self) -> list[str]:
        """Those of the two collections that there are."""
        names = filter(None, (self._pages, self._passages))
        return [name for name in names if self._call("has_collection", name)]

    def create(self, dimension: int | None, vector_index: VectorIndex) -> None:
        """Make the collections that are missing; ``dimension`` None: without vectors."""
        from pymilvus import DataType, Function, FunctionType

        there = self._there()
        if self._pages not in there:
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("page", DataType.INT64, is_primary=True)
            schema.add_field("key", DataType.VARCHAR, max_length=64)
            analyzer = {"tokenizer": "standard"}
            schema.add_field("terms", DataType.VARCHAR, max_length=_TEXT_BYTES, enable_analyzer=True, analyzer_params=analyzer)
            schema.add_field("terms_sparse", DataType.SPARSE_FLOAT_VECTOR)
            schema.add_field(
                "body", DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=_MOST_PARTS, max_length=_TEXT_BYTES
            )
            schema.add_function(Function("bm25", FunctionType.BM25, ["terms"], ["terms_sparse"]))
            indexes = self._client.prepare_index_params()
            bm25 = {"bm25_k1": 1.2, "bm25_b": 0.75}  # as in tantivy, whose BM25 has no other values
            indexes.add_index("terms_sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=bm25)
            indexes.add_index("key", index_type="INVERTED")
            self._call("create_collection", self._pages, schema=schema, index_params=indexes)
        if dimension is not None and self._passages not in there:
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("page", DataType.INT64)
            schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
            indexes = self._client.prepare_index_params()
            parameters = {"M": 16, "efConstruction": 200} if vector_index is VectorIndex.HNSW else {}
            indexes.add_index("vector", index_type=vector_index.value, metric_type="IP", params=parameters)
            self._call("create_collection", self._passages, schema=schema, index_params=indexes)

    def put(self, rows: Sequence[dict[str, Any]], *, passages: bool = False) -> None:
        """Store pages, or passages, in place of those with the same number."""
        self._call("upsert", self._passages if passages else self._pages, list(rows))

    def count(self, *, flush: bool = False) -> tuple[int, int]:
        """Load the collections and count their pages and passages; ``flush``: after everything was brought to storage."""
        found: dict[str, int] = {}
        for name in self._there():
            if flush:
                self._call("flush", name)
            self._call("load_collection", name)
            counted = self._call("query", name, filter="", output_fields=["count(*)"], consistency_level="Strong")
            found[name] = int(counted[0]["count(*)"])
        return found.get(self._pages, 0), found.get(self._passages, 0)

    def numbers(self, keys: Collection[str]) -> list[int]:
        """The page numbers of keys, where there are such pages, in order."""
        if not keys:
            return []
        rows = self._call("query", self._pages, filter=f"key in {json.dumps(sorted(keys))}", output_fields=["page"])
        return sorted(int(row["page"]) for row in rows)

    def bodies(self, numbers: Collection[int]) -> dict[int, str]:
        """The stored pages, as they were given, by number."""
        rows = self._call("query", self._pages, filter=f"page in {sorted(numbers)}", output_fields=["page", "body"])
        return {int(row["page"]): "".join(row["body"]) for row in rows}

    def by_words(self, queries: Sequence[str], limit: int, hidden: Collection[int]) -> list[Ranked]:
        """BM25 of encoded queries: page numbers and scores, best first, at most `MOST_HITS`."""
        asked = {"data": list(queries), "anns_field": "terms_sparse", "search_params": {"metric_type": "BM25", "params": {}}}
        found = self._search(self._pages, limit, hidden, asked)
        return [[(page, abs(score)) for page, score in hits] for hits in found]  # milvus-lite negates them

    def by_vectors(self, vectors: Sequence[Any], limit: int, hidden: Collection[int]) -> list[Ranked]:
        """Nearest passages: page numbers and inner products, best first, at most `MOST_HITS`."""
        breadth = {"ef": max(2 * limit, 64), "search_list": max(2 * limit, 100)}
        asked = {"data": list(vectors), "anns_field": "vector", "search_params": {"metric_type": "IP", "params": breadth}}
        return self._search(self._passages, limit, hidden, asked)

    def _search(self, name: str, limit: int, hidden: Collection[int], asked: dict[str, Any]) -> list[Ranked]:
        hides = f"page not in {sorted(hidden)}" if hidden else ""
        found = self._call("search", name, filter=hides, limit=min(limit, MOST_HITS), output_fields=["page"], **asked)
        return [[(int(hit["entity"]["page"]), float(hit["distance"])) for hit in hits] for hits in found]

    def _call(self, method: str, *given: Any, **named: Any) -> Any:
        with self._told():
            return getattr(self._client, method)(*given, **named)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A failure of the server as an outage, in one sentence."""
        try:
            yield
        except self._failures as error:
            said = " ".join(str(error).split())[:300]
            raise MilvusOutageError(f"Milvus at {self._uri} refused a call ({said}): see to the server, then go on.") from error


def encoded(terms: str) -> tuple[str, bool]:
    """Terms, separated by blanks, as ASCII words that no tokenizer takes apart; whether all of them fitted into a field."""
    words = terms
    if not terms.isascii():  # such a term is the letter u and its bytes in hexadecimal; a word that looks so is taken for it
        words = " ".join(term if term.isascii() else f"u{term.encode('utf-8').hex()}" for term in terms.split(" "))
    if len(words) <= _TEXT_BYTES:
        return words, True
    end = words.rfind(" ", 0, _TEXT_BYTES + 1)
    return words[: end if end > 0 else _TEXT_BYTES], False


def in_parts(text: str) -> list[str]:
    """A text in parts that a field holds. Raises UserError when it is too long for any row."""
    parts = [text[at : at + _PART_CHARS] for at in range(0, len(text), _PART_CHARS)]
    if len(parts) > _MOST_PARTS:
        raise UserError(f"A page of {len(text):,} characters is too long for Milvus: leave it out of the world.")
    return parts
