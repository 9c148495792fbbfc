"""The full-text index: ranked page numbers for a query, and its directory.

Pages are ranked by BM25 over the query's terms and its words as written, where these differ; a page that holds every word as
written counts its words twice. Without that, short pages with some of the words come before long ones with all of them; with
all such pages before all others, whatever their score, merely long pages come first for a question in sentences: a right page
for 38% of hand-written questions in place of 49% (`benchmarks/documents.py`). Title and text are one field, because
summing the scores of separate fields lets short titles dominate. A tie across the cut is resolved by fetching further, so
results depend neither on threads nor on how the index was laid out.
"""

import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import tantivy

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.world.disk.pages import DamageError, PageStore, file_checksum, writable
from sanderling.world.text import index_text, plain, query_terms, query_words

Ranked = list[tuple[int, float]]  # page numbers with scores, best first, equal scores by page number
INDEX_VERSION = 5  # raised when tokenisation or the schema changes: an index of another version is rebuilt
TITLE_WEIGHT = 2
"""Recall@10 of 770 recorded live result lists (one world of all their pages): 0.520, 0.527, 0.530, 0.521 for 1, 2, 3, 5."""
MAX_QUERY_TERMS = 64
MAX_QUERY_CHARS = 8_192  # agents' queries are sentences, and what is longer is a pasted page
_SCORE_DIGITS = 3
_MORE = 2  # pages that are fetched beyond those asked for, which show that there is no tie across the cut
_HEAP_BYTES = 128_000_000  # twice as much as 64 MB saves a twelfth of the time
_THREADS = 1  # beside the caller's own, which takes longer; a second one makes a second segment, and ranking a third longer
_NOTE = "sanderling.json"


class SearchMode(StrEnum):
    """Who orders the pages of a world."""

    LEXICAL = "lexical"
    DENSE = "dense"
    HYBRID = "hybrid"


class Ranker(ABC):
    """Orders pages for queries, from any thread; ``identity``: what the order depends on beside the pages."""

    identity: str = ""

    def rank(self, query: str, limit: int, hidden: Collection[int] = ()) -> Ranked:
        """The ``limit`` best pages outside ``hidden``; fewer where fewer are found."""
        return self.rank_many([query], limit, hidden)[0]

    @abstractmethod
    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """As `rank` for each query, to the last digit."""


class FullText(Ranker):
    """A full-text index, which also knows in how many pages a term stands: `TextIndex`, or what answers in its place."""

    page_count: int
    frequency: Callable[[str], int]


def indexed_text(title: str, text: str) -> str:
    """The terms of a page as they are indexed, separated by spaces."""
    return " ".join([*[index_text(title)] * TITLE_WEIGHT, index_text(plain(text))])


def _prepare(index: tantivy.Index) -> None:
    """Name the tokenizer, and read without a thread that watches for commits: a finished index has none."""
    index.config_reader(reload_policy="manual")
    index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


class IndexBuilder:
    """Takes pages one by one, after those of a directory or in memory. Raises UserError when the disk does not take it."""

    def __init__(self, directory: Path | None) -> None:
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
        schema.add_unsigned_field("page", stored=False, indexed=False, fast=True)
        self._directory = directory
        with writable("the index", ValueError):
            self._index = tantivy.Index(schema.build(), path=None if directory is None else str(directory))
            _prepare(self._index)
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=_THREADS)

    @property
    def committed(self) -> int:
        """Pages that are in the index already; equal to the number of the next one."""
        self._index.reload()
        return self._index.searcher().num_docs

    def add(self, number: int, title: str, text: str) -> None:
        document = tantivy.Document()
        document.add_text("text", indexed_text(title, text))
        document.add_unsigned("page", number)
        with writable("the index", ValueError):
            self._writer.add_document(document)

    def finish(self) -> "TextIndex":
        """Commit, note in the directory that it is whole, and open for reading."""
        with writable("the index", ValueError):
            self._writer.commit()
        self.close()
        whole = TextIndex(self._index)
        if self._directory is not None:
            with writable(self._directory):
                note = _note(self._directory, whole.page_count) | {"checksums": _checksums(self._directory)}
                replace_file(self._directory / _NOTE, json.dumps(note))
        return whole

    def close(self) -> None:
        """Stop writing, once or again: no file changes afterwards. What was not committed is lost."""
        with suppress(ValueError, RuntimeError):  # it failed and has said so before, or is closed
            self._writer.wait_merging_threads()


class TextIndex(FullText):
    """A finished index."""

    def __init__(self, index: tantivy.Index) -> None:
        _prepare(index)
        self._schema = index.schema
        self._searcher = index.searcher()
        self.page_count = self._searcher.num_docs
        self.frequency = lru_cache(maxsize=100_000)(lambda term: self._searcher.doc_freq("text", term))

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        return [self._ranked(query, min(limit, self.page_count), frozenset(hidden)) for query in queries]

    def _ranked(self, query: str, limit: int, hidden: frozenset[int]) -> Ranked:
        query = query[:MAX_QUERY_CHARS]
        terms = [term for term in query_terms(query, MAX_QUERY_TERMS) if self.frequency(term)]
        written = query_words(query, MAX_QUERY_TERMS)
        if not terms:
            return []
        known = dict.fromkeys([*terms, *filter(self.frequency, written)])
        sought = {word: tantivy.Query.term_query(self._schema, "text", word, "freq") for word in known}
        clauses = [(tantivy.Occur.Should, one) for one in sought.values()]
        if all(word in sought for word in written):
            whole = tantivy.Query.boolean_query([(tantivy.Occur.Must, sought[word]) for word in written])
            clauses.append((tantivy.Occur.Should, whole))
        return [(number, -lower) for lower, number in self._best(tantivy.Query.boolean_query(clauses), limit, hidden)]

    def _best(self, clause: tantivy.Query, limit: int, hidden: frozenset[int]) -> list[tuple[float, int]]:
        """The best pages of a clause by BM25: its negative, which sorts, and the number."""
        fetch = limit + len(hidden) + _MORE
        while hits := self._searcher.search(clause, limit=fetch, count=False).hits:
            numbers: list[Any] = self._searcher.fast_field_values("page", [address for _, address in hits])
            scored = [(-round(hit[0], _SCORE_DIGITS), number) for number, hit in zip(numbers, hits, strict=True)]
            last = scored[-1][0]
            ranked = sorted(pair for pair in scored if pair[1] not in hidden) if hidden else sorted(scored)
            cut_is_clear = len(ranked) > limit and ranked[limit - 1][0] < last
            if len(hits) < fetch or cut_is_clear:
                return ranked[:limit]
            fetch *= 4
        return []


def _note(index: Path, pages: int) -> dict[str, object]:
    """The version of an index and the sizes of its files; one that is whole by it is never written to again."""
    files = {path.name: path.stat().st_size for path in _files(index)}
    return {"version": INDEX_VERSION, "pages": pages, "files": files}


def _files(index: Path) -> list[Path]:
    return sorted(path for path in index.iterdir() if path.name != _NOTE and path.suffix != ".lock")


def _checksums(index: Path) -> dict[str, int]:
    return {path.name: file_checksum(path) for path in _files(index)}


def is_whole(index: Path, pages: int, *, compared: bool = False) -> bool:
    """Whether an index of this version and of so many pages is there, by its note; ``compared``: to the last byte."""
    try:
        noted = json.loads((index / _NOTE).read_text(encoding="utf-8"))
        sums = noted.pop("checksums")
        return noted == _note(index, pages) and (not compared or sums == _checksums(index))
    except (OSError, ValueError, LookupError, AttributeError):
        return False


def sound_index(index: Path, store: PageStore, pages: int) -> TextIndex:
    """The index of a directory; filled anew unless it is sound: there, or in memory where nothing can be written."""
    if is_whole(index, pages, compared=True):
        with suppress(OSError, ValueError):
            return TextIndex(tantivy.Index.open(str(index)))
    try:
        place = Path(tempfile.mkdtemp(prefix=f".{index.name}-", dir=index.parent))
        try:
            filled = _filled(place, store, pages)
            shutil.rmtree(index, ignore_errors=True)
            place.rename(index)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return filled
    except DamageError:
        raise
    except (OSError, UserError):
        return _filled(None, store, pages)


def _filled(place: Path | None, store: PageStore, pages: int) -> TextIndex:
    builder = IndexBuilder(place)
    for number in range(pages):
        page = store.get(number)
        builder.add(number, page.title, page.text)
    return builder.finish()
