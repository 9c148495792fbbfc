"""A dock behind one address: MCP, AgentDock's routes, metrics, a page, and what that page's buttons do.

Over MCP a tool is called ``pool.tool``. A call that came to no result is an error that says so: in MCP a tool error, with a
status for clients of ours, on the plain routes an HTTP status. Tools' own errors are results, which the model reads.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

import sanderling
from sanderling.core.errors import UserError
from sanderling.core.types import ToolStatus
from sanderling.report.page import render
from sanderling.runs.files import locked
from sanderling.serve.app import serving
from sanderling.serve.calls import RefusalError
from sanderling.serve.dock.config import DockConfig
from sanderling.serve.dock.dock import Client, Dock, NoSuchToolError
from sanderling.serve.dock.pool import DockError, Trouble
from sanderling.serve.limits import HEALTH, WRONG_TOKEN, Limits, ServerSettings, presents
from sanderling.serve.mcp import McpApp
from sanderling.tools.contract import ToolResult
from sanderling.tools.mcp.client import CallRefusedError
from sanderling.tools.mcp.wire import DOWN, sent_result
from sanderling.world.addresses import is_loopback

SESSION = "x-session"
"""The header by which clients of the plain routes may name a session."""
_HTTP = {Trouble.BUSY: 429, Trouble.TIMEOUT: 504}
_CLIENT = "sanderling.client"  # where a request's scope has who asks
_MOST_UNTOLD = 100  # of what a long call says, on the way to its client
_LISTS = 100  # requests at a time that are no calls
_ACTIONS = ("start", "drain", "kill")
_ERRORS = (RefusalError, DockError, NoSuchToolError, CallRefusedError)  # that the plain routes answer with


def dock_app(dock: Dock, settings: ServerSettings) -> ASGIApp:
    """The application of a dock, which opens and closes with it; ``settings``: where it listens, and what it takes at most."""
    mcp = McpApp(_mcp(dock), settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with dock, mcp.running():
            yield

    its = _Routes(dock)
    routes = [
        Route(HEALTH, its.health),
        Route("/mcp", mcp, methods=["POST"]),
        Route("/mcpapi/servers", its.servers),
        Route("/mcpapi/tools", its.tools),
        Route("/list_tools", its.bare_tools),
        Route("/mcpapi/server/{pool}/tools", its.server_tools),
        Route("/mcpapi/tool/{name:path}", its.call, methods=["POST"]),
        Route("/call_tool", its.call_as_message, methods=["POST"]),
        Route("/metrics", its.metrics),
        Route("/", its.page),
        Route("/dock/state", its.state),
        Route("/dock/{pool}/{action}", its.act, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=dict.fromkeys(_ERRORS, _told))
    app.router.redirect_slashes = False
    return _Gate(app, settings, dock)


class _Gate(Limits):
    """As before every server of ours, with a token for each client."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, dock: Dock) -> None:
        super().__init__(app, settings)
        self._clients = dock.clients

    def check_client(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")  # which browsers send, with a password of their own accord
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise RefusalError(403, "Of pages in a browser only the dock's own may ask it for something.")
        if not self._clients:
            super().check_client(scope)
            scope[_CLIENT] = Client()
            return
        found = next((client for token, client in self._clients.items() if presents(headers, token)), None)
        if found is None:
            raise WRONG_TOKEN
        scope[_CLIENT] = found


def _client(request: Request, *, admin: bool = False) -> Client:
    """Who asks. Raises RefusalError (403) where only an administrator may."""
    client: Client = request.scope[_CLIENT]
    if admin and not client.admin:
        raise RefusalError(403, f"The token {client.name!r} is not an administrator's: give it admin = true.")
    return client


# -- MCP -------------------------------------------------------------------------------------------------------------------


def _mcp(dock: Dock) -> Server[Any]:
    async def listed(context: Any, _: Any) -> types.ListToolsResult:
        found, down = await dock.tools(_client(context.request))
        tools = [tool.model_copy(update={"name": f"{pool.name}.{tool.name}"}) for pool, tool in found]
        return types.ListToolsResult(tools=tools, _meta={DOWN: down} if down else None)

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        progress, telling = None, 0
        if "progress_token" in (params.meta or {}):

            async def told(done: float, total: float | None, message: str | None) -> None:
                nonlocal telling
                if telling < _MOST_UNTOLD:  # a reader that does not read misses the rest
                    telling += 1
                    await context.session.report_progress(done, total, message)
                    telling -= 1

            progress = told
        client, session = _client(context.request), context.request.headers.get(SESSION, "")
        meta = {key: value for key, value in (params.meta or {}).items() if key.startswith("sanderling/")}
        try:
            return await dock.call(params.name, params.arguments or {}, meta, client, session=session, progress=progress)
        except (NoSuchToolError, CallRefusedError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except DockError as error:
            status = ToolStatus.TIMEOUT if error.trouble is Trouble.TIMEOUT else ToolStatus.OUTAGE
            return sent_result(ToolResult(str(error), status)).model_copy(update={"is_error": True})

    about = {"version": sanderling.__version__, "get_tool_input_schema": lambda name: None}
    return Server("sanderling-dock", on_list_tools=listed, on_call_tool=called, **about)


# -- the other routes ------------------------------------------------------------------------------------------------------


class _Routes:
    """AgentDock's, the page, and what it does."""

    def __init__(self, dock: Dock) -> None:
        self._dock = dock

    async def servers(self, request: Request) -> Response:
        client = _client(request)
        return JSONResponse({"servers": [name for name in self._dock.pools if client.may(name)]})

    async def tools(self, request: Request) -> Response:
        return JSONResponse({"tools": await self._listed(request)})

    async def bare_tools(self, request: Request) -> Response:
        return JSONResponse(await self._listed(request))

    async def _listed(self, request: Request) -> list[dict[str, Any]]:
        return [_function(f"{pool.name}.{tool.name}", tool) for pool, tool in (await self._dock.tools(_client(request)))[0]]

    async def server_tools(self, request: Request) -> Response:
        name, client = request.path_params["pool"], _client(request)
        if name not in self._dock.pools or not client.may(name):
            raise NoSuchToolError(f"There is no pool {name!r} here: /mcpapi/servers lists them.")
        found = [_function(tool.name, tool) for tool in (await self._dock.pools[name].listed()).values()]
        return JSONResponse({"server": name, "tools": found})

    async def call(self, request: Request) -> Response:
        content, wrong = await self._content(request, request.path_params["name"], await _object(request))
        return JSONResponse({"content": content, **({"is_error": True} if wrong else {})})

    async def call_as_message(self, request: Request) -> Response:
        """A chat model's tool call in, the message that answers it out."""
        asked = await _object(request)
        try:
            name, arguments = asked["function"]["name"], json.loads(asked["function"].get("arguments") or "{}")
            if not isinstance(arguments, dict):
                raise TypeError
        except (KeyError, TypeError, ValueError, RecursionError):
            shape = '{"id": …, "function": {"name": …, "arguments": "{…}"}}'
            raise RefusalError(400, f"The body is no tool call: send {shape}.") from None
        content, _ = await self._content(request, str(name), arguments)
        return JSONResponse({"role": "tool", "tool_call_id": asked.get("id"), "content": content})

    async def _content(self, request: Request, name: str, arguments: dict[str, Any]) -> tuple[Any, bool]:
        """What a call gave, as AgentDock has it: one text alone, or a list of parts; and whether the tool calls it an error."""
        result = await self._dock.call(name, arguments, {}, _client(request), session=request.headers.get(SESSION, ""))
        parts = [_part(block) for block in result.content]
        alone = len(parts) == 1 and parts[0]["type"] == "text"
        return parts[0]["text"] if alone else parts, result.is_error

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        _client(request, admin=True)
        return Response(self._dock.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def page(self, request: Request) -> Response:
        _client(request, admin=True)
        page = render("dock.html", title="Dock", script="dock.js", state=self._dock.state())
        return HTMLResponse(page, headers={"X-Frame-Options": "DENY"})  # nobody presses its buttons unseen

    async def state(self, request: Request) -> Response:
        _client(request, admin=True)
        return JSONResponse(self._dock.state())

    async def act(self, request: Request) -> Response:
        """Start, drain or kill a pool."""
        client = _client(request, admin=True)
        pool, action = self._dock.pools.get(request.path_params["pool"]), request.path_params["action"]
        if pool is None or action not in _ACTIONS:
            raise RefusalError(404, f"There is no such pool or action: {', '.join(_ACTIONS)}.")
        self._dock.write({"client": client.name, "pool": pool.name, "action": action})
        if action == "start":
            pool.start()
        elif action == "drain":
            await pool.stop(self._dock.config.grace_s)
        else:
            await pool.kill()
        return JSONResponse({"done": action})


def _function(name: str, tool: types.Tool) -> dict[str, Any]:
    about = {"name": name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": about}


async def _object(request: Request) -> dict[str, Any]:
    """The request's JSON object. Raises RefusalError."""
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(await request.body() or b"{}"), dict):
            return found
    raise RefusalError(400, "The body is no JSON object: send the tool's arguments as one.")


def _part(block: types.ContentBlock) -> dict[str, Any]:
    """A block of a result as AgentDock gives it: text that is JSON is given as what it says."""
    if isinstance(block, types.TextContent):
        try:
            return {"type": "text", "text": json.loads(block.text)}
        except (ValueError, RecursionError):
            return {"type": "text", "text": block.text}
    if isinstance(block, types.ImageContent):
        return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


async def _told(_: Request, error: Exception) -> Response:
    """An error as one: AgentDock sends these with status 200."""
    if isinstance(error, RefusalError):
        return error.response()
    kind = error.trouble if isinstance(error, DockError) else None
    status = 404 if isinstance(error, NoSuchToolError) else 422 if kind is None else _HTTP.get(kind, 503)
    said = {"status_code": status, "detail": str(error), **({} if kind is None else {"kind": kind.value})}
    return JSONResponse(said, status_code=status, headers={"Retry-After": "1"} if status in (429, 503) else None)


def run_dock(config: DockConfig, ready: Callable[[str], None]) -> None:
    """Run a dock until it is stopped (SIGTERM, Ctrl-C); ``ready`` has its address once it listens. Raises UserError."""
    slowest = max((pool.start_s + pool.wait_s + pool.call_s for pool in config.pools.values()), default=0.0)
    calls = sum(pool.waiting + pool.replicas * pool.at_once for pool in config.pools.values())
    settings = ServerSettings(
        host=config.host,
        port=config.port,
        max_body_bytes=config.max_body_mb << 20,
        max_concurrent=calls + _LISTS,
        timeout_s=slowest + 30.0,
        grace_s=round(config.grace_s),
    )
    if not is_loopback(config.host) and not config.tokens:
        raise UserError(
            f"Listening on {config.host} lets other machines in: give [tokens.NAME] with its token, or use 127.0.0.1."
        )
    dock = Dock(config)
    with locked(config.state, otherwise="choose another directory with --set state=DIRECTORY"):
        asyncio.run(serving(dock_app(dock, settings), settings, ready))
