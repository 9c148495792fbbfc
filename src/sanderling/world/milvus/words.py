"""In how many pages each word occurs: a small table beside the pointer to a world on Milvus, which tells no such numbers.

Snippets weigh a query's words by it. Words of one page only are left out. Safe to kill and go on: a word's number never
changes. Knows no page and no server.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from sanderling.core.errors import UserError

_TABLES = (
    "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY, pages INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS world (fingerprint TEXT NOT NULL)",
)
_REMEMBERED = 1_000_000


class WordTable:
    """Writes the table.

    Args:
        path: of the file.
        fingerprint: of the world's pages; what the file holds of another world is forgotten.
        frequency: the number of pages with a word, of the whole world.

    """

    def __init__(self, path: Path, fingerprint: str, frequency: Callable[[str], int]) -> None:
        self._path = path
        self._frequency = frequency
        self._seen: set[str] = set()
        try:
            self._connection = sqlite3.connect(path)
            with self._connection:
                for table in _TABLES:
                    self._connection.execute(table)
                held = self._connection.execute("SELECT fingerprint FROM world").fetchall()
                self.begun = held == [(fingerprint,)]
                """Whether the file had words of this world before."""
                if not self.begun:
                    self._connection.execute("DELETE FROM words")
                    self._connection.execute("DELETE FROM world")
                    self._connection.execute("INSERT INTO world VALUES (?)", (fingerprint,))
        except sqlite3.Error as error:
            raise UserError(f"Cannot write {path} ({error}): choose another place.") from error

    def add(self, words: Iterable[str]) -> None:
        """Take in words; those seen lately cost nothing. Raises UserError when the disk does not take it."""
        fresh = set(words) - self._seen
        if len(self._seen) + len(fresh) > _REMEMBERED:
            self._seen.clear()
        self._seen |= fresh
        rows = [(word, count) for word in sorted(fresh) if (count := self._frequency(word)) > 1]
        try:
            with self._connection:
                self._connection.executemany("INSERT OR IGNORE INTO words VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise UserError(f"Cannot write {self._path} ({error}): free some space or choose another place.") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class WordCounts:
    """Reads the table, from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises UserError when there is no such file."""
        if not path.is_file():
            raise UserError(f"{path} is missing: push the world again.")
        self._uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._local = threading.local()
        self.frequency = lru_cache(maxsize=100_000)(self._frequency)
        """In how many pages a word occurs; 1 for every word that the table does not have."""

    def _frequency(self, word: str) -> int:
        process, connection = getattr(self._local, "opened", (None, None))
        if connection is None or process != os.getpid():
            connection = sqlite3.connect(self._uri, uri=True)
            self._local.opened = (os.getpid(), connection)
        try:
            row = connection.execute("SELECT pages FROM words WHERE word = ?", (word,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(f"the table of words cannot be read: {error}") from error
        return int(row[0]) if row else 1
