"""One connection to an MCP server: its tools, and calls of them with typed failures.

`mcp`'s client speaks the protocol, from 2024-11-05 to 2026-07-28. It wants to be opened and closed by the same task, so each
connection lives in one of its own, and may be used from any.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import mcp_types as types
from httpx2 import AsyncClient, HTTPError, Timeout
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

import sanderling
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.mcp.process import Child

Progress = Callable[[float, float | None, str | None], Any]
_CONNECT_S = 10.0
_PAGES = 100  # of a list of tools


@dataclass(frozen=True)
class Address:
    """A server that runs elsewhere."""

    url: str
    token: str = ""

    def __str__(self) -> str:
        return re.sub(r"//[^/@]*@", "//", self.url)


class CallRefusedError(Exception):
    """The server will not run the call: no such tool, or arguments that it does not take."""


class Connection:
    """A server in use: ``await open()``, ``tools()``, ``await call(…)``, ``await close()``. Raises ToolOutageError.

    ``closed`` is set when it is over, whoever ended it; ``why`` says how then.
    """

    def __init__(self, name: str, server: Child | Address, *, start_s: float = 30.0) -> None:
        self.name, self.server, self.closed, self.why = name, server, asyncio.Event(), ""
        self.tools: tuple[types.Tool, ...] = ()
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
        try:
            async with asyncio.timeout(self._start_s):
                await asyncio.shield(ready)
        except TimeoutError:
            ready.cancel()
            self.why = f"it did not answer within {self._start_s:g} seconds"
            await self.close()
            raise self._outage() from None

    async def _live(self, ready: asyncio.Future[None]) -> None:
        """The connection's whole life, in one task."""
        try:
            async with AsyncExitStack() as stack:
                transport = self.server.connected() if isinstance(self.server, Child) else await self._http(stack, self.server)
                info = types.Implementation(name="sanderling", version=sanderling.__version__)
                self._client = await stack.enter_async_context(Client(transport, client_info=info, cache=None))
                self.tools = await self._listed(self._client)
                ready.set_result(None)
                try:
                    await self._until_over()
                finally:
                    self._client = None  # calls that come while it ends find none
        except BaseException as error:
            self.why = self.why or _reason(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            if isinstance(self.server, Child) and self.server.ending and not self._leave.is_set():
                self.why = self.server.ending
            self.why = self.why or "it was closed"
            self.closed.set()
            if not ready.done():
                ready.set_exception(self._outage())

    async def _http(self, stack: AsyncExitStack, address: Address) -> Any:
        headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
        limits = Timeout(None, connect=_CONNECT_S)  # a call may take as long as the caller lets it
        client = await stack.enter_async_context(AsyncClient(headers=headers, timeout=limits))
        return streamable_http_client(address.url, http_client=client)

    async def _listed(self, client: Client) -> tuple[types.Tool, ...]:
        found, cursor = list[types.Tool](), None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                break
        return tuple(found)

    async def list_again(self) -> None:
        """Ask for its tools once more, which shows that it is alive. Raises ToolOutageError."""
        if self._client is None:
            await self._ending()
        try:
            self.tools = await self._listed(self._client)
        except (MCPError, HTTPError, OSError, ValidationError) as error:
            raise self._outage(_reason(error)) from error

    async def _until_over(self) -> None:
        """Until somebody closes it, or the child ends."""
        leave = asyncio.ensure_future(self._leave.wait())
        ended = asyncio.ensure_future(self.server.over.wait()) if isinstance(self.server, Child) else leave
        try:
            await asyncio.wait({leave, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leave.cancel()
            ended.cancel()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None = None, progress: Progress | None = None
    ) -> types.CallToolResult:
        """Call a tool. Raises CallRefusedError, and ToolOutageError when the connection is over or ends meanwhile."""
        if self._client is None:
            await self._ending()
        call = asyncio.ensure_future(
            self._client.call_tool(tool, dict(arguments), meta=dict(meta or {}) or None, progress_callback=progress)  # pyright: ignore[reportArgumentType]
        )
        over = asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({call, over}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise self._outage()
            result = call.result()
        except MCPError as error:
            if error.code in (types.INVALID_PARAMS, types.METHOD_NOT_FOUND):
                raise CallRefusedError(error.message) from error
            if error.code == types.CONNECTION_CLOSED:  # its ending says more
                await self._ending()
            raise self._outage(error.message) from error
        except RuntimeError:
            if self._client is None:  # it ended before the call was on its way
                await self._ending()
            raise
        except (HTTPError, OSError, ValidationError) as error:
            raise self._outage(_reason(error)) from error
        finally:
            over.cancel()
            if not call.done():
                call.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await call
        return result

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        self._leave.set()
        if self._task is not None:
            if not self.tools and not self.closed.is_set():  # it never came up: nothing would hear the event
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _ending(self) -> NoReturn:
        """It ends, or was never open: say how, once that is known. Raises ToolOutageError."""
        if self._task is not None:
            await self.closed.wait()
        raise self._outage()

    def _outage(self, why: str = "") -> ToolOutageError:
        last = self.server.log[-1] if isinstance(self.server, Child) and self.server.log else ""
        return ToolOutageError(f"{self.name}: {why or self.why}" + (f" ({last})" if last else "") + ".")


def _reason(error: BaseException) -> str:
    """What happened, in some words; of a group, what its first member says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no command or folder {error.filename}"
    words = " ".join(str(error).split())[:300].rstrip(".")
    return words or type(error).__name__
