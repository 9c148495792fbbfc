"""Where a sentence may be said: passages as they are searched, and runs of their statements with what of the sentence is there.

What stands above a passage (the page's title, headings, the term that a definition explains) is what the passage speaks of; so
are names right before a statement, and those that the page begins with or has again and again. Numbers that follow from others
there (a difference, a sum, a share, twelve months) are there as well where the sentence says so.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise

from sanderling.judge.items import Item, Kind, comparable, is_initials, named
from sanderling.judge.statements import Statement, holds, is_label, statements_of, stem, take_apart, with_names
from sanderling.world.text import WORD, plain, words


@dataclass(frozen=True, slots=True)
class Above:
    """What stands above a passage."""

    name: str  # of its page, in lower case: its title or first line
    title: str  # this and the first line
    lead: str  # the term that the passage explains, in lower case
    lowered: str  # these, the headings above, and a term at the end of the passage before
    terms: frozenset[str]
    subjects: frozenset[str]  # names that the page begins with or has again and again: what "she" and "the company" are

    def has(self, item: Item) -> bool:
        """Whether a name is there, or a number in the page's title, as in Python 2.0."""
        if item.number is not None:
            return item.number.unit is None and bool(re.search(rf"(?<![\w.,]){re.escape(item.shown)}(?![\w,]|\.\d)", self.name))
        return item.name != "" and (named(item, self.lowered) or (item.kind is Kind.NAME and item.name in self.subjects))


@dataclass(frozen=True, slots=True)
class Shelf:
    """Passages as they are searched."""

    titles: tuple[str, ...]  # of the page of each passage; none where all are of one
    statements: tuple[tuple[Statement, ...], ...]  # of each passage
    above: tuple[Above, ...]
    places: dict[str, list[tuple[int, int]]]  # passage and statement in which each stem stands
    counted: list[tuple[int, int]]  # passage and statement of numbers and dates
    names: frozenset[str]  # that have a capital wherever they stand
    common: frozenset[str]  # stems of what has none somewhere
    ahead: dict[str, set[str]]  # by names, those that stand right ahead of them
    behind: dict[str, set[str]]  # and right behind them
    rarity: dict[str, float]
    most: float  # rarity of what is nowhere

    def where(self, item: Item) -> Iterable[tuple[int, int]]:
        """Passage and statement of each place where an item may be."""
        if not item.name:
            return self.counted
        parts = WORD.findall(item.name)
        if parts and not is_initials(item):
            return self.places.get(stem(parts[-1]), ())
        return ((passage, place) for passage, found in enumerate(self.statements) for place in range(len(found)))

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
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    counted: list[tuple[int, int]] = []
    ahead: dict[str, set[str]] = defaultdict(set)
    behind: dict[str, set[str]] = defaultdict(set)
    for passage, found in enumerate(read):
        for place, statement in enumerate(found):
            if any(item.kind in (Kind.NUMBER, Kind.DATE) for item in statement.items):
                counted.append((passage, place))
            for term in set(statement.terms):
                places[term].append((passage, place))
            for one, other in neighbours(statement):
                ahead[other.name].add(one.name)
                behind[one.name].add(other.name)
    total = sum(map(len, read))
    rarity = {term: math.log(1 + total / (len(found) + 0.5)) for term, found in places.items()}
    above = tuple(_above(passages, titles, read))
    common, most = frozenset(map(stem, lower)), math.log(1 + total / 0.5)
    return Shelf(titles, read, above, dict(places), counted, names, common, dict(ahead), dict(behind), rarity, most)


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
        terms = frozenset(map(stem, words(lowered)))
        yield Above(shown.partition("\n")[0], shown, plain(lead).lower(), lowered, terms, subjects)


WINDOW = 3  # statements
CONTEXT, LONGER = 0.7, 0.04  # what a word counts that stands above the passage; off for each further statement
_BEGINNING, _OFTEN = 5, 6
_MOST_ADDED = 8  # numbers of which one may be the difference or sum of two
_DIFFERENCE = re.compile(
    r"\b(?:more|less|fewer|lower|higher|up|down|rose|risen|fell|fallen|grew|grown|dropped|increased?|decreased?|raised?|reduced|by"
    r"|difference|longer|shorter|later|earlier|extra|above|below|still|left|remain\w*|other|rest|older|younger|not|apart|short)\b",
    re.IGNORECASE,
)
SUM = re.compile(r"\b(?:total|together|altogether|combined|sum|in all|overall|both|whole)\b", re.IGNORECASE)
_TWELVE = re.compile(r"\b(?:twelve months|12 months|(?:a|per|each|every) year|yearly|annual\w*)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence by its units: its items, then its other words, each with its weight; a set of units is an integer's bits."""

    text: str  # without quotations
    said: Statement
    words: tuple[str, ...]
    weights: tuple[float, ...]
    anchors: frozenset[str]  # stems beside which something may stand: of its words and names

    def weight(self, units: int) -> float:
        """What the units weigh together, of 1."""
        return sum(weight for place, weight in enumerate(self.weights) if units >> place & 1)

    def place(self, item: Item) -> int:
        """Which of the units an item is."""
        return next(place for place, one in enumerate(self.said.items) if one is item)


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring statements of a passage, and the units that are there."""

    passage: int
    first: int
    size: int
    here: int
    above: int  # only above the passage
    led: int  # in the term that the passage explains, or in what introduces a list or a table
    score: float

    def statements(self, shelf: Shelf) -> tuple[Statement, ...]:
        """Those statements."""
        return shelf.statements[self.passage][self.first : self.first + self.size]


def claim_of(text: str, shelf: Shelf) -> Claim:
    """A sentence by its units, each weighted by how rare it is in the passages."""
    said = with_names(take_apart(text), shelf.names)
    dated = (replace(item, undated=item.date[1] > 0 and str(item.date[0]) in shelf.places) for item in said.items)
    said = replace(said, items=tuple(dated))
    names = [shelf.rarity.get(stem(item.name), shelf.most) if item.kind is Kind.NAME else shelf.most for item in said.items]
    content = tuple(sorted(said.content))
    weights = (*names, *(shelf.rarity.get(word, shelf.most) for word in content))
    total = sum(weights) or 1.0
    anchors = said.content | {stem(item.name) for item in said.items if item.name}
    return Claim(text, said, content, tuple(weight / total for weight in weights), anchors)


def windows_of(claim: Claim, shelf: Shelf) -> Iterator[Window]:
    """All runs of statements in which something of the claim is; a table row stands alone."""
    items, least = claim.said.items, len(claim.said.items)
    masks = [[0] * len(found) for found in shelf.statements]
    for place, word in enumerate(claim.words, start=least):
        for passage, statement in shelf.places.get(word, ()):
            masks[passage][statement] |= 1 << place
    for place, item in enumerate(items):
        for passage, statement in shelf.where(item):
            if holds(shelf.statements[passage][statement], item):
                masks[passage][statement] |= 1 << place
    for place, granting in _granted(claim, shelf):
        for mine in masks:
            mine[:] = [here | (1 << place if here >> granting & 1 else 0) for here in mine]
    follows = sum(1 << place for place, item in enumerate(items) if _may_follow(item, claim))
    named_ones = sum(1 << place for place, item in enumerate(items) if item.name)
    known: dict[int, float] = {}
    before = 0
    for passage, (found, above) in enumerate(zip(shelf.statements, shelf.above, strict=True)):
        mine = masks[passage]
        if not any(mine):
            before = 0
            continue
        beyond = sum(1 << place for place, word in enumerate(claim.words, start=least) if word in above.terms)
        beyond |= sum(1 << place for place, item in enumerate(items) if above.has(item))
        led = sum(1 << place for place, item in enumerate(items) if item.name and named(item, above.lead))
        for first, one in enumerate(found):
            here = 0
            ahead = mine[first - 1] | (mine[first - 2] if first > 1 else 0) if first else before
            introduced = _introduced(claim, one.under) if one.under and mine[first] else 0
            context = beyond | (ahead & named_ones) | introduced
            for last in range(first, min(first + WINDOW, len(found))):
                if last > first and (one.is_row or found[last].is_row or found[last].is_entry):
                    break
                here |= mine[last]
                if follows & ~here:
                    here |= _following(claim, follows & ~here, found[first : last + 1])
                only_above = context & ~here
                for units in (here, only_above):
                    if units not in known:
                        known[units] = claim.weight(units)
                score = known[here] + CONTEXT * known[only_above] - LONGER * (last - first)
                if here:
                    yield Window(passage, first, last - first + 1, here, only_above, led | introduced, score)
        before = mine[-1]


def _introduced(claim: Claim, under: Statement) -> int:
    """The units that are in what introduces a list or a table."""
    introduces = under.text.rstrip().endswith(":")  # and is not merely the sentence before
    found = sum(1 << place for place, item in enumerate(claim.said.items) if introduces and holds(under, item))
    words = enumerate(claim.words, start=len(claim.said.items))
    return found | sum(1 << place for place, word in words if word in under.terms)


def _may_follow(item: Item, claim: Claim) -> bool:
    """Whether a number may be one that follows from others."""
    number = item.number
    if number is None or item.is_year:
        return False
    is_share = number.unit is not None and number.unit.kind == "share"
    return is_share or any(cue.search(claim.text) for cue in (_DIFFERENCE, SUM, _TWELVE))


def _following(claim: Claim, places: int, said: Sequence[Statement]) -> int:
    """Numbers of the claim that follow from two of the statements', or for twelve months from one."""
    numbers = [item for one in said for item in one.items if item.number]
    if len(numbers) > _MOST_ADDED:
        return 0
    found = 0
    for place, item in enumerate(claim.said.items):
        if not places >> place & 1 or item.number is None:
            continue
        values = [one.number.base for one in numbers if one.number and comparable(item, one) and not one.is_year]
        made: set[Fraction] = set()
        if _DIFFERENCE.search(claim.text):
            made |= {abs(one - other) for one, other in combinations(values, 2) if one != other}
        if SUM.search(claim.text) and len(values) > 1:
            made.add(sum(values, Fraction(0)))
        if _TWELVE.search(claim.text):
            made |= {12 * one for one in values}
        if item.number.unit and item.number.unit.kind == "share":
            made |= _shares(numbers)
        asked = item.number.base
        if any(asked * (1 - item.near[0]) <= one <= asked * (1 + item.near[1]) for one in made):
            found |= 1 << place
    return found


def _shares(numbers: Sequence[Item]) -> set[Fraction]:
    """What one of two numbers of a kind is of the other, and by how much of it they differ."""
    pairs = ((one.number.base, other.number) for one in numbers for other in numbers if one.number and comparable(one, other))
    shares = {value / other.base for value, other in pairs if other and other.base not in (0, value)}
    return shares | {abs(share - 1) for share in shares}


def _granted(claim: Claim, shelf: Shelf) -> Iterator[tuple[int, int]]:
    """Places of names that another one stands for: *Feld* for Jonas Feld, where no other Feld is named."""
    places = {id(item): place for place, item in enumerate(claim.said.items)}
    for one, other in neighbours(claim.said):
        first = {name for name in shelf.ahead.get(other.name, ()) if name not in shelf.ahead}
        if first == {one.name}:
            yield places[id(one)], places[id(other)]
        if shelf.behind.get(one.name) == {other.name}:
            yield places[id(other)], places[id(one)]
