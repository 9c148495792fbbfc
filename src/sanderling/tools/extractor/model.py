"""An extractor that asks a language model: long pages by parts, quotes checked, replies remembered.

The parts of a page are read side by side and each quotes for itself; the quotes that stand in the page are its extract, in page
order, and where several parts had some, one more reply makes one summary of theirs. A part that the server will not take is
halved. A reply that cannot be read is asked for once more. Nothing is ever cut away from a page to make it fit.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sanderling.core.types import Message
from sanderling.tools.extractor.contract import (
    Complete,
    Counts,
    ExtractorOutageError,
    ExtractorRefusedError,
    Fallback,
    OnOutage,
    Reading,
    Replies,
)
from sanderling.tools.extractor.prompt import Report, merging_messages, read_report, reading_messages, repeated
from sanderling.tools.extractor.quotes import PageText, Stretch
from sanderling.world.contract import VisitReply
from sanderling.world.cutting import Prices, pieces, split_page
from sanderling.world.text import sentences

_LEAST_PART = 100
"""Parts of fewer words are not halved again."""
_SUMMARY_SHARE = 4


@dataclass(frozen=True)
class ReadingLimits:
    """How much a model reads."""

    part_words: int = 6_000
    """Most words in one reading, as `world.inline_links` prices them; a prompt of some 10,000 tokens."""
    most_parts: int = 5
    at_a_time: int = 4
    """Replies waited for at the same time, over all pages."""
    most_outages: int = 3
    """After so many pages in a row that met no server, none is asked any more: each would wait for it in vain."""


class ModelExtractor:
    """Reads pages with a model.

    Args:
        complete: the model's next turn at temperature 0.
        model: its name, which with the conversation is the key of a remembered reply.
        cache: where replies are kept; None: nowhere.
        limits: how much is read.
        on_outage: what an unreachable model does to a visit.

    """

    def __init__(
        self,
        complete: Complete,
        model: str,
        *,
        cache: Replies | None = None,
        limits: ReadingLimits | None = None,
        on_outage: OnOutage = OnOutage.FALL_BACK,
    ) -> None:
        self._complete = complete
        self._model = model
        self._cache = cache
        self._limits = limits or ReadingLimits()
        self._on_outage = on_outage
        self._counts = Counts()
        self._outages = 0
        self._turns = asyncio.Semaphore(self._limits.at_a_time)

    @property
    def counts(self) -> Counts:
        return self._counts

    @property
    def page_words(self) -> int:
        return self._limits.part_words * self._limits.most_parts

    async def read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        """See `contract.Extractor`."""
        self._counts.pages += 1
        try:
            if self._outages >= self._limits.most_outages:
                raise ExtractorOutageError(f"The extractor was not reached for {self._outages} pages in a row.")
            reading = await self._read(page, goal, max_words)
            self._outages = 0
        except ExtractorOutageError:
            if self._on_outage is OnOutage.REFUSE:
                raise
            self._outages += 1
            reading = Reading(fallback=Fallback.UNREACHABLE)
        except ExtractorRefusedError:
            reading = Reading(fallback=Fallback.REFUSED)
        if reading.fallback is not None:
            self._counts.fallbacks[reading.fallback] += 1
        return reading

    async def _read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        parts = split_page(page.text, self._limits.part_words)
        asked = (self._part(page.title, part, goal, number, len(parts)) for number, part in enumerate(parts, start=1))
        found = await asyncio.gather(*asked, return_exceptions=True)
        reports: list[Report] = []
        for result in found:
            if isinstance(result, BaseException):
                raise result
            reports += result
        if not reports:
            return Reading(fallback=Fallback.UNREADABLE)
        text = PageText(page.text)
        stretches: list[Stretch] = []
        holding: list[Report] = []
        dropped = 0
        for report in reports:
            kept, missed = text.stretches_of(report.evidence)
            stretches += kept
            dropped += missed
            holding += [report] if kept else []
        self._counts.kept += len(stretches)
        self._counts.dropped += dropped
        if not holding:
            return Reading(fallback=Fallback.NOT_IN_PAGE if dropped else Fallback.NO_EVIDENCE)
        summary = _shortened(await self._summary(page.title, goal, holding), max_words // _SUMMARY_SHARE)
        passages = text.passages(_affordable(page.text, stretches, max_words - Prices(summary).whole))
        rationale = " ".join(report.rationale for report in holding if report.rationale)
        return Reading("\n\n".join(passages), summary, rationale)

    async def _part(self, title: str, text: str, goal: str, part: int, parts: int) -> list[Report]:
        """What was found in one part, read in halves if need be; nothing where no reply could be read."""
        try:
            report = await self._ask(reading_messages(title, text, goal, part, parts))
        except ExtractorRefusedError:
            words = Prices(text).whole
            if words <= _LEAST_PART:
                raise
            halves = split_page(text, -(-words // 2))
            return [report for half in halves for report in await self._part(title, half, goal, part, parts)]
        return [] if report is None else [report]

    async def _summary(self, title: str, goal: str, holding: Sequence[Report]) -> str:
        """The summary of the one part that had evidence, or one made of those of several."""
        if len(holding) == 1:
            return holding[0].summary
        try:
            merged = await self._ask(merging_messages(title, goal, holding))
        except ExtractorRefusedError:
            merged = None
        return merged.summary if merged and merged.summary else " ".join(report.summary for report in holding)

    async def _ask(self, messages: tuple[Message, ...]) -> Report | None:
        """A readable reply, remembered or asked for; None after two that could not be read."""
        reply = ""
        for conversation in (messages, None):
            asking = conversation or repeated(messages, reply)
            known = self._cache.get(self._model, asking) if self._cache else None
            if known is not None and (report := read_report(known)) is not None:
                self._counts.remembered += 1
                return report
            async with self._turns:
                self._counts.asked += 1
                reply = await self._complete(asking)
            report = read_report(reply)
            if report is not None:
                if self._cache is not None:
                    self._cache.put(self._model, asking, reply)
                return report
        return None


def _affordable(text: str, stretches: Sequence[Stretch], budget: int) -> list[Stretch]:
    """The stretches that fit the budget, taken in the order in which the model named them; of the first, what fits of it."""
    prices = Prices(text)
    kept: list[Stretch] = []
    for start, end in dict.fromkeys(stretches):
        stretch = (start, end) if kept else pieces(prices, start, end, max(budget, 1))[0]
        price = prices.of(*stretch)
        if price <= budget or not kept:
            kept.append(stretch)
            budget -= price
    return kept


def _shortened(summary: str, most: int) -> str:
    """The first sentences within a number of words."""
    kept: list[str] = []
    for sentence in sentences(" ".join(summary.split())):
        most -= Prices(sentence).whole
        if most < 0:
            break
        kept.append(sentence)
    return " ".join(kept)
