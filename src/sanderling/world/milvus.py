"""A world on Milvus, for more pages than one machine searches well: pages, BM25 over our own terms, and vectors on a server.

`push_world` sends a built world and leaves a directory whose ``milvus.json`` stands for it wherever a world is accepted. One
collection holds pages (number, key of the URL, terms, the page as JSON), another, if the world was embedded, passages. Search
and visit are `LocalWorld`'s own. Brings `pymilvus` (the extra ``[milvus]``) when it is opened; nobody may write meanwhile.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.dense import (
    DIRECTORY,
    MANIFEST,
    DenseInfo,
    DenseSettings,
    HybridRanker,
    open_for_queries,
    read_arrays,
    read_info,
)
from sanderling.world.disk.embedders import Embedder, Kind, embed_units
from sanderling.world.disk.index import MAX_QUERY_CHARS, MAX_QUERY_TERMS, FullText, Ranked, Ranker, SearchMode, indexed_text
from sanderling.world.disk.pages import PageStore, writable
from sanderling.world.disk.store import FILE_NAME, POINTER, groups_file
from sanderling.world.filters import BLOCKLIST_FILE
from sanderling.world.local import LocalWorld
from sanderling.world.text import query_terms

_BATCH = 200  # rows of one call
_TEXT_BYTES, _PART_CHARS, _MOST_PARTS = 65_535, 16_000, 1_000  # the longest text of a field; a page's parts
_MOST_HITS = 16_384  # Milvus returns no longer lists
_SPARE = 8
_DIGITS = 3  # a server's last digits depend on how many queries it is asked at once
_TIMEOUT_S = 120.0


class VectorIndex(StrEnum):
    """How passages are searched: all of them, by a graph in memory, or by a graph on the servers' disks."""

    FLAT = "FLAT"
    HNSW = "HNSW"
    DISKANN = "DISKANN"


class MilvusOutageError(UserError, OSError):
    """Milvus cannot be reached or refused a call: an outage of the world, not a reply."""


class Pointer(Frozen):
    """``milvus.json``, written when everything was pushed. ``passages_collection`` is empty without vectors."""

    uri: str
    collection: str
    passages_collection: str
    name: str
    fingerprint: str
    pages: int
    passages: int


class Milvus:
    """The collections of one world, on ``http://host:19530`` (token in ``MILVUS_TOKEN``) or in a file of milvus-lite.

    Raises UserError when pymilvus is not installed, `MilvusOutageError` when the server fails.
    """

    def __init__(self, uri: str, pages: str, passages: str = "") -> None:
        try:
            from pymilvus import MilvusClient
            from pymilvus.exceptions import MilvusException
        except ModuleNotFoundError as error:
            raise UserError(
                f"A world on Milvus needs {error.name}: run pip install '.[milvus]' in sanderling's own folder."
            ) from error
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs, with a traceback, what it raises as well
        self._failures: tuple[type[Exception], ...] = (MilvusException, OSError, ValueError)
        self.uri, self.pages, self.passages = uri, pages, passages
        with self._outages():
            self._client: Any = MilvusClient(uri, token=os.environ.get("MILVUS_TOKEN", ""), timeout=_TIMEOUT_S)

    @contextmanager
    def _outages(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            reason = " ".join(str(error).split())[:300]
            raise MilvusOutageError(
                f"Milvus at {self.uri} refused a call ({reason}): see to the server, then go on."
            ) from error

    def call(self, method: str, *given: Any, **named: Any) -> Any:
        with self._outages():
            return getattr(self._client, method)(*given, **named)

    def create(self, dimension: int | None, vector_index: VectorIndex) -> None:
        """Make the collections that are missing; ``dimension`` None: without vectors."""
        from pymilvus import DataType, Function, FunctionType

        schema, indexes = self._client.create_schema(auto_id=False), self._client.prepare_index_params()
        schema.add_field("page", DataType.INT64, is_primary=True)
        schema.add_field("key", DataType.VARCHAR, max_length=64)
        analyzer = {"tokenizer": "standard"}
        schema.add_field("terms", DataType.VARCHAR, max_length=_TEXT_BYTES, enable_analyzer=True, analyzer_params=analyzer)
        schema.add_field("terms_sparse", DataType.SPARSE_FLOAT_VECTOR)
        parts = {"element_type": DataType.VARCHAR, "max_capacity": _MOST_PARTS, "max_length": _TEXT_BYTES}
        schema.add_field("body", DataType.ARRAY, **parts)
        schema.add_function(Function("bm25", FunctionType.BM25, ["terms"], ["terms_sparse"]))
        bm25 = {"bm25_k1": 1.2, "bm25_b": 0.75}  # as in tantivy, whose BM25 has no other values
        indexes.add_index("terms_sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=bm25)
        indexes.add_index("key", index_type="INVERTED")
        if not self.call("has_collection", self.pages):
            self.call("create_collection", self.pages, schema=schema, index_params=indexes)
        if dimension is None or self.call("has_collection", self.passages):
            return
        schema, indexes = self._client.create_schema(auto_id=False), self._client.prepare_index_params()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("page", DataType.INT64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        graph = {"M": 16, "efConstruction": 200} if vector_index is VectorIndex.HNSW else {}
        indexes.add_index("vector", index_type=vector_index.value, metric_type="IP", params=graph)
        self.call("create_collection", self.passages, schema=schema, index_params=indexes)

    def count(self, name: str, *, flush: bool = False) -> int:
        """Load a collection and count its rows, after everything was brought to storage; 0 where there is none."""
        if not name or not self.call("has_collection", name):
            return 0
        if flush:
            self.call("flush", name)
        self.call("load_collection", name)
        rows = self.call("query", name, filter="", output_fields=["count(*)"], consistency_level="Strong")
        return int(rows[0]["count(*)"])

    def search(self, name: str, field: str, data: list[Any], limit: int, hidden: Collection[int]) -> list[Ranked]:
        """For each query the best pages, each by its best row, equal scores (rounded) by page number."""
        options: dict[str, Any] = {"metric_type": "BM25", "params": {}}
        if name == self.passages:
            options = {"metric_type": "IP", "params": {"ef": max(2 * limit, 64), "search_list": max(2 * limit, 100)}}
        named = {"data": data, "anns_field": field, "search_params": options, "output_fields": ["page"]}
        hides = f"page not in {sorted(hidden)}" if hidden else ""
        found: list[Ranked] = []
        for hits in self.call("search", name, filter=hides, limit=min(limit, _MOST_HITS), **named):
            best: dict[int, float] = {}
            for hit in hits:
                page, score = int(hit["entity"]["page"]), round(float(hit["distance"]), _DIGITS)
                score = abs(score) if name == self.pages else score  # milvus-lite negates those of BM25
                best[page] = max(best.get(page, score), score)
            found.append(sorted(best.items(), key=lambda pair: (-pair[1], pair[0])))
        return found


def encoded(terms: str) -> str:
    """Terms as ASCII words that no tokenizer takes apart, as many as fit into a field: others are u and their bytes in hex."""
    if not terms.isascii():
        terms = " ".join(term if term.isascii() else f"u{term.encode('utf-8').hex()}" for term in terms.split(" "))
    return terms if len(terms) <= _TEXT_BYTES else terms[:_TEXT_BYTES].rpartition(" ")[0]


def _key(canonical: str) -> str:
    """The stored form of a canonical URL, which may be of any length."""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


# pushing


def push_world(
    source: Path,
    world: LocalWorld,
    uri: str,
    target: Path,
    *,
    vector_index: VectorIndex = VectorIndex.HNSW,
    progress: Callable[[int], None] = lambda _: None,
) -> Pointer:
    """Push a world that was opened from ``source``, and leave a directory ``target`` that stands for it.

    Collections are named by the world's fingerprint and by what made the vectors. Rows are stored by number: killed, the same
    call asks how many are there and goes on. Raises UserError, and `MilvusOutageError` when the server fails.
    """
    if target.exists() and not (target / POINTER).is_file():
        raise UserError(f"{target} holds something else than a pushed world: choose another --out.")
    name = f"sanderling_{world.pages_fingerprint[:16]}"
    dense = read_info(source / DIRECTORY)
    if dense is not None and dense.world != world.pages_fingerprint:
        raise UserError(
            f"The dense index of {source} is not of the world as it is: run `sanderling world embed {source}` first."
        )
    passages = f"{name}_{dense.settings.identity}_{vector_index.value.lower()}" if dense else ""
    server = Milvus(uri if "://" in uri else str(Path(uri).absolute()), name, passages)
    server.create(dense.settings.dimension if dense else None, vector_index)
    _send(server, name, _page_rows(world, max(server.count(name, flush=True) - _BATCH, 0)), 0, progress)
    if dense:
        first = max(server.count(passages, flush=True) - _BATCH, 0)
        _send(server, passages, _passage_rows(source / DIRECTORY, dense, first), world.page_count, progress)
    counts = server.count(name, flush=True), server.count(passages, flush=True)
    if counts != (world.page_count, dense.rows if dense else 0):
        raise UserError(
            f"Milvus holds {counts[0]:,} pages and {counts[1]:,} passages instead of {world.page_count:,} and "
            f"{dense.rows if dense else 0:,}: drop the collections {name} and {passages} first."
        )
    pointer = Pointer(
        uri=server.uri,
        collection=name,
        passages_collection=passages,
        name=world.name,
        fingerprint=world.pages_fingerprint,
        pages=counts[0],
        passages=counts[1],
    )
    with writable(target):
        (target / DIRECTORY).mkdir(parents=True, exist_ok=True)  # beside the pointer, what masks and searches need
        replace_file(target / POINTER, pointer.model_dump_json(indent=2) + "\n")
        for file in (FILE_NAME, groups_file(world.pages_fingerprint), BLOCKLIST_FILE, f"{DIRECTORY}/{MANIFEST}"):
            (target / file).unlink(missing_ok=True)
            if (source / file).is_file():
                shutil.copyfile(source / file, target / file)
    return pointer


def _send(server: Milvus, name: str, rows: Iterator[dict[str, Any]], before: int, progress: Callable[[int], None]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            server.call("upsert", name, batch)
            before += len(batch)
            progress(before)
            batch = []
    if batch:
        server.call("upsert", name, batch)


def _page_rows(world: LocalWorld, first: int) -> Iterator[dict[str, Any]]:
    for number, page in enumerate(world.all_pages(first), start=first):
        body = json.dumps(page.model_dump(), ensure_ascii=False)
        parts = [body[at : at + _PART_CHARS] for at in range(0, len(body), _PART_CHARS)]
        if len(parts) > _MOST_PARTS:
            raise UserError(f"A page of {len(page.text):,} characters is too long for Milvus: leave it out of the world.")
        terms = encoded(indexed_text(page.title, page.text))
        yield {"page": number, "key": _key(canonical_url(page.url)), "terms": terms, "body": parts}


def _passage_rows(place: Path, dense: DenseInfo, first: int) -> Iterator[dict[str, Any]]:
    vectors, owners = read_arrays(place, dense)
    for row in range(first, dense.rows):
        yield {"id": row, "page": int(owners[row]), "vector": np.asarray(vectors[row], np.float32)}


# searching


class MilvusPages(PageStore):
    """Implements `pages.PageStore`; remembers the pages of the last lists."""

    def __init__(self, server: Milvus) -> None:
        self._server = server
        self._recent: dict[int, Page] = {}

    def get(self, number: int) -> Page:
        recent = self._recent
        return recent[number] if number in recent else self.fetch([number])[number]

    def fetch(self, numbers: Collection[int]) -> dict[int, Page]:
        """Pages by number, in one call."""
        query = {"filter": f"page in {sorted(set(numbers))}", "output_fields": ["page", "body"]}
        rows = self._server.call("query", self._server.pages, **query) if numbers else []
        self._recent = found = {int(row["page"]): Page(**json.loads("".join(row["body"]))) for row in rows}
        return found

    def find(self, key: str) -> int | None:
        return next(iter(self.find_many([key])), None)

    def find_many(self, keys: Collection[str]) -> list[int]:
        """The numbers of those of the keys that there are, in one call."""
        query = {"filter": f"key in {json.dumps(sorted(map(_key, keys)))}", "output_fields": ["page"]}
        return [int(row["page"]) for row in self._server.call("query", self._server.pages, **query)] if keys else []


class MilvusText(FullText):
    """Milvus's BM25 over our own terms. How many pages hold a term it does not tell: in snippets all weigh the same."""

    identity = "milvus-bm25"

    def __init__(self, server: Milvus, pages: int) -> None:
        self._server = server
        self.page_count = pages
        self.frequency = lambda term: 1

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        asked = [encoded(" ".join(query_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS))) for query in queries]
        data = [terms for terms in asked if terms] if limit > 0 else []
        server = self._server
        lists = iter(server.search(server.pages, "terms_sparse", data, limit + _SPARE, hidden) if data else ())
        return [next(lists, [])[:limit] if terms else [] for terms in asked]


class MilvusDense(Ranker):
    """Nearness of passages, pooled to pages; ``settings``: how they were made."""

    def __init__(self, server: Milvus, settings: DenseSettings, embedder: Embedder) -> None:
        self._server, self._settings, self._embedder = server, settings, embedder
        self.identity = f"milvus-dense-{settings.identity}"

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        texts = [query for query in queries if query.strip()] if limit > 0 else []
        vectors = iter(embed_units(self._embedder, texts, Kind.QUERY, self._settings.prefixes) if texts else ())
        found = [next(vectors, None) if query.strip() else None for query in queries]
        data = [vector for vector in found if vector is not None and vector.any()]
        server, most = self._server, (limit + _SPARE) * self._settings.chunking.most
        lists = iter(server.search(server.passages, "vector", data, most, hidden) if data else ())
        return [next(lists, [])[:limit] if vector is not None and vector.any() else [] for vector in found]


class MilvusWorld(LocalWorld):
    """A world by the directory that `push_world` made for it."""

    def __init__(self, directory: Path, mode: SearchMode = SearchMode.LEXICAL) -> None:
        """Raises UserError when the server cannot be reached or does not hold what was pushed."""
        try:
            pointer = Pointer.model_validate_json((directory / POINTER).read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{directory / POINTER} is damaged: push the world again.") from error
        server = Milvus(pointer.uri, pointer.collection, pointer.passages_collection)
        counts = server.count(pointer.collection), server.count(pointer.passages_collection)
        if counts != (pointer.pages, pointer.passages):
            raise UserError(
                f"Milvus at {pointer.uri} does not hold the {pointer.pages:,} pages of {directory}: push the world again."
            )
        self._remote, text = MilvusPages(server), MilvusText(server, pointer.pages)
        ranker: Ranker = text
        if mode is not SearchMode.LEXICAL:
            info, embedder = open_for_queries(directory, pointer.fingerprint, pointer.pages)
            dense = MilvusDense(server, info.settings, embedder)
            ranker = dense if mode is SearchMode.DENSE else HybridRanker([text, dense])
        super().__init__(pointer.name, pointer.fingerprint, self._remote, text, ranker, waits=True)

    def _lists(self, queries: Sequence[str], limit: int, masked: Collection[str]) -> list[Ranked]:
        lists = self._ranker.rank_many(queries, limit, self._remote.find_many(masked))
        self._remote.fetch({number for ranked in lists for number, _ in ranked})  # before they are asked for one by one
        return lists
