"""The same question: near-duplicates found, one trajectory kept for each, and parts of a data set that share none.

Two questions are alike when they have enough shingles in common, the same numbers, and no other names on both sides. All is
deterministic, and groups are a function of the set, in whatever order. Memory holds questions, never trajectories: one pass
over a file reads what a choice needs, one writes what was chosen, in the file's order.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import combinations, pairwise
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from rensa import RMinHash, RMinHashLSH  # pyright: ignore[reportAttributeAccessIssue]

from sanderling.core.errors import UserError
from sanderling.core.record import encode_trajectory
from sanderling.core.text import normalised, question_tokens, shingles
from sanderling.data.importing import open_trajectories
from sanderling.data.stats import NOT_JUDGED, ruling_of
from sanderling.judge.verdict import Ruling
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines, write_trajectories

THRESHOLD = 0.7
LEAST_THRESHOLD = 0.5  # below it too many pairs share no band
_POSITIONS, _BANDS, _SEED = 128, 32, 1


class NearIndex:
    """Texts by number, counted from 0, and which of them are nearly equal to another: MinHash with banding (`rensa`).

    What is found reaches the threshold in the Jaccard similarity of all shingles; a pair of similarity s is missed with a
    probability of (1 - s^4)^32, which is 0.0002 at 0.7. Texts come normalised.
    """

    def __init__(self) -> None:
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_POSITIONS, num_bands=_BANDS)
        self._sets: list[frozenset[int]] = []

    def add(self, words: str) -> None:
        hashes, signature = _sketch(words)
        if words:
            self._index.insert(len(self._sets), signature)
        self._sets.append(hashes)

    def near(self, words: str, threshold: float = THRESHOLD) -> list[tuple[int, float]]:
        """Texts that reach the threshold, by number, ascending, and how similar they are."""
        own, signature = _sketch(words)
        found: list[tuple[int, float]] = []
        for number in sorted(self._index.query(signature)) if words else ():
            common = len(own & self._sets[number])
            similarity = common / (len(own) + len(self._sets[number]) - common)
            if similarity >= threshold:
                found.append((number, similarity))
        return found


@lru_cache(maxsize=1)  # a text is often added right after its neighbours were asked for
def _sketch(words: str) -> tuple[frozenset[int], RMinHash]:
    """Hashes of a text's shingles, and what candidates are found by."""
    found, signature = sorted(shingles(words.split())), RMinHash(num_perm=_POSITIONS, seed=_SEED)
    signature.update(found)
    return frozenset(map(hash, found)), signature


_WORD = re.compile(r"[^\W\d_][\w'’.+#-]*")
_QUOTED = re.compile('"([^"\n]{1,200})"|“([^”\n]{1,200})”|«([^»\n]{1,200})»|「([^」\n]{1,200})」|《([^》\n]{1,200})》')
_OWNING = re.compile(r"['’][sS]?$")
_ENDING = re.compile(r"[.?!:;…。？！]")
_SHORT = 4  # letters of an abbreviation such as "St." or "Prof.", after which no sentence begins


@dataclass(frozen=True)
class Things:
    """What one question is about, as far as writing tells.

    Questions are about other things with *other numbers* on either side, or *other names on both sides*: a name that only one
    side has may just say more ("in Oslo, Norway").
    """

    words: str
    names: Mapping[str, int]  # how often each word of a name stands in the question, without the ending of "Norway's"

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
    """The words of names, as they are written."""
    quoted = [word for found in _QUOTED.findall(text) for part in found for word in part.split()]
    found = list(_WORD.finditer(text))
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


class Prefer(StrEnum):
    """What decides between trajectories that are equally right."""

    SHORTEST = "shortest"
    LONGEST = "longest"
    FIRST = "first"


class Deduped(NamedTuple):
    """What stays of a file."""

    kept: int
    questions: int
    largest: int  # how many there are of the question that comes most often
    left_out: list[dict[str, str]]  # ``id`` and ``question`` of each that is left out, and of the best one in its place


_RANK = {Ruling.CORRECT: 0, None: 1, Ruling.UNSCORED: 1, Ruling.INCORRECT: 2}


def dedupe_file(
    source: Path,
    out: Path,
    *,
    threshold: float = THRESHOLD,
    by_answers: bool = True,
    keep: int = 1,
    prefer: Prefer = Prefer.SHORTEST,
) -> Deduped:
    """Write the best ``keep`` trajectories of each question. ``by_answers``: see :func:`question_groups`. Raises UserError.

    Judged correct comes before not judged or unscored, and that before incorrect; then those with an answer; then as asked;
    then the first by text, answers and id, so that the order of the file decides nothing that nobody asked it to.
    """
    asked: list[QA] = []
    ids: list[str] = []
    merits: list[tuple[object, ...]] = []
    for row, one in enumerate(open_trajectories(source)):
        question, ruling, turns = QA(one.question.text, one.question.answers), ruling_of(one), sum(1 for _ in one.turns())
        length = {Prefer.SHORTEST: turns, Prefer.LONGEST: -turns, Prefer.FIRST: row}[prefer]
        merits.append((_RANK[ruling], one.answer is None, length, *question, one.id, ruling or NOT_JUDGED, row))
        asked.append(question)
        ids.append(one.id)
    groups: dict[int, list[int]] = {}
    for row, root in enumerate(question_groups(asked, threshold=threshold, by_answers=by_answers)):
        groups.setdefault(root, []).append(row)
    instead: dict[int, int] = {}  # of each row that is left out, the best one of its question
    for rows in groups.values():
        best, *others = sorted(rows, key=merits.__getitem__)
        instead |= dict.fromkeys(others[keep - 1 :], best)
    kept = write_trajectories(out, (item for row, item in enumerate(open_trajectories(source)) if row not in instead))
    left_out = [
        {"id": ids[row], "question": asked[row].text, "kept": ids[best], "kept_question": asked[best].text}
        for row, best in sorted(instead.items())
    ]
    return Deduped(kept, len(groups), max(map(len, groups.values()), default=0), left_out)


class Shares(NamedTuple):
    """Names of the parts of a data set, and how much each shall hold."""

    names: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def read(cls, text: str) -> "Shares":
        """From ``train=0.95,validation=0.05``; shares are scaled to 1. Raises UserError."""
        names: list[str] = []
        shares: list[float] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, share = (piece.strip() for piece in part.partition("="))
            try:
                shares.append(float(share))
            except ValueError:
                name = ""
            if not name.replace("-", "").replace("_", "").isalnum():
                raise UserError(f"{part!r} is no share: write a name and a number, such as train=0.95.")
            names.append(name)
        if not names or len(set(names)) < len(names):
            raise UserError(f"The parts {', '.join(names) or '(none)'} are not told apart: give each a name of its own.")
        if not all(isfinite(share) and share >= 0 for share in shares) or sum(shares) <= 0:
            raise UserError("A share is negative or none is above 0: give shares such as train=0.95,validation=0.05.")
        return cls(tuple(names), tuple(shares))

    def part(self, words: str, seed: int) -> int:
        """The part that a question falls into: a keyed hash of its words is a point of [0, 1), which the shares cut."""
        digest = hashlib.blake2b(f"{seed}\0{words}".encode(), digest_size=8).digest()
        point = (int.from_bytes(digest, "big") >> 11) / float(1 << 53)
        total, reached = sum(self.shares), 0.0
        for place, share in enumerate(self.shares):
            reached += share / total
            if point < reached:
                return place
        return max(place for place, share in enumerate(self.shares) if share > 0)  # sums may fall short of 1 by rounding


class Part(NamedTuple):
    """How much was written to one part."""

    name: str
    trajectories: int
    questions: int


def split_file(
    source: Path,
    directory: Path,
    shares: Shares,
    *,
    seed: int = 0,
    threshold: float = THRESHOLD,
    by_answers: bool = False,
) -> list[Part]:
    """Write a store for each part, so that no question, nor a near-duplicate of it, is in two parts. Raises UserError.

    The part follows from a hash of words alone (of a group: of its first question's), so that adding rows moves no other.
    Shares are *expected* shares of questions. ``by_answers``: near-duplicates whose known answers differ may be apart.
    """
    files = [directory / f"{name}.jsonl" for name in shares.names]
    check_places([source], files)
    others = sorted(file.name for file in directory.glob("*.jsonl") if file not in files)
    if others:
        raise UserError(
            f"{directory} holds {others[0]}, which is no part of this split: a question may be there too. Choose another --out."
        )
    asked = [QA(item.question.text, item.question.answers) for item in open_trajectories(source)]
    words = [normalised(question.text) for question in asked]
    groups, first = Groups(len(words)), dict[str, int]()
    for row, root in enumerate(question_groups(asked, threshold=threshold, by_answers=by_answers)):
        groups.join(row, root)
        if words[row]:  # questions that nobody knows are not one question
            groups.join(row, first.setdefault(words[row], row))
    tops = [groups.top(row) for row in range(len(words))]
    least: dict[int, str] = {}
    for top, said in zip(tops, words, strict=True):
        least[top] = min(least.get(top, said), said)
    places = {top: shares.part(said, seed) for top, said in least.items()}
    with ExitStack() as stack:
        parts = [stack.enter_context(Lines(file)) for file in files]
        for top, item in zip(tops, open_trajectories(source), strict=True):
            parts[places[top]].add(encode_trajectory(item))
    counts = Counter(places.values())
    return [Part(name, part.count, counts[place]) for place, (name, part) in enumerate(zip(shares.names, parts, strict=True))]
