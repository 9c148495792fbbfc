"""What reading a benchmark gives: rows, rows that were left out with the reason, and all of it as questions.

Contract: every row of a file is either a question or an :class:`Unread` that is counted; none disappears. Knows no file format
and no benchmark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sanderling.core.record import Question
from sanderling.evaluate.benchmarks.unread import BROKEN, Unread, UnreadWhy


@dataclass(frozen=True)
class Split:
    """A part of a benchmark that is measured alone."""

    name: str
    questions: int | None
    """How many the publisher names; None: not known, or not one number."""
    about: str = ""
    files: tuple[str, ...] = ()
    """Where it lies in the publisher's folder: patterns of paths below it, the likeliest first. For directories only."""


@dataclass(frozen=True)
class Options:
    """What a person says about a file beside its place."""

    split: str = ""
    """Empty: the one that the file's name says, or the benchmark's first."""
    columns: Mapping[str, str] = field(default_factory=dict)
    with_attachments: bool = False
    """Keep the questions that come with a file or an image, which no tool here can open."""
    canary: str = ""
    """Decrypts a file that does not carry its own; where given, it is used for every row."""


@dataclass(frozen=True)
class Row:
    """One question as the file has it, decrypted."""

    text: str
    native_id: str = ""
    """As the publisher counts; empty: the file has none, and the text's hash takes its place."""
    answers: tuple[str, ...] = ()
    """Accepted ones; empty: the publisher keeps them, or there are none."""
    level: str = ""
    topics: tuple[str, ...] = ()
    canary: str = ""
    masked_urls: tuple[str, ...] = ()
    hops: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More for `Question.meta`, JSON values only, under names that the loader does not use."""


@dataclass(frozen=True)
class Loaded:
    """A benchmark's file, read whole."""

    benchmark: str
    split: str
    path_name: str
    """The file's or folder's name, without its place."""
    sha256: str
    """Of the bytes of the file, or of all its parts one after the other."""
    questions: tuple[Question, ...]
    unread: Mapping[UnreadWhy, int]
    examples: tuple[Unread, ...]
    """The first few of each kind."""
    expected: int | None
    """Rows that the publisher names for the split; None: not known."""
    private: bool = False
    """Published encrypted, or under terms that forbid to share it: its texts are not to be shown or written unasked."""
    canaries: tuple[str, ...] = ()
    """The different ones of the rows."""
    repeated_texts: int = 0
    """Questions whose words another one before them has; each stays a question of its own."""

    @property
    def rows(self) -> int:
        """Rows of this benchmark that the file has, read or not."""
        return len(self.questions) + sum(count for why, count in self.unread.items() if why is not UnreadWhy.OTHER_SET)

    @property
    def without_answer(self) -> int:
        """Questions that cannot be scored, since the file has no accepted answer for them."""
        return sum(not question.answers for question in self.questions)

    @property
    def broken(self) -> int:
        """Rows that ought to have been questions and could not be read."""
        return sum(self.unread.get(why, 0) for why in BROKEN)
