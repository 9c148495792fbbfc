"""One replica of a pool: started, checked, started anew with back-off when it is lost, and always able to say why."""

import asyncio
import logging
import os
import resource
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import mcp_types as types

from sanderling.core.errors import UserError
from sanderling.serve.dock.boxes import boxed
from sanderling.serve.dock.config import PoolConfig
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.mcp.client import CallRefusedError, Connection, any_set
from sanderling.tools.mcp.config import connection_to
from sanderling.tools.mcp.tools import allowed

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_log = logging.getLogger(__name__)
_SOUND_S = 1.0  # who was ready for so long, or answered a call, was not lost at its start


class State(StrEnum):
    """What a replica is doing."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"  # it ends the calls that it has
    WAITING = "waiting"  # after a loss, before the next start


class Replica:
    """A supervised connection. ``changed`` is called whenever its state is another, or a call has ended."""

    def __init__(self, pool: str, number: int, config: PoolConfig, changed: Callable[[], None]) -> None:
        self.name, self.number, self.state = f"{pool}-{number}", number, State.STOPPED
        self.calls = self.served = self.failed = self.starts = 0
        self.reason, self._since = "", time.monotonic()  # of the last loss; of the state
        self.sound = False  # whether a call was answered since the last start
        self.connection: Connection | None = None
        self.tools: dict[str, types.Tool] = {}  # those of its server that the pool lets through
        self.log: deque[str] = deque(maxlen=200)
        self.last_used = 0  # the pool's turn in which it was given a call: ties go round
        self._config, self._changed = config, changed
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None  # while it is being stopped
        self._again = False  # whether it is to be started once it has ended
        self.doubt = asyncio.Event()  # set when a call took too long: whether it is still alive is looked at
        self._wake, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()

    @property
    def pid(self) -> int:
        """Of its process; 0: there is none."""
        child = self.connection.child if self.connection is not None else None
        return child.pid if child is not None and not child.over.is_set() else 0

    @property
    def memory_mb(self) -> int | None:
        """Of its process; None: unknown."""
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize() >> 20
        return None

    @property
    def free(self) -> bool:
        alive = self.connection is not None and self.connection.alive  # its end is seen here before the state says so
        return alive and self.state is State.READY and self.calls < self._config.at_once

    def begin(self) -> None:
        """It has one more call."""
        self.calls += 1
        self._idle.clear()

    def end(self) -> None:
        """A call of its has ended, or was not made after all."""
        self.calls -= 1
        if not self.calls:
            self._idle.set()

    def start(self) -> None:
        """Start it, unless it runs: at once after a loss, and anew after the end of one that is being stopped."""
        if self.state in (State.STOPPED, State.WAITING):
            self.reason = ""
        if self._ending is not None:
            self._again = True
        elif self._task is None or self._task.done():
            self._task = asyncio.create_task(self._supervise(), name=self.name)
        else:
            self._wake.set()

    async def stop(self, grace_s: float = 0.0) -> None:
        """End it, after the calls that it has if they end in time; it goes on where whoever asked waits no longer."""
        self._again = False
        if self._task is None or self._task.done():
            return
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(grace_s, self._task))
        await asyncio.shield(self._ending)

    async def _end(self, grace_s: float, task: asyncio.Task[None]) -> None:
        if self.state is State.READY:
            self._become(State.DRAINING)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._idle.wait()
        task.cancel()
        await asyncio.wait({task})
        if self.connection is not None:
            await self.connection.close()  # where it was closing already
        self._ending = None
        if self._again:
            self.start()

    async def kill(self) -> None:
        """End what runs at once, whatever it does; it is started anew."""
        if self.connection is not None and self.state not in (State.STOPPED, State.WAITING):
            self.connection.why = self.connection.why or "it was killed on request"
            if self.pid:
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            await self.connection.close()

    def _become(self, state: State) -> None:
        self.state, self._since = state, time.monotonic()
        self._changed()

    async def _supervise(self) -> None:
        pause = 0.0
        try:
            while True:
                self.sound = False
                self.starts += 1
                self._become(State.STARTING)
                self.reason = await self._life()
                was_ready = self.state is State.READY and time.monotonic() - self._since > _SOUND_S
                pause = _FIRST_PAUSE_S if self.sound or was_ready or not pause else min(2 * pause, _LONGEST_PAUSE_S)
                self.log.append(f"(lost) {self.reason}")
                self._become(State.WAITING)
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        finally:
            self._become(State.STOPPED)

    async def _life(self) -> str:
        """From one start to its end; why it ended."""
        try:
            self.connection = connection = connection_to(self.name, boxed(self._config))
        except UserError as error:
            return str(error)
        try:
            if connection.child is not None:
                connection.child.log = self.log  # it outlives the process
            await connection.open()
            self._let_through(connection)
            await self._check(connection)
            self.doubt.clear()
            self._become(State.READY)
            await self._watch(connection)
        except (ToolOutageError, UserError) as error:
            return str(error)
        except Exception as error:  # whatever else a server brings about: its replica is started anew
            _log.exception("%s failed", self.name)
            return f"{self.name}: {type(error).__name__} ({error})."
        finally:
            await connection.close()
        return connection.why

    def _let_through(self, connection: Connection) -> None:
        """Note its tools. Raises UserError where one is missing that the pool names, or a dock behind it lacks some."""
        if connection.down:
            raise UserError(" ".join(connection.down))
        self.tools = {tool.name: tool for tool in allowed(connection, self._config.tools)}
        self._changed()

    async def _watch(self, connection: Connection) -> None:
        """Until it is over; checked when it has nothing to do, and when a call took too long. Raises ToolOutageError."""
        while not connection.closed.is_set():
            await any_set(connection.closed, self.doubt, within_s=self._config.check.every_s)
            if not connection.closed.is_set() and (self.doubt.is_set() or not self.calls):
                self.doubt.clear()
                await self._check(connection)

    async def _check(self, connection: Connection) -> None:
        """Ask it something. Raises ToolOutageError, and UserError where the tool to ask is not there."""
        check = self._config.check
        try:
            async with asyncio.timeout(check.within_s):
                if not check.tool:
                    await connection.list_again()
                    self._let_through(connection)
                    return
                allowed(connection, [check.tool])
                result = await connection.call(check.tool, check.arguments)
        except TimeoutError:
            raise ToolOutageError(f"{self.name}: it did not answer a check within {check.within_s:g} seconds.") from None
        except CallRefusedError as error:
            raise ToolOutageError(f"{self.name}: it refused the check ({error}).") from error
        if result.is_error:
            said = " ".join(block.text for block in result.content if isinstance(block, types.TextContent))[:200]
            raise ToolOutageError(f"{self.name}: its check failed ({said}).")
