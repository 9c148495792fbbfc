"""A server as a process: one socket, one event loop, an orderly end.

On SIGTERM or Ctrl-C the socket closes, requests in flight finish within the grace, and SIGTERM ends the process with status 0.
To use several cores, start several servers and put a proxy before them: replies do not depend on which one answers.
"""

import asyncio
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from types import FrameType
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sanderling.core.errors import UserError
from sanderling.serve.app import create_app
from sanderling.serve.settings import ServerSettings
from sanderling.world.contract import World

HEAD_S = 15.0
"""For a whole head, from the opening of the connection or the first byte after an earlier request."""
UNREAD_S = 60.0
"""For a reply that the client does not read, from the moment when no more of it can be sent."""
_BACKLOG = 1_024
_KEEP_ALIVE_S = 75
"""Above the usual idle time of clients' pools, so that the client closes first and no request meets a closing connection."""


def serve(world: World, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve a world until stopped.

    ``ready`` is called with the base URL once the server listens. Raises UserError when the address cannot be had.
    """
    app = create_app(world, settings)
    check_certificate(settings)
    with listen(settings) as listening:
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            log_level="warning",
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=settings.grace_s,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
        before = signal.signal(signal.SIGTERM, _end)
        try:
            scheme, host, port = (
                "https" if settings.certificate else "http",
                settings.host.strip("[]"),
                listening.getsockname()[1],
            )
            ready(f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}")
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            signal.signal(signal.SIGTERM, before)


def listen(settings: ServerSettings) -> socket.socket:
    """A listening socket. Raises UserError when the address cannot be had.

    Its protocol is named because asyncio turns Nagle's algorithm off for such sockets only; with it on, each reply waits 40 ms
    for an acknowledgement.
    """
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        raise UserError(f"Cannot listen on {where} ({error.strerror or error}): choose another --host or --port.") from error
    return listening


def check_certificate(settings: ServerSettings) -> None:
    """Raises UserError for files that are no certificate with its key."""
    if settings.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror or error
        raise UserError(f"{settings.certificate} cannot be used ({why}): give a certificate and its key in PEM.") from error


def _end(_: int, __: FrameType | None) -> None:
    """The server raises the signal again once it has ended in order: that end is a success."""
    sys.exit(0)


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with time limits for heads and for unread replies, which uvicorn lacks; one for each connection.

    Without them anybody could hold connections open, and unread replies in memory, for ever. `limits` times bodies.
    """

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock."""
        super().connection_made(cast(asyncio.Transport, transport))  # a server's connections go both ways
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Stop the clock while a request is answered; start it with the first byte of the next."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head = _cancelled(self._head)
        else:
            self._await_head()

    def on_response_complete(self) -> None:
        """What came already of the next request is part of its head."""
        self._head = _cancelled(self._head)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start the clock of a reply that waits to be read."""
        super().pause_writing()
        _cancelled(self._unread)
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop it: the client has read on."""
        self._unread = _cancelled(self._unread)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._head, self._unread = _cancelled(self._head), _cancelled(self._unread)
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD_S, self.transport.close)


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
