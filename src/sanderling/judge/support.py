"""Whether passages say what a sentence of an answer says: supported, partly, or not found. By rule, in some milliseconds.

A sentence is supported where one statement of a passage, with the headings above it, has every number, date, name and
identifier of it and enough of its other words, weighted by how rare they are; or neighbouring statements have most of it.
Against it counts:

- another place that fits the rest of the sentence better and has something else in the stead of a number or name;
- a single number or name there with few of the other words beside it;
- something else of the same kind nearer to the word beside which the sentence has a number or name;
- a word that is denied, or said by its opposite, on one side alone, and *only* or *unless* that the sentence leaves out;
- a clause of the sentence of which nothing is there.

A quotation that stands in the passage supports the sentence when names and numbers beside it are not other ones there. What
merely says the same in other words is beyond a rule: it is at best *partly*; a model as judge may tell more.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from sanderling.judge.statements import (
    OPPOSITE,
    Item,
    Kind,
    Shelf,
    Statement,
    comparable,
    equal,
    holds,
    named,
    shelve,
    stem,
    take_apart,
)
from sanderling.tools.page_reader import PageText
from sanderling.world.text import plain, words


class Support(StrEnum):
    """What passages are for a sentence."""

    SUPPORTED = "supported"
    PARTLY = "partly"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict, the place that decides it, and what of the sentence is not there."""

    support: Support
    passage: int | None = None  # which of the passages
    text: str = ""  # its statements that say it
    missing: tuple[str, ...] = ()


_WINDOW = 3  # statements
_CONTEXT, _LONGER = 0.7, 0.04  # what a word counts that stands above the passage; off for each further statement
_ENOUGH = 0.33  # weight of what is there that supports, when one statement has all that can be checked
_SPREAD = 0.7  # when only several together have it
_BARE = 0.85  # of a sentence with nothing that can be checked
_SOME = 0.4  # below this nothing is found
_NEAR = 6  # words between a word and an item that belong together; and what the end of a statement counts for
_ALONE = 0.34  # share of the plain words that must stand beside a single item
_QUOTE = re.compile(r"[\"“«]([^\"“”«»]{6,}?)[\"”»]")
_LEAST_QUOTED = 2  # words; a single word in quotation marks is a name
_LEAST_SLIP, _WORDS_A_SLIP = 5, 8  # letters of a word in which a slip of the pen is forgiven, once in so many words
_ONLY = re.compile(r"\b(?:only|unless|except|solely|exclusively|but not|no more than|just)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:]\s|\s[–—-]\s|\b(?:and|but|which|while|whereas|whose|who|whom|because|since|although|though)\b")
_LEAST_CLAUSE = 2  # words that say something


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence by its units: its items, then its other words, each with its weight; a set of units is an integer's bits."""

    text: str  # without quotations
    said: Statement
    words: tuple[str, ...]
    weights: tuple[float, ...]

    def weight(self, units: int) -> float:
        return sum(weight for place, weight in enumerate(self.weights) if units >> place & 1)


@dataclass(frozen=True, slots=True)
class _Window:
    """Neighbouring statements of a passage, and the units that are there."""

    passage: int
    first: int
    size: int
    here: int
    above: int  # only above the passage
    led: int  # in the term that the passage explains
    score: float


def support(
    sentence: str, passages: Sequence[str], titles: Sequence[str] = (), among: Collection[int] | None = None
) -> Finding:
    """What the passages are for the sentence.

    ``passages``: all that were read, in order; ``titles``: of their pages; ``among``: which of them may support it (all).
    """
    shelf = shelve(tuple(passages), tuple(titles))
    allowed = range(len(passages)) if among is None else among
    text = plain(sentence)
    quotes = tuple(found[1].strip() for found in _QUOTE.finditer(text) if len(found[1].split()) >= _LEAST_QUOTED)
    bare = _QUOTE.sub(lambda found: " " if found[1].strip() in quotes else found[1], text)
    claim = _claim(bare, shelf)
    if quotes:
        return _quoted(claim, quotes, passages, shelf, allowed)
    windows = list(_windows(claim, shelf))
    possible = [window for window in windows if window.passage in allowed]
    needed = (1 << len(claim.said.items)) - 1
    whole = [window for window in possible if (window.here | window.above) & needed == needed]
    single = [window for window in whole if window.size == 1]
    if not possible:
        return Finding(Support.NOT_FOUND)
    best = [max(some, key=lambda window: window.score) for some in (whole or possible, single) if some]
    found = [_verdict(claim, window, windows, shelf) for window in best]
    return next((one for one in found if one.support is Support.SUPPORTED), found[0])


def _verdict(claim: _Claim, best: _Window, windows: Sequence[_Window], shelf: Shelf) -> Finding:
    """The verdict on one place."""
    said = _statements(best, shelf)
    lacking = [item for place, item in enumerate(claim.said.items) if not (best.here | best.above) >> place & 1]
    is_whole = not lacking
    if is_whole:
        lacking = list(_replaced(claim, best, windows, shelf))
        lacking += [item for item in claim.said.items if _displaced(item, claim, said)]
    enough = best.score >= (_BARE if not claim.said.items else _ENOUGH if best.size == 1 else _SPREAD)
    if enough and not _alone(claim, best) and not lacking and not _turned(claim, said) and not _lonely(claim, best):
        verdict = Support.SUPPORTED
    elif best.score < _SOME or (not is_whole and 2 * len(lacking) > len(claim.said.items)):
        verdict = Support.NOT_FOUND
    else:
        verdict = Support.PARTLY
    return Finding(verdict, best.passage, _text(said), tuple(dict.fromkeys(item.shown for item in lacking)))


def _claim(text: str, shelf: Shelf) -> _Claim:
    said = take_apart(text)
    names = [shelf.rarity.get(stem(item.name), shelf.most) if item.kind is Kind.NAME else shelf.most for item in said.items]
    content = tuple(sorted(said.content))
    weights = (*names, *(shelf.rarity.get(word, shelf.most) for word in content))
    total = sum(weights) or 1.0
    return _Claim(text, said, content, tuple(weight / total for weight in weights))


def _windows(claim: _Claim, shelf: Shelf) -> Iterator[_Window]:
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
    known: dict[int, float] = {}
    for passage, (found, above) in enumerate(zip(shelf.statements, shelf.above, strict=True)):
        mine = masks[passage]
        if not any(mine):
            continue
        beyond = sum(1 << place for place, word in enumerate(claim.words, start=least) if word in above.terms)
        led = 0
        for place, item in enumerate(items):
            if item.name and named(item, above.lowered):
                beyond |= 1 << place
                led |= named(item, above.lead) << place
        for first, one in enumerate(found):
            here = 0
            for size in range(1, _WINDOW + 1):
                last = first + size - 1
                if last >= len(found) or (size > 1 and (one.head or found[last].head)):
                    break
                here |= mine[last]
                only_above = beyond & ~here
                for units in (here, only_above):
                    if units not in known:
                        known[units] = claim.weight(units)
                score = known[here] + _CONTEXT * known[only_above] - _LONGER * (size - 1)
                if here:
                    yield _Window(passage, first, size, here, only_above, led, score)


def _statements(window: _Window, shelf: Shelf) -> tuple[Statement, ...]:
    return shelf.statements[window.passage][window.first : window.first + window.size]


def _text(said: Sequence[Statement]) -> str:
    return " ".join(one.text for one in said)


def _replaced(claim: _Claim, best: _Window, windows: Sequence[_Window], shelf: Shelf) -> Iterator[Item]:
    """Items in whose stead a place that fits the rest of the claim better has something else."""
    for place, item in enumerate(claim.said.items):
        dropped = sum(1 << other for other, one in enumerate(claim.said.items) if one.group == item.group)
        least = best.score - claim.weight(best.here & dropped) - _CONTEXT * claim.weight(best.above & dropped)
        for window in windows:
            has = window.here | window.led | (window.above & best.above)
            if has >> place & 1 or claim.weight(window.here & ~dropped) - _LONGER * (window.size - 1) <= least + 1e-9:
                continue
            others = (one for statement in _statements(window, shelf) for one in statement.items)
            if any(comparable(item, one) and not _claimed(one, claim.said) for one in others):
                yield item
                break


def _claimed(one: Item, claim: Statement) -> bool:
    """Whether an item of a passage is in the claim."""
    if one.name:
        return named(one, claim.lowered, claim.terms)
    return any(equal(one, item) for item in claim.items)


def _displaced(item: Item, claim: _Claim, said: Sequence[Statement]) -> bool:
    """Whether the word beside which the claim has the item stands nearer to something else of its kind here.

    What begins the sentence and a statement is their subject, which may be far from any word.
    """
    places: dict[str, list[int]] = {}
    mine: list[int] = []
    others: list[int] = []
    begin = 0
    for one in said:
        for place, term in enumerate(one.terms, start=begin):
            if term in claim.said.content:
                places.setdefault(term, []).append(place)
            if item.name and term == stem(item.name):
                mine.append(place)
        rows = {found.row for found in one.items if equal(found, item)}
        for found in one.items:
            if found.row in rows:
                mine.append(begin + found.at)
            elif comparable(item, found) and not _claimed(found, claim.said):
                others.append(begin + found.at)
        begin += len(one.terms) + _NEAR
    beside = [(abs(place - item.at), term) for place, term in enumerate(claim.said.terms) if term in places]
    distance, anchor = min(beside, default=(_NEAR + 1, ""))
    is_subject = item.group == 0 and any(one.items and equal(one.items[0], claim.said.items[0]) for one in said)
    if not others or distance > _NEAR or (mine and is_subject):
        return False
    if not mine:  # it stands above the passage only
        return min(abs(place - spot) for place in places[anchor] for spot in others) <= distance + 2
    nearest = [min(abs(place - spot) for place in places[anchor] for spot in spots) for spots in (mine, others)]
    return nearest[1] < nearest[0]


def _alone(claim: _Claim, best: _Window) -> bool:
    """Whether no more than one item is there, with few of the other words."""
    groups = {item.group for place, item in enumerate(claim.said.items) if best.here >> place & 1}
    beside = sum(best.here >> place & 1 for place in range(len(claim.said.items), len(claim.weights)))
    return len(groups) < 2 and beside < _ALONE * len(claim.words)


def _turned(claim: _Claim, said: Sequence[Statement]) -> bool:
    """Whether one side denies, opposes or restricts what the other says."""
    said = [one for one in said if any(holds(one, item) for item in claim.said.items)] or said
    negated = frozenset[str]().union(*(one.negated for one in said))
    affirmed = frozenset[str]().union(*(one.affirmed for one in said))
    denied = (claim.said.affirmed & negated) - affirmed - claim.said.negated
    asserted = (claim.said.negated & affirmed) - negated - claim.said.affirmed
    here = negated | affirmed
    opposed = any(OPPOSITE[term] & here and term not in here for term in claim.said.terms if term in OPPOSITE)
    restricted = not _ONLY.search(claim.text) and any(_ONLY.search(one.text) for one in said)
    return bool(denied or asserted) or opposed or restricted


def _lonely(claim: _Claim, best: _Window) -> bool:
    """Whether the claim has a clause of which nothing is there."""
    units = best.here | best.above
    found = {word for place, word in enumerate(claim.words, start=len(claim.said.items)) if units >> place & 1}
    clauses = map(take_apart, _CLAUSE.split(claim.text))
    return any(not one.items and len(one.content) >= _LEAST_CLAUSE and not one.content & found for one in clauses)


def _quoted(claim: _Claim, quotes: Sequence[str], passages: Sequence[str], shelf: Shelf, allowed: Collection[int]) -> Finding:
    """The verdict on a sentence with quotations: they stand there, and what else it names is not something else there."""
    best = Finding(Support.NOT_FOUND, missing=tuple(f'"{quote}"' for quote in quotes))
    everything = "\n".join(passages).lower()
    for passage in allowed:
        if not all(_stands(quote, passages[passage]) for quote in quotes):
            continue
        found = shelf.statements[passage]
        runs = ((first, size) for size in range(1, _WINDOW + 1) for first in range(len(found) - size + 1))
        first, size = next((run for run in runs if _stands(quotes[0], _text(found[run[0] : sum(run)]))), (0, len(found)))
        said, near = found[first : first + size], found[max(first - 1, 0) : first + size + 1]
        others = [one for statement in said for one in statement.items if not _claimed(one, claim.said)]
        others = [one for one in others if not any(one.shown in quote for quote in quotes)]
        lost: list[str] = []
        for item in claim.said.items:
            if item.name and named(item, shelf.above[passage].title):
                continue
            if item.name and not any(comparable(item, one) for one in others) and named(item, everything):
                continue
            if not any(holds(one, item) for one in (said if item.name else near)):
                lost.append(item.shown)
        if not lost:
            return Finding(Support.SUPPORTED, passage, _text(said))
        if best.passage is None:
            best = Finding(Support.PARTLY, passage, _text(said), tuple(lost))
    return best


@lru_cache(maxsize=1_024)
def _page_text(passage: str) -> tuple[PageText, list[str], frozenset[str]]:
    terms = words(passage)
    return PageText(passage), terms, frozenset(terms)


def _stands(quote: str, passage: str) -> bool:
    """Whether a quotation is in the passage, whatever its marks and blanks; a slip of the pen is forgiven."""
    page, terms, known = _page_text(passage)
    wanted = words(quote)
    slips = max(len(wanted) // _WORDS_A_SLIP, 1)
    if sum(word not in known for word in wanted) > slips:
        return False
    found, missed = page.stretches(quote.rstrip(" .,;:!?"))
    if found and not missed:
        return True
    runs = (terms[first : first + len(wanted)] for first in range(len(terms) - len(wanted) + 1))
    return any(_slips(run, wanted, slips) <= slips for run in runs)


def _slips(run: Sequence[str], wanted: Sequence[str], most: int) -> int:
    """In how many words two runs differ; more than ``most`` where two words are different ones."""
    differing = [(one, other) for one, other in zip(run, wanted, strict=True) if one != other]
    return len(differing) if len(differing) <= most and all(_slip(*pair) for pair in differing) else most + 1


def _slip(one: str, other: str) -> bool:
    """Whether two words differ in a letter left out, doubled, changed or exchanged, but not the first."""
    if min(len(one), len(other)) < _LEAST_SLIP or one[0] != other[0] or not (one + other).isalpha():
        return False
    return any(
        one[:at] == other[:at]
        and (
            one[at:] in (other[at + 1 :], other[at + 1 : at + 2] + other[at : at + 1] + other[at + 2 :])
            or one[at + 1 :] in (other[at:], other[at + 1 :])
        )
        for at in range(1, max(len(one), len(other)))
    )
