"""The visit tool over a world: the passages of one or more pages that serve a goal, laid out as the profile says.

Time is the world's own, virtual time; see `search`. An extractor, where there is one, takes real time beside it, and opens the
only socket there is. Does not know which model calls it.
"""

from typing import Any

from sanderling.core.profiles import Profile
from sanderling.core.prompts import visit_spec
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.arguments import BadArgumentsError, optional_string, string_list
from sanderling.tools.asking import answer, occasion_of
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.tools.extractor.contract import Extractor, ExtractorOutageError
from sanderling.tools.extractor.visiting import read_replies
from sanderling.tools.layout import visit_text
from sanderling.tools.search import overall
from sanderling.world.addresses import page_address
from sanderling.world.contract import VisitReply, World


class VisitTool:
    """Reads each page of a call; with an extractor, a model reads them."""

    def __init__(self, world: World, profile: Profile, extractor: Extractor | None = None) -> None:
        self._world = world
        self._names = profile.tools
        self._layout = profile.results
        self._max_words = profile.visit_words
        self._parts = profile.visit_parts
        self._extractor = extractor

    @property
    def spec(self) -> ToolSpec:
        return visit_spec(self._names, parts=self._parts)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        names = self._names
        try:
            urls = string_list(arguments, names.visit_url, names.visit, "https://example.org/page")
            goal = optional_string(arguments, names.visit_goal, names.visit, "when it was founded")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        urls = urls if self._parts else [page_address(url) for url in urls]
        replies: list[VisitReply] = []
        latency = 0.0
        for url in urls:
            reply = await self._one(url, goal, context, latency)
            latency += reply.latency_s
            replies.append(reply)
        if self._extractor is not None:
            replies = await self._read(self._extractor, urls, replies, goal, context)
        parts = [reply.status for reply in replies]
        return ToolResult(
            text=visit_text(replies, goal, self._layout, parts=self._parts),
            status=overall(parts),
            latency_s=latency,
            provenance=tuple(reply.url for reply in replies if reply.status is ToolStatus.OK),
            parts=tuple(parts),
        )

    async def _one(self, url: str, goal: str, context: ToolContext, spent: float) -> VisitReply:
        deadline = context.deadline_s
        if deadline is not None and spent >= deadline:
            return VisitReply(url=url, title="", text="", status=ToolStatus.TIMEOUT)
        reply = await self._visit(url, goal, context, self._max_words)
        if deadline is not None and spent + reply.latency_s > deadline:
            return VisitReply(url=url, title="", text="", status=ToolStatus.TIMEOUT, latency_s=deadline - spent)
        return reply

    async def _visit(self, url: str, goal: str, context: ToolContext, max_words: int) -> VisitReply:
        occasion = occasion_of(context)
        try:
            return await answer(self._world, lambda: self._world.visit(url, goal, max_words=max_words, occasion=occasion))
        except OSError as error:
            raise ToolOutageError(f"visit: {error}") from error

    async def _read(
        self, extractor: Extractor, urls: list[str], replies: list[VisitReply], goal: str, context: ToolContext
    ) -> list[VisitReply]:
        async def visit(url: str, words: int) -> VisitReply:
            return await self._visit(url, goal, context, words)

        asked = list(zip(urls, replies, strict=True))
        try:
            return await read_replies(extractor, visit, asked, goal, self._max_words, context.deadline_s)
        except (ExtractorOutageError, OSError) as error:
            raise ToolOutageError(f"visit: {error}") from error
