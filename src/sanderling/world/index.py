"""The full-text index: ranked page numbers for a query, by BM25 over one combined field.

Title and text are one field (the title's words count ``TITLE_WEIGHT`` times), because summing the scores of separate fields
lets short titles dominate. Text is tokenised by `terms` and queries are built as terms, never parsed, so no character of an
agent's query has a meaning of its own. Equal scores are ordered by page number, and a tie across the cut is resolved by
fetching further, so results depend neither on threads nor on how the index was laid out. Knows page numbers, not pages.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import tantivy

from sanderling.core.errors import UserError
from sanderling.world import terms
from sanderling.world.text import spoken

INDEX_VERSION = 4
"""Raised when tokenisation or the schema changes: an index of another version is rebuilt."""
TITLE_WEIGHT = 2
"""Recall@10 of 770 recorded live result lists (one world of all their pages): 0.520, 0.527, 0.530, 0.521 for 1, 2, 3, 5."""
MAX_QUERY_TERMS = 64
MAX_QUERY_CHARS = 8_192
"""Queries are read up to here; agents' queries are sentences, and what is longer is a pasted page."""
_SCORE_DIGITS = 3
_HEAP_BYTES = 128_000_000
"""Of both writer threads together, at most; twice as much as 64 MB saves a twelfth of the time in fewer merges."""
_THREADS = 2
"""Of the writer, beside the caller's own, which makes the terms in half of the time that one of these takes for a page."""


def indexed_text(title: str, text: str) -> str:
    """The terms of a page as they are indexed, separated by spaces."""
    return " ".join([*[terms.index_text(title)] * TITLE_WEIGHT, terms.index_text(spoken(text))])


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("page", stored=False, indexed=False, fast=True)
    return builder.build()


def _prepare(index: tantivy.Index) -> None:
    """Name the tokenizer, and read without a thread that watches for commits: a finished index has none."""
    index.config_reader(reload_policy="manual")
    index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


class IndexBuilder:
    """Takes pages one by one, in one thread, after those that a directory holds; ``directory`` None builds in memory."""

    def __init__(self, directory: Path | None) -> None:
        """Raises UserError when the disk does not take it."""
        with _refused_writes():
            self._index = tantivy.Index(_schema(), path=None if directory is None else str(directory))
            _prepare(self._index)
            self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=_THREADS)
        self._closed = False

    @property
    def committed(self) -> int:
        """Pages that are in the index already; equal to the number of the next one."""
        self._index.reload()
        return self._index.searcher().num_docs

    def add(self, number: int, title: str, text: str) -> None:
        """Index one page under its number, by what a reader sees of it. Raises UserError when the disk does not take it."""
        document = tantivy.Document()
        document.add_text("text", indexed_text(title, text))
        document.add_unsigned("page", number)
        with _refused_writes():
            self._writer.add_document(document)

    def commit(self) -> None:
        """Make all pages so far survive a kill. Raises UserError when the disk does not take it."""
        with _refused_writes():
            self._writer.commit()

    def finish(self) -> "TextIndex":
        """Commit and open for reading. Raises UserError when the disk does not take it."""
        self.commit()
        self.close()
        self._index.reload()
        return TextIndex(self._index)

    def close(self) -> None:
        """Stop writing: no file changes afterwards. What was not committed is lost."""
        if not self._closed:
            self._closed = True
            with suppress(ValueError):  # a failed writer has said so before
                self._writer.wait_merging_threads()


@contextmanager
def _refused_writes() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise UserError(f"Cannot write the index ({error}): free some space or choose another place.") from error


class TextIndex:
    """A finished index; may be read from many threads."""

    def __init__(self, index: tantivy.Index) -> None:
        self._schema = index.schema
        self._searcher = index.searcher()
        self.page_count = self._searcher.num_docs
        self.frequency: Callable[[str], int] = lru_cache(maxsize=100_000)(self._frequency)
        """Number of pages that contain a term."""

    @staticmethod
    def open(directory: Path) -> "TextIndex":
        """Open a finished index. Raises ValueError when it cannot be read."""
        index = tantivy.Index.open(str(directory))
        _prepare(index)
        return TextIndex(index)

    def _frequency(self, term: str) -> int:
        return self._searcher.doc_freq("text", term)

    def search(self, query: str, limit: int, hidden: Iterable[int] = ()) -> list[tuple[int, float]]:
        """The ``limit`` best pages outside ``hidden``, as (page number, score), best first, ties by number."""
        found = terms.query_terms(query[:MAX_QUERY_CHARS], MAX_QUERY_TERMS)
        asked = [term for term in found if self.frequency(term)]
        limit = min(limit, self.page_count)
        if not asked or limit < 1:
            return []
        clauses = [(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", term, "freq")) for term in asked]
        return self._ranked(tantivy.Query.boolean_query(clauses), limit, frozenset(hidden))

    def _ranked(self, query: tantivy.Query, limit: int, hidden: frozenset[int]) -> list[tuple[int, float]]:
        fetch = limit + len(hidden) + 8
        while True:
            hits = self._searcher.search(query, limit=fetch, count=False).hits
            numbers = self._searcher.fast_field_values("page", [address for _, address in hits])
            scored = [(int(number or 0), round(hit[0], _SCORE_DIGITS)) for number, hit in zip(numbers, hits, strict=True)]
            ranked = sorted((pair for pair in scored if pair[0] not in hidden), key=lambda pair: (-pair[1], pair[0]))
            exhausted = len(hits) < fetch
            cut_is_clear = len(ranked) > limit and ranked[limit - 1][1] > scored[-1][1]
            if exhausted or cut_is_clear:
                return ranked[:limit]
            fetch *= 4
