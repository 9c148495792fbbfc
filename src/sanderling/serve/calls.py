"""Calls of a served world: run on a few threads, and counted; and what a refusal looks like to a client.

A slow call holds up no other. A call whose request was given up is not started; one that runs cannot be stopped and keeps its
thread until it ends. Delays of the world are virtual: they are reported, and not slept.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, TypeVar

from starlette.responses import JSONResponse

from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolOutageError
from sanderling.world.contract import NO_OCCASION, Occasion, SearchReply, VisitReply, World, answered

_TOGETHER = 8
"""Queries that one call to the world asks."""
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}
_FAILURES = {
    ToolStatus.NOT_FOUND: (404, "No page was found at this address."),
    ToolStatus.GONE: (410, "The page no longer exists."),
    ToolStatus.TIMEOUT: (504, "The request for the page timed out."),
    ToolStatus.BLOCKED: (403, "The site refused access to the page."),
    ToolStatus.PAYWALLED: (402, "The page is behind a paywall."),
    ToolStatus.NOT_TEXT: (415, "The page is not readable text."),
    ToolStatus.RATE_LIMITED: (429, "Too many requests at once; try again later."),
    ToolStatus.OUTAGE: (503, "The service is unreachable."),
}
_SERVED = (ToolStatus.OK, ToolStatus.EMPTY)
Reply = TypeVar("Reply", SearchReply, VisitReply)


class RefusalError(Exception):
    """A request that is not answered: the HTTP status, one sentence for the client, one word for the counters."""

    def __init__(self, status: int, sentence: str, reason: str = "bad_request") -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.reason = status, sentence, reason

    def response(self) -> JSONResponse:
        """What the client gets. Nothing of what went wrong inside the server is in it."""
        return JSONResponse({"error": self.sentence}, status_code=self.status, headers=_HEADERS.get(self.status))


FAILURE = RefusalError(500, "Something went wrong in the server: its log says what.", "failure")


def failure_sentence(status: ToolStatus) -> str:
    """What a world's failure means, in one sentence; empty for what is no failure."""
    return "" if status in _SERVED else _FAILURES.get(status, (502, "The call failed."))[1]


def require_served(*statuses: ToolStatus) -> None:
    """Raises RefusalError, with the status that the live web would give, when every part of a call failed.

    A part that failed beside others has no results: clients of batches know no failure of a part, and one fault must not cost
    the rest.
    """
    if not any(status in _SERVED for status in statuses):
        raise RefusalError(*_FAILURES.get(statuses[0], (502, "The call failed.")), reason="world")


@dataclass
class Counters:
    """What one server has done since it started; touched by one thread only."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By route (its pattern, never what a client wrote) and HTTP status."""
    request_seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that failed, or were turned away before they reached a route, by reason."""
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Calls to the world, by kind and status."""
    call_seconds: float = 0.0

    def text(self) -> str:
        """All counters, sorted, in Prometheus' exposition format 0.0.4."""
        refused = {(reason,): count for reason, count in self.refused.items()}
        asked, waited = {(): f"{self.request_seconds:.6f}"}, {(): f"{self.call_seconds:.6f}"}
        table: list[tuple[str, str, tuple[str, ...], Mapping[Any, object]]] = [
            ("http_requests", "Requests answered.", ("route", "status"), self.requests),
            ("http_refused", "Requests that failed, or were turned away before their route.", ("reason",), refused),
            ("world_calls", "Searches and visits.", ("call", "status"), self.calls),
            ("http_request_seconds", "Seconds spent on requests.", (), asked),
            ("world_call_seconds", "Seconds waited for the world, all calls together.", (), waited),
        ]
        lines: list[str] = []
        for name, meaning, labels, counts in table:
            full = f"sanderling_{name}_total"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} counter"]
            for key, count in sorted(counts.items()):
                label = ",".join(f'{label}="{value}"' for label, value in zip(labels, key, strict=True))
                lines.append(f"{full}{{{label}}} {count}" if label else f"{full} {count}")
        return "\n".join(lines) + "\n"


class WorldCalls:
    """Asynchronous searches and visits of one world, which must be safe to call from so many ``threads``."""

    def __init__(self, world: World, threads: int, counters: Counters) -> None:
        self.world, self._counters = world, counters
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="world")

    async def search(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> list[SearchReply]:
        """One reply for each query, in order. Raises RefusalError (503) when the world cannot be read.

        Queries go to the world some at a time: together they may cost it less, and no request keeps a thread for long.
        """

        def some(start: int) -> Sequence[SearchReply]:
            part = queries[start : start + _TOGETHER]
            return answered(self.world.search_many(part, limit=limit, snippet_words=snippet_words, occasion=occasion))

        starts = range(0, len(queries), _TOGETHER)
        return list(chain(*await asyncio.gather(*(self._run("search", partial(some, start)) for start in starts))))

    async def visit(
        self, urls: Sequence[str], goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION
    ) -> list[VisitReply]:
        """One reply for each address, in order. Raises RefusalError (503) as `search`."""

        def one(url: str) -> Sequence[VisitReply]:
            return [answered(self.world.visit(url, goal, max_words=max_words, occasion=occasion))]

        return list(chain(*await asyncio.gather(*(self._run("visit", partial(one, url)) for url in urls))))

    def close(self) -> None:
        """Take no further calls; those that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, kind: str, call: Callable[[], Sequence[Reply]]) -> Sequence[Reply]:
        began = perf_counter()
        try:
            replies = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except (OSError, ToolOutageError) as error:
            self._counters.calls[kind, "outage"] += 1
            sentence = "The world cannot be read at the moment; try again, or look at the server."
            raise RefusalError(503, sentence, "world") from error
        finally:
            self._counters.call_seconds += perf_counter() - began
        for reply in replies:
            self._counters.calls[kind, reply.status.value] += 1
        return replies
