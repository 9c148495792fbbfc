"""Search and visit over the live web: the names, arguments and layouts that the same tools have over a world.

The queries and pages of one call are asked for at the same time; one that does not answer before the call's deadline has status
TIMEOUT, and the others stand. Masked and blocked addresses are in no list, are NOT_FOUND when visited, also where a redirection
leads to one, and links to them lose their address. So it is, under a guard (`world.guard`), with pages that give the question
away, judged whole before anybody reads them, and with results by what is shown of them. ``latency_s`` is real. The same call
may be answered otherwise tomorrow: record it to keep it (`tools.recording`). Knows no model.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from sanderling.core.profiles import Profile
from sanderling.core.prompts import search_spec, visit_spec
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.contract import (
    BadArgumentsError,
    Tool,
    ToolContext,
    ToolOutageError,
    ToolResult,
    optional_string,
    string_list,
)
from sanderling.tools.layouts import search_text, visit_text
from sanderling.tools.page_reader import PageReader, ReaderOutageError
from sanderling.tools.web.backend import LiveWeb
from sanderling.tools.world_tools import occasion_of, overall
from sanderling.world.addresses import asked_part, canonical_set, canonical_url, page_address
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import SearchReply, VisitReply
from sanderling.world.filters import Hidden, reply_with, without_links
from sanderling.world.guard import Caller, Guard, Seen
from sanderling.world.passages import read_page

_EARLY = 0.02
"""By what share of the deadline a part is given up before it, so that the other parts are read."""
_NOTHING = Blocklist()
Reply = TypeVar("Reply", SearchReply, VisitReply)


def web_tools(
    web: LiveWeb,
    profile: Profile,
    extractor: PageReader | None = None,
    blocklist: Blocklist = _NOTHING,
    guard: Guard | None = None,
) -> dict[str, Tool]:
    """Search and visit over the live web, by the names the profile gives them; ``extractor``: a model that reads the pages."""
    return {
        profile.tools.search: WebSearchTool(web, profile, blocklist, guard),
        profile.tools.visit: WebVisitTool(web, profile, extractor, blocklist, guard),
    }


class WebSearchTool:
    """Asks the engine each query of a call."""

    def __init__(self, web: LiveWeb, profile: Profile, blocklist: Blocklist = _NOTHING, guard: Guard | None = None) -> None:
        self._web = web
        self._profile = profile
        self._blocklist = blocklist
        self._guard = guard or _nobody()

    @property
    def spec(self) -> ToolSpec:
        return search_spec(self._profile.tools)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        names, began = self._profile.tools, time.monotonic()
        try:
            queries = string_list(arguments, names.search_query, names.search, "tidal flats")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        hidden = _hidden(context, self._blocklist | self._guard.blocklist)

        async def one(query: str) -> SearchReply:
            reply = await self._web.search(query, self._profile.results_per_query)
            hits = [hit for hit in reply.hits if not self._guard.hides_hit(caller, hit) and not hidden(canonical_url(hit.url))]
            return replace(reply_with(reply, hits, hidden), latency_s=0.0)

        caller = Caller.of(occasion_of(context), "search")
        late = [SearchReply(query=query, hits=(), status=ToolStatus.TIMEOUT) for query in queries]
        replies = await _all(queries, one, late, context.deadline_s)
        parts = [reply.status for reply in replies]
        return ToolResult(
            text=search_text(replies, self._profile.results),
            status=overall(parts),
            latency_s=time.monotonic() - began,
            provenance=tuple(hit.url for reply in replies for hit in reply.hits),
            parts=tuple(parts),
        )


class WebVisitTool:
    """Reads each page of a call, and shows the passages that serve the goal; with an extractor, a model reads them."""

    def __init__(
        self,
        web: LiveWeb,
        profile: Profile,
        extractor: PageReader | None = None,
        blocklist: Blocklist = _NOTHING,
        guard: Guard | None = None,
    ) -> None:
        self._web = web
        self._profile = profile
        self._extractor = extractor
        self._blocklist = blocklist
        self._guard = guard or _nobody()

    @property
    def spec(self) -> ToolSpec:
        return visit_spec(self._profile.tools, parts=self._profile.visit_parts)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        names, began = self._profile.tools, time.monotonic()
        try:
            urls = string_list(arguments, names.visit_url, names.visit, "https://example.org/page")
            goal = optional_string(arguments, names.visit_goal, names.visit, "when it was founded")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        hidden = _hidden(context, self._blocklist | self._guard.blocklist)

        caller = Caller.of(occasion_of(context), "visit")
        urls = urls if self._profile.visit_parts else [page_address(url) for url in urls]
        pages: dict[str, VisitReply] = {}

        async def shown(url: str, words: int) -> VisitReply:
            return _part(url, pages[page_address(url)], goal, words, hidden)

        async def one(url: str) -> VisitReply:
            pages[page_address(url)] = await self._page(page_address(url), hidden, caller)
            return await shown(url, self._profile.visit_words)

        late = [VisitReply(url=url, title="", text="", status=ToolStatus.TIMEOUT) for url in urls]
        replies = await _all(urls, one, late, context.deadline_s)
        if self._extractor is not None:
            left = None if context.deadline_s is None else max(context.deadline_s - (time.monotonic() - began), 0.0)
            asked = list(zip(urls, replies, strict=True))
            try:
                replies = await self._extractor.read_visits(shown, asked, goal, self._profile.visit_words, left)
            except ReaderOutageError as error:
                raise ToolOutageError(f"visit: {error}") from error
        parts = [reply.status for reply in replies]
        return ToolResult(
            text=visit_text(replies, goal, self._profile.results, parts=self._profile.visit_parts),
            status=overall(parts),
            latency_s=time.monotonic() - began,
            provenance=tuple(reply.url for reply in replies if reply.status is ToolStatus.OK),
            parts=tuple(parts),
        )

    async def _page(self, url: str, hidden: Hidden, caller: Caller) -> VisitReply:
        """The whole page, unless it is hidden or a redirection leads to one that is."""
        if self._guard.hides_address(caller, url) or hidden(canonical_url(url)):
            return _missing(url)
        page = await self._web.page(url)
        moved = canonical_url(page.url) != canonical_url(url)
        if (moved and self._guard.hides_address(caller, page.url)) or hidden(canonical_url(page.url)):
            return _missing(url)
        return _missing(url) if self._guard.hides(caller, Seen(page.url, page.title, page.text)) else page


def _part(asked: str, page: VisitReply, goal: str, words: int, hidden: Hidden) -> VisitReply:
    """What is shown of a page: the passages for the goal, or the part that was asked for."""
    url = page_address(asked)
    if page.status is not ToolStatus.OK:
        return replace(page, url=url)
    found = read_page(page.text, goal, asked_part(asked), words)
    title = without_links(page.title, page.url, hidden)
    if found.part > found.parts:
        return VisitReply(url, title, "", ToolStatus.NOT_FOUND, part=found.part, parts=found.parts)
    return VisitReply(url, title, without_links(found.text, page.url, hidden), part=found.part, parts=found.parts)


async def _all(
    asked: list[str], one: Callable[[str], Awaitable[Reply]], late: list[Reply], deadline_s: float | None
) -> list[Reply]:
    """Every part at the same time, in order; ``late`` for those that miss the deadline. Raises the first outage."""
    within = None if deadline_s is None else deadline_s * (1 - _EARLY)

    async def timed(part: str, otherwise: Reply) -> Reply:
        scope = asyncio.timeout(within)
        try:
            async with scope:
                return await one(part)
        except TimeoutError:
            if not scope.expired():
                raise
            return otherwise

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_caught(timed(part, other))) for part, other in zip(asked, late, strict=True)]
    replies: list[Reply] = []
    for task in tasks:
        reply = task.result()
        if isinstance(reply, Exception):
            raise reply
        replies.append(reply)
    return replies


async def _caught(part: Awaitable[Reply]) -> Reply | Exception:
    """The part's exception as a value, so that a group of one raises it as it is."""
    try:
        return await part
    except Exception as error:
        return error


def _hidden(context: ToolContext, blocklist: Blocklist) -> Hidden:
    keys = canonical_set(context.masked_urls)
    return lambda key: key in keys or blocklist.blocks(key)


def _nobody() -> Guard:
    """A guard that hides nothing."""
    return Guard(_NOTHING, {}, (), lambda line: None)


def _missing(url: str) -> VisitReply:
    return VisitReply(url=url, title="", text="", status=ToolStatus.NOT_FOUND)
