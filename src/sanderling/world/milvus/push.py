"""Pushing a world to Milvus: pages in order, then passages, from a built world and its dense index.

Rows are stored in place of those with the same number, so what was sent twice counts once: killed at any moment, the same call
asks the server how much is there and goes on one batch before. At the end everything is counted.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.world.addresses import canonical_url
from sanderling.world.dense import vectors as dense_store
from sanderling.world.dense.vectors import DenseInfo, read_arrays, read_info
from sanderling.world.disk import store
from sanderling.world.disk.duplicates import file_name
from sanderling.world.disk.index import indexed_text
from sanderling.world.disk.pages import writable
from sanderling.world.filters import BLOCKLIST_FILE
from sanderling.world.local import LocalWorld
from sanderling.world.milvus import POINTER
from sanderling.world.milvus.client import MilvusStore, VectorIndex, encoded, in_parts
from sanderling.world.milvus.world import WORDS, Pointer, key_of

_BATCH_PAGES = 200
_BATCH_CHARS = 8_000_000
_BATCH_PASSAGES = 1_000
_PASSAGES_OF_PAGE = 4_096  # passage ids are page number times this, plus the passage's own number
_REMEMBERED = 1_000_000


@dataclass
class Pushed:
    """What was pushed, now or before; ``cut``: pages, of those pushed now, of which only the first words are searched."""

    pages: int = 0
    passages: int = 0
    cut: int = 0


@contextmanager
def _word_table(path: Path, world: LocalWorld) -> Iterator[tuple[bool, Callable[[set[str]], None]]]:
    """Writes in how many pages each word occurs, which Milvus does not tell: snippets weigh a query's words by it.

    Gives whether the file has words of this world from a push that was killed, and what takes in words. Those of one page only
    are left out. What the file holds of another world is forgotten. Raises UserError when the disk does not take it.
    """
    seen: set[str] = set()

    def add(words: set[str]) -> None:
        fresh = words - seen
        if len(seen) + len(fresh) > _REMEMBERED:
            seen.clear()
        seen.update(fresh)
        rows = [(word, count) for word in sorted(fresh) if (count := world.frequency(word)) > 1]
        with table:
            table.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", rows)

    with writable(path, sqlite3.Error), closing(sqlite3.connect(path)) as table:
        with table:
            table.execute("CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY, pages INTEGER NOT NULL) WITHOUT ROWID")
            table.execute("CREATE TABLE IF NOT EXISTS world (fingerprint TEXT NOT NULL)")
            begun = table.execute("SELECT fingerprint FROM world").fetchall() == [(world.pages_fingerprint,)]
            if not begun:
                table.execute("DELETE FROM words")
                table.execute("DELETE FROM world")
                table.execute("INSERT INTO world VALUES (?)", (world.pages_fingerprint,))
        yield begun, add


def push_world(
    source: Path,
    world: LocalWorld,
    uri: str,
    target: Path,
    *,
    collection: str = "",
    vector_index: VectorIndex = VectorIndex.HNSW,
    progress: Callable[[int], None] = lambda _: None,
) -> Pushed:
    """Push a world that was opened from ``source``, and leave a directory ``target`` that stands for it.

    ``collection``: how its name on the server begins; the world's fingerprint follows, and what made the vectors, so that
    nothing is ever taken for what was pushed of another world. ``progress`` is called with the number of pages and passages
    that are there. Raises UserError when a place cannot be written, and `MilvusOutageError` when the server fails.
    """
    with writable(target):
        used = target.exists() and (not target.is_dir() or any(target.iterdir()))
    if used and not (target / WORDS).is_file():
        raise UserError(f"{target} holds something else than a pushed world: choose another --out.")
    name = f"{collection or 'sanderling'}_{world.pages_fingerprint[:16]}"
    dense = read_info(source / dense_store.DIRECTORY)
    if dense is not None and dense.world != world.pages_fingerprint:
        raise UserError(
            f"The dense index of {source} is not of the world as it is: run `sanderling world embed {source}` first."
        )
    uri = uri if "://" in uri else str(Path(uri).absolute())
    passages = "" if dense is None else f"{name}_{dense.settings.identity}_{vector_index.value.lower()}"
    server = MilvusStore(uri, name, passages)
    server.create(None if dense is None else dense.settings.dimension, vector_index)
    with writable(target):
        target.mkdir(parents=True, exist_ok=True)
        pushed = _push(server, source, world, dense, target / WORDS, progress)
        (target / dense_store.DIRECTORY).mkdir(exist_ok=True)  # beside the pointer, what masks and searches need
        fitting = (store.FILE_NAME, file_name(world.pages_fingerprint), BLOCKLIST_FILE)
        for file in (*fitting, f"{dense_store.DIRECTORY}/{dense_store.MANIFEST}"):
            if (source / file).is_file():
                shutil.copyfile(source / file, target / file)
            else:
                (target / file).unlink(missing_ok=True)
        pointer = Pointer(
            uri=uri,
            collection=name,
            passages_collection=passages,
            name=world.name,
            fingerprint=world.pages_fingerprint,
            pages=pushed.pages,
            passages=pushed.passages,
        )
        replace_file(target / POINTER, pointer.model_dump_json(indent=2) + "\n", durable=True)
    return pushed


def _push(
    server: MilvusStore, source: Path, world: LocalWorld, dense: DenseInfo | None, words: Path, tell: Callable[[int], None]
) -> Pushed:
    there, passages_there = server.count(flush=True)
    pushed = Pushed()
    with _word_table(words, world) as (begun, add_words):
        end = max(there - _BATCH_PAGES, 0) if begun else 0
        for rows, cut in _page_rows(world, end, add_words):
            server.put(rows)
            pushed.cut += cut
            end += len(rows)
            tell(end)
    if dense is not None:
        end = max(passages_there - _BATCH_PASSAGES, 0)
        for rows in _passage_rows(source, dense, end):
            server.put(rows, passages=True)
            end += len(rows)
            tell(world.page_count + end)
    pushed.pages, pushed.passages = server.count(flush=True)
    expected = (world.page_count, dense.rows if dense else 0)
    if (pushed.pages, pushed.passages) != expected:
        raise UserError(
            f"Milvus holds {pushed.pages:,} pages and {pushed.passages:,} passages instead of {expected[0]:,} and "
            f"{expected[1]:,}: push into another --collection, or drop this one first."
        )
    return pushed


def _page_rows(
    world: LocalWorld, first: int, add_words: Callable[[set[str]], None]
) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Pages from a number on, in batches bounded in pages and characters, and how many have more words than a field holds."""
    rows: list[dict[str, Any]] = []
    words: set[str] = set()
    chars = cut = 0
    for number, page in enumerate(world.all_pages(first), start=first):
        if rows and (len(rows) == _BATCH_PAGES or chars + len(page.text) > _BATCH_CHARS):
            add_words(words)
            yield rows, cut
            rows, words, chars, cut = [], set(), 0, 0
        indexed = indexed_text(page.title, page.text)
        words.update(indexed.split())
        terms, whole = encoded(indexed)
        chars += len(page.text)
        cut += not whole
        body = in_parts(json.dumps({"page": page.model_dump(), "readable": bool(page.text)}, ensure_ascii=False))
        rows.append({"page": number, "key": key_of(canonical_url(page.url)), "terms": terms, "body": body})
    if rows:
        add_words(words)
        yield rows, cut


def _passage_rows(source: Path, dense: DenseInfo, first: int) -> Iterator[list[dict[str, Any]]]:
    """Passages from a row on, in batches."""
    vectors, owners = read_arrays(source / dense_store.DIRECTORY, dense)
    if dense.settings.chunking.most > _PASSAGES_OF_PAGE:
        raise UserError(f"Milvus takes {_PASSAGES_OF_PAGE:,} passages of a page at most: embed fewer (--set chunking.most=N).")
    for start in range(first, dense.rows, _BATCH_PASSAGES):
        end = min(start + _BATCH_PASSAGES, dense.rows)
        pages = owners[start:end].astype(np.int64)
        own = np.arange(start, end) - np.searchsorted(owners, owners[start:end])
        ids = pages * _PASSAGES_OF_PAGE + own
        block = np.asarray(vectors[start:end], np.float32)
        yield [{"id": int(i), "page": int(p), "vector": row} for i, p, row in zip(ids, pages, block, strict=True)]
