"""Texts as vectors: what an embedder is, and those that there are.

On the command line they are named:

- ``hashed`` or ``hashed:256``: no model, see `HashedEmbedder`
- ``file.py:function`` or ``module:function``: a function of this machine, see `CallableEmbedder`
- ``http(s)://host:port/v1#model``: an endpoint, see `endpoint_embedder`

Vectors come back as float32 of unit length (or all zero, for a text that says nothing), in the order of the texts. Models that
were trained with instructions get them as prefixes, one for queries and one for documents.
"""

import hashlib
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

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
_BATCH, _ATTEMPTS = 64, 6  # texts of a request; tries at it
_LONGEST_PAUSE_S = 30.0
_TIMEOUT = httpx.Timeout(120.0, connect=10.0)
_SMALLEST = 1e-12


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


def embed_units(embedder: Embedder, texts: Sequence[str], kind: Kind, prefixes: Prefixes = Prefixes()) -> Vectors:
    """Embed texts, prefixed, as rows of unit length. Raises UserError when the embedder breaks its promises."""
    if not texts:
        return np.zeros((0, embedder.dimension), np.float32)
    prefix = prefixes.query if kind is Kind.QUERY else prefixes.document
    found = np.asarray(embedder.embed([prefix + text for text in texts], kind), dtype=np.float32)
    expected = (len(texts), embedder.dimension)
    if found.shape != expected or not np.isfinite(found).all():
        what = f"vectors of shape {found.shape} instead of {expected}" if found.shape != expected else "NaN or infinity"
        raise UserError(f"The embedder {embedder.model} returned {what}: mend it.")
    lengths = np.sqrt(np.einsum("ij,ij->i", found, found, dtype=np.float64))[:, None]
    return np.where(lengths > _SMALLEST, found / np.maximum(lengths, _SMALLEST), 0.0).astype(np.float32)


def opens_socket(spec: str) -> bool:
    """Whether an embedder lives on a server, so that a world that asks it does not answer by itself."""
    return spec.partition(":")[0].lower() in ("http", "https")


def open_embedder(spec: str, dimension: int = 0) -> Embedder:
    """The embedder of a name; ``dimension`` spares asking an endpoint for it. Raises UserError."""
    if opens_socket(spec):
        address, _, model = spec.partition("#")
        if not model or not urlsplit(address).hostname:
            raise UserError(f"{spec!r} names no model of a server: write http://host:port/v1#model.")
        return endpoint_embedder(address, model, dimension)
    kind, _, size = spec.partition(":")
    if kind == "hashed":
        if size and not (size.isdecimal() and int(size) >= SMALLEST):
            raise UserError(
                f"{spec!r} has no dimension of {SMALLEST} or more: write hashed or, for example, hashed:{DIMENSION}."
            )
        return HashedEmbedder(int(size or DIMENSION))
    if not is_outside(spec):
        raise UserError(f"There is no embedder {spec!r}: give {FORMS}.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    function: Callable[[list[str], str], ArrayLike] = load_outside(spec)
    if not callable(function):
        raise UserError(f"{spec!r} is no function: give one of texts and their kind.")
    return CallableEmbedder(function, spec)


class HashedEmbedder:
    """An embedder without weights, so that dense and hybrid search run, and can be tested, with no model.

    Each word and each run of three letters within it adds to four places with signs that a hash decides (feature hashing:
    Weinberger et al., 2009); repeated words count by their logarithm. It knows no meaning.
    """

    def __init__(self, dimension: int = DIMENSION) -> None:
        self.model = f"hashed-{_VERSION}:{dimension}"
        self.dimension = dimension
        self._of_word = lru_cache(maxsize=100_000)(self._word)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
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
    """A function of texts and "query" or "document", with one row of numbers for each text: ``CallableEmbedder(f, "mine")``."""

    def __init__(self, function: Callable[[list[str], str], ArrayLike], model: str, dimension: int = 0) -> None:
        """``dimension`` 0: found out by embedding one word."""
        self._function = function
        self.model = model
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        if not self._dimension:
            self.embed(["dimension"], Kind.DOCUMENT)
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        try:
            found = np.asarray(self._function(list(texts), kind.value), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise UserError(f"The embedder {self.model} returned no array of numbers ({error}): mend it.") from error
        if found.ndim != 2 or not found.shape[1]:
            raise UserError(f"The embedder {self.model} returned no row of numbers for a text: mend it.")
        if self._dimension and found.shape[1] != self._dimension:
            raise UserError(
                f"The embedder {self.model} returned vectors of {found.shape[1]} dimensions instead of {self._dimension}: "
                "is it the same model?"
            )
        self._dimension = found.shape[1]
        return found


def endpoint_embedder(
    base_url: str, model: str, dimension: int = 0, transport: httpx.BaseTransport | None = None
) -> CallableEmbedder:
    """One model of an OpenAI-compatible server (``POST /v1/embeddings``), asked in batches; the key is in ``OPENAI_API_KEY``.

    Busy or broken servers are tried again with growing pauses, and are an `EmbedderOutageError` when they stay so.
    ``transport``: instead of the network, for tests.
    """
    url, key = f"{base_url.rstrip('/')}/embeddings", os.environ.get("OPENAI_API_KEY", "")
    beyond = urlsplit(base_url).hostname not in ("localhost", "127.0.0.1", "::1")  # no proxy leads to this machine
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    client = httpx.Client(timeout=_TIMEOUT, headers=headers, transport=transport, trust_env=beyond)

    def embed(texts: list[str], _kind: str) -> list[Any]:
        batches = (texts[at : at + _BATCH] for at in range(0, len(texts), _BATCH))
        return [row for batch in batches for row in _rows(client, url, model, batch)]

    return CallableEmbedder(embed, model, dimension)


def _rows(client: httpx.Client, url: str, model: str, texts: list[str]) -> list[Any]:
    """The vectors of one request in the order of the texts, whatever order the server chose."""
    reason = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(min(_LONGEST_PAUSE_S, 2.0 ** (attempt - 1)))
        try:
            reply = client.post(url, json={"model": model, "input": texts, "encoding_format": "float"})
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            continue
        if reply.status_code == 200:
            try:
                rows = {int(item["index"]): item["embedding"] for item in reply.json()["data"]}
                return [rows[number] for number in range(len(texts))]
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                told = f"{url} returned no list of {len(texts)} embeddings with their indexes"
                raise UserError(f"{told}: is it an embedding model?") from error
        reason = f"status {reply.status_code}: {' '.join(reply.text.split())[:200] or reply.reason_phrase}"
        if reply.status_code not in (408, 429) and reply.status_code < 500:
            raise UserError(f"{url} refused to embed ({reason}): check address, model and key.")
    raise EmbedderOutageError(
        f"{url} gave no embeddings in {_ATTEMPTS} attempts ({reason}): see to the server, then try again."
    )
