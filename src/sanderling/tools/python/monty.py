"""Monty: a part of Python written in Rust, in a process of its own that has no files, sockets or packages to reach.

Nothing but the package `pydantic-monty` has to be installed. Its blocking interface is used in threads: processes that used the
asynchronous one (1.4) were at times aborted when they ended.
"""

import asyncio
import contextlib
import datetime
import os
import signal
from typing import Any

from sanderling.core.errors import UserError
from sanderling.tools.python.sandbox import Box, Ran, SandboxError, SandboxLimits, Still

ABOUT = (
    "It is a small part of Python: numbers, strings, collections, functions, dataclasses, and math, re, json, datetime, "
    "random, itertools, functools, decimal. There are no files, no packages such as numpy, no inheritance, no generators."
)
_MOST_SESSIONS = 10_000  # each has a process; by default there are as many as processors, and one more waits for another's end
_ENDS = {"seconds": "TimeoutError: feed time limit", "memory": "MemoryError: memory limit"}


class Monty:
    """The sandbox."""

    name, about, files = "monty", ABOUT, False

    def __init__(self, limits: SandboxLimits) -> None:
        """Raises UserError where the package is missing."""
        try:
            import pydantic_monty
        except ModuleNotFoundError as error:
            raise UserError("There is no pydantic-monty: pip install pydantic-monty.") from error
        self._limits, self._package, self._pool = limits, pydantic_monty, None

    async def open(self, still: Still | None) -> Box:
        if self._pool is None:
            self._pool = self._package.Monty(min_processes=1, max_processes=_MOST_SESSIONS)
            await asyncio.to_thread(self._pool.__enter__)
        policy: dict[str, Any] = {"sleep_system_max": self._limits.seconds}
        if still is not None:
            day = datetime.datetime.fromtimestamp(still.clock, datetime.UTC)
            seed = self._package.RandomSeed(seed=still.seed)
            policy = {"datetime": day, "sleep": "zero", "process_time": "zero", "random_start": seed}
        bounds: Any = {"max_feed_duration_secs": self._limits.seconds, "max_memory": self._limits.memory_mb * 2**20}
        how: Any = {"limits": bounds, "os_policy": policy}
        box = MontyBox(self._pool, how, self._limits.output_chars, self._package)
        await box.begin()
        return box

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.__exit__, None, None, None)


class MontyBox(Box):
    """A session of variables, whose process is begun anew where it has ended."""

    def __init__(self, pool: Any, how: Any, most: int, package: Any) -> None:
        self._pool, self._how, self._most, self._package = pool, how, most, package
        self._session: Any = None

    async def begin(self) -> Any:
        """Start a process. Raises SandboxError."""
        session = self._pool.checkout(**self._how)
        try:
            await asyncio.to_thread(session.__enter__)
        except (self._package.MontyError, OSError) as error:
            raise SandboxError(f"Monty does not start ({error}).") from error
        self._session = session
        return session

    async def run(self, code: str, seconds: float) -> Ran:
        """Run a program. After one that took too much, variables are gone."""
        session = self._session or await self.begin()
        said = self._package.CollectString(max_bytes=16 * self._most)
        process, status, value, error = session.worker_pid, "ok", "", ""
        running = asyncio.ensure_future(asyncio.to_thread(session.feed_run, code, print_callback=said))
        try:
            async with asyncio.timeout(seconds):
                found = await asyncio.shield(running)
            value = "" if found is None else repr(found)
        except (TimeoutError, asyncio.CancelledError) as ended:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)  # which its thread hears
            await asyncio.gather(running, return_exceptions=True)
            status = "seconds"
            if isinstance(ended, asyncio.CancelledError):
                await self.close()
                raise
        except self._package.MontyCrashedError:
            status = "ended"
        except self._package.MontyError as problem:
            error = str(problem)
            status = next((end for end, text in _ENDS.items() if error.startswith(text)), "failed")
        if status not in ("ok", "failed"):
            error = ""
            await self.close()
        return Ran(status, self._cut(said.output), self._cut(value), self._cut(error))

    def _cut(self, text: str) -> str:
        half = self._most // 2
        return text if len(text) <= self._most else f"{text[:half]}\n[...]\n{text[-half:]}"

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # its process may be gone
                await asyncio.to_thread(session.__exit__, None, None, None)
