"""The application: a world and settings in, an ASGI application out. Nothing is global; several may live in one process.

Each dialect has its routes under its own name (``/serper/search``) and at the root (``/search``). Where two dialects share a
path at the root, the body says which is meant: Serper's searches have ``q``, LiteResearcher's ``query``. ``/health`` and
``/metrics`` are beside them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import pydantic_core
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from sanderling.serve.world.calls import WorldCalls
from sanderling.serve.world.dialect import Asked, Dialect, DialectRoute
from sanderling.serve.world.limits import HEALTH, Limits
from sanderling.serve.world.metrics import CONTENT_TYPE, Counters
from sanderling.serve.world.refusal import FAILURE, RefusalError, no_route, refuse
from sanderling.serve.world.registry import chosen
from sanderling.serve.world.settings import ServerSettings, check_binding
from sanderling.world.contract import World


def create_app(world: World, settings: ServerSettings | None = None) -> ASGIApp:
    """The application that serves a world. Raises UserError for an unknown dialect, or a binding without its token."""
    settings = settings or ServerSettings()
    check_binding(settings)
    dialects, with_mcp = chosen(settings.dialects)
    counters = Counters()
    calls = WorldCalls(world, settings.threads, counters, settings.pace)
    routes: list[BaseRoute] = _own_routes(world, counters)
    running: list[Callable[[], AbstractAsyncContextManager[None]]] = []
    if with_mcp:
        from sanderling.serve.world.mcp import http_app, mcp_server

        server = mcp_server(calls)
        routes.append(Route("/mcp", _named("/mcp", http_app(server, settings)), methods=["POST"]))
        running.append(lambda: server.session_manager.run())
    routes += _dialect_routes(dialects, calls, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as entered:
            entered.callback(calls.close)
            for start in running:
                await entered.enter_async_context(start())
            yield

    handlers = {RefusalError: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Limits(app, settings, counters)


def _own_routes(world: World, counters: Counters) -> list[BaseRoute]:
    async def health(request: Request) -> Response:
        request.scope["route_name"] = HEALTH
        return JSONResponse({"status": "ok", "world": world.name})

    async def metrics(request: Request) -> Response:
        request.scope["route_name"] = "/metrics"
        return Response(counters.text(), media_type=CONTENT_TYPE)

    return [Route(HEALTH, health, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]


def _dialect_routes(dialects: list[Dialect], calls: WorldCalls, settings: ServerSettings) -> list[BaseRoute]:
    """Every dialect's routes, under its name and at the root; those that match any path come last, longest first."""
    table: dict[tuple[str, str], list[DialectRoute]] = {}
    for dialect in dialects:
        for route in dialect.routes:
            for prefix in ("", f"/{dialect.name}"):
                table.setdefault((f"{prefix}{route.path}", route.method), []).append(route)
    ordered = sorted(table, key=lambda key: (":path" in key[0], -len(key[0])))
    return [
        Route(path, _endpoint(path, table[path, method], calls, settings), methods=[method], name=f"{method} {path}")
        for path, method in ordered
    ]


def _endpoint(
    path: str, routes: list[DialectRoute], calls: WorldCalls, settings: ServerSettings
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request.scope["route_name"] = path
        body = _json(await request.body()) if request.method == "POST" else None
        route = next((route for route in routes if route.claims(body)), None)
        if route is None:
            shapes = " or ".join(route.shape for route in routes)
            raise RefusalError(400, f"The body is of no known shape: send a JSON object with {shapes}.")
        return await route.answer(Asked(calls, settings, request, body))

    return endpoint


def _named(name: str, app: ASGIApp) -> ASGIApp:
    """The application, whose requests are counted under a name."""

    class Named:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            scope["route_name"] = name
            await app(scope, receive, send)

    return Named()


def _json(body: bytes) -> Any:
    """JSON as the standard has it: neither NaN nor half of a surrogate pair."""
    try:
        return pydantic_core.from_json(body, allow_inf_nan=False)
    except ValueError:
        raise RefusalError(400, "The body is not valid JSON: send one JSON object in UTF-8.") from None


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return refuse(error)


async def _failed(_: Request, __: Exception) -> Response:
    return refuse(FAILURE)  # the exception goes on to `limits`, which logs it


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return refuse(RefusalError(405, f"This route does not take {request.method}: see docs/worlds-serving.md."))
    if error.status_code == 404:
        return refuse(no_route(request.method))
    return refuse(RefusalError(error.status_code, "The request cannot be answered: see docs/worlds-serving.md."))
