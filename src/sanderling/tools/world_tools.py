"""Search and visit over a world, laid out as a profile says, and the same at the pace of their own delays.

Time is the world's own, virtual time: a query or page whose turn comes after the call's deadline has status TIMEOUT, so that
results do not depend on the machine. A page reader, where there is one, takes real time beside it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
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
from sanderling.world.addresses import page_address
from sanderling.world.contract import Occasion, SearchReply, VisitReply, World

Reply = TypeVar("Reply")
_EARLY = 0.02
"""By what share of the deadline a paced call that used all of it returns early: its result is read, and is no time-out."""


def world_tools(world: World, profile: Profile, reader: PageReader | None = None) -> dict[str, Tool]:
    """Search and visit over a world, by the names the profile gives them; ``reader``: a model that reads the pages."""
    return {profile.tools.search: SearchTool(world, profile), profile.tools.visit: VisitTool(world, profile, reader)}


class SearchTool:
    """Ranks pages for each query of a call."""

    def __init__(self, world: World, profile: Profile) -> None:
        self._world, self._profile = world, profile

    @property
    def spec(self) -> ToolSpec:
        """See `tools.contract.Tool`."""
        return search_spec(self._profile.tools)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        names = self._profile.tools
        try:
            queries = string_list(arguments, names.search_query, names.search, "tidal flats")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        replies = await self._search(queries, context)
        parts = tuple(reply.status for reply in replies)
        return ToolResult(
            text=search_text(replies, self._profile.results),
            status=overall(parts),
            latency_s=sum(reply.latency_s for reply in replies),
            provenance=tuple(hit.url for reply in replies for hit in reply.hits),
            parts=parts,
        )

    async def _search(self, queries: list[str], context: ToolContext) -> list[SearchReply]:
        """The replies in order, as if each query were asked when the one before has answered."""
        deadline, spent = context.deadline_s, 0.0
        if deadline is not None and deadline <= 0:
            return [SearchReply(query=query, hits=(), status=ToolStatus.TIMEOUT) for query in queries]
        limit, words, occasion = self._profile.results_per_query, self._profile.snippet_words, occasion_of(context)
        answered = await answer(
            self._world,
            "search",
            lambda: self._world.search_many(queries, limit=limit, snippet_words=words, occasion=occasion),
        )
        replies: list[SearchReply] = []
        for reply in answered:
            if deadline is not None and (spent + reply.latency_s > deadline or spent >= deadline):
                waited = max(deadline - spent, 0.0)
                reply = SearchReply(query=reply.query, hits=(), status=ToolStatus.TIMEOUT, latency_s=waited)
            spent += reply.latency_s
            replies.append(reply)
        return replies


class VisitTool:
    """Reads each page of a call; with a page reader, a model reads them."""

    def __init__(self, world: World, profile: Profile, reader: PageReader | None = None) -> None:
        self._world, self._profile, self._reader = world, profile, reader

    @property
    def spec(self) -> ToolSpec:
        """See `tools.contract.Tool`."""
        return visit_spec(self._profile.tools, parts=self._profile.visit_parts)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        names = self._profile.tools
        try:
            urls = string_list(arguments, names.visit_url, names.visit, "https://example.org/page")
            goal = optional_string(arguments, names.visit_goal, names.visit, "when it was founded")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        if not self._profile.visit_parts:
            urls = [page_address(url) for url in urls]
        replies, latency = await self._visit_all(urls, goal, context)
        if self._reader is not None:
            replies = await self._read(self._reader, urls, replies, goal, context)
        parts = tuple(reply.status for reply in replies)
        return ToolResult(
            text=visit_text(replies, goal, self._profile.results, parts=self._profile.visit_parts),
            status=overall(parts),
            latency_s=latency,
            provenance=tuple(reply.url for reply in replies if reply.status is ToolStatus.OK),
            parts=parts,
        )

    async def _visit_all(self, urls: list[str], goal: str, context: ToolContext) -> tuple[list[VisitReply], float]:
        """The pages in order, each visited when the one before has come, and the time of all."""
        deadline, spent = context.deadline_s, 0.0
        replies: list[VisitReply] = []
        for url in urls:
            if deadline is not None and spent >= deadline:
                reply = VisitReply(url=url, title="", text="", status=ToolStatus.TIMEOUT)
            else:
                reply = await self._visit(url, goal, context, self._profile.visit_words)
                if deadline is not None and spent + reply.latency_s > deadline:
                    left = deadline - spent
                    reply = VisitReply(url=url, title="", text="", status=ToolStatus.TIMEOUT, latency_s=left)
            spent += reply.latency_s
            replies.append(reply)
        return replies, spent

    async def _visit(self, url: str, goal: str, context: ToolContext, words: int) -> VisitReply:
        occasion = occasion_of(context)
        return await answer(self._world, "visit", lambda: self._world.visit(url, goal, max_words=words, occasion=occasion))

    async def _read(
        self, reader: PageReader, urls: list[str], replies: list[VisitReply], goal: str, context: ToolContext
    ) -> list[VisitReply]:
        async def visit(url: str, words: int) -> VisitReply:
            return await self._visit(url, goal, context, words)

        asked = list(zip(urls, replies, strict=True))
        try:
            return await reader.read_visits(visit, asked, goal, self._profile.visit_words, context.deadline_s)
        except (ReaderOutageError, OSError) as error:
            raise ToolOutageError(f"visit: {error}") from error


def overall(parts: Sequence[ToolStatus]) -> ToolStatus:
    """One status for a call of several parts: OK when any part is, else that of the first part."""
    return ToolStatus.OK if ToolStatus.OK in parts else parts[0]


def occasion_of(context: ToolContext) -> Occasion:
    """What a world is told of the episode that asks."""
    return Occasion(
        masked=context.masked_urls,
        episode_seed=context.episode_seed,
        occurrence=context.occurrence,
        question=context.question,
        attempt=context.attempt,
    )


async def answer(world: World, tool: str, call: Callable[[], Reply]) -> Reply:
    """What a call of the world returns; other episodes go on while it waits. Raises ToolOutageError when it is broken."""
    try:
        return await asyncio.to_thread(call) if world.waits else call()
    except OSError as error:
        raise ToolOutageError(f"{tool}: {error}") from error


class PacedTool:
    """Runs a tool and returns its result when its ``latency_s`` has passed: virtual delays slept for real.

    Example: ``{name: PacedTool(tool) for name, tool in world_tools(world, profile).items()}``
    """

    def __init__(self, tool: Tool, speed: float = 1.0) -> None:
        """``speed``: virtual seconds for each real one, above 0. Raises ValueError for another."""
        if speed <= 0:
            raise ValueError(f"speed must be above 0, not {speed:g}")
        self._tool, self._speed = tool, speed

    @property
    def spec(self) -> ToolSpec:
        """See `tools.contract.Tool`."""
        return self._tool.spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        start = time.monotonic()
        result = await self._tool(arguments, context)
        seconds = result.latency_s / self._speed
        if context.deadline_s is not None:
            seconds = min(seconds, context.deadline_s * (1 - _EARLY))
        await asyncio.sleep(max(seconds - (time.monotonic() - start), 0.0))
        return result
