"""An embedder behind an OpenAI-compatible server: ``POST /v1/embeddings``, in batches, with patience.

Busy or broken servers (429, 408, 5xx, time-outs, lost connections, replies that are no JSON) are tried again with growing
pauses, and are an `EmbedderOutageError` when they stay so; any other refusal is a UserError with the server's own words. A
world that asks an endpoint while it answers opens a socket, waits for it, and is as deterministic as the server is. Knows no
page.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from sanderling.core.errors import UserError
from sanderling.world.dense.embedder import EmbedderOutageError, Kind, Vectors

_RETRIED = frozenset({408, 409, 425, 429})
_LONGEST_PAUSE_S = 30.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WORDS = 200


class _BusyError(Exception):
    """The server may answer if asked again."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class EndpointEmbedder:
    """One model of one server; may be used from many threads.

    Args:
        base_url: of the server, up to ``/v1``.
        model: as the server calls it.
        key: sent as a bearer token.
        dimension: of its vectors, where it is known; 0: the first reply tells.
        batch: most texts of a request.
        retries: further attempts.
        backoff_s: first pause, doubled each time.
        timeout_s: longest silence.
        sleep: how pauses are made.

    Example: ``EndpointEmbedder("http://localhost:8000/v1", "bge-m3").embed(["tidal flats"], Kind.QUERY)``

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
        backoff_s: float = 1.0,
        timeout_s: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        self._batch = batch
        self._retries = retries
        self._backoff_s = backoff_s
        self._sleep = sleep
        self._dimension = dimension
        beyond = urlsplit(base_url).hostname not in _LOOPBACK  # no proxy leads to this machine
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=timeout, headers=headers, trust_env=beyond)

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimension(self) -> int:
        """Found out by embedding one word, unless it is known."""
        if not self._dimension:
            self.embed(["dimension"], Kind.DOCUMENT)
        return self._dimension

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row for each text; see `embedder.Embedder`. The kind is told by prefixes alone."""
        parts = [self._request(texts[at : at + self._batch]) for at in range(0, len(texts), self._batch)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)

    def _request(self, texts: Sequence[str]) -> Vectors:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        reason = ""
        for attempt in range(self._retries + 1):
            try:
                return self._rows(self._once(body), len(texts))
            except (_BusyError, httpx.RequestError) as error:
                reason, pause_s = str(error) or type(error).__name__, getattr(error, "pause_s", None)
            if attempt < self._retries:
                self._sleep(min(_LONGEST_PAUSE_S, pause_s or self._backoff_s * 2**attempt))
        raise EmbedderOutageError(
            f"{self._url} gave no embeddings in {self._retries + 1} attempts ({reason}): see to the server, then try again."
        )

    def _once(self, body: dict[str, Any]) -> Any:
        try:
            reply = self._client.post(self._url, json=body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise UserError(f"{self._url} is no address of a server ({error}): write http://host:port/v1#model.") from error
        if reply.status_code in _RETRIED or reply.status_code >= 500:
            raise _BusyError(f"status {reply.status_code}: {_words(reply)}", _pause_s(reply))
        if reply.status_code != 200:
            raise UserError(
                f"{self._url} refused to embed (status {reply.status_code}: {_words(reply)}): check address, model and key."
            )
        try:
            return reply.json()
        except (ValueError, RecursionError) as error:
            raise _BusyError(f"a reply that is no JSON: {reply.text[:60]!r}") from error

    def _rows(self, reply: Any, count: int) -> Vectors:
        """The vectors in the order of the texts, whatever order the server chose."""
        try:
            rows = {int(item["index"]): item["embedding"] for item in reply["data"]}
            found = np.array([rows[number] for number in range(count)], np.float32)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise UserError(
                f"{self._url} returned no list of {count} embeddings with their indexes: is it an embedding model?"
            ) from error
        if found.ndim != 2 or not found.shape[1] or len(rows) != count:
            raise UserError(f"{self._url} returned {len(rows)} embeddings for {count} texts: is it an embedding model?")
        if self._dimension and found.shape[1] != self._dimension:
            raise UserError(
                f"{self._url} returned vectors of {found.shape[1]} dimensions instead of {self._dimension}: "
                "is it the same model?"
            )
        self._dimension = found.shape[1]
        return found


def _pause_s(reply: httpx.Response) -> float | None:
    """How long the server wants to be left alone, where it says so in seconds."""
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def _words(reply: httpx.Response) -> str:
    """What the server says, in one line."""
    return " ".join(reply.text.split())[:_WORDS] or reply.reason_phrase
