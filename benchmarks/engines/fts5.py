"""SQLite's full-text index (in Python's standard library): BM25 over one column without stored text."""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from engines.contract import TermRanker
from sanderling.world.disk.index import Ranked

_FILE = "fts5.sqlite"
_ALL_BUT_LETTERS = "unicode61 remove_diacritics 0"


class Fts5:
    """See `contract.Engine`."""

    note = "in the standard library; scores every page that holds any query word"

    def missing(self) -> str:
        with sqlite3.connect(":memory:") as connection:
            options = {row[0] for row in connection.execute("PRAGMA compile_options")}
        return "" if "ENABLE_FTS5" in options else "this Python's SQLite has no FTS5"

    def build(self, directory: Path, documents: Iterable[str]) -> None:
        connection = sqlite3.connect(directory / _FILE, isolation_level=None)
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"CREATE VIRTUAL TABLE pages USING fts5(terms, content='', tokenize='{_ALL_BUT_LETTERS}')")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO pages(rowid, terms) VALUES (?, ?)", enumerate(documents))
        connection.execute("COMMIT")
        connection.execute("INSERT INTO pages(pages) VALUES ('optimize')")
        connection.close()

    def open(self, directory: Path) -> "_Fts5Ranker":
        return _Fts5Ranker(directory / _FILE)


class _Fts5Ranker(TermRanker):
    name = "FTS5"

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)

    def best(self, terms: Sequence[str], limit: int) -> Ranked:
        asked = " OR ".join(f'"{term}"' for term in terms)
        sql = "SELECT rowid, -bm25(pages) FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT ?"
        return [(int(number), float(score)) for number, score in self._connection.execute(sql, (asked, limit))]
