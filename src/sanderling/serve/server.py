"""A server as a process: one socket, one event loop, an orderly end.

On SIGTERM or Ctrl-C the socket closes, requests in flight finish within the grace, and SIGTERM ends the process with status 0.
To use several cores, start several servers and put a proxy before them: replies do not depend on which one answers.
"""

import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from sanderling.core.errors import UserError
from sanderling.serve.app import create_app
from sanderling.serve.settings import ServerSettings
from sanderling.world.contract import World

_BACKLOG = 1_024
_KEEP_ALIVE_S = 75
"""Above the usual idle time of clients' pools, so that the client closes first and no request meets a closing connection."""


def serve(world: World, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve a world until stopped.

    ``ready`` is called with the base URL once the server listens. Raises UserError when the address cannot be had.
    """
    app = create_app(world, settings)
    with listen(settings) as listening:
        config = uvicorn.Config(
            app,
            http="h11",
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
        try:
            config.load()
        except OSError as error:  # ssl.SSLError is one
            why = error.strerror or error
            raise UserError(f"{settings.certificate} cannot be used ({why}): give a certificate and its key in PEM.") from error
        before = signal.signal(signal.SIGTERM, _end)
        try:
            scheme, host, port = ("https" if config.is_ssl else "http"), settings.host.strip("[]"), listening.getsockname()[1]
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


def _end(_: int, __: FrameType | None) -> None:
    """The server raises the signal again once it has ended in order: that end is a success."""
    sys.exit(0)
