"""Whether the numbers and names of a sentence belong to the words beside them in a passage as well, or to something else there.

A passage may have all that a sentence has and still say another thing: the year of another column, the other line's terminus,
the maker of the other unit. So what stands nearer to a word, or in the named column, is compared with what the sentence has.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import combinations

from sanderling.judge.items import Item, Kind, comparable, equal, is_initials, named, within
from sanderling.judge.shelf import Claim, Shelf, Window, neighbours
from sanderling.judge.statements import Statement, beside, holds, stem
from sanderling.world.text import STOP_WORDS, plain, word_count, words

_REACH = 10  # words from an item to the word that may tell whose it is
_APART = 6  # words that the end of a statement counts for
_VERBATIM = 0.6  # share of the words in the same order, in a sentence that is nearly the same
_COMPARING = re.compile(r"\b(?:instead|than|rath|from|against|was)\b")  # before a number of another time or thing
_BY = re.compile(r"\bby\b", re.IGNORECASE)
_BEFORE = 2  # words before a number that may compare it


def claimed(one: Item, claim: Statement) -> bool:
    """Whether an item of a passage is in the claim."""
    if one.name:
        return named(one, claim.lowered, claim.letters)
    return any(equal(one, item) for item in claim.items)


@dataclass(slots=True)
class _Around:
    """Where an item of the claim stands in a few statements, what could stand in its place, and the claim's other words."""

    mine: list[int] = field(default_factory=list[int])
    others: list[int] = field(default_factory=list[int])
    next_to_mine: set[str] = field(default_factory=set[str])
    next_to_others: set[str] = field(default_factory=set[str])
    anchors: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def _around(together: Sequence[Item], claim: Claim, said: Sequence[Statement], strange: Collection[int]) -> _Around:
    """The places around an item; ``together``: it and the names that belong to it; ``strange``: items not in the claim."""
    own = {stem(one.name) for one in together}
    found = _Around()
    begin = 0
    for one in said:
        for place, term in enumerate(one.terms):
            if term in own:
                found.mine.append(begin + one.spots[place])
            elif term in claim.anchors and place >= one.label:
                found.anchors[term].append(begin + one.spots[place])
        rows = {item.row for item in one.items if any(within(other, item) for other in together)}
        for item in one.items:
            if item.row in rows:
                found.mine += [begin + one.spots[place] for place in item.ends]
                found.next_to_mine |= beside(one, item) - own
            elif id(item) in strange and comparable(together[0], item):
                found.others += [begin + one.spots[place] for place in item.ends]
                found.next_to_others |= beside(one, item)
        begin += one.spots[-1] + _APART
    return found


def displaced(claim: Claim, best: Window, shelf: Shelf) -> list[Item]:
    """Items of the claim that stand beside a word that stands nearer to something else of their kind here.

    What begins the sentence and a statement is their subject, which may be far from any word; so may what the page or the
    passage is about, which need not stand here at all.
    """
    said = best.statements(shelf)
    strange = {id(one) for each in said for one in each.items if shelf.knows(one) and not claimed(one, claim.said)}
    return [item for item in claim.said.items if _is_displaced(item, claim, best, shelf, strange)]


def _is_displaced(item: Item, claim: Claim, best: Window, shelf: Shelf, strange: Collection[int]) -> bool:
    said, subject = best.statements(shelf), claim.said.items[0]
    governed = [found for one in said if (found := _governed(item, claim.said, one)) is not None]
    if governed:
        return any(governed)
    if any(_columns(claim.said, one) for one in said):
        return False  # the columns tell
    together = [one for one in claim.said.items if one.group == item.group and one.kind is item.kind]
    around = _around(together, claim, said, strange)
    if not around.others:
        return False
    if not around.mine:
        above, bit = shelf.above[best.passage], 1 << claim.place(item)
        is_about = (
            named(item, above.name) or named(item, above.lead) if item.name else (best.here | best.led) & bit or above.has(item)
        )
        return not is_about
    if beside(claim.said, item) & around.next_to_mine - around.next_to_others:
        return False
    spots = {claim.said.spots[place] for one in together for place in one.ends}
    near = sorted(
        (min(abs(claim.said.spots[place] - spot) for spot in spots), term)
        for place, term in enumerate(claim.said.terms)
        if term in around.anchors
    )
    for distance, anchor in near:
        begins = (one.items and equal(one.items[0], subject) and anchor in one.terms for one in said)
        if distance > _REACH or (item.group == subject.group and any(begins)):
            return False
        places = around.anchors[anchor]
        mine, others = (min(abs(place - spot) for place in places for spot in side) for side in (around.mine, around.others))
        if others < mine:
            return True
        if mine < others and not _is_between(places, around):
            return False
    return False


def _governed(item: Item, claim: Statement, one: Statement) -> bool | None:
    """Whether what the claim says of *line 1* stands behind *line 2* in a statement that speaks of both; None: it does not."""
    label = claim.terms[item.at - 1 : item.at]
    if item.number is None or item.number.unit or not label or label[0] in STOP_WORDS:
        return None
    lines = [
        other for other in one.items if other.number and not other.number.unit and one.terms[other.at - 1 : other.at] == label
    ]
    mine = [other for other in lines if equal(other, item)]
    if not mine or len(mine) == len(lines):
        return None
    told: list[bool] = []
    for other in claim.items:
        there = [found.at for found in one.items if found not in lines and other is not item and within(found, other)]
        before = [max((line for line in lines if line.at < at), key=lambda line: line.at, default=None) for at in there]
        if before:
            told.append(not any(line is None or line in mine for line in before))
    return any(told) if told else None


def _is_between(places: Sequence[int], around: _Around) -> bool:
    """Whether a word stands beside both: *the outdoor unit is made in Brenau, the indoor unit in Lisle*."""
    sides = [min((around.mine, around.others), key=lambda side: min(abs(place - spot) for spot in side)) for place in places]
    return len({id(side) for side in sides}) > 1


def _columns(claim: Statement, row: Statement) -> dict[int, int]:
    """The columns of a row that the claim names, each with the place of its name there; with a capital if any has one."""
    for flags in (re.NOFLAG, re.IGNORECASE):
        found = {
            column: word_count(claim.text[: there.start()])
            for column, (name, _) in enumerate(row.cells)
            if name and (there := re.search(rf"(?<![\w.,]){re.escape(name)}(?![\w]|[.,]\d)", claim.text, flags))
        }
        if found:
            return found
    told = Counter(word for name, _ in row.cells for word in set(words(name)))
    return {
        column: claim.terms.index(stem(word))
        for column, (name, _) in enumerate(row.cells)
        for word in reversed(words(name))
        if told[word] == 1 and word.isalpha() and word not in STOP_WORDS and stem(word) in claim.terms
    }


def misplaced(item: Item, claim: Claim, said: Sequence[Statement]) -> bool:
    """Whether an item stands in other columns of a row than the one that the claim names for it.

    Where it names several, they stand before their numbers (*in 2022 3, in 2023 5*) or behind them (*3 in 2022, 5 in 2023*).
    """
    at = claim.said.spots[item.at]
    if _COMPARING.search(" ".join(claim.said.terms[max(item.at - _BEFORE, 0) : item.at])):
        return False
    for row in said:
        named_at = {column: claim.said.spots[place] for column, place in _columns(claim.said, row).items()}
        own = [column for column, (_, items) in enumerate(row.cells) if any(equal(one, item) for one in items)]
        if named_at and own:
            there = [other for _, items in row.cells for other in items]
            first = next(one.at for one in claim.said.items if any(equal(other, one) for other in there))
            behind = claim.said.spots[first] < min(named_at.values())
            near = [place for place in named_at.values() if (place > at) is behind] or [*named_at.values()]
            meant = min(near, key=lambda place: abs(place - at))
            return not any(named_at.get(column) == meant for column in own)
    return False


def misjoined(claim: Claim, shelf: Shelf) -> list[Item]:
    """Names that the claim joins and the pages never do, though they join each with others: *Uppsala Pharma*."""
    found: list[Item] = []
    for one, other in neighbours(claim.said):
        behind, ahead = shelf.behind.get(one.name, set()), shelf.ahead.get(other.name, set())
        if other.name not in behind and (ahead or behind) and not is_initials(one):
            found += [one, other]
    return found


def nearly_same(claim: Statement, said: Sequence[Statement]) -> Iterator[tuple[Statement, "SequenceMatcher[str]"]]:
    """Statements that are nearly the claim word by word."""
    for one in said:
        matcher = SequenceMatcher(None, claim.terms, one.terms, autojunk=False)
        if sum(block.size for block in matcher.get_matching_blocks()) >= max(_VERBATIM * len(claim.terms), 1):
            yield one, matcher


def altered(claim: Statement, said: Sequence[Statement]) -> list[Item]:
    """What of the claim is not in a statement that is otherwise nearly the same, but has something else in its place."""
    for one, matcher in nearly_same(claim, said):
        if _exchanged(claim, one):
            return [item for item in _every(claim) if item.name]
        for tag, begin, end, first, last in matcher.get_opcodes():
            others = (other for other in _every(one) if first < other.until and other.at < last)
            if tag == "replace" and not all(claimed(other, claim) for other in others):
                found = [item for item in _every(claim) if begin < item.until and item.at < end and not holds(one, item)]
                is_one_word = begin < 2 and end - begin == last - first == 1 and not one.is_row  # as its subject
                if not found and is_one_word and claim.terms[begin] in claim.content.difference(one.terms):
                    found = [Item(Kind.NAME, words(plain(claim.text))[begin])]
                if found:
                    return found
    return []


def _exchanged(claim: Statement, one: Statement) -> bool:
    """Whether the same names stand in another order, and are not merely listed; in the other voice they have to."""
    if bool(_BY.search(claim.text)) != bool(_BY.search(one.text)):
        return False
    there = {item.name: item for item in reversed(_every(one)) if item.name}
    asked = {item.name: item for item in reversed(_every(claim)) if item.name in there}
    return any(
        first.row != second.row
        and comparable(first, second)
        and there[first.name].row != there[second.name].row
        and there[second.name].at < there[first.name].at
        for first, second in combinations(sorted(asked.values(), key=lambda item: item.at), 2)
    )


def _every(statement: Statement) -> list[Item]:
    """All items of a statement in order, with those that may be names."""
    return sorted((*statement.items, *statement.openings), key=lambda item: item.at)
