"""The search tool over a world: several queries in one call, laid out as the profile says.

Time is the world's own, virtual time: a query whose turn comes after the call's deadline has status TIMEOUT, so that results do
not depend on the machine. Does not know which model calls it.
"""

from typing import Any

from sanderling.core.profiles import Profile
from sanderling.core.prompts import search_spec
from sanderling.core.types import ToolSpec, ToolStatus
from sanderling.tools.arguments import BadArgumentsError, string_list
from sanderling.tools.asking import answer, occasion_of
from sanderling.tools.contract import ToolContext, ToolOutageError, ToolResult
from sanderling.tools.layout import search_text
from sanderling.world.contract import SearchReply, World


def overall(parts: list[ToolStatus]) -> ToolStatus:
    """One status for a call of several parts: OK when any part is, else that of the first part."""
    return ToolStatus.OK if ToolStatus.OK in parts else parts[0]


class SearchTool:
    """Ranks pages for each query of a call."""

    def __init__(self, world: World, profile: Profile) -> None:
        self._world = world
        self._names = profile.tools
        self._layout = profile.results
        self._limit = profile.results_per_query
        self._snippet_words = profile.snippet_words

    @property
    def spec(self) -> ToolSpec:
        return search_spec(self._names)

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`."""
        try:
            queries = string_list(arguments, self._names.search_query, self._names.search, "tidal flats")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        replies = await self._all(queries, context)
        latency = sum(reply.latency_s for reply in replies)
        parts = [reply.status for reply in replies]
        return ToolResult(
            text=search_text(replies, self._layout),
            status=overall(parts),
            latency_s=latency,
            provenance=tuple(hit.url for reply in replies for hit in reply.hits),
            parts=tuple(parts),
        )

    async def _all(self, queries: list[str], context: ToolContext) -> list[SearchReply]:
        """The replies in order, as if each query were asked when the one before has answered."""
        if context.deadline_s is not None and context.deadline_s <= 0:
            return [_late(query) for query in queries]
        try:
            answered = await answer(
                self._world,
                lambda: self._world.search_many(
                    queries,
                    limit=self._limit,
                    snippet_words=self._snippet_words,
                    occasion=occasion_of(context),
                ),
            )
        except OSError as error:
            raise ToolOutageError(f"search: {error}") from error
        replies: list[SearchReply] = []
        spent = 0.0
        for reply in answered:
            replies.append(_within(reply, context.deadline_s, spent))
            spent += replies[-1].latency_s
        return replies


def _late(query: str, waited_s: float = 0.0) -> SearchReply:
    return SearchReply(query=query, hits=(), status=ToolStatus.TIMEOUT, latency_s=waited_s)


def _within(reply: SearchReply, deadline_s: float | None, spent: float) -> SearchReply:
    """The reply, or a time-out when it comes after the call's deadline."""
    if deadline_s is None or (spent + reply.latency_s <= deadline_s and spent < deadline_s):
        return reply
    return _late(reply.query, max(deadline_s - spent, 0.0))
