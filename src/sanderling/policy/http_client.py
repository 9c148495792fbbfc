"""Calls to an OpenAI-compatible server: JSON or server-sent events, with patience.

Busy or broken servers (429, 408, 5xx, time-outs, lost connections, replies that are no JSON) are tried again with growing
pauses, and are a PolicyOutageError when they stay so. Any other refusal (4xx) is the caller's to mend: a UserError of one
sentence with the server's own words. A stream that breaks after its first event is not tried again, since somebody has already
read from it.

Knows nothing of prompts, sampling or tokens.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import httpx

from sanderling.core.errors import UserError
from sanderling.policy.contract import PolicyOutageError

_RETRIED = frozenset({408, 409, 425, 429})
_LONGEST_PAUSE_S = 30.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _BusyError(Exception):
    """The server may answer if asked again."""

    def __init__(self, reason: str, pause_s: float | None = None) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class RefusedError(UserError):
    """The server will not take this request. A person's mistake at the start of a conversation; later, the server's affair."""


class HttpClient:
    """One server. Connections are shared by its sessions and belong to the running event loop."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        retries: int = 5,
        backoff_s: float = 1.0,
        timeout_s: float = 600.0,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """A client that has opened no connection yet.

        Args:
            base_url: of the server, up to ``/v1``.
            api_key: sent as a bearer token.
            retries: further attempts.
            backoff_s: first pause, doubled each time.
            timeout_s: longest silence.
            on_retry: told before each pause, in one line, what failed and when the next attempt comes.

        """
        self.base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._retries = retries
        self._backoff_s = backoff_s
        self._on_retry = on_retry
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0))
        self._opened: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def json(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST and return the reply's object."""
        async with aclosing(self.events(path, body)) as events:
            return await anext(events)

    async def get(self, path: str) -> dict[str, Any]:
        """GET and return the reply's object."""
        async with aclosing(self.events(path, None)) as events:
            return await anext(events)

    async def tell(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST what needs no answer, and return the reply's object: that of an empty reply is empty."""
        async with aclosing(self.events(path, body, answered=False)) as events:
            return await anext(events)

    async def events(self, path: str, body: dict[str, Any] | None, *, answered: bool = True) -> AsyncGenerator[dict[str, Any]]:
        """POST (GET without a body) and yield each event of a stream, or the one object of a plain reply."""
        reason = ""
        for attempt in range(self._retries + 1):
            begun = False
            try:
                async with aclosing(self._once(path, body, answered)) as found:
                    async for event in found:
                        begun = True
                        yield event
                if begun:
                    return
                reason, pause_s = "an empty reply", None
            except (_BusyError, httpx.TransportError) as error:
                reason, pause_s = str(error) or type(error).__name__, getattr(error, "pause_s", None)
                if begun:
                    raise PolicyOutageError(f"The stream of {self.base_url} broke ({reason}).") from error
            if attempt < self._retries:
                pause_s = min(_LONGEST_PAUSE_S, pause_s or self._backoff_s * 2**attempt)
                if self._on_retry is not None:
                    again = f"attempt {attempt + 2} of {self._retries + 1} in {pause_s:g} s"
                    self._on_retry(f"{self.base_url} gave no answer ({reason}): {again}")
                await asyncio.sleep(pause_s)
        raise PolicyOutageError(f"{self.base_url} gave no answer in {self._retries + 1} attempts ({reason}).")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened[1].aclose()
            self._opened = None

    async def _once(self, path: str, body: dict[str, Any] | None, answered: bool) -> AsyncGenerator[dict[str, Any]]:
        url, method = f"{self.base_url}/{path}", "GET" if body is None else "POST"
        async with self._client().stream(method, url, json=body, headers=self._headers) as reply:
            if reply.status_code >= 400:
                await reply.aread()
                _refuse(reply, self.base_url)
            if not reply.headers.get("content-type", "").startswith("text/event-stream"):
                text = (await reply.aread()).decode("utf-8", errors="replace")
                yield _object(text) if text or answered else {}
                return
            async for line in reply.aiter_lines():
                data = line.removeprefix("data:").strip()
                if data == "[DONE]":
                    return
                if line.startswith("data:"):
                    yield _object(data)
            raise _BusyError("the stream ended early")

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            beyond = urlsplit(self.base_url).hostname not in _LOOPBACK  # no proxy leads to this machine
            self._opened = loop, httpx.AsyncClient(timeout=self._timeout, limits=limits, trust_env=beyond)
        return self._opened[1]


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _BusyError(f"a reply that is no JSON: {text[:60]!r}") from error
    if not isinstance(found, dict):
        raise _BusyError(f"a reply that is no object: {text[:60]!r}")
    if found.get("error"):
        raise _BusyError(_words(found["error"]))
    return found


def _refuse(reply: httpx.Response, server: str) -> None:
    status, words = reply.status_code, _reason(reply)
    if status in _RETRIED or status >= 500:
        after = reply.headers.get("retry-after", "")
        raise _BusyError(f"status {status}: {words}", float(after) if after.replace(".", "", 1).isdigit() else None)
    if status in (401, 403):
        raise UserError(
            f"{server} refused the API key (status {status}): set OPENAI_API_KEY, or name a variable with ?key_env=."
        )
    if status == 404:
        raise UserError(f"{server} does not know this path or model (status 404: {words}): check the URL and its #name.")
    raise RefusedError(f"{server} refused the request (status {status}: {words}): change what it names.")


def _reason(reply: httpx.Response) -> str:
    try:
        found = json.loads(reply.content)
    except ValueError:
        return _words(reply.text)
    return _words(found.get("error", found) if isinstance(found, dict) else found)


def _words(found: Any) -> str:
    if isinstance(found, dict):
        found = found.get("message") or found
    return " ".join(str(found).split())[:200] or "no reason given"
