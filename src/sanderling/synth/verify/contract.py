"""What a check of a question is, and what it can find. Knows no check."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from sanderling.core.record import Question


class Check(StrEnum):
    """The checks, the cheap ones first: a question that fails one is not put to the next."""

    GIVEAWAY = "giveaway"
    """The question does not hold its answer."""
    EVIDENCE = "evidence"
    """The world, without what is masked for the question, holds the answer where a search finds it."""
    SNIPPETS = "snippets"
    """Titles and snippets of one list of results do not give the answer."""
    UNIQUE = "unique"
    """A model that reads what searches find sees no second answer."""
    CLOSED_BOOK = "closed-book"
    """A model without tools does not know the answer."""
    OPEN_WORLD = "open-world"
    """An agent in the world finds the answer."""


class Finding(StrEnum):
    """What a check says."""

    PASSED = "passed"
    FAILED = "failed"
    UNSCORED = "unscored"
    """It could not be told: neither good nor bad."""


@dataclass(frozen=True)
class Result:
    """A check's word on a question."""

    check: Check
    finding: Finding
    detail: str = ""
    """One sentence for people."""
    meta: dict[str, Any] = field(default_factory=dict)
    """JSON: what it rests on, with provenance."""


class Checker(Protocol):
    """Checks questions."""

    @property
    def check(self) -> Check: ...

    @property
    def made_with(self) -> dict[str, Any]:
        """JSON: everything its findings depend on beside the question."""
        ...

    async def __call__(self, question: Question) -> Result:
        """Check one question. Raises AskingOutageError when a model could not be reached."""
        ...
