"""Milvus-lite: a pure-Python double of Milvus for tests, with its BM25 function. Says nothing about a Milvus server's speed."""

import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from engines.contract import TermRanker
from sanderling.world.disk.index import Ranked

_FILE, _COLLECTION = "milvus.db", "pages"
_BATCH = 1_000
_MOST_BYTES = 65_535
_K1, _B = 1.2, 0.75


class MilvusLite:
    """See `contract.Engine`."""

    note = (
        "a pure-Python double of Milvus, made for tests: its speed is not that of a server; terms past 64 KiB of a page are cut"
    )

    def missing(self) -> str:
        absent = [name for name in ("pymilvus", "milvus_lite") if not importlib.util.find_spec(name)]
        return f"{' and '.join(absent)} not installed: pip install pymilvus milvus-lite" if absent else ""

    def build(self, directory: Path, documents: Iterable[str]) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        client = MilvusClient(str(directory / _FILE))
        schema = client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        words = {"tokenizer": "standard"}
        schema.add_field("text", DataType.VARCHAR, max_length=_MOST_BYTES, enable_analyzer=True, analyzer_params=words)
        schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
        bm25 = Function(name="bm25", input_field_names="text", output_field_names="sparse", function_type=FunctionType.BM25)
        schema.add_function(bm25)
        index = client.prepare_index_params()
        settings = {"bm25_k1": _K1, "bm25_b": _B}
        index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=settings)
        client.create_collection(_COLLECTION, schema=schema, index_params=index)
        rows = ({"id": i, "text": _cut(document)} for i, document in enumerate(documents))
        while batch := list(itertools.islice(rows, _BATCH)):
            client.insert(_COLLECTION, batch)
        client.flush(_COLLECTION)
        client.close()

    def open(self, directory: Path) -> "_MilvusRanker":
        return _MilvusRanker(directory / _FILE)


def _cut(document: str) -> str:
    return document.encode("utf-8")[:_MOST_BYTES].decode("utf-8", "ignore")


class _MilvusRanker(TermRanker):
    name = "Milvus-lite"

    def __init__(self, path: Path) -> None:
        from pymilvus import MilvusClient

        self._client = MilvusClient(str(path))
        self._client.load_collection(_COLLECTION)

    def best(self, terms: Sequence[str], limit: int) -> Ranked:
        (found,) = self._client.search(_COLLECTION, data=[" ".join(terms)], anns_field="sparse", limit=limit)
        return [(int(hit["id"]), abs(float(hit["distance"]))) for hit in found]  # the double gives BM25 with a minus sign
