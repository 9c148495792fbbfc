"""A tool server as an agent has it for as long as it runs: connected again where a connection has ended.

A server that was started anew, or a child that died once, costs the calls that it had, and no more. A call is made again
only where that does no harm: of a world, of a tool that says so, or where it is certain that it never began.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types

from sanderling.core.types import placed
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.mcp.client import Address, Connection, NeverBeganError, Progress
from sanderling.tools.mcp.process import Child
from sanderling.tools.mcp.wire import About
from sanderling.world.addresses import is_here

_TRIES = 4  # of a call that does no harm
_LOOK_S = 10.0  # that it has to list its tools
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0  # after an attempt that failed, in which there is no other


class ToolServer:
    """``await open()``, ``tools``, ``await call(…)``, ``await close()``. Raises ToolOutageError."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """``connect`` makes a connection that is not open yet."""
        self._connect, self._connection = connect, connect()
        self.name, self.tools = self._connection.name, tuple[types.Tool, ...]()
        self._lock, self._pause_s, self._not_before, self._is_over = asyncio.Lock(), _FIRST_PAUSE_S, 0.0, False
        self._given_up = False  # a call, since it was looked at last
        server = self._connection.server
        self.is_away = isinstance(server, Address) and not is_here(server.url)
        # What is another server: another command, or another place, which may be the same one moved.
        self.settings: Any = list(server.command) if isinstance(server, Child) else placed(self.name, [server.url])

    @property
    def process(self) -> Child | None:
        """The child that serves now; None: it runs elsewhere."""
        return self._connection.child

    @property
    def is_up(self) -> bool:
        return self._connection.alive

    async def open(self) -> None:
        await self._connection.open()
        self.tools = self._connection.tools
        if self._connection.down:  # without those tools the model would be to blame for what it cannot call
            raise ToolOutageError(f"{self.name}: {' '.join(self._connection.down)}")

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        *,
        harmless: bool = False,
    ) -> types.CallToolResult:
        """Call a tool; ``harmless``: it may be called again. Raises CallRefusedError too."""
        tries = _TRIES
        while True:
            connection = await self._connected()
            try:
                return await connection.call(tool, arguments, meta, progress)
            except ToolOutageError as error:
                tries -= 1
                if not (tries and (harmless or isinstance(error, NeverBeganError))):
                    raise
            except asyncio.CancelledError:
                self._given_up = True
                raise

    async def _connected(self) -> Connection:
        """The connection, or the next one where it has ended."""
        async with self._lock:
            if self._given_up and self.is_up and self.process:
                await self._look(self._connection)
            self._given_up = False
            if self.is_up or self._is_over or time.monotonic() < self._not_before:
                return self._connection  # which says why it is over
            connection = self._connect()
            connection.legacy = self._connection.legacy
            self._connection = connection  # so that it is closed while it opens, too
            try:
                await connection.open()
                if worlds_of(connection.tools) != worlds_of(self.tools):
                    await connection.close()
                    connection.why = "it serves other worlds than before"
                    raise ToolOutageError(f"{self.name}: {connection.why}.")
            except ToolOutageError:
                self._not_before = time.monotonic() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                raise
            self._pause_s = _FIRST_PAUSE_S
            return connection

    async def _look(self, connection: Connection) -> None:
        """End a child that answers nothing since a call of it was given up; it is started again."""
        try:
            async with asyncio.timeout(_LOOK_S):
                await connection.list_again()
        except (TimeoutError, ToolOutageError):
            connection.why = connection.why or "it answers nothing any more"
            await connection.close()

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        self._is_over = True
        await self._connection.close()


def worlds_of(tools: tuple[types.Tool, ...]) -> set[str]:
    """The fingerprints of the worlds among a server's tools."""
    return {about.fingerprint for tool in tools if (about := About.of(tool)).part}
