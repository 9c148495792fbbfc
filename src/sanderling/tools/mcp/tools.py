"""The tools of MCP servers as an agent's own, and a world behind one as a world."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from pydantic import ValidationError

from sanderling.core.errors import UserError
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.tools.mcp.client import CallRefusedError, Connection
from sanderling.tools.mcp.wire import LEAVE, SEARCHED, VISITED, WORLD, About, read_result, sent_context, sent_occasion
from sanderling.world.contract import NO_OCCASION, Occasion, OutageError, SearchReply, VisitReply, World

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64  # as the servers of chat models take it


class McpTool:
    """One tool of a server; arguments are checked against its schema before they are sent."""

    def __init__(self, connection: Connection, tool: types.Tool, name: str) -> None:
        """Raises UserError where its schema is none."""
        try:
            Draft202012Validator.check_schema(tool.input_schema)
        except SchemaError as error:
            raise UserError(
                f"{connection.name} gives its tool {tool.name} a schema that is none ({error.message}): leave the tool out."
            ) from error
        self.spec = ToolSpec(name=name, description=tool.description or tool.title or name, parameters=tool.input_schema)
        self._connection, self._name, self._keeps = connection, tool.name, About.of(tool).keeps
        self._schema = Draft202012Validator(tool.input_schema)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        wrong = best_match(self._schema.iter_errors(arguments))
        if wrong is not None:
            where = ".".join(map(str, wrong.absolute_path)) or "its arguments"
            text = f"{self.spec.name} cannot read {where}: {wrong.message[:300]}."
            return ToolResult(text, ToolStatus.BAD_ARGUMENTS)
        began = time.monotonic()
        try:
            result = await self._connection.call(self._name, arguments, sent_context(context))
        except CallRefusedError as refused:
            return ToolResult(str(refused), ToolStatus.BAD_ARGUMENTS, time.monotonic() - began)
        return read_result(result, time.monotonic() - began)

    async def leave(self, session: str) -> None:
        """Tell a server that keeps something for a session that this is over; one that is gone keeps nothing."""
        if self._keeps and not self._connection.closed.is_set():
            try:
                await self._connection.call(self._name, {}, {LEAVE: session})
            except (CallRefusedError, ToolOutageError):
                return


class RemoteWorld(World):
    """A world behind a server: the same replies as the world itself, so that all that works over a world works over it."""

    waits = True

    def __init__(self, connection: Connection, tools: Mapping[str, types.Tool]) -> None:
        """``tools``: the server's two for this world, by ``search`` and ``visit``."""
        about = About.of(tools["search"])
        self.name, self.fingerprint, self.page_count, self.offline = (
            about.world,
            about.fingerprint,
            about.page_count,
            about.offline,
        )
        self._connection, self._tools = connection, {part: tool.name for part, tool in tools.items()}

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        meta = sent_occasion(occasion, words=snippet_words)
        return await self._asked("search", {"queries": list(queries), "limit": limit}, meta, SEARCHED)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        meta = sent_occasion(occasion, words=max_words)
        return (await self._asked("visit", {"urls": [url], "goal": goal}, meta, VISITED))[0]

    async def _asked(self, part: str, arguments: dict[str, Any], meta: Mapping[str, Any], reading: Any) -> Any:
        try:
            result = await self._connection.call(self._tools[part], arguments, meta)
            if result.is_error:
                raise OutageError(" ".join(block.text for block in result.content if isinstance(block, types.TextContent)))
            return reading.validate_python((result.meta or {}).get(WORLD))
        except (CallRefusedError, ToolOutageError) as error:
            raise OutageError(str(error)) from error
        except ValidationError as error:
            raise OutageError(f"{self._connection.name} gives no replies of a world.") from error


def allowed(connection: Connection, names: Iterable[str] = ()) -> list[types.Tool]:
    """A server's tools of these names, or patterns with ``*``; without any, all. Raises UserError for one that fits none."""
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".*")) for name in names}
    for name, pattern in patterns.items():
        if not any(pattern.fullmatch(tool.name) for tool in connection.tools):
            known = ", ".join(tool.name for tool in connection.tools)
            raise UserError(f"{connection.name} has no tool {name!r}: choose of {known}.")
    return [tool for tool in connection.tools if not patterns or any(one.fullmatch(tool.name) for one in patterns.values())]


def found_in(
    connection: Connection, names: Iterable[str] = (), taken: Iterable[str] = ()
) -> tuple[list[RemoteWorld], list[McpTool]]:
    """The worlds and the other tools of a server, those of these ``names`` (see `allowed`).

    A tool has its own name, without a pool's; where that is ``taken``, the server's or the pool's before it. Raises UserError.
    """
    worlds: dict[tuple[str, str], dict[str, types.Tool]] = {}
    tools, known = list[McpTool](), set(taken)
    for tool in allowed(connection, names):
        about = About.of(tool)
        if about.part:
            worlds.setdefault((about.world, about.fingerprint), {})[about.part] = tool
            continue
        pool, _, bare = tool.name.rpartition(".")
        choices = bare, f"{pool or connection.name}_{bare}", f"{connection.name}_{tool.name}"
        name = next((name for name in choices if name not in known), choices[-1])
        known.add(name)
        tools.append(McpTool(connection, tool, _NO_NAME.sub("_", name)[:_LONGEST_NAME]))
    return [RemoteWorld(connection, parts) for parts in worlds.values() if len(parts) == 2], tools
