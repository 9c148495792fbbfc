"""Calls of a served world, run on a few threads or awaited; what a refusal looks like to a client; the contract of a dialect.

A dialect is some routes, each an async function from a request (`Call`) to a reply. A slow call holds up no other. A call whose
request was given up is not started; one that runs cannot be stopped and keeps its thread until it ends. Delays of the world are
virtual: they are reported, and not slept.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from sanderling.core.types import ToolStatus
from sanderling.tools.contract import ToolOutageError
from sanderling.world.contract import NO_OCCASION, Occasion, SearchReply, VisitReply, World, answered

_log = logging.getLogger(__name__)
_TOGETHER = 8  # queries that one call to the world asks
_HEADERS = {401: {"WWW-Authenticate": 'Bearer, Basic realm="sanderling"'}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}
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
Asked = TypeVar("Asked")
Reply = TypeVar("Reply")
Body = TypeVar("Body", bound=BaseModel)


def log_lines() -> None:
    """Log to standard error, an event a line: MCP's own handler would break lines where a terminal ends."""
    handler, served = logging.StreamHandler(), logging.getLogger("sanderling.serve")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    served.handlers, served.propagate = [handler], False


class RefusalError(Exception):
    """A request that is not answered: the HTTP status, and one sentence for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence

    def response(self) -> JSONResponse:
        """What the client gets. Nothing of what went wrong inside the server is in it: of a 503 the log says that."""
        self.log()
        return JSONResponse({"error": self.sentence}, status_code=self.status, headers=_HEADERS.get(self.status))

    def log(self) -> None:
        """Leave a line in the server's log of a 503, with the cause if one is known."""
        if self.status == 503:
            _log.warning("503: %s", " ".join(str(self.__cause__ or self.sentence).split()))


FAILURE = RefusalError(500, "Something went wrong in the server: its log says what.")


def failure(status: ToolStatus) -> str:
    """What a world's failure means, in one sentence; empty for what is no failure."""
    return "" if status in _SERVED else _FAILURES.get(status, (502, "The call failed."))[1]


def check_served(*statuses: ToolStatus) -> None:
    """Raises RefusalError, with the status that the live web would give, when every part of a call failed.

    A part that failed beside others has no results: clients of batches know no failure of a part, and one fault must not cost
    the rest.
    """
    if not any(status in _SERVED for status in statuses):
        raise RefusalError(*_FAILURES.get(statuses[0], (502, "The call failed.")))


class WorldCalls:
    """Asynchronous searches and visits of one world, which must be safe to call from so many ``threads``.

    One that waits for others is awaited instead.
    """

    def __init__(self, world: World, threads: int) -> None:
        self.world = world
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="world")

    async def search(
        self, queries: Sequence[str], *, limit: int = 10, snippet_words: int = 30, occasion: Occasion = NO_OCCASION
    ) -> list[SearchReply]:
        """One reply for each query, in order. Raises RefusalError (503) when the world cannot be read.

        Queries go to the world some at a time: together they may cost it less, and no request keeps a thread for long.
        """
        search = partial(self.world.search_many, limit=limit, snippet_words=snippet_words, occasion=occasion)
        parts = (queries[start : start + _TOGETHER] for start in range(0, len(queries), _TOGETHER))
        return list(chain(*await asyncio.gather(*(self._run(search, part) for part in parts))))

    async def visit(
        self, urls: Sequence[str], goal: str = "", *, max_words: int = 2000, occasion: Occasion = NO_OCCASION
    ) -> list[VisitReply]:
        """One reply for each address, in order. Raises RefusalError (503) as `search`."""
        visit = partial(self.world.visit, goal=goal, max_words=max_words, occasion=occasion)
        return await asyncio.gather(*(self._run(visit, url) for url in urls))

    def close(self) -> None:
        """Take no further calls; those that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[Asked], Coroutine[Any, Any, Reply]], asked: Asked) -> Reply:
        try:
            if self.world.waits:
                return await call(asked)
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: answered(call(asked)))
        except (OSError, ToolOutageError) as error:
            raise RefusalError(503, "The world cannot be read at the moment; try again, or look at the server.") from error


MAX_QUERIES = 100
MAX_URLS = 1_000


@dataclass(frozen=True)
class Call:
    """A request as a route sees it; ``body``: the JSON of a POST, None for a GET."""

    world: WorldCalls
    page_words: int  # most words of a page where all of it is asked for
    request: Request
    body: Any


@dataclass(frozen=True)
class Route:
    """One path of a dialect, as Starlette writes paths.

    ``answer`` gives a Response, or plain data that is sent as JSON; it may raise RefusalError. ``claims``: whether a body is
    meant for this route, where several dialects share its path; ``shape``: what such a body looks like.
    """

    method: str
    path: str
    answer: Callable[[Call], Awaitable[object]]
    claims: Callable[[Any], bool] = lambda _: True
    shape: str = ""


class ForeignBody(BaseModel):
    """A body of others' clients: keys that we have no use for are ignored, as their own servers do."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def parse(model: type[Body], body: Any) -> Body:
    """The body as a model. Raises RefusalError (400) that names the first wrong field."""
    if not isinstance(body, dict):
        raise RefusalError(400, "The body must be one JSON object: send an object with this route's fields.")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise RefusalError(400, f"In the body, {where}: {what[:1].lower()}{what[1:]}.") from None


def no_route(method: str) -> RefusalError:
    """For an address where nothing is served by this method."""
    return RefusalError(404, f"There is no such route for {method}: see docs/serving.md.")
