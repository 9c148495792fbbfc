"""Visits that were made, read by an extractor: the pages of one call side by side, each as it was where nothing came of it.

Only what was asked with a goal, and not as a part of a page, is read by a model. Knows no layout and no profile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from sanderling.core.types import ToolStatus
from sanderling.tools.extractor.contract import Extractor, Fallback
from sanderling.world.addresses import asked_part
from sanderling.world.contract import VisitReply

Visit = Callable[[str, int], Awaitable[VisitReply]]
"""The visit of an address with a budget of words, on the occasion at hand."""
_ENOUGH = 0.95
"""Share of a call's time after which a page is shown without the model's reading, so that it is shown at all."""


async def read_replies(
    extractor: Extractor,
    visit: Visit,
    replies: Sequence[tuple[str, VisitReply]],
    goal: str,
    max_words: int,
    seconds: float | None,
) -> list[VisitReply]:
    """The replies to these addresses, read for the goal.

    Args:
        extractor: the reader.
        visit: makes the same visits with another budget.
        replies: addresses as they were asked for, with the model-free replies.
        goal: what is wanted.
        max_words: the budget of one page.
        seconds: real time for all of it; None: unlimited. Pages that are not read by then stay as they are, and are counted.

    Raises ExtractorOutageError where the extractor refuses to do without its model.

    """

    async def one(url: str, reply: VisitReply) -> VisitReply:
        if reply.status is not ToolStatus.OK or not goal.strip() or asked_part(url):
            return reply
        try:
            async with asyncio.timeout(None if seconds is None else seconds * _ENOUGH):
                reading = await extractor.read(await visit(url, extractor.page_words), goal, max_words)
        except TimeoutError:
            extractor.counts.fallbacks[Fallback.LATE] += 1
            return reply
        if reading.fallback is not None:
            return reply
        return replace(reply, text=reading.text, summary=reading.summary, part=0)

    return list(await asyncio.gather(*(one(url, reply) for url, reply in replies)))
