"""The tools of MCP servers as an agent's own, and a world behind one as a world."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import mcp_types as types
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from pydantic import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from sanderling.core.errors import UserError
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.tools.mcp.client import CallRefusedError, Connection
from sanderling.tools.mcp.server import ToolServer
from sanderling.tools.mcp.wire import (
    KEPT,
    LEAVE,
    SEARCHED,
    VISITED,
    WORLD,
    About,
    is_harmless,
    read_result,
    sent_context,
    sent_occasion,
)
from sanderling.world.contract import NO_OCCASION, Occasion, OutageError, SearchReply, VisitReply, World

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64  # as the servers of chat models take it
_LONGEST_DESCRIPTION = 10_000
_LEAVE_S = 10.0
_TOGETHER = 100  # queries that a served world takes at once
HELD = "This call repeats text of private documents, and was not sent to the tool's server. Say it in other words."


class Arguments:
    """What a tool's schema says of its arguments. Nothing that it refers to is fetched."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises jsonschema's SchemaError where it is no schema."""
        Draft202012Validator.check_schema(schema)
        self._validator = Draft202012Validator(schema, registry=Registry())

    def wrong(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What is wrong with some; a schema that refers elsewhere, or to itself for ever, is the server's affair."""
        try:
            error = best_match(self._validator.iter_errors(dict(arguments)))
        except (Unresolvable, RecursionError, re.error):
            return ""
        if error is None:
            return ""
        where = ".".join(map(str, error.absolute_path)) or "its arguments"
        return f"{tool} cannot read {where}: {error.message[:300]}."


class McpTool:
    """One tool of a server; arguments are checked against its schema before they are sent."""

    def __init__(self, server: ToolServer, tool: types.Tool, name: str) -> None:
        """Raises UserError where its schema is none."""
        try:
            self._arguments = Arguments(tool.input_schema)
        except SchemaError as error:
            raise UserError(
                f"{server.name} gives its tool {tool.name} a schema that is none ({error.message}): leave the tool out."
            ) from error
        about = (tool.description or tool.title or name)[:_LONGEST_DESCRIPTION]
        self.spec = ToolSpec(name=name, description=about, parameters=tool.input_schema)
        self._server, self._name, self.settings = server, tool.name, server.settings
        self.own_name = tool.name.rpartition(".")[2]  # without a pool's
        self._harmless = is_harmless(tool)
        self.away = server.is_away
        self.is_held: Callable[[object, str], bool] = lambda arguments, tool: False  # kept from the server: it is private

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if wrong := self._arguments.wrong(self.spec.name, arguments):
            return ToolResult(wrong, ToolStatus.BAD_ARGUMENTS)
        if self.is_held(arguments, self.spec.name):
            return ToolResult(HELD, ToolStatus.HELD)
        began = time.monotonic()

        async def told(done: float, total: float | None, words: str | None) -> None:
            if context.tell is not None:
                context.tell(words or (f"{done:g} of {total:g}" if total else f"{done:g}"))

        try:
            result = await self._server.call(self._name, arguments, sent_context(context), told, harmless=self._harmless)
        except CallRefusedError as refused:
            return ToolResult(str(refused), ToolStatus.BAD_ARGUMENTS, time.monotonic() - began)
        self._look(result, context.session)
        return read_result(result, time.monotonic() - began)

    def _look(self, result: types.CallToolResult, session: str) -> None:
        """Whether the result can be used. Raises ToolOutageError."""


class KeptTool(McpTool):
    """A tool whose server keeps something for a session."""

    def __init__(self, server: ToolServer, tool: types.Tool, name: str, since: dict[str, str]) -> None:
        """``since``: what the server said of each session last; of all tools that keep things in one place."""
        super().__init__(server, tool, name)
        self._harmless, self._since = False, since

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self._since.setdefault(context.session, "")
        return await super().__call__(arguments, context)

    def _look(self, result: types.CallToolResult, session: str) -> None:
        before, now = self._since.get(session), str((result.meta or {}).get(KEPT) or "")
        self._since[session] = now or before or ""
        if before and now and now != before:
            raise ToolOutageError(f"{self._server.name}: what it kept for this episode was lost when it ended.")

    async def leave(self, session: str) -> None:
        """Tell the server that the session is over; one that is gone keeps nothing."""
        if self._since.pop(session, None) is not None and self._server.is_up:
            with suppress(CallRefusedError, ToolOutageError, TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await self._server.call(self._name, {}, {LEAVE: session})


class RemoteWorld(World):
    """A world behind a server: the same replies as the world itself, so that all that works over a world works over it."""

    waits = True

    def __init__(self, server: ToolServer, tools: Mapping[str, types.Tool]) -> None:
        """``tools``: the server's two for this world, by ``search`` and ``visit``."""
        about = About.of(tools["search"])
        self.name, self.fingerprint, self.page_count = about.world, about.fingerprint, about.page_count
        self.offline, self.away = about.offline, server.is_away
        self._server, self._tools = server, {part: tool.name for part, tool in tools.items()}

    async def search_many(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> tuple[SearchReply, ...]:
        meta, found = sent_occasion(occasion, words=snippet_words, limit=limit), list[SearchReply]()
        for start in range(0, len(queries), _TOGETHER):
            found += await self._asked("search", {"queries": list(queries[start : start + _TOGETHER])}, meta, SEARCHED)
        return tuple(found)

    async def visit(self, url: str, goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION) -> VisitReply:
        meta = sent_occasion(occasion, words=max_words)
        return (await self._asked("visit", {"urls": [url], "goal": goal}, meta, VISITED))[0]

    async def _asked(self, part: str, arguments: dict[str, Any], meta: Mapping[str, Any], reading: Any) -> Any:
        try:
            result = await self._server.call(self._tools[part], arguments, meta, harmless=True)
            if result.is_error:
                raise OutageError(" ".join(block.text for block in result.content if isinstance(block, types.TextContent)))
            return reading.validate_python((result.meta or {}).get(WORLD))
        except (CallRefusedError, ToolOutageError) as error:
            raise OutageError(str(error)) from error
        except ValidationError as error:
            raise OutageError(f"{self._server.name} gives no replies of a world.") from error


def allowed(connection: Connection | ToolServer, names: Iterable[str] = ()) -> list[types.Tool]:
    """A server's tools of these names, or patterns with ``*``; without any, all. Raises UserError for one that fits none."""
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".*")) for name in names}
    for name, pattern in patterns.items():
        if not any(pattern.fullmatch(tool.name) for tool in connection.tools):
            known = ", ".join(tool.name for tool in connection.tools)
            raise UserError(f"{connection.name} has no tool {name!r}: choose of {known}.")
    return [tool for tool in connection.tools if not patterns or any(one.fullmatch(tool.name) for one in patterns.values())]


def found_in(
    server: ToolServer, names: Iterable[str] = (), taken: Iterable[str] = ()
) -> tuple[list[RemoteWorld], list[McpTool]]:
    """The worlds and the other tools of a server, those of these ``names`` (see `allowed`).

    A tool has its own name, without a pool's; where that is ``taken``, the server's or the pool's before it. Raises UserError.
    """
    worlds: dict[tuple[str, str], dict[str, types.Tool]] = {}
    since: dict[str, dict[str, str]] = {}  # by pool
    tools, known = list[McpTool](), set(taken)
    for tool in allowed(server, names):
        if tool.execution is not None and tool.execution.task_support == "required":
            continue  # it is called in another way, which we do not speak
        about = About.of(tool)
        if about.part:
            worlds.setdefault((about.world, about.fingerprint), {})[about.part] = tool
            continue
        pool, _, bare = tool.name.rpartition(".")
        choices = bare, f"{pool or server.name}_{bare}", f"{server.name}_{tool.name}"
        name = next(name for name in _names(choices) if name not in known)
        known.add(name)
        tools.append(KeptTool(server, tool, name, since.setdefault(pool, {})) if about.keeps else McpTool(server, tool, name))
    return [RemoteWorld(server, parts) for parts in worlds.values() if len(parts) == 2], tools


def _names(choices: Sequence[str]) -> Iterator[str]:
    """Names as models' servers take them: of these, and at last with numbers."""
    plain = [_NO_NAME.sub("_", name)[:_LONGEST_NAME] or "tool" for name in choices]
    yield from plain
    yield from (f"{plain[-1][: _LONGEST_NAME - 6]}_{number}" for number in count(2))
