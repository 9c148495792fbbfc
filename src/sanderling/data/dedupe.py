"""The same question: near-duplicates found, one trajectory kept for each, and parts of a data set that share none.

Two questions are alike when they have enough shingles in common, the same numbers, and no other names on both sides. All is
deterministic, and groups are a function of the set, in whatever order. Memory holds questions, never trajectories.
"""

import hashlib
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from sys import intern
from typing import NamedTuple

from rensa import RMinHash, RMinHashLSH  # pyright: ignore[reportAttributeAccessIssue]

from sanderling.core.errors import UserError
from sanderling.core.record import encode_record
from sanderling.core.text import normalised, question_tokens, shingles
from sanderling.data.importing import open_trajectories
from sanderling.data.stats import NOT_JUDGED, ruling_of
from sanderling.judge.verdict import Ruling
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines, write_trajectories

THRESHOLD = 0.7
_POSITIONS, _BANDS, _SEED = 128, 32, 1


class NearIndex:
    """Texts by number, counted from 0, and which of them are nearly equal to another: MinHash with banding (`rensa`).

    What is found reaches the threshold in the Jaccard similarity of all shingles; a pair of similarity s is missed with a
    probability of (1 - s^4)^32, which is 0.0002 at 0.7. Texts come normalised.
    """

    def __init__(self) -> None:
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_POSITIONS, num_bands=_BANDS)
        self._hashes: list[array[int]] = []  # a tenth of the memory of sets

    def add(self, words: str) -> None:
        hashes, signature = _sketch(words)
        if words:
            self._index.insert(len(self._hashes), signature)
        self._hashes.append(array("q", hashes))

    def near(self, words: str) -> list[tuple[int, float]]:
        """Texts that reach the threshold, by number, ascending, and how similar they are."""
        own, signature = _sketch(words)
        found: list[tuple[int, float]] = []
        for number in sorted(self._index.query(signature)) if words else ():
            common = len(own.intersection(self._hashes[number]))
            similarity = common / (len(own) + len(self._hashes[number]) - common)
            if similarity >= THRESHOLD:
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
    """What one question is about, as far as writing tells: words, and how often each name is there, without "Norway's" ending.

    Questions are about other things with *other numbers* on either side, or *other names on both sides*: a name that only one
    side has may just say more ("in Oslo, Norway").
    """

    words: list[str]
    names: Counter[str]

    def differ(self, other: "Things") -> bool:
        return self.numbers != other.numbers or (self._names_more(other) and other._names_more(self))

    @cached_property
    def numbers(self) -> set[str]:
        return {word for word in self.words if any(char in "0123456789" for char in word)}

    def _names_more(self, other: "Things") -> bool:
        return any(count > (other.names[name] or other.words.count(name)) for name, count in self.names.items())


def things_of(words: str, texts: Iterable[str]) -> Things:
    """What texts of one normal form are about: a name in one of them is a name.

    Names are words with a capital that begin no sentence (German nouns, too), all words in quotation marks, and symbols.

    Example: ``things_of("whos mayor of askims port", ["Who's mayor of Askim's port?"]).names == {"askim": 1}``
    """
    tokens = list(map(intern, words.split()))  # questions share most words: 1.5 KB less for each
    names = {word: word for word in tokens if not word.isalnum() and word[0] not in "-0123456789"}
    for text in texts:
        for name in _names(text):
            names |= dict(zip(question_tokens(name), question_tokens(_OWNING.sub("", name)), strict=False))
    return Things(tokens, Counter(names[word] for word in tokens if word in names))


def _names(text: str) -> Iterator[str]:
    """The words of names, as they are written."""
    for found in _QUOTED.findall(text):
        yield from "".join(found).split()
    found, begins = list(_WORD.finditer(text)), True
    for number, match in enumerate(found, start=1):
        word, rest, end = match[0], match[0][1:], found[number].start() if number < len(found) else len(text)
        if (word[0].isupper() and not begins) or (not rest.islower() and any(map(str.isupper, rest))):
            yield word
        between = "." * word.endswith(".") + text[match.end() : end]
        is_short = word[0].isupper() and len(word.rstrip(".")) <= _SHORT
        begins = bool(_ENDING.search(between.replace(".", "") if is_short else between))


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


def question_groups(questions: Iterable[QA], *, by_answers: bool = True) -> list[int]:
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
    written, with_answers = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for row, (text, question) in enumerate(zip(words, asked, strict=True)):
        answers = accepted(question.answers) if by_answers else frozenset[str]()
        written[text].add(question.text)
        if answers:
            with_answers[text].add(question.text)
        if text:
            groups.join(row, first.setdefault((text, answers), row))
    of_all = {text: things_of(text, texts) for text, texts in written.items()}
    # How a question without answers is written says nothing of those with answers.
    known = {text: of_all[text] if texts == written[text] else things_of(text, texts) for text, texts in with_answers.items()}

    def alike(text: str, others: list[str], index: NearIndex, things: dict[str, Things]) -> Iterator[tuple[float, int]]:
        """Those about the same things, by likeness and place."""
        for place, similarity in index.near(text):
            if text == others[place] or not things[text].differ(things[others[place]]):
                yield -similarity, place

    by_answer: dict[str, dict[str, int]] = {}
    for (text, answers), row in first.items():
        for answer in answers:
            groups.join(row, by_answer.setdefault(answer, {}).setdefault(text, row))
    unanswered = {text: row for (text, answers), row in first.items() if not answers}
    for rows, things in (*((rows, known) for rows in by_answer.values()), (unanswered, of_all)):
        if len(rows) < 2:
            continue
        index, texts = NearIndex(), list(rows)
        for text in texts:
            for _, place in alike(text, texts, index, things):
                groups.join(rows[text], rows[texts[place]])
            index.add(text)
    answered = sorted((text, sorted(answers), row) for (text, answers), row in first.items() if answers)
    index, texts = NearIndex(), [text for text, _, _ in answered]
    for text in texts if unanswered else ():
        index.add(text)
    best: dict[int, tuple[float, int]] = {}
    for text, row in unanswered.items():
        top = groups.top(row)
        best[top] = min([best.get(top, (0.0, 0)), *alike(text, texts, index, of_all)])
    for top, (similarity, place) in best.items():
        if similarity:
            groups.join(top, answered[place][2])
    return [groups.top(row) for row in range(len(asked))]


def accepted(answers: Iterable[str]) -> frozenset[str]:
    """Accepted answers in the form in which they are compared."""
    return frozenset(filter(None, map(normalised, answers)))


class Deduped(NamedTuple):
    """What stays of a file."""

    kept: int
    questions: int
    largest: int  # how many there are of the question that comes most often
    left_out: list[dict[str, str]]  # ``id`` and ``question`` of each that is left out, and of the best one in its place


_RANK = {Ruling.CORRECT: 0, None: 1, Ruling.UNSCORED: 1, Ruling.INCORRECT: 2}


def dedupe_file(source: Path, out: Path, *, by_answers: bool = True, keep: int = 1) -> Deduped:
    """Write the best ``keep`` trajectories of each question. ``by_answers``: see :func:`question_groups`. Raises UserError.

    Judged correct comes before not judged or unscored, and that before incorrect; then those with an answer; then the fewest
    turns; then the first by text, answers and id, so that the order of the file decides nothing.
    """
    asked: list[QA] = []
    ids: list[str] = []
    merits: list[tuple[object, ...]] = []
    for row, one in enumerate(open_trajectories(source)):
        question, ruling, turns = QA(one.question.text, one.question.answers), ruling_of(one), sum(1 for _ in one.turns())
        merits.append((_RANK[ruling], one.answer is None, turns, *question, one.id, ruling or NOT_JUDGED, row))
        asked.append(question)
        ids.append(one.id)
    groups: dict[int, list[int]] = {}
    for row, root in enumerate(question_groups(asked, by_answers=by_answers)):
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
        parts = [part.strip() for part in text.split(",") if part.strip()]
        for part in parts:
            if not re.fullmatch(r"[\w-]+\s*=\s*-?(\d+\.?\d*|\.\d+)", part):
                raise UserError(f"{part!r} is no share: write a name and a number, such as train=0.95.")
        found = {name.strip(): float(share) for name, _, share in (part.partition("=") for part in parts)}
        if not parts or len(found) < len(parts):
            names = ", ".join(part.partition("=")[0].strip() for part in parts)
            raise UserError(f"The parts {names or '(none)'} are not told apart: give each a name of its own.")
        if min(found.values()) < 0 or sum(found.values()) == 0:
            raise UserError("A share is negative or none is above 0: give shares such as train=0.95,validation=0.05.")
        return cls(tuple(found), tuple(found.values()))

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


def split_file(source: Path, directory: Path, shares: Shares, *, seed: int = 0, by_answers: bool = False) -> list[Part]:
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
    for row, root in enumerate(question_groups(asked, by_answers=by_answers)):
        groups.join(row, root)
        if words[row]:  # questions that nobody knows are not one question
            groups.join(row, first.setdefault(words[row], row))
    tops = [groups.top(row) for row in range(len(words))]
    least: dict[int, str] = {}
    for top, text in zip(tops, words, strict=True):
        least[top] = min(least.get(top, text), text)
    places = {top: shares.part(text, seed) for top, text in least.items()}
    with ExitStack() as stack:
        parts = [stack.enter_context(Lines(file)) for file in files]
        for top, item in zip(tops, open_trajectories(source), strict=True):
            parts[places[top]].add(encode_record(item))
    counts = Counter(places.values())
    return [Part(name, part.count, counts[place]) for place, (name, part) in enumerate(zip(shares.names, parts, strict=True))]
