"""The application: a world and settings in, an ASGI application out. Nothing is global; several may live in one process.

Where two dialects share a path at the root, the body says which is meant: Serper's searches have ``q``, LiteResearcher's
``query``. ``/health`` and ``/metrics`` stand beside them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pydantic_core
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Endpoint
from starlette.types import ASGIApp, Receive, Scope, Send

from sanderling.serve.calls import FAILURE, Counters, RefusalError, WorldCalls
from sanderling.serve.dialects import choose
from sanderling.serve.limits import HEALTH, Limits
from sanderling.serve.routes import Call, Route, no_route
from sanderling.serve.settings import ServerSettings, check_binding
from sanderling.world.contract import World

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def create_app(world: World, settings: ServerSettings | None = None) -> ASGIApp:
    """The application that serves a world. Raises UserError for an unknown dialect, or a binding without its token."""
    settings = settings or ServerSettings()
    check_binding(settings)
    dialects, with_mcp = choose(settings.dialects)
    counters = Counters()
    calls = WorldCalls(world, settings.threads, counters)
    routes = [
        _get(HEALTH, lambda: JSONResponse({"status": "ok", "world": world.name})),
        _get("/metrics", lambda: Response(counters.text(), media_type=_PROMETHEUS)),
    ]
    mcp = None
    if with_mcp:
        from sanderling.serve.mcp import http_app, mcp_server

        mcp = mcp_server(calls)
        routes.append(Endpoint("/mcp", _Named("/mcp", http_app(mcp, settings)), methods=["POST"]))
    routes += _dialect_routes(dialects, calls, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with mcp.session_manager.run() if mcp else nullcontext():
                yield
        finally:
            calls.close()

    handlers = {RefusalError: _refused, HTTPException: _http_error, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Limits(app, settings, counters)


def _get(path: str, answer: Callable[[], Response]) -> BaseRoute:
    async def endpoint(request: Request) -> Response:
        request.scope["route_name"] = path
        return answer()

    return Endpoint(path, endpoint, methods=["GET"])


def _dialect_routes(dialects: Mapping[str, tuple[Route, ...]], calls: WorldCalls, settings: ServerSettings) -> list[BaseRoute]:
    """Every dialect's routes, under its name and at the root; those that match any path come last, longest first."""
    table: dict[tuple[str, str], list[Route]] = {}
    for name, routes in dialects.items():
        for route in routes:
            for prefix in ("", f"/{name}"):
                table.setdefault((f"{prefix}{route.path}", route.method), []).append(route)
    ordered = sorted(table, key=lambda key: (":path" in key[0], -len(key[0])))
    return [
        Endpoint(path, _endpoint(path, table[path, method], calls, settings), methods=[method], name=f"{method} {path}")
        for path, method in ordered
    ]


def _endpoint(
    path: str, routes: list[Route], calls: WorldCalls, settings: ServerSettings
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request.scope["route_name"] = path
        body = _json(await request.body()) if request.method == "POST" else None
        route = next((route for route in routes if route.claims(body)), None)
        if route is None:
            shapes = " or ".join(route.shape for route in routes)
            raise RefusalError(400, f"The body is of no known shape: send a JSON object with {shapes}.")
        reply = await route.answer(Call(calls, settings, request, body))
        return reply if isinstance(reply, Response) else JSONResponse(reply)

    return endpoint


class _Named:
    """An application whose requests are counted under a name."""

    def __init__(self, name: str, app: ASGIApp) -> None:
        self._name = name
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route_name"] = self._name
        await self._app(scope, receive, send)


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
    return RefusalError(error.status_code, f"{sentence}: see docs/worlds-serving.md.").response()
