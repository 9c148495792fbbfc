"""The words that everybody shares: messages and tool calls, what became of a call, how an episode ends, sampling, time."""

import datetime
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from sanderling.core.config import Frozen


class Role(StrEnum):
    """Who speaks. Observations are user messages: the models were trained that way."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


class Message(Frozen):
    """One message as a chat endpoint would take it."""

    role: Role
    content: str


class ToolCall(Frozen):
    """One call as the model wrote it, after tolerant parsing."""

    name: str
    arguments: dict[str, Any]
    raw: str = ""
    """The text between the call's tags."""


class ToolSpec(Frozen):
    """What the model is told about a tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""


class ToolStatus(StrEnum):
    """What became of one call, or of one query or URL within it."""

    OK = "ok"
    EMPTY = "empty"
    NOT_FOUND = "not_found"
    GONE = "gone"
    TIMEOUT = "timeout"
    BLOCKED = "blocked"
    PAYWALLED = "paywalled"
    NOT_TEXT = "not_text"
    RATE_LIMITED = "rate_limited"
    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    OUTAGE = "outage"


class Ending(StrEnum):
    """Why an episode stopped. Outages are not the agent's doing: *unscored*, neither zero reward nor a wrong answer."""

    ANSWERED = "answered"
    ANSWERED_AT_BUDGET = "answered_at_budget"
    """After it was told that its turns, context or time were used up."""
    NO_ANSWER = "no_answer"
    """It was told to answer and did not."""
    CONTEXT_EXHAUSTED = "context_exhausted"
    """No room was left for a forced answer."""
    TURN_LIMIT = "turn_limit"
    """As `TIME_LIMIT`: the budget was used up, and forced answers are switched off."""
    TIME_LIMIT = "time_limit"
    REPETITION = "repetition"
    MALFORMED = "malformed"
    TOOL_OUTAGE = "tool_outage"
    POLICY_OUTAGE = "policy_outage"
    CANCELLED = "cancelled"

    @property
    def scored(self) -> bool:
        """Whether the episode may receive an outcome."""
        return self not in (Ending.TOOL_OUTAGE, Ending.POLICY_OUTAGE, Ending.CANCELLED)

    @property
    def has_answer(self) -> bool:
        """Whether the agent's own final answer exists."""
        return self in (Ending.ANSWERED, Ending.ANSWERED_AT_BUDGET)


class Sampling(Frozen):
    """How to sample one turn. Log-probabilities are those of exactly this distribution (after temperature and cuts)."""

    temperature: float = Field(default=1.0, ge=0.0)
    """0 is greedy: log-probabilities are then those of temperature 1."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """0: no cut."""
    presence_penalty: float = 0.0
    max_tokens: int = Field(default=1024, ge=1)
    stop: tuple[str, ...] = ()
    """Strings that end the turn besides the end token; text is cut before them."""


class Clock(Protocol):
    """Where dates (shown to the model) and seconds come from: nothing reads the machine's clock behind a caller's back."""

    def today(self) -> datetime.date: ...
    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    def today(self) -> datetime.date:
        return datetime.datetime.now().astimezone().date()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class FixedClock:
    """A clock that stands still until it is advanced."""

    day: datetime.date
    seconds: float = 0.0

    def today(self) -> datetime.date:
        return self.day

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
