"""How a run of attempts stood at a moment: what `live.Live` answers, and what views show. Data alone."""

from dataclasses import dataclass
from enum import StrEnum

from sanderling.evaluate.statistics import Interval


class Doing(StrEnum):
    """What an attempt waits for."""

    BEGINNING = "beginning"
    MODEL = "the model"
    TOOLS = "its tools"
    VERDICT = "the verdict"
    RETRY = "a retry"


@dataclass(frozen=True)
class Attempt:
    """An attempt under way."""

    question: str
    attempt: int
    turn: int
    """The turn it is in, from 1; 0 before the first."""
    seconds: float
    """In this run."""
    doing: Doing
    calls: tuple[str, ...]
    """The tools that it waits for."""
    still_s: float
    """Since it was last heard of."""


@dataclass(frozen=True)
class Snapshot:
    """A run at a moment."""

    total: int
    done: int
    """Attempts that are stored, those of earlier runs included."""
    resumed: int
    running: int
    judged: int
    """When all are made: those that the judges have looked through."""
    correct: int
    scored: int
    unscored: int
    """Met an outage, or have no verdict."""
    questions: int
    """With a scored attempt."""
    pass_so_far: float | None
    """Mean over those questions of the share of right ones among scored attempts; None before the first."""
    interval: Interval | None
    """Wilson's 95% over those questions, as if each were right or wrong: wider than the result's, which knows the shares."""
    turns: int
    """Of attempts as they stand; of one that begins again after an outage without a journal, those of its last try."""
    sampled_tokens: int | None
    """None where no server says."""
    prompt_tokens: int | None
    """All that the model was asked; None where no server says."""
    some_tokens_untold: bool
    """A server said nothing of some turns: there may be more tokens."""
    cost: float
    turns_per_s: float
    """Over the last minute, without those that a journal remembered."""
    tokens_per_s: float | None
    """Sampled, over the last minute."""
    elapsed_s: float
    left_s: float | None
    """What remains, at the time that an attempt took in this run, retries, verdicts and unfinished ones included."""
    longest: Attempt | None
    """Has been under way for longest."""
    stillest: Attempt | None
    """Has not been heard of for longest."""
    waiting: int
    """Attempts that wait to be tried again."""
    warnings_last_minute: int
    warning: str
    """The last one; empty: none."""
    warning_age_s: float
    is_stopping: bool
