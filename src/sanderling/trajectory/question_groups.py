"""Which questions are the same, or nearly: groups connected by pairs that reach a threshold.

Two questions whose known answers have nothing in common are different questions, however alike they read ("the mayor of Asker",
"the mayor of Askim"): on request, only pairs are joined that share an answer, or of which one has none, and never groups that
both know answers and share none. Questions are taken in order; a group is named by its first. Deterministic. Memory: about
2 KB for each question with words of its own.

Where one template makes thousands of questions, all of them are candidates of each other: with answers few of those share one,
without them time grows with the square of their number.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sanderling.trajectory.near import THRESHOLD, NearIndex, similarity
from sanderling.trajectory.question_text import normalised

_FEW = 64
"""So many texts with a common answer are compared one by one; among more, the index chooses."""


@dataclass(frozen=True)
class Asked:
    """A question as far as sameness goes."""

    text: str
    answers: tuple[str, ...] = ()


def question_groups(questions: Iterable[Asked], *, threshold: float = THRESHOLD, by_answers: bool = True) -> list[int]:
    """For each question the place of the first of its group: its own, where it is the first.

    ``by_answers``: questions whose known answers have nothing in common stay apart. A question without words is alone.
    Example: ``question_groups([Asked("Who won?"), Asked("who won"), Asked("Where?")]) == [0, 0, 2]``
    """
    grouping = _ByAnswers(threshold) if by_answers else _ByText(threshold)
    for question in questions:
        grouping.take(normalised(question.text), frozenset(filter(None, map(normalised, question.answers))))
    return grouping.groups.firsts()


class _Groups:
    """Disjoint sets: each member knows its set's label, and of two sets that are joined the smaller is told the other's."""

    def __init__(self) -> None:
        self._labels = np.zeros(16, dtype=np.int64)
        self._members: list[list[int]] = []
        self.answers: list[frozenset[str]] = []
        """What each label's set knows of answers."""

    def add(self, answers: frozenset[str] = frozenset()) -> int:
        number = len(self._members)
        if number == len(self._labels):
            self._labels = np.concatenate((self._labels, np.zeros_like(self._labels)))
        self._labels[number] = number
        self._members.append([number])
        self.answers.append(answers)
        return number

    def label(self, number: int) -> int:
        return int(self._labels[number])

    def differ(self, a: int, b: int) -> bool:
        """Whether the sets of both know answers and share none."""
        mine, other = self.answers[self.label(a)], self.answers[self.label(b)]
        return bool(mine) and bool(other) and mine.isdisjoint(other)

    def join(self, a: int, b: int) -> None:
        small, large = sorted((self.label(a), self.label(b)), key=lambda label: (len(self._members[label]), label))
        if small != large:
            self._labels[self._members[small]] = large
            self._members[large] += self._members[small]
            self._members[small] = []
            self.answers[large] |= self.answers[small]

    def firsts(self) -> list[int]:
        """For each member the first of its set."""
        first = [min(members, default=-1) for members in self._members]
        return [first[label] for label in self._labels[: len(self._members)].tolist()]


class _ByText:
    """Questions by their words alone."""

    def __init__(self, threshold: float) -> None:
        self.groups = _Groups()
        self._threshold = threshold
        self._index = NearIndex()
        self._known: dict[str, int] = {}
        """Text to the question that asked it first."""
        self._asked: list[int] = []
        """The same, by the text's number in the index."""

    def take(self, words: str, answers: frozenset[str]) -> None:
        """Add a question to the groups it belongs to; what its answers are makes no difference."""
        number = self.groups.add()
        if not words:
            return
        first = self._known.setdefault(words, number)
        if first != number:
            self.groups.join(number, first)
            return
        for text, _ in self._index.near(words, self._threshold):
            self.groups.join(number, self._asked[text])
        self._index.add(words)
        self._asked.append(number)


class _ByAnswers:
    """Questions by words and answers."""

    def __init__(self, threshold: float) -> None:
        self.groups = _Groups()
        self._threshold = threshold
        self._all, self._open = NearIndex(), NearIndex()
        self._all_asked: list[int] = []
        self._open_asked: list[int] = []
        """Questions by number in the two indices: of all, and of those without answers."""
        self._answered: dict[str, list[int]] = {}
        """Answer to the questions that accept it."""
        self._words: list[str] = []
        self._known: dict[tuple[str, frozenset[str]], int] = {}

    def take(self, words: str, answers: frozenset[str]) -> None:
        """Add a question to the groups it belongs to."""
        number = self.groups.add(answers)
        self._words.append(words)
        first = self._known.setdefault((words, answers), number)
        if not words:
            return
        if first != number:
            self.groups.join(number, first)
            return
        for other in self._same(words, answers):
            if not self.groups.differ(number, other):
                self.groups.join(number, other)
        self._keep(number, words, answers)

    def _same(self, words: str, answers: frozenset[str]) -> list[int]:
        """Earlier questions that read alike and whose answers are not others, in order."""
        if not answers:
            return [self._all_asked[text] for text, _ in self._all.near(words, self._threshold)]
        sharing = {other for answer in answers for other in self._answered.get(answer, ())}
        if len(sharing) > _FEW:
            sharing &= {self._all_asked[text] for text, _ in self._all.near(words, self._threshold)}
        else:
            sharing = {other for other in sharing if similarity(words, self._words[other]) >= self._threshold}
        return sorted(sharing.union(self._open_asked[text] for text, _ in self._open.near(words, self._threshold)))

    def _keep(self, number: int, words: str, answers: frozenset[str]) -> None:
        self._all.add(words)
        self._all_asked.append(number)
        for answer in answers:
            self._answered.setdefault(answer, []).append(number)
        if not answers:
            self._open.add(words)
            self._open_asked.append(number)
