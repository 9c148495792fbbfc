"""Reading visited pages with a language model: a page and a goal become passages of that page and a summary.

Long pages are read by parts, side by side; the quotes that stand in the page are its extract, in page order, and where several
parts had some, one more reply makes one summary of theirs. A reply that cannot be read is asked for once more. What is returned
as text stands in the page. Where nothing comes of it, the model-free extract stays. The reply is one JSON object of
rationale, evidence and summary, as the readers of DR-Venus, LiteResearcher and AgentCPM-Explore have it; the words are ours.
"""

import asyncio
import json
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.text import find_object
from sanderling.core.types import AskingOutageError, AskingRefusedError, Message, ModelClient, Role, ToolStatus
from sanderling.runs.work import all_of
from sanderling.tools.contract import OnOutage, Visit
from sanderling.tools.quotes import PageText, Stretch
from sanderling.world.addresses import asked_part
from sanderling.world.contract import VisitReply
from sanderling.world.cutting import Prices, pieces, split_page
from sanderling.world.text import sentences

_ENOUGH = 0.95  # share of a call's time after which a page is shown without the model's reading, so that it is shown at all
_SUMMARY_SHARE = 4
_WORDS = tomllib.loads(Path(__file__).with_name("page_reader.toml").read_text(encoding="utf-8"))
_PAGE_END = re.compile(r"<(?=/\s*page\b)", re.IGNORECASE)
_LONGEST_GOAL = 2_000
_REPLY_TOKENS = 4_096
_TOKENS_A_WORD = 2
_PROMPT_TOKENS = 1_000
_LONGEST_FAILURE = 2_000


class Fallback(StrEnum):
    """Why the passages were chosen without the model after all."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"  # the server would not take the page
    UNREADABLE = "unreadable"  # its replies were not the JSON that was asked for
    NO_EVIDENCE = "no_evidence"  # it quoted nothing
    NOT_IN_PAGE = "not_in_page"  # nothing that it quoted stands in the page
    LATE = "late"  # the time of the call was used up


@dataclass(frozen=True)
class ReadingLimits:
    """How much a model reads."""

    part_words: int = 6_000  # most words in one reading, as `world.cutting` prices them; a prompt of some 10,000 tokens
    most_parts: int = 5

    @classmethod
    def within(cls, context: int | None) -> "ReadingLimits":
        """For a model that sees so many tokens (None: nobody knows). Raises UserError where no page fits."""
        if context is None:
            return cls()
        room = (context - _REPLY_TOKENS - _PROMPT_TOKENS) // _TOKENS_A_WORD
        if room < 1:
            least = _REPLY_TOKENS + _PROMPT_TOKENS
            raise UserError(f"context={context} leaves a page reader no room: it needs more than {least}.")
        return cls(part_words=min(cls.part_words, room))


@dataclass(frozen=True)
class Reading:
    """What came of reading one page: passages as they stand there, in page order, and a summary of them; or why neither."""

    text: str = ""
    summary: str = ""
    fallback: Fallback | None = None


@dataclass
class Counts:
    """What a reader did so far: pages, replies asked for, quotes that stand in their page and that do not."""

    pages: int = 0
    asked: int = 0
    kept: int = 0
    dropped: int = 0
    fallbacks: Counter[Fallback] = field(default_factory=Counter)

    def __str__(self) -> str:
        """One line for the person who watches."""
        fallbacks = ", ".join(f"{count} {reason.value}" for reason, count in sorted(self.fallbacks.items()))
        return (
            f"page reader: {self.pages} pages, {self.asked} replies asked for, {self.kept} quotes kept and {self.dropped} "
            f"dropped; read without it: {fallbacks or 'none'}"
        )


class Report(NamedTuple):
    """A model's reply, read."""

    evidence: tuple[str, ...]
    summary: str


class PageReader:
    """Reads pages with a model, by its next turn at temperature 0."""

    def __init__(
        self, client: ModelClient, *, limits: ReadingLimits | None = None, on_outage: OnOutage = OnOutage.FALL_BACK
    ) -> None:
        self._client, self._limits, self._on_outage = client, limits or ReadingLimits(), on_outage
        self.counts = Counts()

    async def read_visits(
        self, visit: Visit, replies: Sequence[tuple[str, VisitReply]], goal: str, max_words: int, seconds: float | None
    ) -> list[VisitReply]:
        """See `Reader`: pages are read side by side, and one stays as it is where nothing comes of it, or not in time.

        Only what was asked with a goal, and not as a part of a page, is read by the model.
        """
        most = self._limits.part_words * self._limits.most_parts  # of a longer page, the passages chosen for the goal are read

        async def one(url: str, reply: VisitReply) -> VisitReply:
            if reply.status is not ToolStatus.OK or not goal.strip() or asked_part(url):
                return reply
            try:
                async with asyncio.timeout(None if seconds is None else seconds * _ENOUGH):
                    reading = await self.read(await visit(url, most), goal, max_words)
            except TimeoutError:
                self.counts.fallbacks[Fallback.LATE] += 1
                return reply
            return reply if reading.fallback else replace(reply, text=reading.text, summary=reading.summary, part=0)

        return list(await asyncio.gather(*(one(url, reply) for url, reply in replies)))

    async def read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        """Passages and summary within ``max_words`` words. Raises AskingOutageError where an outage is to be refused."""
        self.counts.pages += 1
        try:
            reading = await self._read(page, goal, max_words)
        except AskingRefusedError:
            reading = Reading(fallback=Fallback.REFUSED)
        except AskingOutageError:
            if self._on_outage is OnOutage.REFUSE:
                raise
            reading = Reading(fallback=Fallback.UNREACHABLE)
        if reading.fallback is not None:
            self.counts.fallbacks[reading.fallback] += 1
        return reading

    async def _read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        parts = split_page(page.text, self._limits.part_words)
        asked = [reading_messages(page.title, part, goal, number, len(parts)) for number, part in enumerate(parts, start=1)]
        reports = [report for report in await all_of(map(self._ask, asked)) if report is not None]
        if not reports:
            return Reading(fallback=Fallback.UNREADABLE)
        text = PageText(page.text)
        found = [(report, *text.stretches_of(report.evidence)) for report in reports]
        stretches = [stretch for _, kept, _ in found for stretch in kept]
        dropped = sum(missed for _, _, missed in found)
        self.counts.kept += len(stretches)
        self.counts.dropped += dropped
        holding = [report for report, kept, _ in found if kept]
        if not holding:
            return Reading(fallback=Fallback.NOT_IN_PAGE if dropped else Fallback.NO_EVIDENCE)
        merged = None
        if len(holding) > 1:
            evidence = json.dumps([report._asdict() for report in holding], ensure_ascii=False, indent=1)
            found_in_parts = f"Goal: {goal[:_LONGEST_GOAL]}\n\nPage: {page.title}\n{evidence}"
            with suppress(AskingRefusedError):  # then the summaries of the parts stand side by side
                merged = await self._ask(_messages(_WORDS["merge"], found_in_parts))
        told = merged.summary if merged and merged.summary else " ".join(report.summary for report in holding)
        summary, left = "", max_words // _SUMMARY_SHARE
        for sentence in sentences(" ".join(told.split())):
            left -= Prices(sentence).whole
            if left < 0:
                break
            summary = f"{summary} {sentence}".lstrip()
        passages = text.passages(_affordable(page.text, stretches, max_words - Prices(summary).whole))
        return Reading("\n\n".join(passages), summary)

    async def _ask(self, asking: tuple[Message, ...]) -> Report | None:
        """A readable reply; None after two that could not be read."""
        for _ in range(2):
            reply = await self._client.ask(asking, max_tokens=_REPLY_TOKENS)
            self.counts.asked += not reply.usage.remembered
            if (report := read_report(reply.text)) is not None:
                return report
            failed = Message(role=Role.ASSISTANT, content=reply.text[:_LONGEST_FAILURE])
            asking = (*asking, failed, Message(role=Role.USER, content=_WORDS["again"]))
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


def reading_messages(title: str, text: str, goal: str, part: int, parts: int) -> tuple[Message, ...]:
    """Ask for one part of a page."""
    place = f" (part {part} of {parts})" if parts > 1 else ""
    body = _PAGE_END.sub("< ", text)
    return _messages(_WORDS["read"], f"Goal: {goal[:_LONGEST_GOAL]}\n\nPage{place}: {title}\n<page>\n{body}\n</page>")


def _messages(system: str, user: str) -> tuple[Message, ...]:
    return (Message(role=Role.SYSTEM, content=system), Message(role=Role.USER, content=user))


def read_report(reply: str) -> Report | None:
    """The report in a reply, whatever stands around it: thoughts, a code fence; None when there is none."""
    found = find_object(reply, lambda value: "evidence" in value or "summary" in value)
    if found is None:
        return None
    evidence = found.get("evidence")
    quotes = evidence if isinstance(evidence, list) else [evidence] if isinstance(evidence, str) else []
    return Report(tuple(quote.strip() for quote in map(_text, quotes) if quote.strip()), _text(found.get("summary")))


def _text(value: Any) -> str:
    """A string as it is; of an object that holds a quote, the quote; nothing of anything else."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("quote", "text", "evidence") if isinstance(value.get(key), str)), "")
    return value if isinstance(value, str) else ""
