"""MCP: the tools ``search`` and ``visit`` of a world, for any MCP client, over streamable HTTP and over stdio.

Over HTTP every request stands alone (no sessions, JSON replies), so a server may be restarted under its clients. Arguments that
break a limit and a world that cannot be read are tool errors in one sentence; a missing page is an ordinary answer.
"""

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

import sanderling
from sanderling.core.profiles import ResultLayout
from sanderling.core.types import ToolStatus
from sanderling.serve.calls import RefusalError, WorldCalls, failure, parse
from sanderling.serve.dialects import SearchBody, VisitBody
from sanderling.serve.limits import ServerSettings
from sanderling.tools.world_tools import parts_note, visit_miss
from sanderling.world.contract import SearchReply, VisitReply, World

_SEARCH = "Search the web. Several queries may be given at once; each returns ranked results with title, address and snippet."
_VISIT = "Read web pages. Returns the passages of each page that serve the goal; without a goal, the page from its top. "
_VISIT += "An address that ends in #page=2 gives the second part of a long page as it stands, and so on."


def mcp_server(calls: WorldCalls) -> MCPServer:
    """The MCP server of a world, for either transport."""
    server: MCPServer = MCPServer("sanderling-world", version=sanderling.__version__, log_level="WARNING")

    async def search(queries: list[str], limit: int = 10) -> str:
        try:
            body = parse(SearchBody, {"queries": queries, "limit": limit})
            replies = await calls.search(body.queries, limit=body.limit, snippet_words=body.snippet_words)
        except RefusalError as error:
            raise _told(error) from error
        return "\n\n".join(_results(reply) for reply in replies)

    async def visit(urls: list[str], goal: str = "", max_words: int = 2_000) -> str:
        try:
            body = parse(VisitBody, {"urls": urls, "goal": goal, "max_words": max_words})
            replies = await calls.visit(body.urls, body.goal, max_words=body.max_words)
        except RefusalError as error:
            raise _told(error) from error
        return "\n\n".join(_page(reply) for reply in replies)

    server.add_tool(search, description=_SEARCH, structured_output=False)
    server.add_tool(visit, description=_VISIT, structured_output=False)
    return server


def http_app(server: MCPServer, settings: ServerSettings) -> Starlette:
    """The streamable HTTP transport at ``/mcp``; hosts and tokens are checked before it, by `limits`."""
    return server.streamable_http_app(
        streamable_http_path="/mcp",
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def serve_stdio(world: World, threads: int) -> None:
    """Serve one MCP client over standard input and output, until it closes them."""
    calls = WorldCalls(world, threads)
    try:
        anyio.run(mcp_server(calls).run_stdio_async)
    finally:
        calls.close()


def _told(error: RefusalError) -> ToolError:
    """A refusal as MCP has it; what would be a 503 elsewhere is logged."""
    error.log()
    return ToolError(error.sentence)


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
