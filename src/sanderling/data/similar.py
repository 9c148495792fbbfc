"""Which questions are the same, or nearly: shingles in common, the same numbers and names, and answers in common.

All is deterministic: hashes are keyed by constants, and groups are a function of the set, in whatever order.
"""

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash, RMinHashLSH  # pyright: ignore[reportAttributeAccessIssue]

from sanderling.core.text import normalised, question_tokens, shingles

THRESHOLD = 0.7
LEAST_THRESHOLD = 0.5  # below it too many pairs share no band
_POSITIONS, _BANDS, _SEED = 128, 32, 1


class NearIndex:
    """Texts by number, counted from 0, and which of them are nearly equal to another: MinHash with banding (`rensa`).

    What is found reaches the threshold in the Jaccard similarity of all shingles; a pair of similarity s is missed with a
    probability of (1 - s^4)^32, which is 0.0002 at 0.7. Texts come as :func:`~sanderling.core.text.normalised` gives them.
    """

    def __init__(self) -> None:
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_POSITIONS, num_bands=_BANDS)
        self._hashes, self._ends = array("Q"), array("q", [0])  # of all texts, one after the other

    def add(self, words: str) -> None:
        hashes, signature = _sketch(words)
        if words:
            self._index.insert(len(self._ends) - 1, signature)
        self._hashes.frombytes(hashes.tobytes())
        self._ends.append(len(self._hashes))

    def near(self, words: str, threshold: float = THRESHOLD) -> list[tuple[int, float]]:
        """Texts that reach the threshold, by number, ascending, and how similar they are."""
        own, signature = _sketch(words)
        numbers = np.array(sorted(self._index.query(signature)) if words else [], dtype=np.int64)
        if not len(numbers):
            return []
        ends = np.frombuffer(self._ends, dtype=np.int64)
        sizes = ends[numbers + 1] - ends[numbers]
        firsts = np.cumsum(sizes) - sizes
        at = np.repeat(ends[numbers] - firsts, sizes) + np.arange(int(sizes.sum()))
        theirs = np.frombuffer(self._hashes, dtype=np.uint64)[at]
        is_common = own[np.minimum(np.searchsorted(own, theirs), len(own) - 1)] == theirs
        common = np.add.reduceat(is_common.astype(np.int64), firsts)
        found = common / (len(own) + sizes - common)
        reached = found >= threshold
        return list(zip(numbers[reached].tolist(), found[reached].tolist(), strict=True))


@lru_cache(maxsize=1)  # a text is often added right after its neighbours were asked for
def _sketch(words: str) -> tuple[NDArray[np.uint64], RMinHash]:
    """Hashes of a text's shingles, ascending, and what candidates are found by."""
    found, signature = sorted(shingles(words.split())), RMinHash(num_perm=_POSITIONS, seed=_SEED)
    signature.update(found)
    digests = (hashlib.blake2b(shingle.encode(), digest_size=8).digest() for shingle in found)
    return np.unique(np.frombuffer(b"".join(digests), dtype="<u8")), signature


_WORD = re.compile(r"[^\W\d_][\w'’.+#-]*")
_QUOTED = re.compile('"([^"\n]{1,200})"|“([^”\n]{1,200})”|«([^»\n]{1,200})»|「([^」\n]{1,200})」|《([^》\n]{1,200})》')
_OWNING = re.compile(r"['’][sS]?$")
_ENDING = re.compile(r"[.?!:;…。？！]")
_SHORT = 4  # letters of an abbreviation such as "St." or "Prof.", after which no sentence begins
_FEWEST, _MOST_SHARE = 3, 0.8  # from so many words after the first on, so large a share with capitals means nothing


@dataclass(frozen=True)
class Things:
    """What one question is about, as far as writing tells.

    Questions are about other things with *other numbers* on either side, or *other names on both sides*: a name that only one
    side has may just say more ("in Oslo, Norway").
    """

    words: str
    names: Mapping[str, int]
    """How often each word of a name stands in the question, without the ending of "Norway's"."""

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(word for word in self._said if any(char in "0123456789" for char in word))

    @cached_property
    def _said(self) -> list[str]:
        return self.words.split()

    def differ(self, other: "Things") -> bool:
        return self.numbers != other.numbers or (self._names_more(other) and other._names_more(self))

    def _names_more(self, other: "Things") -> bool:
        return any(count > (other.names.get(name) or other._said.count(name)) for name, count in self.names.items())


def things_of(words: str, texts: Iterable[str]) -> Things:
    """What texts of one normal form are about: a name in one of them is a name.

    Names are words with a capital that begin no sentence (German nouns, too), all words in quotation marks, and symbols.

    Example: ``things_of("whos mayor of askims port", ["Who's mayor of Askim's port?"]).names == {"askim": 1}``
    """
    said_words = words.split()
    names = {word: word for word in said_words if not word.isalnum() and word[0] not in "-0123456789"}
    for text in texts:
        for said in _named(text):
            bare = question_tokens(_OWNING.sub("", said))
            names |= dict(zip(question_tokens(said), bare, strict=False))
    return Things(words, Counter(names[word] for word in said_words if word in names))


def _named(text: str) -> list[str]:
    """The words of names, as they are written. In a headline or a shout, where nearly all have one, capitals tell nothing."""
    quoted = [word for found in _QUOTED.findall(text) for part in found for word in part.split()]
    found = list(_WORD.finditer(text))
    later = [match[0] for match in found[1:]]
    capitals = sum(word[0].isupper() for word in later)
    if len(later) >= _FEWEST and capitals >= _MOST_SHARE * len(later):
        return quoted
    begin = {0}
    for number, (one, other) in enumerate(pairwise(found), start=1):
        said = one[0].rstrip(".")
        is_short = said[:1].isupper() and len(said) <= _SHORT
        between = "." * one[0].endswith(".") + text[one.end() : other.start()]
        if _ENDING.search(between.replace(".", "") if is_short else between):
            begin.add(number)
    return quoted + [
        match[0]
        for number, match in enumerate(found)
        if (match[0][0].isupper() and number not in begin) or any(char.isupper() for char in match[0][1:])
    ]


class QA(NamedTuple):
    """A question as far as sameness goes."""

    text: str
    answers: tuple[str, ...] = ()


class Groups:
    """Disjoint sets of rows, each named by its first."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def top(self, row: int) -> int:
        while self._parent[row] != row:
            self._parent[row] = self._parent[self._parent[row]]
            row = self._parent[row]
        return row

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.top(a), self.top(b)))
        self._parent[high] = low


_FEW = 64  # so many texts are compared one by one; among more, the index chooses


def question_groups(questions: Iterable[QA], *, threshold: float = THRESHOLD, by_answers: bool = True) -> list[int]:
    """For each question the place of the first of its group: its own, where it is the first.

    Two questions are alike when their words reach the threshold and they are about the same things; equal words are alike
    always. A question without words is alone. ``by_answers``: (1) questions with answers are joined where they are alike and
    share an answer; (2) those without are joined where they are alike; (3) each group of (2) goes as a whole to the question
    with answers that is most like one of its members (of several, the first in the order of characters), or to none.

    Example: ``question_groups([QA("Who won?"), QA("who won"), QA("Where?")]) == [0, 0, 2]``
    """
    asked = list(questions)
    words = [normalised(question.text) for question in asked]
    groups, first = Groups(len(asked)), dict[tuple[str, frozenset[str]], int]()
    written: dict[str, set[str]] = {}
    for row, (said, question) in enumerate(zip(words, asked, strict=True)):
        known = frozenset(filter(None, map(normalised, question.answers))) if by_answers else frozenset[str]()
        written.setdefault(said, set()).add(question.text)
        if said:
            groups.join(row, first.setdefault((said, known), row))
    things = {said: things_of(said, texts) for said, texts in written.items()}

    def same(one: str, other: str) -> bool:
        return one == other or not things[one].differ(things[other])

    by_answer: dict[str, dict[str, int]] = {}
    for (said, known), row in first.items():
        for answer in known:
            groups.join(row, by_answer.setdefault(answer, {}).setdefault(said, row))
    unanswered = {said: row for (said, known), row in first.items() if not known}
    for rows in (*by_answer.values(), unanswered):
        for one, other in _alike(list(rows), threshold, same):
            groups.join(rows[one], rows[other])
    answered = sorted((said, sorted(known), row) for (said, known), row in first.items() if known)
    if unanswered and answered:
        index = NearIndex()
        for said, _, _ in answered:
            index.add(said)
        best: dict[int, tuple[float, int]] = {}
        for said, row in unanswered.items():
            top = groups.top(row)
            for place, similarity in index.near(said, threshold):
                if same(said, answered[place][0]):
                    best[top] = min(best.get(top, (0.0, 0)), (-similarity, place))
        for top, (_, place) in best.items():
            groups.join(top, answered[place][2])
    return [groups.top(row) for row in range(len(asked))]


def _alike(texts: Sequence[str], threshold: float, same: Callable[[str, str], bool]) -> Iterator[tuple[str, str]]:
    """Pairs of texts, given as words, that reach the threshold and are about the same."""
    if len(texts) <= _FEW:
        sets = {text: shingles(text.split()) for text in texts}
        for one, other in combinations(texts, 2):
            common = len(sets[one] & sets[other])
            if common >= threshold * (len(sets[one]) + len(sets[other]) - common) and same(one, other):
                yield one, other
        return
    index = NearIndex()
    for text in texts:
        yield from ((text, texts[other]) for other, _ in index.near(text, threshold) if same(text, texts[other]))
        index.add(text)
