"""Settings of a server, and what stands before every route: who may ask, how many at a time, how much, and for how long.

`Limits` is an ASGI middleware; each refusal is JSON. Too large a body is 413, too many requests 429, too slow 503; what goes
wrong inside is logged here, and the client gets one sentence with 500. ``/health`` is answered whatever else is going on.
"""

import asyncio
import base64
import binascii
import hmac
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import Field
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.serve.calls import FAILURE, RefusalError
from sanderling.world.addresses import is_here, is_loopback

HEALTH = "/health"
BODY = "sanderling.body"  # where the scope of a request that was let in has its whole body
WRONG_TOKEN = RefusalError(401, "The token is missing or wrong: send it as Authorization: Bearer TOKEN.")
_STOPPED = RefusalError(503, "The server is being stopped: try again later.")
_log = logging.getLogger(__name__)


class ServerSettings(Frozen):
    """Settings of one server."""

    host: str = "127.0.0.1"  # address to listen on; other than loopback needs a token
    port: int = Field(default=8018, ge=0, le=65_535)  # 0: any free port
    token: str | None = Field(default=None, min_length=1)
    """Token that clients must present; unset: anyone who reaches the server may ask."""
    dialects: tuple[str, ...] = ()  # APIs to serve, ``mcp`` among them; empty: all
    max_body_bytes: int = Field(default=1 << 20, ge=1)  # larger requests are refused
    max_concurrent: int = Field(default=256, ge=1)  # requests at a time; further ones are answered 429
    timeout_s: float = Field(default=30.0, gt=0)  # limit of a whole request, its body included
    grace_s: int = Field(default=10, ge=0)  # time that requests in flight have when the server is stopped
    threads: int = Field(default=4, ge=1)  # threads for searches and visits
    page_words: int = Field(default=50_000, ge=1)  # most words of a page that is asked for whole
    certificate: Path | None = None  # PEM certificates: the server then speaks HTTPS
    key: Path | None = None  # the certificate's private key; unset: it is in the same file


def check_binding(settings: ServerSettings) -> None:
    """Raises UserError where others would reach a server that asks for no token, and for a key without a certificate."""
    if settings.token is None and not is_loopback(settings.host):
        raise UserError(
            f"Listening on {settings.host} lets other machines in: name the variable that holds a token with --token-env, "
            "or listen on 127.0.0.1."
        )
    if settings.key is not None and settings.certificate is None:
        raise UserError("A key was given without its certificate: name that file with --set certificate=FILE.")


class Limits:
    """The middleware; one for each server."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._settings, self._running = app, settings, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] == HEALTH:
            await self._app(scope, receive, send)
            return
        started = False

        async def reply(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._admit(scope, receive, reply)
        except RefusalError as refusal:
            if not started:
                await refusal.response()(scope, receive, send)
        except asyncio.CancelledError:  # the grace is over; passed on, it would be a traceback in the log
            if not started:
                await _STOPPED.response()(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, reply: Send) -> None:
        """Let a request through to the routes. Raises RefusalError that says why not."""
        self.check_client(scope)
        if self._running >= self._settings.max_concurrent:
            raise RefusalError(429, "Too many requests at once: try again in a moment.")
        self._running += 1
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                scope[BODY] = await self._body(receive)
                await self._unless_left(scope, receive, reply)
        except TimeoutError:
            raise RefusalError(503, "The request took too long: ask for less at a time, or try again later.") from None
        except RefusalError:
            raise
        except Exception:
            _log.exception("a request failed")
            raise FAILURE from None
        finally:
            self._running -= 1

    async def _unless_left(self, scope: Scope, receive: Receive, reply: Send) -> None:
        """Serve a request whose body was read; one that its client has left is not worked on any more."""
        unread: list[Message] = [{"type": "http.request", "body": scope[BODY], "more_body": False}]
        left: asyncio.Future[Message] = asyncio.ensure_future(_left(receive))

        async def again() -> Message:
            return unread.pop() if unread else await asyncio.shield(left)

        work = asyncio.ensure_future(self._app(scope, again, reply))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if not work.cancelled():
            work.result()

    def check_client(self, scope: Scope) -> None:
        """Whether this client may ask at all. Raises RefusalError."""
        headers = Headers(scope=scope)
        if self._settings.token is not None:
            if not presents(headers, self._settings.token):
                raise WRONG_TOKEN
        elif is_loopback(self._settings.host) and not _from_this_machine(headers):
            raise RefusalError(403, "Without a token only this machine may ask: use 127.0.0.1 or localhost in the address.")

    async def _body(self, receive: Receive) -> bytes:
        most, body, more = self._settings.max_body_bytes, bytearray(), True
        while more:
            if (message := await receive())["type"] == "http.disconnect":
                raise RefusalError(400, "The body was not sent to its end.")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > most:
                raise RefusalError(413, f"The body is larger than {most:,} bytes: send less at a time.")
        return bytes(body)


async def _left(receive: Receive) -> Message:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def presents(headers: Mapping[str, str], token: str) -> bool:
    """Whether a client presents the token; compared in constant time.

    It comes as ``Authorization: Bearer``, as ``X-API-KEY`` (Serper's clients), or as the password in the base URL
    (``http://any:TOKEN@host``, for clients that send no header of their own).
    """
    presented = [headers.get("x-api-key", "")]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        presented.append(value.strip())
    elif scheme.lower() == "basic":
        with suppress(binascii.Error):
            presented.append(base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2])
    wanted = token.encode("utf-8", "surrogatepass")
    return any(hmac.compare_digest(each.encode("utf-8", "surrogatepass"), wanted) for each in presented)


def _from_this_machine(headers: Mapping[str, str]) -> bool:
    """Whether ``Host`` and ``Origin`` are this machine: otherwise any web page in a browser here could read the world."""
    origin = headers.get("origin")
    return is_here(f"//{headers.get('host', '')}") and (origin is None or is_here(origin))
