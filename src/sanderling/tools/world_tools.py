"""Search and visit over a world, laid out as a profile says.

Of an offline world time is the world's own, virtual time: a query or page whose turn comes after the call's deadline has status
TIMEOUT, so that results do not depend on the machine; a page reader, where there is one, takes real time beside it. Of the live
web time is real, and the queries or pages of a call are asked for side by side.

Replies become text in three layouts: JSON and Markdown have the shapes that the released checkpoints saw in training (checked
against recorded trajectories); the compact one spends as few tokens as can be.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from sanderling.core.profiles import (
    BETWEEN,
    ListedPage,
    Profile,
    ResultLayout,
    SearchBlock,
    default_specs,
    one_line,
    results_text,
    status_sentence,
)
from sanderling.core.types import AskingOutageError, ToolStatus
from sanderling.runs.work import all_of
from sanderling.tools.contract import (
    BadArgumentsError,
    Reader,
    Span,
    Tool,
    ToolContext,
    ToolOutageError,
    ToolResult,
    optional_string,
    string_list,
)
from sanderling.world.addresses import page_address, part_address
from sanderling.world.contract import Occasion, OutageError, SearchReply, VisitReply, World
from sanderling.world.cutting import Prices, pieces
from sanderling.world.text import plain, sentences, word_count

Reply = TypeVar("Reply", SearchReply, VisitReply)
_LATE_LIST = partial(SearchReply, hits=(), status=ToolStatus.TIMEOUT)  # of a query that misses the deadline
_LATE_PAGE = partial(VisitReply, title="", text="", status=ToolStatus.TIMEOUT)
_EARLY = 0.02  # by what share of the deadline a call that used all of it returns early: its result is read, and is no time-out


def world_tools(world: World, profile: Profile, reader: Reader | None = None) -> dict[str, Tool]:
    """Search and visit over a world, by the names the profile gives them; ``reader``: a model that reads the pages."""
    return {profile.tools.search: SearchTool(world, profile), profile.tools.visit: VisitTool(world, profile, reader)}


class SearchTool:
    """Ranks pages for each query of a call."""

    def __init__(self, world: World, profile: Profile) -> None:
        self._world, self._profile, self.spec = world, profile, default_specs(profile)[0]

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        names, deadline = self._profile.tools, context.deadline_s
        try:
            queries = string_list(arguments, names.search_query, names.search, "tidal flats")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        asked = {
            "limit": self._profile.results_per_query,
            "snippet_words": self._profile.snippet_words,
            "occasion": _occasion_of(context, self._world),
        }
        with _broken_world_is_an_outage("search"):
            if not self._world.offline:
                replies, latency = await _side_by_side(queries, partial(self._world.search, **asked), _LATE_LIST, deadline)
            else:
                replies, latency = _in_turn(queries, await self._world.search_many(queries, **asked), _LATE_LIST, deadline)
        parts = tuple(reply.status for reply in replies)
        return ToolResult(
            text=search_text(replies, self._profile.results),
            status=_overall(parts),
            latency_s=latency,
            provenance=tuple(hit.url for reply in replies for hit in reply.hits),
            parts=parts,
        )


class VisitTool:
    """Reads each page of a call; with a page reader, a model reads them."""

    def __init__(self, world: World, profile: Profile, reader: Reader | None = None) -> None:
        self._world, self._profile, self._reader, self.spec = world, profile, reader, default_specs(profile)[1]

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        names, words = self._profile.tools, self._profile.visit_words
        try:
            urls = string_list(arguments, names.visit_url, names.visit, "https://example.org/page")
            goal = optional_string(arguments, names.visit_goal, names.visit, "when it was founded")
        except BadArgumentsError as problem:
            return ToolResult(text=str(problem), status=ToolStatus.BAD_ARGUMENTS)
        if not self._profile.visit_parts:
            urls = [page_address(url) for url in urls]
        began, deadline, occasion = time.monotonic(), context.deadline_s, _occasion_of(context, self._world)

        async def visit(url: str, max_words: int = words) -> VisitReply:
            return await self._world.visit(url, goal, max_words=max_words, occasion=occasion)

        with _broken_world_is_an_outage("visit"):
            left = deadline
            if not self._world.offline:
                replies, latency = await _side_by_side(urls, visit, _LATE_PAGE, deadline)
                left = None if deadline is None else max(deadline - latency, 0.0)
            else:
                replies, latency = _in_turn(urls, [await visit(url) for url in urls], _LATE_PAGE, deadline)
            if self._reader is not None:
                asked = list(zip(urls, replies, strict=True))
                replies = await self._reader.read_visits(visit, asked, goal, words, left)
        parts, spans = tuple(reply.status for reply in replies), tuple[Span, ...]()
        if self._profile.results is ResultLayout.CITED:
            text, spans = cited_text(replies)
        else:
            text = visit_text(replies, goal, self._profile.results, parts=self._profile.visit_parts)
        return ToolResult(
            text=text,
            status=_overall(parts),
            latency_s=latency if self._world.offline else time.monotonic() - began,
            provenance=tuple(reply.url for reply in replies if reply.status is ToolStatus.OK),
            parts=parts,
            spans=spans,
        )


def _in_turn(
    parts: Sequence[str], replies: Iterable[Reply], late: Callable[..., Reply], deadline_s: float | None
) -> tuple[list[Reply], float]:
    """An offline world's replies, as if each part were asked when the one before has answered; and the virtual seconds."""
    kept: list[Reply] = []
    latency = 0.0
    for part, reply in zip(parts, replies, strict=True):
        if deadline_s is not None and (latency >= deadline_s or latency + reply.latency_s > deadline_s):
            reply = late(part, latency_s=max(deadline_s - latency, 0.0))
        latency += reply.latency_s
        kept.append(reply)
    return kept, latency


def _overall(parts: Sequence[ToolStatus]) -> ToolStatus:
    """One status for a call of several parts: OK when any part is, else that of the first part."""
    return ToolStatus.OK if ToolStatus.OK in parts else parts[0]


def _occasion_of(context: ToolContext, world: World) -> Occasion:
    """What a world is told of the episode that asks; of the live web, each page of a call is fetched once."""
    return Occasion(
        masked=context.masked_urls,
        episode_seed=context.episode_seed,
        occurrence=context.occurrence,
        question=context.question,
        attempt=context.attempt,
        ordinal=context.ordinal,
        fetched=None if world.offline else {},
    )


@contextmanager
def _broken_world_is_an_outage(tool: str) -> Iterator[None]:
    """Raises ToolOutageError where a world, a service behind it or a page reader cannot go on."""
    try:
        yield
    except OutageError as error:  # it names the service
        raise ToolOutageError(str(error)) from error
    except (AskingOutageError, OSError) as error:
        raise ToolOutageError(f"{tool}: {error}") from error


async def _side_by_side(
    parts: Sequence[str], ask: Callable[[str], Awaitable[Reply]], late: Callable[[str], Reply], deadline_s: float | None
) -> tuple[list[Reply], float]:
    """Every part at the same time, in order, and the seconds it took; ``late`` for those that miss the deadline.

    Raises the first failure, when all have come to an end.
    """
    began, within = time.monotonic(), None if deadline_s is None else deadline_s * (1 - _EARLY)

    async def timed(part: str) -> Reply:
        scope = asyncio.timeout(within)
        try:
            async with scope:
                return await ask(part)
        except TimeoutError:
            if not scope.expired():
                raise
            return late(part)

    return await all_of(map(timed, parts)), time.monotonic() - began


# -- layouts ---------------------------------------------------------------------------------------------------------------

_SUMMARY_WORDS = 60
_SENTENCE_WORDS = 120  # of a longer sentence, as lists and tables seem to have, a summary shows the beginning
_LONGEST_ECHO = 2_000
_LEAST_PASSAGE = 12  # words
_NO_SUMMARY = "No information from this page is available."


def search_text(replies: Sequence[SearchReply], layout: ResultLayout) -> str:
    """The results of one search call, a block for each query, in order."""
    blocks = []
    for reply in replies:
        error = "" if reply.status in (ToolStatus.OK, ToolStatus.EMPTY) else status_sentence(reply.status, layout)
        hits = tuple(ListedPage(hit.title, hit.url, hit.snippet, hit.date, hit.source) for hit in reply.hits)
        blocks.append(SearchBlock(_echo(reply.query), hits, error))
    return results_text(blocks, layout, empty=status_sentence(ToolStatus.EMPTY, layout))


def visit_text(replies: Sequence[VisitReply], goal: str, layout: ResultLayout, *, parts: bool = False) -> str:
    """The pages of one visit call, a block for each URL, in order; ``parts``: with a note where a page can be read on."""
    compact = layout is ResultLayout.COMPACT
    blocks = []
    for reply in replies:
        is_read, note = reply.status is ToolStatus.OK, parts_note(reply) if parts else ""
        if compact:
            block = f"{one_line(reply.title)}\n{reply.text}" if is_read else visit_miss(reply, layout)
        else:
            evidence = reply.text if is_read else visit_miss(reply, layout)
            short = (reply.summary or summary(reply.text)) if is_read else _NO_SUMMARY
            head = f"The useful information in {_echo(reply.url)} for user goal {_echo(goal)} as follows: \n\n"
            block = f"{head}Evidence in page: \n{evidence}\n\nSummary: \n{short}"
        blocks.append(f"{block}\n\n{note}" if note else block)
    return ("\n\n" if compact else BETWEEN).join(blocks)


def cited_text(replies: Sequence[VisitReply]) -> tuple[str, tuple[Span, ...]]:
    """The pages of one visit call as passages, each a paragraph of its own, and where these are."""
    text, spans = "", list[Span]()
    for reply in replies:
        text += ("\n\n" if text else "") + f"{one_line(reply.title) or 'Page'}\n{reply.url}"
        if reply.status is not ToolStatus.OK:
            text += f"\n{visit_miss(reply, ResultLayout.CITED)}"
            continue
        for passage in paragraphs(reply.text):
            text += "\n\n"
            spans.append(Span(len(text), len(text) + len(passage), reply.url, one_line(reply.title)))
            text += passage
        if note := parts_note(reply):
            text += f"\n\n{note}"
    return text, tuple(spans)


def paragraphs(text: str) -> list[str]:
    """A page's paragraphs; headings, and what is too short to stand alone, with what follows."""
    found: list[str] = []
    waiting = ""
    for block in filter(None, (part.strip("\n").rstrip() for part in text.split("\n\n"))):  # blanks before code belong to it
        waiting = f"{waiting}\n{block}" if waiting else block
        if not block.startswith("#") and word_count(waiting) >= _LEAST_PASSAGE:
            found.append(waiting)
            waiting = ""
    if waiting and found and word_count(waiting) < _LEAST_PASSAGE:
        found[-1] += f"\n\n{waiting}"
    elif waiting:
        found.append(waiting)
    return found


def parts_note(reply: VisitReply) -> str:
    """What of a page is still to be read and by which address, in one sentence; empty when nothing is."""
    if reply.status is not ToolStatus.OK or reply.parts == 1:
        return ""
    if not reply.part:
        return f"(Passages of a long page. The whole page in {reply.parts} parts: {part_address(reply.url, 1)} and on.)"
    if reply.part < reply.parts:
        return f"(Part {reply.part} of {reply.parts}. Next: {part_address(reply.url, reply.part + 1)})"
    return f"(Part {reply.part} of {reply.parts}, the last.)"


def visit_miss(reply: VisitReply, layout: ResultLayout) -> str:
    """What the agent reads for a visit that failed."""
    if reply.status is not ToolStatus.NOT_FOUND or reply.part <= reply.parts:
        return status_sentence(reply.status, layout)
    if layout is ResultLayout.COMPACT:
        return f"No part {reply.part} of {reply.parts}."
    return f"This page has no part {reply.part}; the last is {part_address(reply.url, reply.parts)}."


def summary(text: str, most_words: int = _SUMMARY_WORDS) -> str:
    """The first sentences of an extract, headings left out; at least one, or the beginning of one that does not end."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    kept: list[str] = []
    left = most_words
    for sentence in (s for line in lines for s in sentences(" ".join(plain(line).split()))):
        left -= word_count(sentence)
        if kept and left < 0:
            break
        start, end = pieces(Prices(sentence), 0, len(sentence), _SENTENCE_WORDS)[0]
        kept.append(sentence[start:end] if end == len(sentence) else f"{sentence[start:end]} …")
    return " ".join(kept)


def _echo(text: str) -> str:
    """The caller's own words, which may be of any length, at a length that leaves room for the reply."""
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"
