"""A world asked from an event loop: calls run on a few threads of their own, so that a slow one holds up no other.

A call whose request has been given up is not started; one that runs cannot be stopped, and keeps its thread until it ends. The
world's virtual delays are told, and slept only where a pace is set; a sleeping call holds no thread.
Knows worlds, neither HTTP nor dialects.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from time import perf_counter
from typing import TypeVar

from sanderling.serve.world.metrics import Counters
from sanderling.serve.world.refusal import RefusalError
from sanderling.tools.contract import ToolOutageError
from sanderling.world.contract import NO_OCCASION, Occasion, SearchReply, VisitReply, World, answered

_TOGETHER = 8
"""Queries that one call to the world asks."""
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
        """One reply for each query, in order. Raises RefusalError (503) when the world cannot be read.

        Queries go to the world some at a time: together they may cost it less, and no request keeps a thread for long.
        """

        def some(part: Sequence[str]) -> Callable[[], tuple[SearchReply, ...]]:
            return lambda: answered(self.world.search_many(part, limit=limit, snippet_words=snippet_words, occasion=occasion))

        parts = [queries[start : start + _TOGETHER] for start in range(0, len(queries), _TOGETHER)]
        replies = await asyncio.gather(*(self._run("search", some(part)) for part in parts))
        return list(chain.from_iterable(replies))

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

        def one(url: str) -> Callable[[], tuple[VisitReply]]:
            return lambda: (answered(self.world.visit(url, goal, max_words=max_words, occasion=occasion)),)

        replies = await asyncio.gather(*(self._run("visit", one(url), paced) for url in urls))
        return list(chain.from_iterable(replies))

    def close(self) -> None:
        """Take no further calls; those that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, kind: str, call: Callable[[], Sequence[Reply]], paced: bool = True) -> Sequence[Reply]:
        began = perf_counter()
        try:
            replies = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except (OSError, ToolOutageError) as error:
            self._counters.calls[kind, "outage"] += 1
            raise RefusalError(
                503, "The world cannot be read at the moment; try again, or look at the server.", "world"
            ) from error
        finally:
            self._counters.call_seconds += perf_counter() - began
        for reply in replies:
            self._counters.calls[kind, reply.status.value] += 1
        if self._pace is not None and paced:
            latest = max(reply.latency_s for reply in replies)
            await asyncio.sleep(max(latest / self._pace - (perf_counter() - began), 0.0))
        return replies
