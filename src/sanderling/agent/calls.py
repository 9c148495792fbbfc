"""Running the calls of one turn: concurrently, each with its context and deadline, results in call order.

Whatever goes wrong in a call is a result that the agent reads (unknown tool, time-out, the tool's own statuses), except a
tool's outage, which is handed back as such so that the loop can end the episode unscored. Knows no policy and no transcript.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from sanderling.agent.guards import signature
from sanderling.core.record import ToolEvent
from sanderling.core.types import ToolCall, ToolStatus
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult


@dataclass(frozen=True)
class Outcome:
    """One call and what became of it."""

    call: ToolCall
    result: ToolResult
    outage: str = ""
    """Why the tool's backend is broken; empty: it is not."""


RunCall = Callable[[ToolCall, Mapping[str, Tool], ToolContext], Awaitable[Outcome]]
"""How one call is run: :func:`run_call`, or something in front of it."""


def tool_event(outcome: Outcome, roles: Mapping[str, str]) -> ToolEvent:
    """The outcome as the record keeps it, beside the observation's text; ``roles`` says what each tool does."""
    result = outcome.result
    return ToolEvent(
        name=outcome.call.name,
        role=roles.get(outcome.call.name, ""),
        status=result.status,
        parts=result.parts,
        latency_s=result.latency_s,
        provenance=result.provenance,
    )


class CallBook:
    """Counts an episode's calls, so that each gets its ordinal and its occurrence."""

    def __init__(self, episode_seed: int, masked_urls: Sequence[str], question: str = "", attempt: int = 0) -> None:
        self._seed = episode_seed
        self._masked = frozenset(masked_urls)
        self._question, self._attempt = question, attempt
        self._made: Counter[str] = Counter()
        self._ordinal = 0

    def __contains__(self, signed: object) -> bool:
        """Whether a call with this signature was made."""
        return signed in self._made

    def enter(self, call: ToolCall, deadline_s: float) -> ToolContext:
        """Enter a call that is about to run; gives the context it runs in."""
        signed = signature(call)
        context = ToolContext(
            episode_seed=self._seed,
            masked_urls=self._masked,
            ordinal=self._ordinal,
            occurrence=self._made[signed],
            deadline_s=deadline_s,
            question=self._question,
            attempt=self._attempt,
        )
        self._made[signed] += 1
        self._ordinal += 1
        return context


async def run_calls(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], book: CallBook, deadline_s: float, run: RunCall
) -> list[Outcome]:
    """Run the calls of one turn at the same time with ``run``; outcomes are in call order.

    An exception that is not an outage is a programming error: it is raised once the other calls are done.
    """
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
