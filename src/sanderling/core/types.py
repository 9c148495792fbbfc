"""The words that everybody shares: messages and tool calls, what became of a call, how an episode ends, sampling, time."""

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from pydantic import Field

from sanderling.core.config import Frozen

T = TypeVar("T")


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
    raw: str = ""  # the text between the call's tags


class ToolSpec(Frozen):
    """What the model is told about a tool."""

    name: str
    description: str
    parameters: dict[str, Any]  # JSON schema of the arguments


class ToolStatus(StrEnum):
    """What became of one call, or of one query or URL within it."""

    OK = "ok"
    EMPTY = "empty"
    NOT_FOUND = "not_found"
    GONE = "gone"
    TIMEOUT = "timeout"
    BLOCKED = "blocked"
    FORBIDDEN = "forbidden"  # its address may not be read from here, and was not asked
    PAYWALLED = "paywalled"
    NOT_TEXT = "not_text"
    RATE_LIMITED = "rate_limited"
    SPENT = "spent"  # more of the web would cost more than it may
    HELD = "held"  # it repeats a private page, and was not sent to the web
    BAD_ARGUMENTS = "bad_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    FAILED = "failed"  # a tool of somebody else's, or a program, says that it did not do what was asked
    OUTAGE = "outage"


class Ending(StrEnum):
    """Why an episode stopped. Outages are not the agent's doing: *unscored*, neither zero reward nor a wrong answer."""

    ANSWERED = "answered"
    ANSWERED_AT_BUDGET = "answered_at_budget"  # after it was told that its turns, context or time were used up
    NO_ANSWER = "no_answer"  # it was told to answer and did not
    CONTEXT_EXHAUSTED = "context_exhausted"  # no room was left for a forced answer
    TURN_LIMIT = "turn_limit"  # the budget was used up, and forced answers are switched off
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

    temperature: float = Field(default=1.0, ge=0.0)  # 0 is greedy: log-probabilities are then those of temperature 1
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)  # 0: no cut
    presence_penalty: float = 0.0
    max_tokens: int = Field(default=1024, ge=1)
    stop: tuple[str, ...] = ()  # strings that end the turn besides the end token; text is cut before them


class Clock(Protocol):
    """Where dates (shown to the model) and seconds come from: nothing reads the machine's clock behind a caller's back."""

    def today(self) -> datetime.date: ...
    def monotonic(self) -> float: ...


@dataclass(frozen=True)
class SystemClock:
    """The machine's own clock; ``day``: the date that it shows in place of today's."""

    day: datetime.date | None = None

    def today(self) -> datetime.date:
        return self.day or datetime.datetime.now().astimezone().date()

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


# -- asking a model: one conversation in, one text out -------------------------------------------------------------------


class AskingOutageError(Exception):
    """Nobody answered, after all retries: what was asked stays open, and may be asked again later."""


class BudgetSpentError(AskingOutageError):
    """The limit of tokens or money is reached: nothing more is asked in this run."""


class AskingRefusedError(AskingOutageError):
    """The server will not take this conversation, most likely because it is too long; others it may take."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one reply cost: nothing where it was ``remembered``."""

    model: str
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    cost: float = 0.0
    remembered: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's word, without its reasoning where the server or the text tells it apart."""

    text: str
    usage: Usage
    cut: bool = False  # it ended for its length


class ModelClient(Protocol):
    """A model that answers conversations; it remembers, retries and keeps to its budget as its maker decided.

    ``place`` tells it from others of its ``name``: a server's address without credentials, a directory; empty: unknown.
    ``sample`` tells apart several replies to one conversation. Asking raises AskingOutageError, BudgetSpentError.
    """

    @property
    def name(self) -> str: ...
    @property
    def place(self) -> str: ...
    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int = 1_024, temperature: float = 0.0, sample: int = 0
    ) -> Reply: ...


def placed(name: str, places: Sequence[str]) -> str | dict[str, Any]:
    """A model, or a judge that asks several, with its places, as JSON."""
    return {"model": name, "at": list(places)} if any(places) else name


async def first_readable(
    clients: Sequence[ModelClient],
    messages: Sequence[Message],
    read: Callable[[str], T | None],
    *,
    tries: int = 1,
    max_tokens: int = 1_024,
    temperature: float = 0.0,
    again: Sequence[Message] | None = None,
) -> tuple[T | None, list[Reply]]:
    """Ask one after the other, each up to ``tries`` times, until a reply can be read; after the first, ``again`` if given.

    Returns what was read from the first readable reply (None: from none), and all replies on the way to it.

    A reply that was cut for its length is not read. Raises BudgetSpentError at once when the budget is spent. When no reply
    could be read it raises AskingOutageError if somebody was not reached, and AskingRefusedError if all refused.
    """
    replies, failures = list[Reply](), list[AskingOutageError]()
    for client in clients:
        for sample in range(tries):
            asked = again if sample and again is not None else messages
            try:
                reply = await client.ask(asked, max_tokens=max_tokens, temperature=temperature, sample=sample)
            except BudgetSpentError:
                raise
            except AskingOutageError as error:
                failures.append(error)
                break
            replies.append(reply)
            value = None if reply.cut else read(reply.text)
            if value is not None:
                return value, replies
    outages = [failure for failure in failures if not isinstance(failure, AskingRefusedError)]
    if outages or not replies:
        raise [*outages, *failures, AskingOutageError("There is no model to ask.")][0]
    return None, replies
