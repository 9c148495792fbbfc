"""Running the calls of one turn. What goes wrong in a call is a result that the agent reads, except a tool's outage."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sanderling.agent.limits import signature
from sanderling.core.record import Question, ToolEvent
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """One call and what became of it."""

    call: ToolCall
    result: ToolResult
    outage: str = ""  # why the tool's backend is broken; empty: it is not

    def event(self, roles: Mapping[str, str]) -> ToolEvent:
        """The outcome as the record keeps it; ``roles`` says what each tool does."""
        found = self.result
        return ToolEvent(
            name=self.call.name,
            role=roles.get(self.call.name, ""),
            status=found.status,
            parts=found.parts,
            latency_s=found.latency_s,
            provenance=found.provenance,
        )


RunCall = Callable[[ToolCall, Mapping[str, Tool], ToolContext], Awaitable[Outcome]]
"""How one call is run: :func:`run_call`, or something in front of it."""


class CallBook:
    """Counts an episode's calls, so that each gets its ordinal and its occurrence."""

    def __init__(self, question: Question, episode_seed: int, attempt: int) -> None:
        self._context = ToolContext(episode_seed, frozenset(question.masked_urls), question=question.id, attempt=attempt)
        self.made: Counter[str] = Counter()

    def enter(self, call: ToolCall, deadline_s: float) -> ToolContext:
        """Enter a call that is about to run; gives the context it runs in."""
        signed, ordinal = signature(call), self.made.total()
        self.made[signed] += 1
        return replace(self._context, ordinal=ordinal, occurrence=self.made[signed] - 1, deadline_s=deadline_s)


async def run_calls(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], book: CallBook, deadline_s: float, run: RunCall
) -> list[Outcome]:
    """Run the calls of a turn at the same time with ``run``; outcomes are in call order, an exception is raised at the end."""
    contexts = [book.enter(call, deadline_s) for call in calls]
    if len(calls) == 1:
        return [await run(calls[0], tools, contexts[0])]
    running = (run(call, tools, context) for call, context in zip(calls, contexts, strict=True))
    outcomes: list[Outcome] = []
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes.append(outcome)
    return outcomes


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
