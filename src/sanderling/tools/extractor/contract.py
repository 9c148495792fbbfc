"""The contract of an extractor: a page and a goal become passages of that page and a summary, or the word that they could not.

An extractor never makes a page up: what it returns as text stands in the page. It knows no agent, and no client of a model: it
is handed a function that completes a conversation.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sanderling.core.types import Message
from sanderling.world.contract import VisitReply

Complete = Callable[[Sequence[Message]], Awaitable[str]]
"""A model's next turn at temperature 0. Raises ExtractorOutageError, or ExtractorRefusedError for what it will not take."""


class Replies(Protocol):
    """Where a model's replies are remembered."""

    def get(self, model: str, messages: Sequence[Message]) -> str | None: ...

    def put(self, model: str, messages: Sequence[Message], reply: str) -> None: ...


class ExtractorOutageError(Exception):
    """The model's server is broken or unreachable."""


class ExtractorRefusedError(Exception):
    """The model's server will not take this conversation, most likely because it is too long."""


class Fallback(StrEnum):
    """Why the passages were chosen without the model after all."""

    UNREACHABLE = "unreachable"
    """The model's server gave no answer."""
    REFUSED = "refused"
    """It would not take the page, however short its parts."""
    UNREADABLE = "unreadable"
    """Its replies were not the JSON that was asked for."""
    NO_EVIDENCE = "no_evidence"
    """It quoted nothing."""
    NOT_IN_PAGE = "not_in_page"
    """Nothing that it quoted stands in the page."""
    LATE = "late"
    """The time of the call was used up."""


class OnOutage(StrEnum):
    """What an unreachable model does to a visit."""

    FALL_BACK = "fall-back"
    """The passages are chosen without the model; the visit is counted."""
    REFUSE = "refuse"
    """The visit is an outage of the tool: the episode ends unscored."""


@dataclass(frozen=True)
class Reading:
    """What came of reading one page."""

    text: str = ""
    """Passages of the page, in page order, each as it stands there."""
    summary: str = ""
    rationale: str = ""
    """Why these, in the model's words; for people."""
    fallback: Fallback | None = None
    """Set: there is no text, and the model-free extract takes its place."""


@dataclass
class Counts:
    """What an extractor did so far."""

    pages: int = 0
    asked: int = 0
    """Replies that a model was asked for."""
    remembered: int = 0
    """Replies that came from the cache."""
    kept: int = 0
    """Quotes that stand in their page."""
    dropped: int = 0
    """Quotes that do not."""
    fallbacks: Counter[Fallback] = field(default_factory=Counter)


class Extractor(Protocol):
    """Reads pages for goals."""

    @property
    def counts(self) -> Counts: ...

    @property
    def page_words(self) -> int:
        """How much of a page it reads; of a longer one, the passages chosen for the goal."""
        ...

    async def read(self, page: VisitReply, goal: str, max_words: int) -> Reading:
        """Passages and summary within ``max_words`` words. Raises ExtractorOutageError where an outage is to be refused."""
        ...
