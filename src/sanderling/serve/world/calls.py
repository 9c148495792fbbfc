"""A world asked from an event loop: calls run on a few threads of their own, so that a slow one holds up no other.

A call whose request has been given up is not started; one that runs cannot be stopped, and keeps its thread until it ends. The
world's virtual delays are told, and slept only where a pace is set; a sleeping call holds no thread.
Knows worlds, neither HTTP nor dialects.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from sanderling.serve.world.metrics import Counters
from sanderling.serve.world.refusal import RefusalError
from sanderling.tools.contract import ToolOutageError
from sanderling.world.contract import NO_OCCASION, Occasion, SearchReply, VisitReply, World

Reply = TypeVar("Reply", SearchReply, VisitReply)


class WorldCalls:
    """Asynchronous searches and visits of one world.

    Args:
        world: safe to call from many threads.
        threads: how many calls run at a time.
        counters: what was asked and what came of it.
        pace: virtual seconds for each real one that a reply is held back; None: it is not.

    """

    def __init__(self, world: World, threads: int, counters: Counters, pace: float | None = None) -> None:
        self.world = world
        self._pace = pace
        self._counters = counters
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="world")

    async def search(
        self,
        queries: Sequence[str],
        *,
        limit: int = 10,
        snippet_words: int = 30,
        occasion: Occasion = NO_OCCASION,
    ) -> list[SearchReply]:
        """One reply for each query, in order. Raises RefusalError (503) when the world cannot be read."""

        def one(query: str) -> Callable[[], SearchReply]:
            return lambda: self.world.search(
                query,
                limit=limit,
                snippet_words=snippet_words,
                occasion=occasion,
            )

        return await asyncio.gather(*(self._run("search", one(query)) for query in queries))

    async def visit(
        self,
        urls: Sequence[str],
        goal: str = "",
        *,
        max_words: int = 2000,
        occasion: Occasion = NO_OCCASION,
        paced: bool = True,
    ) -> list[VisitReply]:
        """One reply for each address, in order; ``paced`` false: never held back. Raises RefusalError (503) as `search`."""

        def one(url: str) -> Callable[[], VisitReply]:
            return lambda: self.world.visit(
                url,
                goal,
                max_words=max_words,
                occasion=occasion,
            )

        return await asyncio.gather(*(self._run("visit", one(url), paced) for url in urls))

    def close(self) -> None:
        """Take no further calls; those that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, kind: str, call: Callable[[], Reply], paced: bool = True) -> Reply:
        began = perf_counter()
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except (OSError, ToolOutageError) as error:
            self._counters.calls[kind, "outage"] += 1
            raise RefusalError(
                503, "The world cannot be read at the moment; try again, or look at the server.", "world"
            ) from error
        finally:
            self._counters.call_seconds += perf_counter() - began
        self._counters.calls[kind, reply.status.value] += 1
        if self._pace is not None and paced:
            await asyncio.sleep(max(reply.latency_s / self._pace - (perf_counter() - began), 0.0))
        return reply
