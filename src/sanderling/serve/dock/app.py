"""A dock behind one address: MCP, AgentDock's routes, metrics, a page, and what that page's buttons do.

Over MCP a tool is called ``pool.tool``. A call that came to no result is an error that says so: in MCP a tool error, with a
status for clients of ours, on the plain routes an HTTP status. Tools' own errors are results, which the model reads.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
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
from sanderling.serve.app import serve_app
from sanderling.serve.calls import RefusalError
from sanderling.serve.dock.config import DockConfig
from sanderling.serve.dock.dock import Client, Dock, NoSuchToolError
from sanderling.serve.dock.pool import DockError, Trouble
from sanderling.serve.limits import HEALTH, WRONG_TOKEN, Limits, ServerSettings, is_loopback, presents
from sanderling.serve.mcp import McpApp
from sanderling.tools.contract import ToolResult
from sanderling.tools.mcp.client import CallRefusedError
from sanderling.tools.mcp.wire import sent_result

SESSION = "x-session"
"""The header by which clients of the plain routes may name a session."""
_HTTP = {Trouble.BUSY: 429, Trouble.TIMEOUT: 504}
_CLIENT = "sanderling.client"  # where a request's scope has who asks
_MOST_UNTOLD = 100  # of what a long call says, on the way to its client
_ACTIONS = ("start", "drain", "kill")


def dock_app(dock: Dock, settings: ServerSettings) -> ASGIApp:
    """The application of a dock, which opens and closes with it; ``settings``: where it listens, and what it takes at most."""
    mcp = McpApp(_mcp(dock), settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with dock, mcp.running():
            yield

    routes = [
        Route(HEALTH, _health),
        Route("/mcp", mcp, methods=["POST"]),
        Route("/mcpapi/servers", _servers(dock)),
        Route("/mcpapi/tools", _tools(dock)),
        Route("/list_tools", _tools(dock, bare=True)),
        Route("/mcpapi/server/{pool}/tools", _server_tools(dock)),
        Route("/mcpapi/tool/{name:path}", _call(dock), methods=["POST"]),
        Route("/call_tool", _call_as_message(dock), methods=["POST"]),
        Route("/metrics", _metrics(dock)),
        Route("/", _page(dock)),
        Route("/dock/state", _state(dock)),
        Route("/dock/{pool}/{action}", _act(dock), methods=["POST"]),
        Route("/dock/{pool}/{number:int}/{action}", _act(dock), methods=["POST"]),
    ]
    handlers = {RefusalError: _refused, DockError: _troubled, NoSuchToolError: _unknown, CallRefusedError: _not_taken}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
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
        raise RefusalError(403, f"The token {client.name!r} is not an administrator's.")
    return client


# -- MCP -------------------------------------------------------------------------------------------------------------------


def _mcp(dock: Dock) -> Server[Any]:
    async def listed(context: Any, _: Any) -> types.ListToolsResult:
        found = await dock.tools(_client(context.request))
        return types.ListToolsResult(
            tools=[tool.model_copy(update={"name": f"{pool.name}.{tool.name}"}) for pool, tool in found]
        )

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


# -- AgentDock's routes ----------------------------------------------------------------------------------------------------


def _function(name: str, tool: types.Tool) -> dict[str, Any]:
    about = {"name": name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": about}


def _servers(dock: Dock) -> Any:
    async def servers(request: Request) -> Response:
        client = _client(request)
        return JSONResponse({"servers": [name for name in dock.pools if client.may(name)]})

    return servers


def _tools(dock: Dock, *, bare: bool = False) -> Any:
    async def tools(request: Request) -> Response:
        found = [_function(f"{pool.name}.{tool.name}", tool) for pool, tool in await dock.tools(_client(request))]
        return JSONResponse(found if bare else {"tools": found})

    return tools


def _server_tools(dock: Dock) -> Any:
    async def tools(request: Request) -> Response:
        name, client = request.path_params["pool"], _client(request)
        if name not in dock.pools or not client.may(name):
            raise NoSuchToolError(f"There is no pool {name!r} here: /mcpapi/servers lists them.")
        found = [_function(tool.name, tool) for tool in (await dock.pools[name].listed()).values()]
        return JSONResponse({"server": name, "tools": found})

    return tools


async def _object(request: Request) -> dict[str, Any]:
    """The request's JSON object. Raises RefusalError."""
    with suppress(ValueError, RecursionError):
        if isinstance(found := json.loads(await request.body() or b"{}"), dict):
            return found
    raise RefusalError(400, "The body is no JSON object: send the tool's arguments as one.")


async def _content(dock: Dock, request: Request, name: str, arguments: dict[str, Any]) -> tuple[Any, bool]:
    """What a call gave, as AgentDock has it: one text alone, or a list of parts; and whether the tool calls it an error."""
    result = await dock.call(name, arguments, {}, _client(request), session=request.headers.get(SESSION, ""))
    parts = [_part(block) for block in result.content]
    alone = len(parts) == 1 and parts[0]["type"] == "text"
    return parts[0]["text"] if alone else parts, result.is_error


def _call(dock: Dock) -> Any:
    async def call(request: Request) -> Response:
        content, wrong = await _content(dock, request, request.path_params["name"], await _object(request))
        return JSONResponse({"content": content, **({"is_error": True} if wrong else {})})

    return call


def _call_as_message(dock: Dock) -> Any:
    """A chat model's tool call in, the message that answers it out."""

    async def call(request: Request) -> Response:
        asked = await _object(request)
        try:
            name, arguments = asked["function"]["name"], json.loads(asked["function"].get("arguments") or "{}")
            if not isinstance(arguments, dict):
                raise TypeError
        except (KeyError, TypeError, ValueError, RecursionError):
            shape = '{"id": …, "function": {"name": …, "arguments": "{…}"}}'
            raise RefusalError(400, f"The body is no tool call: send {shape}.") from None
        content, _ = await _content(dock, request, str(name), arguments)
        return JSONResponse({"role": "tool", "tool_call_id": asked.get("id"), "content": content})

    return call


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


# -- the page, and what it does --------------------------------------------------------------------------------------------


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _metrics(dock: Dock) -> Any:
    async def metrics(request: Request) -> Response:
        _client(request, admin=True)
        return Response(dock.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return metrics


def _page(dock: Dock) -> Any:
    async def page(request: Request) -> Response:
        _client(request, admin=True)
        page = render("dock.html", title="Dock", script="dock.js", state=dock.state())
        return HTMLResponse(page, headers={"X-Frame-Options": "DENY"})  # nobody presses its buttons unseen

    return page


def _state(dock: Dock) -> Any:
    async def state(request: Request) -> Response:
        _client(request, admin=True)
        return JSONResponse(dock.state())

    return state


def _act(dock: Dock) -> Any:
    """Start, drain or kill a pool, or one of its replicas."""

    async def act(request: Request) -> Response:
        client = _client(request, admin=True)
        pool, action = dock.pools.get(request.path_params["pool"]), request.path_params["action"]
        number = request.path_params.get("number")
        if pool is None or action not in _ACTIONS or (number is not None and number >= len(pool.replicas)):
            raise RefusalError(404, f"There is no such pool, replica or action: {', '.join(_ACTIONS)}.")
        dock.write({"client": client.name, "pool": pool.name, "replica": number, "action": action})
        if action == "start":
            pool.start(number)
        elif action == "drain":
            await pool.stop(dock.config.grace_s, number)
        else:
            await pool.kill(number)
        return JSONResponse({"done": action})

    return act


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return error.response()


async def _troubled(_: Request, error: Exception) -> Response:
    assert isinstance(error, DockError)
    return _error(_HTTP.get(error.trouble, 503), str(error), {"kind": error.trouble.value})


async def _unknown(_: Request, error: Exception) -> Response:
    return _error(404, str(error))


async def _not_taken(_: Request, error: Exception) -> Response:
    return _error(422, str(error))


def _error(status: int, sentence: str, more: Mapping[str, Any] | None = None) -> Response:
    """An error as one: AgentDock sends these with status 200."""
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return JSONResponse({"status_code": status, "detail": sentence, **(more or {})}, status_code=status, headers=headers)


def run_dock(config: DockConfig, ready: Callable[[str], None]) -> None:
    """Run a dock until it is stopped (SIGTERM, Ctrl-C); ``ready`` has its address once it listens. Raises UserError."""
    slowest = max(pool.start_s + pool.wait_s + pool.call_s for pool in config.pools.values()) if config.pools else 1.0
    settings = ServerSettings(
        host=config.host,
        port=config.port,
        max_body_bytes=config.max_body_mb << 20,
        max_concurrent=config.max_concurrent,
        timeout_s=slowest + 30.0,
        grace_s=round(config.grace_s),
    )
    if not is_loopback(config.host) and not config.tokens:
        raise UserError(
            f"Listening on {config.host} lets other machines in: give [tokens.NAME] with its token, or use 127.0.0.1."
        )
    dock = Dock(config)
    with locked(config.state):
        serve_app(dock_app(dock, settings), settings, ready)
