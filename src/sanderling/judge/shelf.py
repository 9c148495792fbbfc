"""Where a sentence may be said: passages as they are searched, and runs of their statements with what of the sentence is there.

What stands above a passage (the page's title, headings, the term that a definition explains) is what the passage speaks of; so
are names right before a statement, and those that the page begins with or has again and again. Numbers that follow from others
there (a difference, a sum, a share, twelve months) are there as well where the sentence says so.
"""

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import accumulate, islice, pairwise
from operator import or_

from sanderling.judge.items import (
    Item,
    Kind,
    amounts_of,
    cues_in,
    first_letters,
    follows,
    is_initials,
    may_follow,
    named,
    spans_of,
)
from sanderling.judge.statements import Statement, holds, is_label, statements_of, stem, take_apart, with_names
from sanderling.world.text import WORD, plain, words


@dataclass(frozen=True, slots=True)
class Above:
    """What stands above a passage."""

    name: str  # of its page, in lower case: its title or first line
    title: str  # this and the first line
    lead: str  # the term that the passage explains, in lower case
    lowered: str  # these, the headings above, and a term at the end of the passage before
    letters: str  # the first of each word of these
    subjects: frozenset[str]  # names that the page begins with or has again and again: what "she" and "the company" are

    def has(self, item: Item) -> bool:
        """Whether a name is there, or a number in the page's title, as in Python 2.0."""
        if item.number is not None:
            shown = rf"(?<![\w.,]){re.escape(item.shown)}(?![\w,]|\.\d)"
            return item.number.unit is None and item.shown in self.name and bool(re.search(shown, self.name))
        is_subject = item.kind is Kind.NAME and item.name in self.subjects
        return item.name != "" and (is_subject or named(item, self.lowered, self.letters))


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Passages as they are searched: their statements, and by words, numbers and letters which of these have them."""

    titles: tuple[str, ...]  # of the page of each passage; none where all are of one
    above: tuple[Above, ...]
    statements: tuple[Statement, ...]  # of all passages
    owners: tuple[int, ...]  # the passage of each
    begins: tuple[int, ...]  # of each passage the first of its statements; and where the last one ends
    places: dict[str, list[int]]  # the statements with each stem
    over: dict[str, list[int]]  # the passages above which each stem stands
    about: dict[str, list[int]]  # and of pages of which each name is a subject
    numbers: dict[int, list[tuple[Item, float]]]  # of each statement that has any, in their base units
    counting: frozenset[int]  # passages with numbers
    amounts: list[tuple[float, int]]  # what each number or date is found by, in order, with its statement
    names: frozenset[str]  # that have a capital wherever they stand
    common: frozenset[str]  # stems of what has none somewhere
    ahead: dict[str, set[str]]  # by names, those that stand right ahead of them
    behind: dict[str, set[str]]  # and right behind them
    rarity: dict[str, float]
    most: float  # rarity of what is nowhere

    def of(self, passage: int) -> tuple[Statement, ...]:
        """The statements of a passage."""
        return self.statements[self.begins[passage] : self.begins[passage + 1]]

    def before(self, passage: int) -> int:
        """The statement right before a passage on its page; -1: there is none."""
        return self.begins[passage] - 1 if self.is_one_page(passage - 1, passage) else -1

    def where(self, item: Item) -> Collection[int]:
        """The statements where an item may be."""
        if not item.name:
            return {
                place
                for low, high in spans_of(item)
                for _, place in islice(self.amounts, bisect_left(self.amounts, (low,)), bisect_left(self.amounts, (high,)))
            }
        parts = WORD.findall(item.name)
        found = self.places.get(stem(parts[-1]), ()) if parts else range(len(self.statements))
        spelt = (at for at, one in enumerate(self.statements) if item.name in one.letters)
        return {*found, *spelt} if is_initials(item) else found

    def under(self, item: Item) -> Collection[int]:
        """The passages above which an item may be."""
        parts = WORD.findall(item.name or item.shown)
        if is_initials(item) or not parts:
            return range(len(self.above))
        return {*self.over.get(stem(parts[-1]), ()), *self.about.get(item.name, ())}

    def having(self, terms: Collection[str], but: int) -> set[int]:
        """The passages that may have all terms but so many, by the rarest of them."""
        rare = sorted(set(terms), key=lambda term: len(self.places.get(term, ())))[: but + 1]
        return {self.owners[at] for term in rare for at in self.places.get(term, ())}

    def knows(self, item: Item) -> bool:
        """Whether what looks like a name is one: it has its capital everywhere."""
        return item.kind is not Kind.NAME or item.name in self.names

    def is_one_page(self, passage: int | None, other: int | None) -> bool:
        """Whether two passages are of one page."""
        return passage is not None and other is not None and (not self.titles or self.titles[passage] == self.titles[other])


def neighbours(statement: Statement) -> Iterator[tuple[Item, Item]]:
    """Names right after one another, as a first name and a surname."""
    for one, other in pairwise(statement.items):
        if one.kind is other.kind is Kind.NAME and one.group == other.group:
            yield one, other


def _subjects(page: Sequence[Sequence[Statement]]) -> frozenset[str]:
    """Names that a page begins with, and those in a sixth of its statements."""
    counts = Counter(name for found in page for one in found for name in {item.name for item in one.items if item.name})
    begins = {item.name for one in page[0][:_BEGINNING] for item in one.items if item.name}
    least = max(sum(map(len, page)) / _OFTEN, _BEGINNING)
    return frozenset(begins | {name for name, count in counts.items() if count >= least})


@lru_cache(maxsize=4)
def shelve(passages: tuple[str, ...], titles: tuple[str, ...]) -> Shelf:
    """Take passages apart; neighbours with one title, or all where there are no titles, belong to one page."""
    read = tuple(map(statements_of, passages))
    lower = {word for passage in passages for word in re.findall(r"(?<![\w.])[a-z][\w-]+", passage)}
    names = frozenset(item.name for found in read for one in found for item in one.items if item.kind is Kind.NAME) - lower
    read = tuple(tuple(with_names(one, names) for one in found) for found in read)
    statements = tuple(one for found in read for one in found)
    owners = tuple(passage for passage, found in enumerate(read) for _ in found)
    above = tuple(_above(passages, titles, read))
    places, over, about = (defaultdict[str, list[int]](list) for _ in range(3))
    ahead, behind = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    numbers = defaultdict[int, list[tuple[Item, float]]](list)
    for at, statement in enumerate(statements):
        for item in statement.items:
            if item.number is not None:
                numbers[at].append((item, float(item.number.base)))
        for term in set(statement.terms):
            places[term].append(at)
        for one, other in neighbours(statement):
            ahead[other.name].add(one.name)
            behind[one.name].add(other.name)
    for passage, one in enumerate(above):
        for term in set(map(stem, words(one.lowered))):
            over[term].append(passage)
        for name in one.subjects:
            about[name].append(passage)
    return Shelf(
        titles,
        above,
        statements,
        owners,
        begins=tuple(accumulate(map(len, read), initial=0)),
        places=places,
        over=over,
        about=about,
        numbers=numbers,
        counting=frozenset(owners[at] for at in numbers),
        amounts=sorted((amount, at) for at, one in enumerate(statements) for item in one.items for amount in amounts_of(item)),
        names=names,
        common=frozenset(map(stem, lower)),
        ahead=ahead,
        behind=behind,
        rarity={term: math.log(1 + len(statements) / (len(found) + 0.5)) for term, found in places.items()},
        most=math.log(1 + len(statements) / 0.5),
    )


def _above(passages: Sequence[str], titles: Sequence[str], read: Sequence[Sequence[Statement]]) -> Iterator[Above]:
    """What stands above each passage."""
    subjects: frozenset[str] = frozenset()
    title, headings = "", list[str]()
    for place, passage in enumerate(passages):
        first, _, rest = passage.partition("\n")
        before = ""
        if place == 0 or (titles and titles[place] != titles[place - 1]):
            title, headings = "\n".join([*titles[place : place + 1], first if is_label(first) else ""]), []
            last = next((n for n in range(place, len(passages)) if titles and titles[n] != titles[place]), len(passages))
            subjects = _subjects(read[place:last])
        else:
            before = passages[place - 1].rstrip().rpartition("\n")[2]
        headings = [line for line in passage.splitlines() if line.startswith("#")] or headings
        lead = first if is_label(first) and re.match(r"\W*[A-Z]", rest) else ""
        lines = [title, *headings, lead, before if is_label(before) else ""]
        lowered = plain("\n".join(lines)).lower()
        shown = plain(title).lower()
        name, letters = shown.partition("\n")[0], first_letters(words(lowered))
        yield Above(name, shown, plain(lead).lower(), lowered, letters, subjects)


WINDOW = 3  # statements
CONTEXT, LONGER = 0.7, 0.04  # what a word counts that stands above the passage; off for each further statement
_ROUNDING = 1e-9
_BEGINNING, _OFTEN = 5, 6


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence by its units: its items, then its other words, each with its weight; a set of units is an integer's bits."""

    text: str  # without quotations
    said: Statement
    words: tuple[str, ...]
    weights: tuple[float, ...]
    anchors: frozenset[str]  # stems beside which something may stand: of its words and names

    def place(self, item: Item) -> int:
        """Which of the units an item is."""
        return next(place for place, one in enumerate(self.said.items) if one is item)


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring statements of a passage, and the units that are there."""

    passage: int
    first: int  # of all statements
    size: int
    here: int
    above: int  # only above the passage
    led: int  # in the term that the passage explains, or in what introduces a list or a table
    score: float

    def statements(self, shelf: Shelf) -> tuple[Statement, ...]:
        """Those statements."""
        return shelf.statements[self.first : self.first + self.size]


def claim_of(text: str, shelf: Shelf) -> Claim:
    """A sentence by its units, each weighted by how rare it is in the passages."""
    said = with_names(take_apart(text), shelf.names)
    dated = (item._replace(undated=item.date[1] > 0 and str(item.date[0]) in shelf.places) for item in said.items)
    said = replace(said, items=tuple(dated))
    names = [shelf.rarity.get(stem(item.name), shelf.most) if item.kind is Kind.NAME else shelf.most for item in said.items]
    content = tuple(sorted(said.content))
    weights = (*names, *(shelf.rarity.get(word, shelf.most) for word in content))
    total = sum(weights) or 1.0
    anchors = said.content | {stem(item.name) for item in said.items if item.name}
    return Claim(text, said, content, tuple(weight / total for weight in weights), anchors)


class Search:
    """Where the units of a claim are, and the windows of those passages that are asked for."""

    def __init__(self, claim: Claim, shelf: Shelf) -> None:
        self.claim, self._shelf = claim, shelf
        items, least = claim.said.items, len(claim.said.items)
        self._needed = (1 << least) - 1
        self._names = self._mask(item.name != "" for item in items)
        self._cues = cues_in(claim.text)
        self._follows = self._mask(may_follow(item, self._cues) for item in items)
        self._weights: dict[int, float] = {}
        self._windows: dict[int, list[Window]] = {}
        self._masks = defaultdict[int, int](int)  # by statements
        self._above, self._led = defaultdict[int, int](int), defaultdict[int, int](int)  # by passages, as in `Window`
        for place, word in enumerate(claim.words, start=least):
            for at in shelf.places.get(word, ()):
                self._masks[at] |= 1 << place
            for passage in shelf.over.get(word, ()):
                self._above[passage] |= 1 << place
        for place, item in enumerate(items):
            for at in shelf.where(item):
                self._masks[at] |= holds(shelf.statements[at], item) << place
        for place, granting in _granted(claim, shelf):
            self._masks.update({at: here | 1 << place for at, here in self._masks.items() if here >> granting & 1})
        self._units = defaultdict[int, int](int)  # that may be in a passage
        for at, here in self._masks.items():
            if here:
                self._units[shelf.owners[at]] |= here | (shelf.owners[at] in shelf.counting and self._follows)
        for place, item in enumerate(items):
            for passage in self._units.keys() & shelf.under(item):
                above = shelf.above[passage]
                self._above[passage] |= above.has(item) << place
                self._led[passage] |= (item.name != "" and named(item, above.lead)) << place
        self._every = {  # and above it, or right before it
            passage: here | self._above[passage] | self._masks.get(shelf.before(passage), 0) & self._names
            for passage, here in self._units.items()
        }
        bounds = ((self._bound(passage), passage) for passage in self._units)
        self._ranked = sorted(bounds, key=lambda one: -one[0])

    @staticmethod
    def _mask(flags: Iterable[bool]) -> int:
        return sum(flag << place for place, flag in enumerate(flags))

    def weight(self, units: int) -> float:
        """What the units weigh together, of 1."""
        if units not in self._weights:
            self._weights[units] = sum(weight for place, weight in enumerate(self.claim.weights) if units >> place & 1)
        return self._weights[units]

    def _bound(self, passage: int) -> float:
        """The most that any window of a passage can have."""
        here = self._units[passage]
        return self.weight(here) + CONTEXT * self.weight(self._every[passage] & ~here) + _ROUNDING

    def best(self, allowed: Collection[int], enough: float) -> list[Window]:
        """The best window with all items, or else the best one; then the best statement with all items.

        A passage is looked at only if it can have a better one. A statement with less than ``enough`` is as good as none.
        """
        found: list[Window] = []
        ranked = [(bound, passage) for bound, passage in self._ranked if passage in allowed]
        top = alone = -1.0  # scores so far
        for bound, passage in ranked:
            if bound < min(top, max(alone, enough)):
                break
            if self._every[passage] & self._needed == self._needed:
                whole = [one for one in self.windows(passage) if (one.here | one.above) & self._needed == self._needed]
                top = max([top, *(one.score for one in whole)])
                alone = max([alone, *(one.score for one in whole if one.size == 1)])
                found += whole
        single = [one for one in found if one.size == 1]
        for bound, passage in () if found else ranked:
            if bound < top:
                break
            found += self.windows(passage)
            top = max([top, *(one.score for one in self.windows(passage))])
        best = [max(some, key=lambda one: (one.score, -one.first, -one.size)) for some in (found, single) if some]
        return list(dict.fromkeys(best))

    def rivals(self, least: float, without: int) -> Iterator[Window]:
        """Windows that have more than ``least`` even without some units."""
        for bound, passage in self._ranked:
            if bound <= least:
                break
            for one in self.windows(passage) if self.weight(self._units[passage] & ~without) > least else ():
                if self.weight(one.here & ~without) - LONGER * (one.size - 1) > least:
                    yield one

    def windows(self, passage: int) -> list[Window]:
        """All runs of statements of a passage in which something of the claim is; a table row stands alone."""
        if passage in self._windows:
            return self._windows[passage]
        found = self._windows[passage] = list[Window]()
        shelf, masks, begin, end = self._shelf, self._masks, *self._shelf.begins[passage : passage + 2]
        for first in range(begin, end):
            one, here, numbers = shelf.statements[first], 0, list[tuple[Item, float]]()
            introduced = _introduced(self.claim, one.under) if one.under and masks.get(first) else 0
            near = range(max(first - 2, begin), first) or (shelf.before(passage),)
            ahead = [masks.get(at, 0) & self._names for at in near]
            context = reduce(or_, ahead, self._above[passage] | introduced)
            for last in range(first, min(first + WINDOW, end)):
                if last > first and (one.is_row or shelf.statements[last].is_row or shelf.statements[last].is_entry):
                    break
                here |= masks.get(last, 0)
                numbers += shelf.numbers.get(last, ())
                for place, item in enumerate(self.claim.said.items) if self._follows & ~here else ():
                    if self._follows & ~here & 1 << place and follows(item, self._cues, numbers):
                        here |= 1 << place
                if here:
                    above, led, size = context & ~here, self._led[passage] | introduced, last - first + 1
                    score = self.weight(here) + CONTEXT * self.weight(above) - LONGER * (size - 1)
                    found.append(Window(passage, first, size, here, above, led, score))
        return found


@lru_cache(maxsize=8)
def search_for(text: str, shelf: Shelf) -> Search:
    """Where a sentence may be said."""
    return Search(claim_of(text, shelf), shelf)


def _introduced(claim: Claim, under: Statement) -> int:
    """The units that are in what introduces a list or a table."""
    introduces = under.text.rstrip().endswith(":")  # and is not merely the sentence before
    found = sum(1 << place for place, item in enumerate(claim.said.items) if introduces and holds(under, item))
    words = enumerate(claim.words, start=len(claim.said.items))
    return found | sum(1 << place for place, word in words if word in under.terms)


def _granted(claim: Claim, shelf: Shelf) -> Iterator[tuple[int, int]]:
    """Places of names that another one stands for: *Feld* for Jonas Feld, where no other Feld is named."""
    places = {id(item): place for place, item in enumerate(claim.said.items)}
    for one, other in neighbours(claim.said):
        first = {name for name in shelf.ahead.get(other.name, ()) if name not in shelf.ahead}
        if first == {one.name}:
            yield places[id(one)], places[id(other)]
        if shelf.behind.get(one.name) == {other.name}:
            yield places[id(other)], places[id(one)]
