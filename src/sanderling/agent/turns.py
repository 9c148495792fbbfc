"""One turn of an episode: what it may use, what it turned out to be, and its calls.

The context is laid out so that a forced answer always has its place: ``prompt | turn | closing hint | answer``. A turn begins
only while the profile's reserve is free, and only where it need not be cut shorter than an answer may be. What goes wrong in a
call is a result that the agent reads, except a tool's outage.
"""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from sanderling.core.profiles import Budgets, Guards
from sanderling.core.record import Node, NodeKind, Passage, Question, ToolEvent
from sanderling.core.types import Ending, ToolCall, ToolStatus
from sanderling.runs.work import all_of
from sanderling.tools.contract import Span, Tool, ToolContext, ToolOutageError, ToolResult

CUT_MARK = "\n[... cut to fit the context ...]\n"


@dataclass(frozen=True)
class Allowance:
    """What the next turn may use, or why there is none: ``spent`` is the ending when answers are not forced."""

    max_tokens: int = 0
    spent: Ending | None = None
    detail: str = ""  # one sentence on the spent budget


def allow(
    budgets: Budgets, *, turns: int, prompt_tokens: int, seconds: float, limit: int, turn_tokens: int, hint_tokens: int
) -> Allowance:
    """Decide on the next turn; ``limit``: most tokens that the model may see, ``turn_tokens``: most of one turn."""
    if budgets.max_seconds is not None and seconds >= budgets.max_seconds:
        return Allowance(spent=Ending.TIME_LIMIT, detail=f"The episode's {budgets.max_seconds:g} seconds were used up.")
    if turns >= budgets.max_turns:
        return Allowance(spent=Ending.TURN_LIMIT, detail=f"All {budgets.max_turns} turns were used.")
    answer = min(budgets.answer_reserve_tokens, turn_tokens)
    room = limit - answer - hint_tokens - prompt_tokens
    if prompt_tokens > limit - budgets.answer_reserve_tokens or room < answer:
        detail = f"The context was full: {prompt_tokens} of {limit} tokens, with room kept for an answer."
        return Allowance(spent=Ending.CONTEXT_EXHAUSTED, detail=detail)
    return Allowance(max_tokens=min(turn_tokens, room))


def cut_middle(text: str, cost: Callable[[str], int], most: int) -> str | None:
    """Cut a text from its middle until ``cost(text)`` is at most ``most``; None when even the mark alone costs more."""
    used, least = cost(text), cost(CUT_MARK)
    if used <= most:
        return text
    if least > most:
        return None
    # Few calls of ``cost``: the first cut is proportional, later ones take a tenth more.
    keep = int(len(text) * (most - least) / max(used - cost(""), 1))
    while keep > 0:
        shorter = text[: keep - keep // 2] + CUT_MARK + text[len(text) - keep // 2 :]
        if cost(shorter) <= most:
            return shorter
        keep = keep * 9 // 10
    return CUT_MARK


class Verdict(StrEnum):
    """What one turn turned out to be."""

    ANSWER = "answer"  # and no call
    CALLS = "calls"  # at least one of them new, and no answer
    REPEATED_CALL = "repeated_call"  # all of the calls were made before in this episode
    MALFORMED = "malformed"  # neither call nor answer, or both
    REPETITIVE = "repetitive"  # the text goes round in circles, whatever else it holds

    @property
    def acceptable(self) -> bool:
        """Whether the turn stands at the first attempt, however many retries are left."""
        return self in (Verdict.ANSWER, Verdict.CALLS)


def judge_turn(text: str, calls: Sequence[ToolCall], answer: str | None, made: Container[str], guards: Guards) -> Verdict:
    """What a parsed turn is; ``made`` holds the signatures of the calls already executed."""
    # As DR-Venus' inference counts: how often the last characters occur in the text, without overlap.
    tail, most = guards.repetition_tail_chars, guards.repetition_count
    if len(text) >= tail * (most + 1) and text.count(text[-tail:]) > most:
        return Verdict.REPETITIVE
    if bool(calls) == (answer is not None):
        return Verdict.MALFORMED
    if answer is not None:
        return Verdict.ANSWER
    return Verdict.REPEATED_CALL if all(signature(call) in made for call in calls) else Verdict.CALLS


def signature(call: ToolCall) -> str:
    """Canonical form of a call, equal for calls that ask the same: lists of texts are sorted sets, a lone text a list of it."""
    arguments: dict[str, Any] = {}
    for key, value in call.arguments.items():
        texts = [value] if isinstance(value, str) else value
        if isinstance(texts, list) and all(isinstance(item, str) for item in texts):
            value = sorted({" ".join(item.split()) for item in texts})
        arguments[key] = value
    return json.dumps([call.name, arguments], ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


T = TypeVar("T")
_LONGEST_TITLE = 200  # letters of what is said of a call


@dataclass(frozen=True)
class Outcome:
    """One call and what became of it."""

    call: ToolCall
    result: ToolResult
    outage: str = ""  # why the tool's backend is broken; empty: it is not

    def numbered(self, first: int, *, whole: bool = False) -> tuple[str, tuple[Passage, ...]]:
        """The result's text with a number before each passage, from ``first`` on, and these passages.

        ``whole``: a result without passages is one itself, under what was called, so that a reader sees where it comes from.
        """
        text, pieces, passages, at = self.result.text, list[str](), list[Passage](), 0
        spans = self.result.spans
        if whole and not spans and self.result.status is ToolStatus.OK:
            asked = " ".join(" ".join(map(str, self.call.arguments.values())).split())
            spans = (Span(0, len(text), f"{self.call.name}:{first}", f"{self.call.name}: {asked}"[:_LONGEST_TITLE]),)
        for number, span in enumerate(spans, start=first):
            pieces += [text[at : span.start], f"[{number}] "]
            passages.append(Passage(number=number, url=span.url, title=span.title, text=text[span.start : span.end]))
            at = span.start
        return "".join([*pieces, text[at:]]), tuple(passages)

    def event(self, roles: Mapping[str, str], passages: tuple[Passage, ...] = ()) -> ToolEvent:
        """The outcome as the record keeps it; ``roles`` says what each tool does."""
        kept = {name: getattr(self.result, name) for name in ("status", "parts", "latency_s", "provenance")}
        return ToolEvent(name=self.call.name, role=roles.get(self.call.name, ""), passages=passages, **kept)


RunCall = Callable[[ToolCall, Mapping[str, Tool], ToolContext], Awaitable[Outcome]]
"""How one call is run: :func:`run_call`, or something in front of it."""


class CallBook:
    """Counts an episode's calls, so that each gets its ordinal and its occurrence."""

    def __init__(self, question: Question, episode_seed: int, attempt: int, before: Sequence[Node] = ()) -> None:
        """``before``: the branch of an episode that this one follows; its calls count."""
        self.session = uuid.uuid4().hex
        about = {"question": question.id, "attempt": attempt, "session": self.session}
        self._context = ToolContext(episode_seed, frozenset(question.masked_urls), **about)
        self.tell: Callable[[str, str], None] | None = None  # hears of a tool how its call goes on
        self.made = Counter(
            signature(call) for turn, after in pairwise(before) if after.kind is NodeKind.OBSERVATION for call in turn.calls
        )

    def enter(self, call: ToolCall, deadline_s: float) -> ToolContext:
        """Enter a call that is about to run; gives the context it runs in."""
        signed, ordinal = signature(call), self.made.total()
        self.made[signed] += 1
        tell = None if self.tell is None else partial(self.tell, call.name)
        return replace(self._context, ordinal=ordinal, occurrence=self.made[signed] - 1, deadline_s=deadline_s, tell=tell)


async def run_calls(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], book: CallBook, deadline_s: float, run: RunCall
) -> list[Outcome]:
    """Run the calls of a turn at the same time with ``run``; outcomes are in call order, an exception is raised at the end."""
    contexts = [book.enter(call, deadline_s) for call in calls]
    if len(calls) == 1:
        return [await run(calls[0], tools, contexts[0])]
    return await all_of(run(call, tools, context) for call, context in zip(calls, contexts, strict=True))


async def run_call(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> Outcome:
    """Run one call within its deadline. The tool has arguments of its own: what it makes of them never changes the record."""
    tool = tools.get(call.name)
    if tool is None:
        text = f"There is no tool named {call.name!r}. The tools are: {', '.join(sorted(tools))}."
        return Outcome(call, ToolResult(text=text, status=ToolStatus.UNKNOWN_TOOL))
    scope = asyncio.timeout(context.deadline_s)
    try:
        async with scope:
            return Outcome(call, await tool(deepcopy(call.arguments), context))
    except TimeoutError:
        if not scope.expired():  # the tool's own error, not our deadline
            raise
        text = f"The call of {call.name} was stopped after {context.deadline_s:.0f} seconds without a result. Try another way."
        return Outcome(call, ToolResult(text=text, status=ToolStatus.TIMEOUT, latency_s=context.deadline_s or 0.0))
    except ToolOutageError as error:
        reason = str(error) or f"The backend of {call.name} is unreachable."
        return Outcome(call, ToolResult(text=f"The tool {call.name} is out of order.", status=ToolStatus.OUTAGE), reason)


class Finish(asyncio.Event):
    """Set, it asks for the answer at the next turn: why, and with how many tokens at most, its prompt included."""

    def __init__(self, why: str = "The answer was asked for early.", most: int | None = None) -> None:
        super().__init__()
        self.why, self.most = why, most


class Stopped(Exception):  # noqa: N818 - a request, not an error
    """The event was set before the work was done."""


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event | None) -> T:
    """Await ``work``; raises Stopped when ``stop`` is set before it is done, after the work's own cleaning up."""
    if stop is None:
        return await work
    if stop.is_set():
        work.close()
        raise Stopped
    task, waiter = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        task.cancel()
        waiter.cancel()
        await asyncio.gather(task, waiter, return_exceptions=True)
