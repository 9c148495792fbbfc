"""A pool: which replica has a call, who waits, what is tried again.

The replica with the fewest calls has the next; ties go round. A call waits in order of arrival, so many and so long as the pool
says. A session of a tool that keeps something stays at its replica; when that was lost, what it kept is lost, and the session
is told so once. A call whose replica is lost meanwhile is made again only where that does no harm.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import mcp_types as types

from sanderling.serve.dock.config import PoolConfig
from sanderling.serve.dock.replica import Replica, State
from sanderling.tools.contract import ToolOutageError
from sanderling.tools.mcp.client import NeverBeganError, Progress
from sanderling.tools.mcp.wire import LEAVE, About, is_harmless

_TRIES = 4  # of an idempotent call, each at another replica or after a restart
_MOST_SESSIONS = 100_000  # that are remembered; the one used longest ago is forgotten first
_TIMES = 512  # of the last calls, for the page
_CHECKED_S = 5.0  # beyond its start, until what is wrong with a replica is known
_log = logging.getLogger(__name__)


class Trouble(StrEnum):
    """Why a call has no result of its server's."""

    BUSY = "busy"  # too many wait already
    TIMEOUT = "timeout"  # no replica in time, or no result
    DOWN = "down"  # the replica was lost
    SESSION_LOST = "session_lost"
    STOPPED = "stopped"


class DockError(Exception):
    """A call that the dock could not get a result for; the message is one sentence."""

    def __init__(self, trouble: Trouble, sentence: str) -> None:
        super().__init__(sentence)
        self.trouble = trouble


class Pool:
    """The replicas of one tool server."""

    def __init__(self, name: str, config: PoolConfig) -> None:
        self.name, self.config = name, config
        self.replicas = [Replica(name, number, config, self._changed) for number in range(config.replicas)]
        self.tools: dict[str, types.Tool] = {}  # as a replica listed them last
        self.outcomes, self.seconds = Counter[str](), deque[float](maxlen=_TIMES)  # of those with a result
        self.retried = 0
        self.last_call = time.monotonic()
        self.waiting: dict[asyncio.Future[Replica], str] = {}  # who waits, in order, for any replica or that of a session
        self._sessions: OrderedDict[str, tuple[Replica, int]] = OrderedDict()  # with the start of it that they belong to
        self._turn = 0
        self.is_open = False  # whether calls are taken
        self._said = ""  # why no replica was ready, last
        self._listed, self._told = asyncio.Event(), asyncio.Event()  # the latter also when no replica could start

    def start(self) -> None:
        """Start all replicas, and take calls."""
        self.is_open = True
        if not self._listed.is_set():
            self._told.clear()
        self.last_call = time.monotonic()
        for replica in self.replicas:
            replica.start()

    async def stop(self, grace_s: float) -> None:
        """Take no further calls, and end the replicas when theirs are done or the grace is over."""
        self.is_open = False
        for found in self.waiting:
            if not found.done():
                found.set_exception(self._stopped())
        self.waiting.clear()
        await asyncio.gather(*(replica.stop(grace_s) for replica in self.replicas))

    @property
    def _is_ready(self) -> bool:
        return any(replica.state is State.READY for replica in self.replicas)

    @property
    def _why(self) -> str:
        """How a replica was lost last; empty: none was."""
        return next((replica.reason for replica in self.replicas if replica.reason), "")

    def _stopped(self) -> DockError:
        return DockError(Trouble.STOPPED, f"The pool {self.name} is stopped: start it again first.")

    async def kill(self) -> None:
        """End the processes at once; they are started anew."""
        await asyncio.gather(*(replica.kill() for replica in self.replicas))

    async def listed(self) -> Mapping[str, types.Tool]:
        """Its tools, once a replica has told them. Raises DockError where none can start."""
        if not self._listed.is_set() and not self.config.warm and not self.is_open:
            self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.start_s + _CHECKED_S):
                await self._told.wait()
        if not self._listed.is_set():
            if not self.is_open:
                raise self._stopped()
            raise DockError(Trouble.DOWN, f"The pool {self.name} is down: {self._why or 'it has not started in time'}")
        return self.tools

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any], session: str, progress: Progress | None
    ) -> tuple[types.CallToolResult, Replica]:
        """The result of a call, and who gave it. Raises DockError, and CallRefusedError from the server."""
        if not self.is_open:
            if self.config.warm:
                raise self._stopped()
            self.start()
        again = tool in self.config.idempotent or is_harmless(self.tools[tool])
        sticky = session if About.of(self.tools[tool]).keeps or self.config.sticky else ""
        tries = _TRIES
        while True:
            replica = await self._acquire(sticky)
            connection = replica.connection
            assert connection is not None
            try:
                async with asyncio.timeout(self.config.call_s):
                    result = await connection.call(tool, arguments, meta, progress)
                replica.sound = True
                return result, replica
            except TimeoutError:
                replica.doubt.set()
                raise DockError(Trouble.TIMEOUT, f"{tool} took longer than {self.config.call_s:g} seconds.") from None
            except ToolOutageError as error:
                replica.failed += 1
                replica.doubt.set()  # an address does not end when what is behind it does
                tries -= 1
                if sticky:
                    self._sessions.pop(sticky, None)
                    raise _session_lost(str(error)) from error
                if not (tries and (again or isinstance(error, NeverBeganError))):
                    raise DockError(Trouble.DOWN, str(error)) from error
                self.retried += 1
            finally:
                replica.end()
                replica.served += 1
                self.last_call = time.monotonic()
                self._changed()

    async def leave(self, tool: str, session: str) -> None:
        """A session is over: tell the replica that kept something for it, if there is one."""
        if self.is_open and session in self._sessions:
            if About.of(self.tools[tool]).keeps:
                with suppress(DockError):  # it is gone, with what it kept
                    await self.call(tool, {}, {LEAVE: session}, session, None)
            self._sessions.pop(session, None)

    async def _acquire(self, session: str) -> Replica:
        """A replica with room for one more call, in the order of asking. Raises DockError."""
        found: asyncio.Future[Replica] = asyncio.get_running_loop().create_future()
        self.waiting[found] = session
        self._hand_out()
        if not found.done() and len(self.waiting) > self.config.waiting:
            del self.waiting[found]
            raise DockError(Trouble.BUSY, f"{len(self.waiting)} calls wait for the pool {self.name} already: try again later.")
        try:
            async with asyncio.timeout(self.config.wait_s):
                return await found
        except BaseException as error:
            self.waiting.pop(found, None)
            if found.done() and not found.cancelled() and found.exception() is None:
                found.result().end()  # it was found in the moment in which nobody waited any more
                self._changed()
            if not isinstance(error, TimeoutError):
                raise
            why = f" ({self._why})" if self._why else ""
            sentence = f"No replica of {self.name} was free within {self.config.wait_s:g} seconds{why}."
            raise DockError(Trouble.TIMEOUT if self._is_ready else Trouble.DOWN, sentence) from None

    def _hand_out(self) -> None:
        """Give replicas that are free to those who wait: first come, first served, but nobody waits for another's replica."""
        lost = dict[str, DockError]()
        for found, session in [one for one in self.waiting.items() if not one[0].done()]:  # others were given up
            try:
                only = self._of_session(session)
            except DockError as error:
                only, lost[session] = None, error  # which all that wait for it are told
            free = [replica for replica in (self.replicas if only is None else [only]) if replica.free]
            if session in lost:
                del self.waiting[found]
                found.set_exception(lost[session])
            elif free:
                del self.waiting[found]
                replica = min(free, key=lambda replica: (replica.calls, replica.last_used))
                self._take(replica, session)
                found.set_result(replica)

    def _of_session(self, session: str) -> Replica | None:
        """The replica that has what a session kept; None: it has kept nothing yet. Raises DockError where that was lost."""
        if session not in self._sessions:
            return None
        replica, start = self._sessions[session]
        if replica.starts != start or replica.state is not State.READY:
            del self._sessions[session]
            raise _session_lost(replica.reason or "it was stopped")
        return replica

    def _take(self, replica: Replica, session: str) -> None:
        self._turn += 1
        replica.last_used = self._turn
        replica.begin()
        if session:
            self._sessions[session] = replica, replica.starts
            self._sessions.move_to_end(session)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)

    def _changed(self) -> None:
        """A replica is another than before: note its tools, and give it to those who wait."""
        for replica in self.replicas:
            if replica.state is State.READY:
                self.tools = replica.tools
                self._listed.set()
                break
        if self._listed.is_set() or all(replica.reason or replica.state is State.STOPPED for replica in self.replicas):
            self._told.set()
        if self.is_open and not self._is_ready and self._why not in ("", self._said):
            self._said = self._why
            _log.warning("The pool %s has no ready replica: %s", self.name, self._said)
        self._hand_out()


def _session_lost(why: str) -> DockError:
    return DockError(Trouble.SESSION_LOST, f"The replica that kept this session's files was lost ({why.rstrip('.')}).")
