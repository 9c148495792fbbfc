"""What one answer may take, in money, time and tokens together: ``0.20usd,5min,200ktok``. It always ends with an answer.

A share is kept back for the closing turn: while another turn could use that up, the agent is asked for its answer instead, in a
turn that is cut to what is left. With each result it reads what is left. The receipt says what was taken in the end.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from sanderling.agent.loop import Event, Observed, TurnSampled, TurnStarted
from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.text import counted_as
from sanderling.core.types import Clock, ToolSpec
from sanderling.policy.budget import NOTHING, Ledger, Prices, Spent, price_table
from sanderling.tools.contract import Tool, ToolContext, ToolResult

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m)?\s*(usd|\$|eur|€|tok(?:ens?)?|s|sec|min|h)", re.IGNORECASE)
_SECONDS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3_600.0}
_NEXT_RESULT = 8_192  # tokens that the results of one more turn may bring
_SHARE = 16  # where little may be spent, a turn and its results are not reckoned with more than this part of it
_ANSWER = 0.25  # of the money for the closing turn, what its answer may take at least
_MOST = 10**9  # tokens: as many as anybody likes
_PATIENCE = 2  # times its seconds, after which an answer's turn under way is given up
LEFT = "\n\n(Left to spend: "
"""How what is left begins behind a result."""
_CLOSING_SHARE = 0.15  # of the time


@dataclass(frozen=True)
class Limits:
    """The most that an answer may take; None: no limit."""

    cost: float | None = None
    seconds: float | None = None
    tokens: int | None = None

    @classmethod
    def read(cls, text: str) -> "Limits":
        """Amounts with their units, commas between them. Raises UserError."""
        found: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            amount = _AMOUNT.fullmatch(part)
            if amount is None:
                raise UserError(f"{part!r} is no amount to spend: write 0.20usd, 5min or 200ktok, or several: 0.20usd,5min.")
            value = float(amount[1]) * {"k": 1e3, "m": 1e6}.get((amount[2] or "").lower(), 1)
            unit = amount[3].lower()
            if unit in _SECONDS:
                found["seconds"] = value * _SECONDS[unit]
            elif unit.startswith("tok"):
                found["tokens"] = int(value)
            else:
                found["cost"] = value
        return cls(**found)


class Spend:
    """One answer's spending under way."""

    def __init__(
        self,
        limits: Limits,
        ledger: Ledger,
        clock: Clock,
        prices: Prices,
        longest: int,
        before: Spent = NOTHING,
        seconds: float = 0.0,
    ) -> None:
        """``longest``: most tokens of one turn; ``before``: what the ledger has of earlier answers.

        ``seconds``: what finished parts of this one took.
        """
        self._limits, self._ledger, self._clock, self._prices, self._longest = limits, ledger, clock, prices, longest
        self._began, self._prompt, self._before = clock.monotonic(), 0, before
        self._told = self._replayed = 0.0  # seconds that events took, and those of them that passed in other processes
        self._earlier = seconds
        if limits.cost is not None:
            ledger.paid_up_to = before.cost + limits.cost

    def taken(self) -> Spent:
        """By this answer so far, whichever process worked at it."""
        spent, before = self._ledger.spent, self._before
        return Spent(spent.tokens - before.tokens, spent.cost - before.cost, spent.calls - before.calls)

    def is_closing_after(self, event: Event) -> bool:
        """Whether one more turn after what has just happened could leave too little for the closing one."""
        if isinstance(event, TurnStarted):
            self._prompt = event.prompt_tokens
        elif isinstance(event, TurnSampled):
            self._prompt = (event.prompt_tokens or self._prompt) + event.sampled_tokens
        elif isinstance(event, Observed):
            self._prompt += len(event.text) // 3
        if isinstance(event, TurnSampled | Observed):
            self._told += event.seconds  # a journal tells in a moment of what took an earlier process long
            self._replayed = max(self._replayed, self._told - self._here())
        limits, here, prompt = self._limits, self.taken(), self._prompt
        if limits.seconds is not None and self._seconds() > limits.seconds * (1 - _CLOSING_SHARE):
            return True
        if limits.tokens is not None:
            turn, results = (min(most, limits.tokens // _SHARE) for most in (self._longest, _NEXT_RESULT))
            if here.tokens + 2 * (prompt + turn) + turn + results > limits.tokens:
                return True
        if limits.cost is None:
            return False
        turn, results = (
            most if price == 0 else min(most, int(limits.cost / _SHARE / price * 1e6))
            for most, price in ((self._longest, self._prices.sampled), (_NEXT_RESULT, self._prices.prompt))
        )
        return here.cost + self._prices.of(2 * prompt + turn + results, 2 * turn) > limits.cost

    def most_left(self) -> int | None:
        """How many tokens one more turn may take, its prompt included; None: as many as it likes."""
        limits, here, prices, found = self._limits, self.taken(), self._prices, list[float]()
        if limits.tokens is not None:
            found.append(limits.tokens - here.tokens)
        if limits.cost is not None and (prices.prompt or prices.sampled):
            left = max(limits.cost - here.cost, 0.0) * 1e6
            prompt = min(self._prompt, (1 - _ANSWER) * left / prices.prompt) if prices.prompt else self._prompt
            found.append(prompt + (min((left - prompt * prices.prompt) / prices.sampled, _MOST) if prices.sampled else _MOST))
        return max(int(min(found)), 0) if found else None

    def patience(self) -> float:
        """Seconds until the answer is so late that nobody waits for it any longer."""
        return inf if self._limits.seconds is None else _PATIENCE * self._limits.seconds - self._seconds()

    def left(self) -> str:
        """What is left, in a few words; empty without limits."""
        limits, here, parts = self._limits, self.taken(), list[str]()
        if limits.seconds is not None:
            parts.append(f"{max(limits.seconds - self._seconds(), 0):.0f} of {limits.seconds:.0f} seconds")
        if limits.tokens is not None:
            parts.append(f"{max(limits.tokens - here.tokens, 0):,} of {limits.tokens:,} tokens")
        if limits.cost is not None:
            parts.append(f"{max(limits.cost - here.cost, 0):.4f} of {limits.cost:.4f} in money")
        return ", ".join(parts)

    def tools(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """The tools, whose results say what is left."""
        return {name: _Telling(tool, self) for name, tool in tools.items()} if self.left() else dict(tools)

    def _here(self) -> float:
        return self._clock.monotonic() - self._began

    def _seconds(self) -> float:
        """By this answer so far, whichever process worked at it."""
        return self._here() + self._replayed + self._earlier


@dataclass(frozen=True)
class _Telling:
    """A tool whose results end with what is left to spend; they are journaled so, and a resumed episode reads the same."""

    tool: Tool
    spend: Spend

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        result = await self.tool(arguments, context)
        return replace(result, text=f"{result.text}{LEFT}{self.spend.left()}.)")


def tokens_taken(trajectory: Trajectory) -> tuple[int, int]:
    """Tokens that a question's own turns read and wrote."""
    turns = [node for node in trajectory.own() if node.kind is NodeKind.TURN]
    return sum(node.prompt_tokens for node in turns), sum(node.sampled_tokens or len(node.token_ids or ()) for node in turns)


def receipt(records: Sequence[Trajectory], cost: float | None) -> str:
    """What an answer, or the parts of a report, took; ``cost``: None where no price is known."""
    nodes = [node for record in records for node in record.own()]
    turns = [node for node in nodes if node.kind is NodeKind.TURN]
    read, written = map(sum, zip(*map(tokens_taken, records), strict=True))
    new = sum(node.prefilled_tokens for node in turns)
    calls = sum(len(node.events) for node in nodes)
    unknown = f"money unknown (give --set agent.price=0.15,0.60, or the model's line in {price_table()})"
    money = unknown if cost is None else f"cost {cost:.4f}"
    cached = f" ({read - new:,} of them cached)" if 0 < new < read else ""
    took = f"{counted_as(len(turns), 'turn')}, {counted_as(calls, 'call')}, {sum(record.seconds for record in records):.1f} s"
    tokens = f"{read:,} tokens read{cached}, {written:,} written" if read or written else "tokens unknown"
    return f"{took}; {tokens}; {money}"
