"""A judge's form: what a model is shown of an answer, and how its reply is read.

Contract: a form's reader is strict. A reply that it cannot read is None, which is asked for once more with a reminder and then
left unscored; it is never taken for "wrong". A form's version changes with every letter that a judge is shown, and with its
reader, since verdicts are remembered under it. Knows no server.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sanderling.core.record import Question
from sanderling.core.types import Message, Role


class Grade(StrEnum):
    """What some forms say beyond right and wrong."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NOT_ATTEMPTED = "not_attempted"
    """Of simpleqa: no answer was tried, and nothing wrong was said."""
    CORRECT_WITH_EXTRA = "correct_with_extra"
    """Of sets: all that was asked for, and more."""
    PARTLY = "partly"
    """Of sets: some of what was asked for."""


@dataclass(frozen=True)
class Reading:
    """What one reply says."""

    correct: bool
    score: float
    grade: str = ""
    """A :class:`Grade`, of forms that have more than two."""
    extracted: str | None = None
    """The answer that the judge took for the final one."""
    confidence: float | None = None
    """What the answer claims of itself, in percent as said; None: nothing, or nothing between 0 and 100."""
    parts: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Of sets: each item that is asked for, and whether it was given."""
    excessive: tuple[str, ...] = ()
    """Of sets: what was given and not asked for."""
    reason: str = ""
    """The judge's own words for it; empty: the whole reply."""


def plain_reading(correct: bool | None, reason: str = "") -> Reading | None:
    """Right or wrong and no more; None stays unreadable."""
    return None if correct is None else Reading(correct, float(correct), reason=reason)


Reader = Callable[[str, Question], Reading | None]


@dataclass(frozen=True)
class Form:
    """A judge's form."""

    key: str
    about: str
    """For people: which shape it has, and whose."""
    system: str
    read: Reader
    version: str
    """By :func:`version_of`."""
    layout: Callable[[Question, str], str]
    """What stands in the user's message: question, accepted answers and the given one."""
    reminder: str = ""
    """Added to the user's message when a reply could not be read; without one the same is asked again."""
    prompt: str = ""
    """The name in verdicts; empty: the key."""
    max_tokens: int = 2_048
    """Of a reply: far more than its shape needs, since a cut reply is never read."""
    same_text_is_right: bool = False
    """An answer that is letter by letter an accepted one needs no judge. Only where the publisher has it so."""

    @property
    def name(self) -> str:
        """With the version, for provenance and wherever verdicts are kept."""
        return f"{self.prompt or self.key} {self.version}"

    def messages(self, question: Question, answer: str) -> tuple[Message, ...]:
        """Ask about one answer."""
        return _asked(self.system, self.layout(question, answer))

    def messages_again(self, question: Question, answer: str) -> tuple[Message, ...]:
        """Ask once more, after a reply that could not be read."""
        shown = self.layout(question, answer)
        return _asked(self.system, f"{shown}\n\n{self.reminder}" if self.reminder else shown)


def version_of(*parts: str) -> str:
    """Of the texts that a judge is shown and the reader's own version."""
    return hashlib.sha256("\x1e".join((_MATERIAL, *parts)).encode()).hexdigest()[:12]


def material(question: Question, answer: str) -> str:
    """Question, accepted answers and given answer, each between tags that no text of theirs can close or open."""
    accepted = "\n".join(f"- {_inline(one)}" for one in question.answers)
    return _MATERIAL.format(question=fenced(question.text), accepted=fenced(accepted), answer=fenced(answer))


def fenced(text: str) -> str:
    """The text, unable to end what it stands in."""
    return _TAG.sub("‹", text)


_MATERIAL = (
    "<question>\n{question}\n</question>\n\n<right_answers>\n{accepted}\n</right_answers>\n\n"
    "<final_answer>\n{answer}\n</final_answer>"
)
_TAG = re.compile(r"<(?=\s*/?\s*(?:question|right_answers|final_answer)\b)", re.IGNORECASE)


def _asked(system: str, user: str) -> tuple[Message, ...]:
    return (Message(role=Role.SYSTEM, content=system), Message(role=Role.USER, content=user))


def _inline(text: str) -> str:
    return " ".join(text.split())
