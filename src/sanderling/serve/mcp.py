"""MCP: a world's ``search`` and ``visit``, and any tool of an agent's, for any MCP client, over streamable HTTP and over stdio.

Over HTTP every request stands alone (no sessions), so a server may be restarted under its clients. Arguments that break a limit
and a world that cannot be read are tool errors in one sentence; a missing page is an ordinary answer. A long call says
from time to time that it goes on, and ends with its client. Clients of ours get more than text: see `tools.mcp.wire`.
"""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

import sanderling
from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.calls import RefusalError, WorldCalls, failure, parse
from sanderling.serve.dialects import SearchBody, VisitBody
from sanderling.serve.limits import BODY, ServerSettings
from sanderling.tools.contract import Tool, ToolOutageError, ToolResult, keeper_of
from sanderling.tools.mcp.wire import (
    KEPT,
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
_HEARTBEAT_S, _LONGEST_WORDS = 5.0, 300
Tell = Callable[[str], None]
"""Called with what a tool says of a long call."""
Served = tuple[types.Tool, Callable[[dict[str, Any], Mapping[str, Any], Tell], Awaitable[types.CallToolResult]]]
"""A tool as clients see it, and what a call of it does."""
_log = logging.getLogger(__name__)


def _of_world(calls: WorldCalls) -> list[Served]:
    """A world's search and visit: its replies whole for clients of ours, text for all others."""

    async def search(arguments: dict[str, Any], meta: Mapping[str, Any], tell: Tell) -> types.CallToolResult:
        body = parse(SearchBody, arguments)
        limit, words = _wanted(meta, "limit", body.limit), _wanted(meta, "words", body.snippet_words)
        asked = {"limit": limit, "snippet_words": words, "occasion": read_occasion(meta)}
        replies = await calls.search(body.queries, **asked)
        if WORLD in meta:
            return types.CallToolResult(content=[], _meta={WORLD: SEARCHED.dump_python(tuple(replies), mode="json")})
        return _said("\n\n".join(map(_results, replies)))

    async def visit(arguments: dict[str, Any], meta: Mapping[str, Any], tell: Tell) -> types.CallToolResult:
        body = parse(VisitBody, arguments)
        asked = {"max_words": _wanted(meta, "words", body.max_words), "occasion": read_occasion(meta)}
        replies = await calls.visit(body.urls, body.goal, **asked)
        if WORLD in meta:
            return types.CallToolResult(content=[], _meta={WORLD: VISITED.dump_python(tuple(replies), mode="json")})
        return _said("\n\n".join(map(_page, replies)))

    of_world = partial(_world_tool, calls.world)
    return [(of_world("search", _SEARCH, _SEARCH_SCHEMA), search), (of_world("visit", _VISIT, _VISIT_SCHEMA), visit)]


def _of_agent(tool: Tool, sessions: "_Sessions") -> Served:
    """A tool of an agent's."""
    spec, keeps = tool.spec, keeper_of(tool) is not None

    async def call(arguments: dict[str, Any], meta: Mapping[str, Any], tell: Tell) -> types.CallToolResult:
        if LEAVE in meta:
            await sessions.leave(str(meta[LEAVE]))
            return _said("")
        context = replace(read_context(meta), tell=tell)
        with sessions.used(context.session) as since:
            try:
                return sent_result(await tool(arguments, context), **({KEPT: since} if keeps else {}))
            except ToolOutageError as error:
                why = str(error)
            except Exception as error:
                _log.exception("the tool %s failed", spec.name)
                why = f"{spec.name} failed in its server ({type(error).__name__}: {error})."
        return sent_result(ToolResult(why, ToolStatus.OUTAGE))

    about = {"description": spec.description, "input_schema": spec.parameters, "_meta": About(keeps=keeps).as_meta()}
    return types.Tool(name=spec.name, **about), call


class _Sessions:
    """What tools keep for sessions goes once nothing was called for one in so many seconds: its client may have vanished."""

    def __init__(self, tools: Sequence[Tool], keep_s: float) -> None:
        keepers = [one for one in map(keeper_of, tools) if one is not None]
        self._keepers, self._keep_s = {id(one): one for one in keepers}.values(), keep_s  # several tools may have one
        self._running, self._idle = Counter[str](), dict[str, asyncio.TimerHandle]()
        self._since = dict[str, str]()  # by session
        self._leaving = set[asyncio.Task[None]]()

    @contextmanager
    def used(self, session: str) -> Iterator[str]:
        """Since when something is kept for it, as a word that no other session and no other start of this server has."""
        if not self._keepers:
            yield ""
            return
        if (timer := self._idle.pop(session, None)) is not None:
            timer.cancel()
        self._running[session] += 1
        try:
            yield self._since.setdefault(session, uuid.uuid4().hex)
        finally:
            self._running[session] -= 1
            if not self._running[session]:
                del self._running[session]
                self._idle[session] = asyncio.get_running_loop().call_later(self._keep_s, self._forget, session)

    def _forget(self, session: str) -> None:
        task = asyncio.create_task(self.leave(session))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def leave(self, session: str) -> None:
        """It is over: drop what was kept for it."""
        if (timer := self._idle.pop(session, None)) is not None:
            timer.cancel()
        self._since.pop(session, None)
        for keeper in self._keepers:
            try:
                await keeper.leave(session)
            except Exception:
                _log.exception("a session's files cannot be dropped")


def mcp_server(calls: WorldCalls | None, tools: Sequence[Tool] = (), *, keep_s: float = 3_600.0) -> Server[Any]:
    """The MCP server of a world, of tools, or of both, for either transport.

    ``keep_s``: how long tools keep what a session needs after its last call, where no client says that it is over.
    """
    sessions = _Sessions(tools, keep_s)
    served = [*([] if calls is None else _of_world(calls)), *(_of_agent(tool, sessions) for tool in tools)]
    by_name = {definition.name: (definition, call) for definition, call in served}

    async def listed(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[definition for definition, _ in served])

    async def called(context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in by_name:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r}: choose of {', '.join(by_name)}.")
        meta = params.meta or {}
        try:
            async with _heartbeat(context, wanted="progress_token" in meta) as tell:
                return await by_name[params.name][1](dict(params.arguments or {}), meta, tell)
        except RefusalError as error:
            error.log()  # what would be a 503 elsewhere
            return types.CallToolResult(content=[types.TextContent(text=error.sentence)], is_error=True)

    def schema(name: str) -> Mapping[str, Any] | None:
        return by_name[name][0].input_schema if name in by_name else None

    about = {"version": sanderling.__version__, "get_tool_input_schema": schema}
    return Server("sanderling", on_list_tools=listed, on_call_tool=called, **about)


@asynccontextmanager
async def _heartbeat(context: ServerRequestContext[Any, Any], *, wanted: bool) -> AsyncIterator[Callable[[str], None]]:
    """Tell a client that wants to know every few seconds that its call goes on: many wait no longer than a minute without.

    What is given is called with what the tool itself has to say.
    """
    if not wanted:
        yield lambda text: None
        return
    began, said = time.monotonic(), asyncio.Queue[str]()

    async def beat() -> None:
        while True:
            text = ""
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_S):
                    text = await said.get()
            seconds = round(time.monotonic() - began, 1)
            await context.session.report_progress(seconds, message=text or f"running for {seconds:.0f} seconds")

    beating = asyncio.create_task(beat())
    try:
        yield lambda text: said.put_nowait(text[:_LONGEST_WORDS])
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)  # a client that hears nothing any more is no matter of the call's


class McpApp:
    """The streamable HTTP transport, as an ASGI application within ``running()``; hosts and tokens are checked before it.

    Who wants to hear of progress gets a stream, and is known to be gone when it ends; everybody else JSON, which is faster.
    """

    def __init__(self, server: Server[Any], settings: ServerSettings) -> None:
        trusting = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        how = {"stateless": True, "max_request_body_size": settings.max_body_bytes, "security_settings": trusting}
        self._json, self._streams = (
            StreamableHTTPSessionManager(server, json_response=as_json, **how) for as_json in (True, False)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._json.run(), self._streams.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = self._streams if b'"progressToken"' in scope[BODY] else self._json
        await manager.handle_request(scope, receive, send)


async def serve_stdio(world: World | None, tools: Sequence[Tool], settings: ServerSettings) -> None:
    """Serve one MCP client over standard input and output, until it closes them."""
    calls = None if world is None else WorldCalls(world, settings.threads)
    server = mcp_server(calls, tools)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        if calls is not None:
            calls.close()


def _world_tool(world: World, part: str, description: str, schema: dict[str, Any]) -> types.Tool:
    about = About(
        world=world.name, fingerprint=world.fingerprint, page_count=world.page_count, offline=world.offline, part=part
    )
    return types.Tool(name=part, description=description, input_schema=schema, annotations=_READS, _meta=about.as_meta())


def _wanted(meta: Mapping[str, Any], what: str, otherwise: int) -> int:
    """How many results, or words of one, a client of ours wants: it holds to limits of its own."""
    number = (meta.get(WORLD) or {}).get(what)
    return number if isinstance(number, int) and number > 0 else otherwise


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
