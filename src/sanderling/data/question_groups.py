"""Which questions are the same, or nearly: groups connected by pairs that are alike. A function of the set, in whatever order.

Two questions are alike when their words reach the threshold and they are about the same things (`question_things`: no other
numbers, no other names). Equal words are alike always.

On request (``by_answers``) known answers count too, since two questions without a common answer are different ones, however
alike they read. Then (1) questions with answers are joined where they are alike and share an answer; (2) questions that nobody
has answered are joined where they are alike; (3) each group of (2) goes as a whole to the one question with answers that is
most like one of its members (of several, the one whose words and answers come first in the order of characters), or to none.
So an unanswered question never ties together two that have different answers.

Deterministic. Memory: about 3 KB for each question with words of its own. Where one template makes thousands of questions, all
of them are candidates of each other: with answers few of those share one, without them time grows with the square of their
number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sanderling.core.text import normalised, shingles
from sanderling.data.near import THRESHOLD, NearIndex
from sanderling.data.question_things import Things, things_of

_FEW = 64
"""So many texts are compared one by one; among more, the index chooses."""


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
    asked = list(questions)
    words = [normalised(question.text) for question in asked]
    alike = _Alike(_things(words, asked), threshold)
    groups = _Groups(len(asked))
    first: dict[tuple[str, frozenset[str]], int] = {}
    for row, (said, question) in enumerate(zip(words, asked, strict=True)):
        known = frozenset(filter(None, map(normalised, question.answers))) if by_answers else frozenset[str]()
        if said:
            groups.join(row, first.setdefault((said, known), row))
    answered = {key: row for key, row in first.items() if key[1]}
    unanswered = {said: row for (said, known), row in first.items() if not known}
    _join_answered(answered, alike, groups)
    for one, other in alike.pairs(list(unanswered)):
        groups.join(unanswered[one], unanswered[other])
    _join_unanswered(unanswered, answered, alike, groups)
    return [groups.top(row) for row in range(len(asked))]


class _Groups:
    """Disjoint sets of rows, each named by its first."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def top(self, row: int) -> int:
        parent = self._parent
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.top(a), self.top(b)))
        self._parent[high] = low


class _Alike:
    """Which texts, by their words, are alike."""

    def __init__(self, things: Mapping[str, Things], threshold: float) -> None:
        self._things = things
        self._threshold = threshold

    def pairs(self, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
        """All pairs of different texts that are alike."""
        if len(texts) <= _FEW:
            sets = [shingles(text.split()) for text in texts]
            for a, b in combinations(range(len(texts)), 2):
                common = len(sets[a] & sets[b])
                if common >= self._threshold * (len(sets[a]) + len(sets[b]) - common) and self._same(texts[a], texts[b]):
                    yield texts[a], texts[b]
            return
        index = NearIndex()
        for text in texts:
            yield from ((text, texts[other]) for other, _ in self.near(text, index, texts))
            index.add(text)

    def near(self, text: str, index: NearIndex, texts: Sequence[str]) -> list[tuple[int, float]]:
        """The texts of an index that are alike, by number, and how similar they are."""
        return [found for found in index.near(text, self._threshold) if self._same(text, texts[found[0]])]

    def _same(self, one: str, other: str) -> bool:
        return one == other or not self._things[one].differ(self._things[other])


def _things(words: Sequence[str], asked: Sequence[Asked]) -> dict[str, Things]:
    texts: dict[str, set[str]] = {}
    for said, question in zip(words, asked, strict=True):
        texts.setdefault(said, set()).add(question.text)
    return {said: things_of(said, written) for said, written in texts.items()}


def _join_answered(answered: Mapping[tuple[str, frozenset[str]], int], alike: _Alike, groups: _Groups) -> None:
    """Questions with a common answer, where they are alike."""
    by_answer: dict[str, dict[str, list[int]]] = {}
    for (said, known), row in answered.items():
        for answer in known:
            by_answer.setdefault(answer, {}).setdefault(said, []).append(row)
    for rows in by_answer.values():
        for same in rows.values():
            for row in same[1:]:
                groups.join(row, same[0])
        for one, other in alike.pairs(list(rows)):
            groups.join(rows[one][0], rows[other][0])


def _join_unanswered(
    unanswered: Mapping[str, int], answered: Mapping[tuple[str, frozenset[str]], int], alike: _Alike, groups: _Groups
) -> None:
    """Groups without answers, each to the question with answers that is most like one of its members."""
    if not unanswered or not answered:
        return
    index, keys = NearIndex(), sorted(answered, key=lambda key: (key[0], sorted(key[1])))
    texts = [said for said, _ in keys]
    for text in texts:
        index.add(text)
    best: dict[int, tuple[float, int]] = {}
    for said, row in unanswered.items():
        found = [(-similarity, place) for place, similarity in alike.near(said, index, texts)]
        if found:
            top = groups.top(row)
            best[top] = min(best.get(top, found[0]), *found)
    for top, (_, place) in best.items():
        groups.join(top, answered[keys[place]])
