"""MCP: a world's ``search`` and ``visit``, and any tool of an agent's, for any MCP client, over streamable HTTP and over stdio.

Over HTTP every request stands alone (no sessions), so a server may be restarted under its clients. Arguments that break a limit
and a world that cannot be read are tool errors in one sentence; a missing page is an ordinary answer. Clients of ours get more
than text: see `tools.mcp.wire`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

import sanderling
from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.calls import RefusalError, WorldCalls, failure, parse
from sanderling.serve.dialects import SearchBody, VisitBody
from sanderling.serve.limits import ServerSettings
from sanderling.tools.contract import Tool, ToolOutageError, ToolResult, keeper_of
from sanderling.tools.mcp.wire import (
    LEAVE,
    SEARCHED,
    VISITED,
    WORLD,
    About,
    read_context,
    read_occasion,
    sent_result,
)
from sanderling.tools.world_tools import parts_note, visit_miss
from sanderling.world.contract import SearchReply, VisitReply, World

_SEARCH = "Search the web. Several queries may be given at once; each returns ranked results with title, address and snippet."
_VISIT = "Read web pages. Returns the passages of each page that serve the goal; without a goal, the page from its top. "
_VISIT += "An address that ends in #page=2 gives the second part of a long page as it stands, and so on."
_SEVERAL = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_SEARCH_SCHEMA = {
    "type": "object",
    "properties": {"queries": _SEVERAL, "limit": {"type": "integer", "default": 10}},
    "required": ["queries"],
}
_VISIT_SCHEMA = {
    "type": "object",
    "properties": {"urls": _SEVERAL, "goal": {"type": "string"}, "max_words": {"type": "integer", "default": 2_000}},
    "required": ["urls"],
}
_READS = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class Served(Protocol):
    """A tool as the server has it."""

    definition: types.Tool

    async def call(self, arguments: dict[str, Any], meta: Mapping[str, Any]) -> types.CallToolResult: ...


class _Search:
    def __init__(self, calls: WorldCalls) -> None:
        self._calls, self.definition = calls, _world_tool(calls.world, "search", _SEARCH, _SEARCH_SCHEMA)

    async def call(self, arguments: dict[str, Any], meta: Mapping[str, Any]) -> types.CallToolResult:
        body = parse(SearchBody, arguments)
        words = _words(meta, body.snippet_words)
        asked = {"limit": body.limit, "snippet_words": words, "occasion": read_occasion(meta)}
        replies = await self._calls.search(body.queries, **asked)
        if WORLD in meta:
            return types.CallToolResult(content=[], _meta={WORLD: SEARCHED.dump_python(tuple(replies), mode="json")})
        return _said("\n\n".join(_results(reply) for reply in replies))


class _Visit:
    def __init__(self, calls: WorldCalls) -> None:
        self._calls, self.definition = calls, _world_tool(calls.world, "visit", _VISIT, _VISIT_SCHEMA)

    async def call(self, arguments: dict[str, Any], meta: Mapping[str, Any]) -> types.CallToolResult:
        body = parse(VisitBody, arguments)
        replies = await self._calls.visit(
            body.urls, body.goal, max_words=_words(meta, body.max_words), occasion=read_occasion(meta)
        )
        if WORLD in meta:
            return types.CallToolResult(content=[], _meta={WORLD: VISITED.dump_python(tuple(replies), mode="json")})
        return _said("\n\n".join(_page(reply) for reply in replies))


class _Own:
    """A tool of an agent's."""

    def __init__(self, tool: Tool) -> None:
        self._tool, spec = tool, tool.spec
        meta = About(keeps=keeper_of(tool) is not None).as_meta()
        self.definition = types.Tool(name=spec.name, description=spec.description, input_schema=spec.parameters, _meta=meta)

    async def call(self, arguments: dict[str, Any], meta: Mapping[str, Any]) -> types.CallToolResult:
        if LEAVE in meta:
            if (keeper := keeper_of(self._tool)) is not None:
                await keeper.leave(str(meta[LEAVE]))
            return _said("")
        try:
            return sent_result(await self._tool(arguments, read_context(meta)))
        except ToolOutageError as error:
            return sent_result(ToolResult(str(error), ToolStatus.OUTAGE))


def mcp_server(calls: WorldCalls | None, tools: Sequence[Tool] = ()) -> Server[Any]:
    """The MCP server of a world, of tools, or of both, for either transport."""
    served: list[Served] = [] if calls is None else [_Search(calls), _Visit(calls)]
    served += map(_Own, tools)
    by_name = {one.definition.name: one for one in served}

    async def listed(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[one.definition for one in served])

    async def called(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        one = by_name.get(params.name)
        if one is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}: choose of {', '.join(by_name)}.")
        try:
            return await one.call(dict(params.arguments or {}), params.meta or {})
        except RefusalError as error:
            error.log()  # what would be a 503 elsewhere
            return types.CallToolResult(content=[types.TextContent(text=error.sentence)], is_error=True)

    def schema(name: str) -> Mapping[str, Any] | None:
        return by_name[name].definition.input_schema if name in by_name else None

    about = {"version": sanderling.__version__, "get_tool_input_schema": schema}
    return Server("sanderling", on_list_tools=listed, on_call_tool=called, **about)


def http_app(server: Server[Any], settings: ServerSettings) -> Starlette:
    """The streamable HTTP transport at ``/mcp``; hosts and tokens are checked before it, by `limits`."""
    return server.streamable_http_app(
        streamable_http_path="/mcp",
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def serve_stdio(world: World | None, threads: int, tools: Sequence[Tool] = ()) -> None:
    """Serve one MCP client over standard input and output, until it closes them."""
    calls = None if world is None else WorldCalls(world, threads)
    server = mcp_server(calls, tools)

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    try:
        anyio.run(run)
    finally:
        if calls is not None:
            calls.close()


def _world_tool(world: World, part: str, description: str, schema: dict[str, Any]) -> types.Tool:
    about = About(
        world=world.name, fingerprint=world.fingerprint, page_count=world.page_count, offline=world.offline, part=part
    )
    return types.Tool(name=part, description=description, input_schema=schema, annotations=_READS, _meta=about.as_meta())


def _words(meta: Mapping[str, Any], otherwise: int) -> int:
    """How many words of a reply a client of ours wants: it holds to limits of its own."""
    words = (meta.get(WORLD) or {}).get("words")
    return words if isinstance(words, int) and words > 0 else otherwise


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def _results(reply: SearchReply) -> str:
    failed = failure(reply.status)
    if failed or not reply.hits:
        return f"Results for {reply.query!r}: {failed or 'nothing was found.'}"
    entries = (
        f"{number}. {' '.join(hit.title.split())}\n{hit.url}\n{f'{hit.date}: ' if hit.date else ''}{hit.snippet}"
        for number, hit in enumerate(reply.hits, start=1)
    )
    return f"Results for {reply.query!r}:\n\n" + "\n\n".join(entries)


def _page(reply: VisitReply) -> str:
    if reply.status is not ToolStatus.OK:
        return f"{reply.url}: {visit_miss(reply, ResultLayout.MARKDOWN)}"
    note = parts_note(reply)
    return f"# {' '.join(reply.title.split())}\n{reply.url}\n\n{reply.text}" + (f"\n\n{note}" if note else "")
