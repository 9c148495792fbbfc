"""What stands before every route: who may ask, how many at a time, how much, and for how long; each refusal is JSON.

An ASGI middleware. Too large a body is 413, too many requests 429, too slow 503; what goes wrong inside is logged here, and
the client gets one sentence with 500. ``/health`` is answered whatever else is going on.
"""

import asyncio
import logging
from time import perf_counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sanderling.serve.calls import FAILURE, Counters, RefusalError
from sanderling.serve.settings import ServerSettings, from_this_machine, token_matches

HEALTH = "/health"
_DRAINED = 32
"""A body up to this many times the limit is read to its end and dropped: many clients only read a reply after sending all."""
_ARRIVING = 4
"""Bodies may be on their way for so many times the requests that are answered at a time: slow clients shut nobody out."""
_DIGITS = 18
"""More make no difference to what is too large."""
_log = logging.getLogger(__name__)


class _GoneError(Exception):
    """The client went away before its request was whole."""


class Limits:
    """The middleware; one for each server.

    The application puts its route's pattern into ``scope["route_name"]`` of the requests that reach a route.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, counters: Counters) -> None:
        self._app = app
        self._settings = settings
        self._counters = counters
        self._running = 0
        self._arriving = 0
        """Requests whose bodies are on their way: they take no place among those that are answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._admit(scope, receive, reply)
        except _GoneError:
            self._counters.refused["gone"] += 1
        except RefusalError as refusal:
            self._counters.refused[refusal.reason] += 1
            if not status:
                await refusal.response()(scope, receive, reply)
        finally:
            if status:
                self._counters.requests[scope.get("route_name", "other"), str(status)] += 1
                self._counters.request_seconds += perf_counter() - began

    async def _admit(self, scope: Scope, receive: Receive, reply: Send) -> None:
        """Let a request through to the routes. Raises RefusalError that says why not."""
        if scope["path"] == HEALTH:
            await self._app(scope, receive, reply)
            return
        headers = Headers(scope=scope)
        self._check_client(headers)
        self._require_place()
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                self._arriving += 1
                try:
                    body = await self._body(headers, receive)
                finally:
                    self._arriving -= 1
                self._require_place()
                self._running += 1
                try:
                    await self._app(scope, _replay(body, receive), reply)
                finally:
                    self._running -= 1
        except TimeoutError:
            sentence = "The request took too long: ask for less at a time, or try again later."
            raise RefusalError(503, sentence, "timeout") from None
        except (RefusalError, _GoneError):
            raise
        except Exception:
            _log.exception("a request failed")
            raise FAILURE from None

    def _check_client(self, headers: Headers) -> None:
        if self._settings.token is not None:
            if not token_matches(headers, self._settings.token):
                raise RefusalError(401, "The token is missing or wrong: send it as Authorization: Bearer TOKEN.", "token")
        elif self._settings.loopback and not from_this_machine(headers):
            sentence = "Without a token only this machine may ask: use 127.0.0.1 or localhost in the address."
            raise RefusalError(403, sentence, "host")

    def _require_place(self) -> None:
        most = self._settings.max_concurrent
        if self._running >= most or self._arriving >= most * _ARRIVING:
            raise RefusalError(429, "Too many requests at once: try again in a moment.", "concurrency")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body."""
        most = self._settings.max_body_bytes
        too_large = RefusalError(413, f"The body is larger than {most:,} bytes: send less at a time.", "body")
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:_DIGITS]) > most * _DRAINED:
            raise too_large
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise _GoneError
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > most * _DRAINED:
                raise too_large
            if size <= most:
                chunks.append(chunk)
        if size > most:
            raise too_large
        return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for a reader that expects a stream."""
    handed = False

    async def again() -> Message:
        nonlocal handed
        if handed:
            return await receive()
        handed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
