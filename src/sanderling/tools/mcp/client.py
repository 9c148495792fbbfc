"""One connection to an MCP server: its tools, and calls of them with typed failures.

`mcp`'s client speaks the protocol, from 2024-11-05 to 2026-07-28. It wants to be opened and closed by the same task, so each
connection lives in one of its own, and may be used from any. What a server asks of its client (to sample, to ask a person, for
folders) is refused, as `mcp` does where nothing else is said; that its list of tools has changed is of no consequence: an agent
has the tools with which it began.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NoReturn

import mcp_types as types
from httpx2 import HTTPError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

import sanderling
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.mcp.http import NO_REPLY, SESSION_OVER, http_client
from sanderling.tools.mcp.process import Child
from sanderling.tools.mcp.wire import DOWN, sendable

Progress = Callable[[float, float | None, str | None], Any]
_PAGES = 100  # of a list of tools
_NO_RESULT = (NO_REPLY, types.CONNECTION_CLOSED, types.PARSE_ERROR, types.INVALID_REQUEST)
"""Codes of errors that say nothing of the call: the server, or what stands before it, does not speak as it should."""
for _name in ("mcp", "client"):  # what its client notes is told by whoever makes the call
    logging.getLogger(_name).addHandler(logging.NullHandler())
_CLOSE_S = 6.0  # more than a child takes to be ended


@dataclass(frozen=True)
class Address:
    """A server that runs elsewhere."""

    url: str
    token: str = field(default="", repr=False)
    reply_bytes: int = 16 << 20  # of one reply


class NeverBeganError(ToolOutageError):
    """The connection was over before the call began: it may be made again."""


class CallRefusedError(Exception):
    """The server will not run the call: no such tool, or arguments that it does not take."""


class Connection:
    """A server in use: ``await open()``, ``tools()``, ``await call(…)``, ``await close()``. Raises ToolOutageError.

    ``closed`` is set when it is over, whoever ended it; ``why`` says how then.
    """

    def __init__(self, name: str, server: Child | Address, *, start_s: float = 30.0) -> None:
        self.name, self.server, self.closed, self.why = name, server, asyncio.Event(), ""
        self.child = server if isinstance(server, Child) else None
        self.legacy = False  # whether it speaks no protocol after 2025, and is not asked again whether it does
        self.tools: tuple[types.Tool, ...] = ()
        self.down: list[str] = []  # why tools that belong there are not among them
        self._start_s = start_s
        self._client: Client | None = None
        self._leave, self._task = asyncio.Event(), None

    @property
    def alive(self) -> bool:
        """Whether it takes calls."""
        return self._client is not None and not self.closed.is_set()

    async def open(self) -> None:
        """Start or reach it, and list its tools."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = asyncio.create_task(self._live(ready))
        scope = asyncio.timeout(self._start_s)
        try:
            async with scope:
                await asyncio.shield(ready)
        except BaseException as error:  # whoever waited may have been cancelled: nothing is left running
            if scope.expired():
                self.why = f"it did not answer within {self._start_s:g} seconds"
            ready.cancel()
            self._task.cancel()
            await self.close()
            if not isinstance(error, TimeoutError):
                raise
            raise self._outage() from None

    async def _live(self, ready: asyncio.Future[None]) -> None:
        """The connection's whole life, in one task."""
        reason = ""
        try:
            try:
                await self._serve(ready)
            except Exception:
                if ready.done() or self.legacy or self.why or self.child is None:
                    raise
                self.legacy = True  # some end at a first message that they do not know
                await self._serve(ready)
        except BaseException as error:
            reason = _reason(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            ending = self.child.ending if self.child is not None and not self._leave.is_set() else ""
            self.why = self.why or ending or reason or "it was closed"
            self.closed.set()
            if not ready.done():
                ready.set_exception(self._outage())

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        """Start or reach it, and stay until it is over."""
        async with AsyncExitStack() as stack:
            if isinstance(self.server, Child):
                transport: Any = self.server.connected()
            else:
                url, most = self.server.url, self.server.reply_bytes
                client = await stack.enter_async_context(http_client(url, self.server.token, most))
                transport = streamable_http_client(url, http_client=client, max_sse_event_size=most)
            info = types.Implementation(name="sanderling", version=sanderling.__version__)
            about = {"client_info": info, "cache": None, "mode": "legacy" if self.legacy else "auto"}
            try:
                self._client = await stack.enter_async_context(Client(transport, **about))
                self.tools = await self._listed(self._client)
            except Exception as error:
                if self.child is None or not self.child.over.is_set():
                    self.why = self.why or _reason(error)  # which is why we end it
                raise
            self.legacy = self._client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
            if not ready.done():
                ready.set_result(None)
            try:
                await any_set(self._leave, self._leave if self.child is None else self.child.over)
            finally:
                self._client = None  # calls that come while it ends find none

    async def _listed(self, client: Client) -> tuple[types.Tool, ...]:
        found, cursor, self.down = dict[str, types.Tool](), None, list[str]()
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            down = (page.meta or {}).get(DOWN)
            self.down += map(str, down) if isinstance(down, list) else ()
            found |= {tool.name: tool for tool in page.tools}  # some say one again, or do not come to an end
            cursor = page.next_cursor
            if not cursor:
                break
        return tuple(found.values())

    async def list_again(self) -> None:
        """Ask for its tools once more, which shows that it is alive. Raises ToolOutageError."""
        if self._client is None:
            await self._never_began()
        try:
            self.tools = await self._listed(self._client)
        except (MCPError, HTTPError, OSError, ValidationError) as error:
            raise self._outage(_reason(error)) from error

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None = None, progress: Progress | None = None
    ) -> types.CallToolResult:
        """Call a tool. Raises CallRefusedError, and ToolOutageError when the connection is over or ends meanwhile.

        What else a server answers with an error is a result that failed. Cancelled, it tells the server so.
        """
        if self._client is None:
            await self._never_began()
        try:
            about: dict[str, Any] = {"meta": sendable(meta or {}) or None, "progress_callback": progress}
            return await self._client.call_tool(tool, sendable(arguments), **about)
        except MCPError as error:
            return await self._failed(error)
        except RuntimeError as error:
            if self._client is None:  # it ended before the call was on its way
                await self._never_began()
            return _failed(_reason(error))  # a result that is not what the tool's schema says
        except (HTTPError, OSError, ValidationError) as error:
            raise self._outage(_reason(error)) from error
        except ValueError as error:  # no JSON, or nested too deep
            raise CallRefusedError(f"{tool} cannot be sent its arguments ({_reason(error)}).") from error

    async def _failed(self, error: MCPError) -> types.CallToolResult:
        """What an error in place of a result means. Raises CallRefusedError, ToolOutageError."""
        words = " ".join(error.message.split())[:1_000].rstrip(".")
        if error.code == SESSION_OVER:
            self.why = words
            await self._never_began()
        if error.code == types.CONNECTION_CLOSED and self.child is not None:
            await self.closed.wait()  # its ending says more
            raise self._outage() from error
        if error.code == types.PARSE_ERROR:
            words = "it answers something that is no MCP"
        if error.code in _NO_RESULT:
            raise self._outage(self.why or words) from error
        if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
            raise CallRefusedError(error.message) from error
        return _failed(error.message)

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        self._leave.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_CLOSE_S)
            self._task.cancel()  # a server that was told goodbye and says nothing, or one that never came up
            await asyncio.wait({self._task})

    async def _never_began(self) -> NoReturn:
        """It ends, or was never open: say how, once that is known. Raises NeverBeganError."""
        await self.close()
        raise NeverBeganError(str(self._outage()))

    def _outage(self, why: str = "") -> ToolOutageError:
        last = "" if self.child is None else self.child.last_line
        return ToolOutageError(f"{self.name}: {why or self.why}" + (f" ({last[:300]})" if last else "") + ".")


async def any_set(*events: asyncio.Event, within_s: float | None = None) -> None:
    """Wait until one of these is set, or the seconds are over."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def _failed(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)], is_error=True)


def _reason(error: BaseException) -> str:
    """What happened, in some words; of a group, what its first member says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no command or folder {error.filename}"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"it answers something that is no MCP ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    words = " ".join(str(error).split())[:300].rstrip(".")
    return words or type(error).__name__
