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
_log = logging.getLogger(__name__)


class Limits:
    """The middleware; one for each server.

    The application puts its route's pattern into ``scope["route_name"]`` of the requests that reach a route.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, counters: Counters) -> None:
        self._app, self._settings, self._counters, self._running = app, settings, counters, 0

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
        self._check_client(Headers(scope=scope))
        if self._running >= self._settings.max_concurrent:
            raise RefusalError(429, "Too many requests at once: try again in a moment.", "concurrency")
        self._running += 1
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                await self._app(scope, _replay(await self._body(receive), receive), reply)
        except TimeoutError:
            sentence = "The request took too long: ask for less at a time, or try again later."
            raise RefusalError(503, sentence, "timeout") from None
        except RefusalError:
            raise
        except Exception:
            _log.exception("a request failed")
            raise FAILURE from None
        finally:
            self._running -= 1

    def _check_client(self, headers: Headers) -> None:
        if self._settings.token is not None:
            if not token_matches(headers, self._settings.token):
                raise RefusalError(401, "The token is missing or wrong: send it as Authorization: Bearer TOKEN.", "token")
        elif self._settings.loopback and not from_this_machine(headers):
            sentence = "Without a token only this machine may ask: use 127.0.0.1 or localhost in the address."
            raise RefusalError(403, sentence, "host")

    async def _body(self, receive: Receive) -> bytes:
        most, body, more = self._settings.max_body_bytes, bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise RefusalError(413, f"The body is larger than {most:,} bytes: send less at a time.", "body")
        return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for a reader that expects a stream."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
