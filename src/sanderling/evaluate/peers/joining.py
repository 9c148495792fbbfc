"""The benchmark's question of a record, found without guessing.

By the task's name, which is the benchmark's own id; else by the question's exact text; else by its words, as contamination
compares them. A "?" at the end is ignored, since some harnesses add one. Two candidates are none. A task's name alone proves
nothing where another text was asked: benchmarks number their questions alike. Pure; knows no file.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sanderling.core.record import Question
from sanderling.core.text import normalised


class How(StrEnum):
    """How a question was found."""

    TASK = "by task"
    TEXT = "by text"
    WORDS = "by words"


class Why(StrEnum):
    """Why none was found."""

    NONE = "asked by no question of the benchmark"
    SEVERAL = "asked by several questions of the benchmark"


@dataclass(frozen=True)
class Joined:
    """The benchmark's question."""

    question: Question
    how: How


class Joiner:
    """A benchmark's questions, to be found again.

    Example: ``Joiner(loaded.questions).find("Who wrote it?", task="17")``
    """

    def __init__(self, questions: Iterable[Question]) -> None:
        self._by_task: dict[str, Question] = {}
        self._by_text: defaultdict[str, list[Question]] = defaultdict(list)
        self._by_words: defaultdict[str, list[Question]] = defaultdict(list)
        for question in questions:
            self._by_task[native_id(question)] = question
            self._by_text[_plain(question.text)].append(question)
            if words := normalised(question.text):
                self._by_words[words].append(question)

    @property
    def tasks(self) -> frozenset[str]:
        """The benchmark's own ids."""
        return frozenset(self._by_task)

    def of_task(self, task: str) -> Question | None:
        """The question of that id, whatever was asked."""
        return self._by_task.get(task)

    def find(self, text: str, task: str = "") -> Joined | Why:
        """The question of a record that asks ``text``, or why there is none."""
        named = self._by_task.get(task) if task else None
        if named is not None and _asks(text, named):
            return Joined(named, How.TASK)
        alike = self._by_text.get(_plain(text), [])
        if alike:
            return _only(alike, How.TEXT)
        return _only(self._by_words.get(normalised(text), []), How.WORDS)


def native_id(question: Question) -> str:
    """The id that the publisher gave: ours without the benchmark's key."""
    return question.id.partition("/")[2] or question.id


def _only(found: Sequence[Question], how: How) -> Joined | Why:
    if len(found) == 1:
        return Joined(found[0], how)
    return Why.SEVERAL if found else Why.NONE


def _asks(text: str, question: Question) -> bool:
    """Whether a text asks this question, perhaps inside a prompt; no text at all contradicts nothing."""
    if not text.strip():
        return True
    words, wanted = normalised(text), normalised(question.text)
    return f" {wanted} " in f" {words} " if wanted else _plain(text) == _plain(question.text)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip("?？ ")
