"""Vectors kept by content: a text that was embedded once is never embedded again, by any process, in any world.

The key is a hash of model, kind and text, prefix included. A SQLite file in write-ahead mode: each batch is one transaction,
so a killed process leaves the file whole. Where the file cannot be written it is only read, or, where there is none, left
out. It also makes a server that answers a little differently each time deterministic: the first answer stays. Knows no page.
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sanderling.core.errors import UserError
from sanderling.world.dense.embedder import Embedder, Kind, Vectors

_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_WAIT_S = 60.0


class CachedEmbedder:
    """An embedder that remembers.

    Args:
        embedder: asked for what is not known.
        path: the file; made when it is missing.

    """

    def __init__(self, embedder: Embedder, path: Path) -> None:
        """Raises UserError when the file is there and is no cache."""
        self._embedder = embedder
        self._path = path
        self._local = threading.local()
        self._connection()

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; equal texts are asked for once. See `embedder.Embedder`."""
        keys = [self._key(text, kind) for text in texts]
        known = self._read(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = np.asarray(self._embedder.embed(list(missing.values()), kind), np.float32)
            if made.shape != (len(missing), self.dimension):
                return made  # not what was promised: whoever checks it says so, and it is not kept
            fresh = dict(zip(missing, made, strict=True))
            self._write(fresh)
            known.update(fresh)
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self.dimension), np.float32)

    def _key(self, text: str, kind: Kind) -> bytes:
        parts = "\0".join((self._embedder.model, kind.value, text))
        return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        connection = self._connection()
        if connection is None:
            return found
        try:
            for key in dict.fromkeys(keys):
                row = connection.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    found[key] = np.frombuffer(row[0], np.float32)
        except (sqlite3.Error, ValueError) as error:
            raise UserError(f"The embedding cache {self._path} cannot be read ({error}): remove it.") from error
        strange = next((vector for vector in found.values() if len(vector) != self.dimension), None)
        if strange is not None:
            raise UserError(
                f"The embedding cache {self._path} has vectors of {len(strange)} dimensions under the name {self.model}, which "
                f"has {self.dimension}: choose another file for it."
            )
        return found

    def _write(self, fresh: dict[bytes, Vectors]) -> None:
        connection = self._connection()
        if connection is None or self._local.read_only:
            return
        rows = [(key, vector.tobytes()) for key, vector in fresh.items() if np.isfinite(vector).all()]
        try:
            with connection:
                connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise UserError(
                f"Cannot write the embedding cache {self._path} ({error}): free some space or remove it."
            ) from error

    def _connection(self) -> sqlite3.Connection | None:
        """The thread's own, anew in a forked process; None where there is no file and none can be made."""
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process = os.getpid()
            self._local.connection, self._local.read_only = self._open()
        return self._local.connection

    def _open(self) -> tuple[sqlite3.Connection | None, bool]:
        writable = os.access(self._path if self._path.exists() else self._path.parent, os.W_OK)
        if not writable and not self._path.exists():
            return None, True
        try:
            uri = f"{self._path.resolve().as_uri()}?mode={'rwc' if writable else 'ro'}"
            connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_S)
            if writable:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_TABLE)
            connection.execute("SELECT vector FROM vectors LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise UserError(f"The embedding cache {self._path} cannot be used ({error}): choose another place.") from error
        return connection, not writable
