"""Texts as vectors: what an embedder is, those that there are, and a cache over any of them.

On the command line they are named:

- ``hashed`` or ``hashed:256``: no model, see `HashedEmbedder`
- ``file.py:function``, ``module:function`` or ``callable:module:function``: a function of this machine, see `CallableEmbedder`
- ``http(s)://host:port/v1#model``: an endpoint, see `EndpointEmbedder`. Options: ``?key_env=NAME`` (environment variable with
  the API key; otherwise ``OPENAI_API_KEY``, if set), ``batch=64`` (most texts of a request) and ``retries=5``

Vectors come back as float32 of unit length (or all zero, for a text that says nothing), in the order of the texts. Models that
were trained with instructions get them as prefixes, one for queries and one for documents.
"""

import hashlib
import math
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, load_outside
from sanderling.world.text import content_terms, index_text

Vectors = NDArray[np.float32]
FORMS = "hashed[:DIMENSION], FILE.py:FUNCTION or MODULE:FUNCTION, or http://host:port/v1#model"
DIMENSION = 512  # of the hashed embedder
SMALLEST = 16
_VERSION = 1  # of its vectors: raised when the same text gets another one
_PLACES = 4  # of a word in a vector
_PART = 3  # letters
_MOST_TERMS = 4_096
_RETRIED = frozenset({408, 409, 425, 429})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_TIMEOUT = httpx.Timeout(120.0, connect=10.0)
_QUOTED = 200
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_WAIT_S = 60.0


class Kind(StrEnum):
    """What a text is to the search: models are trained to embed the two differently."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Embeds texts. Deterministic: the same text and kind give the same vector."""

    @property
    def model(self) -> str:
        """Names the vectors: an index made by one model is never asked with another."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector. Raises UserError when it cannot be found out."""
        ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text, of any length but NaN-free. Raises UserError, or `EmbedderOutageError`."""
        ...


class EmbedderOutageError(UserError, OSError):
    """The embedder cannot be reached or is broken: an outage of the search, not a reply."""


@dataclass(frozen=True)
class Prefixes:
    """What is put before a text, as the model was trained: ``Prefixes("query: ", "passage: ")`` for E5."""

    query: str = ""
    document: str = ""


NO_PREFIXES = Prefixes()
_SMALLEST = 1e-12


def embed_units(embedder: Embedder, texts: Sequence[str], kind: Kind, prefixes: Prefixes = NO_PREFIXES) -> Vectors:
    """Embed texts, prefixed, as rows of unit length. Raises UserError when the embedder breaks its promises."""
    if not texts:
        return np.zeros((0, embedder.dimension), np.float32)
    prefix = prefixes.query if kind is Kind.QUERY else prefixes.document
    found = np.asarray(embedder.embed([prefix + text for text in texts], kind), dtype=np.float32)
    expected = (len(texts), embedder.dimension)
    if found.shape != expected:
        raise UserError(
            f"The embedder {embedder.model} returned vectors of shape {found.shape} instead of {expected}: mend it."
        )
    if not np.isfinite(found).all():
        raise UserError(f"The embedder {embedder.model} returned a vector with NaN or infinity: mend it.")
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found, dtype=np.float64))[:, None]
    return np.where(lengths > _SMALLEST, found / np.maximum(lengths, _SMALLEST), 0.0).astype(np.float32)


def opens_socket(spec: str) -> bool:
    """Whether an embedder lives on a server, so that a world that asks it does not answer by itself."""
    return spec.partition(":")[0].lower() in ("http", "https")


def open_embedder(spec: str, dimension: int = 0) -> Embedder:
    """The embedder of a name; ``dimension`` spares asking an endpoint for it. Raises UserError."""
    if opens_socket(spec):
        return _endpoint(spec, dimension)
    kind, _, rest = spec.partition(":")
    if kind == "hashed":
        if rest and not (rest.isdecimal() and int(rest) >= SMALLEST):
            raise UserError(
                f"{spec!r} has no dimension of {SMALLEST} or more: write hashed or, for example, hashed:{DIMENSION}."
            )
        return HashedEmbedder(int(rest or DIMENSION))
    outside = rest if kind == "callable" else spec
    if not is_outside(outside):
        raise UserError(f"There is no embedder {spec!r}: give {FORMS}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    function: Callable[[list[str], str], ArrayLike] = load_outside(outside)
    if not callable(function):
        raise UserError(f"{outside!r} is no function: give one of texts and their kind.")
    return CallableEmbedder(function, spec)


def _endpoint(spec: str, dimension: int) -> "EndpointEmbedder":
    try:
        parts = urlsplit(spec)
        if not parts.hostname or parts.port == 0 or not parts.fragment:
            raise ValueError
    except ValueError:  # also for brackets that nothing closes, or a port that is no number
        raise UserError(f"{spec!r} names no model of a server: write http://host:port/v1#model.") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    variable, batch, retries = options.pop("key_env", ""), options.pop("batch", "64"), options.pop("retries", "5")
    if options or not (batch.isdecimal() and int(batch) and retries.isdecimal()):
        raise UserError(f"{spec!r} has an option that there is not: write ?key_env=NAME&batch=64&retries=5 before the #.")
    key = os.environ.get(variable or "OPENAI_API_KEY", "")
    if variable and not key:
        raise UserError(f"The environment variable {variable} is not set: put the embedder's API key there.")
    base = parts._replace(query="", fragment="").geturl()
    return EndpointEmbedder(base, parts.fragment, key=key, dimension=dimension, batch=int(batch), retries=int(retries))


class HashedEmbedder:
    """An embedder without weights, so that dense and hybrid search run, and can be tested, with no model.

    Each word of a text and each run of three letters within it adds to four places with signs that a hash decides (feature
    hashing: Weinberger et al., 2009); repeated words count by their logarithm. It knows no meaning: against the full-text index
    it forgives spelling and endings, and ranks worse otherwise.
    """

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.model = f"hashed-{_VERSION}:{dimension}"
        self.dimension = dimension
        self._of_word = lru_cache(maxsize=100_000)(self._word)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; a text without words is all zero."""
        found = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            counts = Counter(index_text(text).split()[:_MOST_TERMS])
            for word in content_terms(text, _MOST_TERMS):
                places, weights = self._of_word(word)
                found[row, places] += weights * (1.0 + math.log(counts[word] or 1))
        return found

    def _word(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The places of a word and its parts, each once, with their weights: all parts together weigh as the word does."""
        bounded = f"<{word}>"
        parts = [bounded[start : start + _PART] for start in range(len(bounded) - _PART + 1)] if len(word) >= _PART else []
        dense = np.zeros(self.dimension, np.float32)
        for feature, weight in [(word, 1.0), *((part, 1.0 / math.sqrt(len(parts))) for part in parts)]:
            key = feature.encode("utf-8", "replace")
            digest = hashlib.blake2b(key, digest_size=4 * _PLACES, salt=b"sanderling").digest()
            for value in np.frombuffer(digest, "<u4").tolist():
                dense[(value >> 1) % self.dimension] += weight if value & 1 else -weight
        places = np.flatnonzero(dense)
        return places, dense[places]


class CallableEmbedder:
    """Somebody's own function of texts and "query" or "document", with one row of numbers for each text.

    Example: ``CallableEmbedder(lambda texts, kind: model.encode(texts), "my-model")``
    """

    def __init__(self, function: Callable[[list[str], str], ArrayLike], model: str) -> None:
        self._function = function
        self.model = model
        self._dimension = 0

    @property
    def dimension(self) -> int:
        """Found out by embedding one word."""
        if not self._dimension:
            found = self.embed(["dimension"], Kind.DOCUMENT)
            if found.ndim != 2 or not found.shape[1]:
                raise UserError(f"The embedder {self.model} returned no row of numbers for a text: mend it.")
            self._dimension = found.shape[1]
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text."""
        found = self._function(list(texts), kind.value)
        try:
            return np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise UserError(f"The embedder {self.model} returned no array of numbers ({error}): mend it.") from error


class EndpointEmbedder:
    """One model of an OpenAI-compatible server (``POST /v1/embeddings``), asked in batches; may be used from many threads.

    Busy or broken servers (429, 408, 5xx, time-outs, lost connections, replies that are no JSON) are tried again with growing
    pauses, and are an `EmbedderOutageError` when they stay so; any other refusal is a UserError with the server's own words.
    ``dimension`` 0: the first reply tells.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key: str = "",
        dimension: int = 0,
        batch: int = 64,
        retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self.model = model
        self._batch = batch
        self._retries = retries
        self._sleep = sleep
        self._dimension = dimension
        beyond = urlsplit(base_url).hostname not in _LOOPBACK  # no proxy leads to this machine
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=_TIMEOUT, headers=headers, trust_env=beyond)

    @property
    def dimension(self) -> int:
        """Found out by embedding one word."""
        if not self._dimension:
            self.embed(["dimension"], Kind.DOCUMENT)
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; prefixes alone tell the kind."""
        parts = [self._request(texts[at : at + self._batch]) for at in range(0, len(texts), self._batch)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _request(self, texts: Sequence[str]) -> Vectors:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        reason = ""
        for attempt in range(self._retries + 1):
            pause_s = _FIRST_PAUSE_S * 2**attempt
            try:
                reply = self._client.post(self._url, json=body)
                if reply.status_code == 200:
                    return self._rows(reply.json(), len(texts))
                said = " ".join(reply.text.split())[:_QUOTED] or reply.reason_phrase
                reason = f"status {reply.status_code}: {said}"
                if reply.status_code not in _RETRIED and reply.status_code < 500:
                    raise UserError(f"{self._url} refused to embed ({reason}): check address, model and key.")
                after = reply.headers.get("retry-after", "")
                pause_s = float(after) if after.isdecimal() and float(after) else pause_s
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise UserError(f"{self._url} is no address of a server ({error}): write http://host:port/v1#model.") from error
            except httpx.RequestError as error:
                reason = str(error) or type(error).__name__
            except (ValueError, RecursionError) as error:
                reason = f"a reply that is no JSON: {error}"
            if attempt < self._retries:
                self._sleep(min(_LONGEST_PAUSE_S, pause_s))
        raise EmbedderOutageError(
            f"{self._url} gave no embeddings in {self._retries + 1} attempts ({reason}): see to the server, then try again."
        )

    def _rows(self, reply: Any, count: int) -> Vectors:
        """The vectors in the order of the texts, whatever order the server chose."""
        try:
            rows = {int(item["index"]): item["embedding"] for item in reply["data"]}
            found = np.array([rows[number] for number in range(count)], np.float32)
            if found.ndim != 2 or not found.shape[1] or len(rows) != count:
                raise ValueError("other rows than texts")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            told = f"{self._url} returned no list of {count} embeddings with their indexes"
            raise UserError(f"{told}: is it an embedding model?") from error
        if self._dimension and found.shape[1] != self._dimension:
            raise UserError(
                f"{self._url} returned vectors of {found.shape[1]} dimensions instead of {self._dimension}: "
                "is it the same model?"
            )
        self._dimension = found.shape[1]
        return found


class CachedEmbedder:
    """An embedder that remembers: a text that was embedded once is never embedded again, by any process, in any world.

    A SQLite file, keyed by model, kind and text with its prefix, opened for each call; where it cannot be written it is only
    read, or left out. It also makes a server that answers a little differently each time deterministic: the first answer stays.
    """

    def __init__(self, embedder: Embedder, path: Path) -> None:
        """Raises UserError when the file is there and is no cache."""
        self._embedder = embedder
        self._path = path
        with self._opened():
            pass

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; equal texts are asked for once."""
        names = ("\0".join((self.model, kind.value, text)) for text in texts)
        keys = [hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest() for name in names]
        known: dict[bytes, Vectors] = {}
        with self._opened() as (connection, _):
            for key in set(keys):
                row = connection and connection.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
                if row:
                    known[key] = np.frombuffer(row[0], np.float32)
        strange = next((len(vector) for vector in known.values() if len(vector) != self.dimension), None)
        if strange is not None:
            raise UserError(
                f"The embedding cache {self._path} has vectors of {strange} dimensions under the name {self.model}, which "
                f"has {self.dimension}: choose another file for it."
            )
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = np.asarray(self._embedder.embed(list(missing.values()), kind), np.float32)
            if made.shape != (len(missing), self.dimension):
                return made  # not what was promised: whoever checks it says so, and it is not kept
            fresh = dict(zip(missing, made, strict=True))
            rows = [(key, vector.tobytes()) for key, vector in fresh.items() if np.isfinite(vector).all()]
            with self._opened() as (connection, writable):
                if connection is not None and writable:
                    with connection:
                        connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            known.update(fresh)
        return np.stack([known[key] for key in keys]) if keys else np.zeros((0, self.dimension), np.float32)

    @contextmanager
    def _opened(self) -> Iterator[tuple[sqlite3.Connection | None, bool]]:
        """The file, None where there is none and none can be made, and whether it can be written."""
        writable = os.access(self._path if self._path.exists() else self._path.parent, os.W_OK)
        if not writable and not self._path.exists():
            yield None, False
            return
        uri = f"{self._path.resolve().as_uri()}?mode={'rwc' if writable else 'ro'}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_S)) as connection:
                if writable:
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute(_TABLE)
                connection.execute("SELECT vector FROM vectors LIMIT 1").fetchone()
                yield connection, writable
        except (sqlite3.Error, ValueError) as error:
            told = f"The embedding cache {self._path} cannot be used ({error})"
            raise UserError(f"{told}: free some space, remove it, or choose another place.") from error
