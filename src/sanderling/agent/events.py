"""What the loop tells whoever watches it, while it happens: typed events for terminals and servers."""

from dataclasses import dataclass

from sanderling.core.record import ToolEvent, Trajectory
from sanderling.core.types import ToolCall


@dataclass(frozen=True)
class TurnStarted:
    """The policy is about to speak; ``forced``: the answer at a spent budget. Tokens may be estimated."""

    turn: int
    retry: int
    forced: bool
    prompt_tokens: int


@dataclass(frozen=True)
class TextDelta:
    """Text of a turn as it comes."""

    turn: int
    text: str


@dataclass(frozen=True)
class TurnSampled:
    """The policy has spoken; whether its turn stands is told next. Tokens are 0 where a server does not say."""

    turn: int
    retry: int
    prompt_tokens: int
    sampled_tokens: int
    seconds: float  # of a turn that a journal remembers, what it had taken


@dataclass(frozen=True)
class TurnRejected:
    """An attempt, whose text may have been streamed, is tried again; ``reason`` is the verdict on it."""

    turn: int
    retry: int
    reason: str


@dataclass(frozen=True)
class CallsMade:
    """A turn stands, and its calls are about to run."""

    turn: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Observed:
    """What the agent will read next: results, or the loop's notice of a malformed turn (then without outcomes)."""

    turn: int
    text: str
    outcomes: tuple[ToolEvent, ...]
    seconds: float


@dataclass(frozen=True)
class Ended:
    """The episode is over."""

    trajectory: Trajectory


Event = TurnStarted | TextDelta | TurnSampled | TurnRejected | CallsMade | Observed | Ended
