"""A world, tools and settings in, an ASGI application or a running server out. Nothing is global; several live in one process.

Where two dialects share a path at the root, the body says which is meant: Serper's searches have ``q``, LiteResearcher's
``query``. To use several cores, start several servers and put a proxy before them: replies do not depend on which one answers.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from types import FrameType
from typing import Any

import pydantic_core
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp

from sanderling.core.errors import UserError
from sanderling.serve.calls import FAILURE, Call, RefusalError, Route, WorldCalls, no_route
from sanderling.serve.dialects import choose
from sanderling.serve.limits import HEALTH, Limits, ServerSettings, check_binding
from sanderling.tools.contract import Tool
from sanderling.world.contract import World

_BACKLOG = 1_024
_KEEP_ALIVE_S = 75
"""Above the usual idle time of clients' pools, so that the client closes first and no request meets a closing connection."""


def create_app(world: World | None, settings: ServerSettings | None = None, tools: Sequence[Tool] = ()) -> ASGIApp:
    """The application that serves a world and tools. Raises UserError for an unknown dialect, or a binding without token."""
    settings = settings or ServerSettings()
    check_binding(settings)
    dialects, with_mcp = choose(settings.dialects)
    calls = None if world is None else WorldCalls(world, settings.threads)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "world": "" if world is None else world.name})

    routes: list[BaseRoute] = [Endpoint(HEALTH, health, methods=["GET"])]
    mcp = None
    if with_mcp:
        from sanderling.serve.mcp import McpApp, mcp_server

        mcp = McpApp(mcp_server(calls, tools), settings)
        routes.append(Endpoint("/mcp", mcp, methods=["POST"]))
    if calls is not None:
        routes += _dialect_routes(dialects, calls, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with mcp.running() if mcp else nullcontext():
                yield
        finally:
            if calls is not None:
                calls.close()

    handlers = {RefusalError: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Limits(app, settings)


def _dialect_routes(dialects: Mapping[str, tuple[Route, ...]], calls: WorldCalls, settings: ServerSettings) -> list[BaseRoute]:
    """Every dialect's routes, under its name and at the root; those that match any path come last, longest first."""
    table: dict[tuple[str, str], list[Route]] = {}
    for name, routes in dialects.items():
        for route in routes:
            for prefix in ("", f"/{name}"):
                table.setdefault((f"{prefix}{route.path}", route.method), []).append(route)
    ordered = sorted(table, key=lambda key: (":path" in key[0], -len(key[0])))
    return [
        Endpoint(path, _endpoint(table[path, method], calls, settings), methods=[method], name=f"{method} {path}")
        for path, method in ordered
    ]


def _endpoint(routes: list[Route], calls: WorldCalls, settings: ServerSettings) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = _json(await request.body()) if request.method == "POST" else None
        route = next((route for route in routes if route.claims(body)), None)
        if route is None:
            shapes = " or ".join(route.shape for route in routes)
            raise RefusalError(400, f"The body is of no known shape: send a JSON object with {shapes}.")
        reply = await route.answer(Call(calls, settings.page_words, request, body))
        return reply if isinstance(reply, Response) else JSONResponse(reply)

    return endpoint


def _json(body: bytes) -> Any:
    """JSON as the standard has it: neither NaN nor half of a surrogate pair."""
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError:
        raise RefusalError(400, "The body is not valid JSON: send one JSON object in UTF-8.") from None


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return error.response()


async def _failed(_: Request, __: Exception) -> Response:
    return FAILURE.response()  # the exception goes on to `limits`, which logs it


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return no_route(request.method).response()
    sentence = f"This route does not take {request.method}" if error.status_code == 405 else "The request cannot be answered"
    return RefusalError(error.status_code, f"{sentence}: see docs/serving.md.").response()


def serve(world: World, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve a world until stopped; see `serving`. Raises UserError."""
    asyncio.run(serving(create_app(world, settings), settings, ready))


async def serving(app: ASGIApp, settings: ServerSettings, ready: Callable[[str], None]) -> None:
    """Serve an application until stopped; ``ready`` is called with the base URL once the server listens.

    On SIGTERM or Ctrl-C the socket closes, requests in flight finish within the grace, and SIGTERM ends the process with
    status 0. Raises UserError when the address cannot be had.
    """
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
            await uvicorn.Server(config).serve(sockets=[listening])
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
