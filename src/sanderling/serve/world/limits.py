"""What stands before every route: who may ask, how many at a time, how much, and for how long; each refusal is JSON.

An ASGI middleware. Too large a body is 413, too many requests 429, too slow 503; what goes wrong inside is logged here and
told as one sentence with 500. ``/health`` is answered whatever else is going on. Knows no dialect.
"""

import asyncio
import logging
from time import perf_counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sanderling.serve.world.metrics import Counters
from sanderling.serve.world.refusal import FAILURE, RefusalError, refuse
from sanderling.serve.world.settings import ServerSettings
from sanderling.serve.world.tokens import check_client

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


class _Reply:
    """Passes a reply on and remembers its status."""

    def __init__(self, send: Send) -> None:
        self.status = 0
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class Limits:
    """The middleware; one for each server.

    Args:
        app: what is guarded; puts its route's pattern into ``scope["route_name"]`` of the requests that reach one.
        settings: of the server.
        counters: of the server.

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
        began, reply = perf_counter(), _Reply(send)
        try:
            refused = await self._admit(scope, receive, reply)
            if refused is not None:
                self._counters.refused[refused.reason] += 1
                if not reply.status:
                    await refuse(refused)(scope, receive, reply)
        except _GoneError:
            self._counters.refused["gone"] += 1
        finally:
            if reply.status:
                self._counters.requests[scope.get("route_name", "other"), str(reply.status)] += 1
                self._counters.request_seconds += perf_counter() - began

    async def _admit(self, scope: Scope, receive: Receive, reply: _Reply) -> RefusalError | None:
        """Let a request through to the routes, or say why not."""
        if scope["path"] == HEALTH:
            await self._app(scope, receive, reply)
            return None
        try:
            check_client(Headers(scope=scope), self._settings)
            self._require_place()
        except RefusalError as error:
            return error
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                body = await self._arrived(Headers(scope=scope), receive)
                self._require_place()
                self._running += 1
                try:
                    await self._app(scope, _replay(body, receive), reply)
                finally:
                    self._running -= 1
        except RefusalError as error:
            return error
        except TimeoutError:
            return RefusalError(503, "The request took too long: ask for less at a time, or try again later.", "timeout")
        except _GoneError:
            raise
        except Exception:
            _log.exception("a request failed")
            return FAILURE
        return None

    def _require_place(self) -> None:
        most = self._settings.max_concurrent
        if self._running >= most or self._arriving >= most * _ARRIVING:
            raise RefusalError(429, "Too many requests at once: try again in a moment.", "concurrency")

    async def _arrived(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body."""
        self._arriving += 1
        try:
            return await self._body(headers, receive)
        finally:
            self._arriving -= 1

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self._settings.max_body_bytes
        too_large = RefusalError(413, f"The body is larger than {most:,} bytes: send less at a time.", "body")
        declared = headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:_DIGITS]) > most * _DRAINED:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _GoneError
            size += len(message.get("body", b""))
            if size > most:
                chunks.clear()
                if size > most * _DRAINED:
                    raise too_large
            else:
                chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                break
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
