"""Whether passages say what a sentence of an answer says: supported, partly, or not found. By rule, in some milliseconds.

A sentence is supported where one statement of a passage, with what stands above it, has every number, date, name and
identifier of it and enough of its other words, weighted by how rare they are; or neighbouring statements have most of it; or
each half of it is supported on one page. Against it counts:

- another place that fits the rest of the sentence better and has something else in the stead of a number or name;
- a single number or name there with few of the other words beside it;
- something else of the same kind nearer to the word beside which the sentence has a number or name, and a number from another
  column of a table than the one that the sentence names;
- names joined that are not joined there; and in a sentence that is nearly the same word by word, anything else in a name's
  stead, two names exchanged, or one negation more or less;
- a word that is denied, or said by its opposite, on one side alone, and *only* or *unless* that the sentence leaves out;
- a clause of the sentence of which hardly anything is there.

A quotation that stands in the passage supports the sentence when names and numbers beside it are not other ones there. What
merely says the same in other words is beyond a rule: it is at best *partly*; a model as judge may tell more.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from sanderling.judge.bindings import altered, claimed, displaced, misjoined, misplaced, nearly_same
from sanderling.judge.items import Item, Kind, comparable, cues_in, named
from sanderling.judge.shelf import CONTEXT, WINDOW, Claim, Search, Shelf, Window, claim_of, search_for, shelve
from sanderling.judge.statements import (
    NEGATIONS,
    OPPOSITE,
    Statement,
    holds,
    slips_between,
    statements_of,
    stem,
    take_apart,
)
from sanderling.tools.quotes import PageText
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


_ENOUGH = 0.33  # weight of what is there that supports, when one statement has all that can be checked
_SPREAD = 0.6  # when only several together have it
_BARE = 0.85  # of a sentence with nothing that can be checked
_SOME = 0.4  # below this nothing is found
_BETTER = 0.06  # by how much another place fits better
_ALONE = 0.3  # share of the plain words that must stand beside a single item
_NEGATED = 2  # words from a negation to what it denies
_LEAST_CLAUSE, _LONELY = 2, 0.34  # words that say something; less than this share of them is hardly anything
_QUOTE = re.compile(r"(?:[\"“„«]|»(?=\w))([^\"“”„«»]{6,}?)(?:[\"”»]|(?<=\S)[“«])")
_SAID = re.compile(  # in the middle of a quotation: ," she told us, "
    r"[,.]?[\"”]\s[^\"“”]{0,40}\b(?:said|says|told|asked|replied|wrote|added|explained|writes)\b[^\"“”]{0,40}[\"“]"
)
_SUBJECT = re.compile(  # of a sentence: Hanno later wrote, Hanno's letter, Hanno:
    r"(?:^|[.!?:|])\W{0,5}([A-ZÀ-ÖØ-Þ]\w+)(?<!ing)(?:['’]s\b|\s*:|\s(?:(?:also|later|then|once|never|has|had|\w+ly)\s){0,2}"
    r"(?:\w{2,}ed|said|told|wrote|spoke|thought|felt|was|is|says|tells|writes|asks|calls|thinks)\b)"
)
_LEAST_QUOTED = 2  # words; a single word in quotation marks is a name
_SPEAKER = 10  # passages before a quotation in which its speaker may be named
_CUT = 6  # words before a quotation that may deny it
_WORDS_A_SLIP = 8  # a slip of the pen is forgiven once in so many words
_ONLY = re.compile(r"\b(?:only|unless|except|solely|exclusively|but not|no more than)\b", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:]\s|\s[–—-]\s|\b(?:and|but|which|while|whereas|whose|who|whom|because|since|although|though)\b")
_JOINT = re.compile(
    r"(?:[,;:]\s+|\s+)(?:and|but|while|whereas|which|who|so that|then)\s+|[;:]\s+|,\s+(?:where|since|because|as)\s+"
)
_MOST_JOINTS = 16  # of a sentence; a model that does not stop writes hundreds


def support(
    sentence: str, passages: Sequence[str], titles: Sequence[str] = (), among: Collection[int] | None = None
) -> Finding:
    """What the passages are for the sentence.

    ``passages``: all that were read, in order; ``titles``: of their pages; ``among``: which of them may support it (all).
    """
    shelf = shelve(tuple(passages), tuple(titles))
    allowed = range(len(passages)) if among is None else among
    text = plain(sentence)
    found = dict.fromkeys(found[1].strip() for found in _QUOTE.finditer(text))
    quotes = [quote for quote in found if len(quote.split()) >= _LEAST_QUOTED]
    bare = _QUOTE.sub(lambda found: " " if found[1].strip() in quotes else found[1], text)
    if quotes:
        return _quoted(claim_of(bare, shelf), quotes, passages, shelf, allowed)
    whole = _found(bare, shelf, allowed)
    said, there = take_apart(bare), statements_of(whole.text)
    if whole.support is Support.SUPPORTED or altered(said, there) or _denied_anew(said, there):
        return whole
    for halves in _halves(bare):
        one, other = (_found(half, shelf, allowed) for half in halves)
        if one.support is other.support is Support.SUPPORTED and shelf.is_one_page(one.passage, other.passage):
            text = one.text if one.passage != other.passage or one.text == other.text else f"{one.text} {other.text}"
            return replace(one, text=text)
    return whole


def _halves(sentence: str) -> Iterator[tuple[str, str]]:
    """A sentence cut in two between its clauses, where each has something that can be checked and other words."""
    for joint in islice(_JOINT.finditer(sentence), _MOST_JOINTS):
        halves = sentence[: joint.start()], sentence[joint.end() :]
        if all(one.items and one.content for one in map(take_apart, halves)):
            yield halves


def _found(text: str, shelf: Shelf, allowed: Collection[int]) -> Finding:
    """The best of the verdicts on the places that fit best, one statement and several."""
    search = search_for(text, shelf)
    found = [_verdict(search, window, shelf) for window in search.best(allowed, _ENOUGH)]
    return next((one for one in found if one.support is Support.SUPPORTED), found[0] if found else Finding(Support.NOT_FOUND))


def _verdict(search: Search, best: Window, shelf: Shelf) -> Finding:
    """The verdict on one place."""
    claim, said = search.claim, best.statements(shelf)
    lacking = [item for place, item in enumerate(claim.said.items) if not (best.here | best.above) >> place & 1]
    is_whole = not lacking
    if is_whole:
        lacking = list(_replaced(search, best, shelf))
        lacking += displaced(claim, best, shelf)
        lacking += [item for item in claim.said.items if misplaced(item, claim, said)]
        lacking += misjoined(claim, shelf)
        is_sum = "sum" in cues_in(claim.text)
        changed = altered(claim.said, said)
        lacking += [one for one in changed if not (is_sum and one.number and not any(holds(other, one) for other in said))]
    enough = best.score >= (_BARE if not claim.said.items else _ENOUGH if best.size == 1 else _SPREAD)
    if enough and not _alone(claim, best, said) and not lacking and not _turned(claim, said) and not _lonely(claim, best):
        verdict = Support.SUPPORTED
    elif best.score < _SOME or (not is_whole and 2 * len(lacking) > len(claim.said.items)):
        verdict = Support.NOT_FOUND
    else:
        verdict = Support.PARTLY
    return Finding(verdict, best.passage, _text(said), tuple(dict.fromkeys(item.shown for item in lacking)))


def _text(said: Sequence[Statement]) -> str:
    return " ".join(one.text for one in said)


def _replaced(search: Search, best: Window, shelf: Shelf) -> Iterator[Item]:
    """Items in whose stead a place that fits the rest of the claim better has something else."""
    claim = search.claim
    for place, item in enumerate(claim.said.items):
        dropped = sum(1 << other for other, one in enumerate(claim.said.items) if one.group == item.group)
        least = best.score - search.weight(best.here & dropped) - CONTEXT * search.weight(best.above & dropped)
        for window in search.rivals(least + _BETTER, without=dropped):
            others = (one for statement in window.statements(shelf) for one in statement.items)
            has = window.here | window.led | (window.above & best.above)
            if not has >> place & 1 and any(comparable(item, one) and not claimed(one, claim.said) for one in others):
                yield item
                break


def _denied_anew(claim: Statement, said: Sequence[Statement]) -> bool:
    """Whether one of two sentences that are nearly the same has another number of negations."""
    for one, matcher in nearly_same(claim, said):
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        same = one.terms[max(blocks[0].b - _NEGATED, 0) : blocks[-1].b + blocks[-1].size]
        if sum(term in NEGATIONS for term in claim.terms) != sum(term in NEGATIONS for term in same):
            return True
    return False


def _alone(claim: Claim, best: Window, said: Sequence[Statement]) -> bool:
    """Whether no more than one item is there with few of the other words, or a number, which is soon met, with none."""
    groups = {item.group for place, item in enumerate(claim.said.items) if (best.here | best.led) >> place & 1}
    beside = sum((best.here | best.led) >> place & 1 for place in range(len(claim.said.items), len(claim.weights)))
    counts = bool(claim.words) and any(not item.name for item in claim.said.items)
    in_row = len(groups) > 1 and said[0].is_row  # which needs no more than its label and its number
    return (counts and not beside and not in_row) or (len(groups) < 2 and beside < _ALONE * len(claim.words))


def _turned(claim: Claim, said: Sequence[Statement]) -> bool:
    """Whether one side denies, opposes or restricts what the other says."""
    said = [one for one in said if any(holds(one, item) for item in claim.said.items)] or said
    negated = frozenset[str]().union(*(one.negated for one in said))
    affirmed = frozenset[str]().union(*(one.affirmed for one in said))
    denied = (claim.said.affirmed & negated) - affirmed - claim.said.negated
    asserted = (claim.said.negated & affirmed) - negated - claim.said.affirmed
    here = negated | affirmed
    opposed = any(OPPOSITE[term] & here and term not in here for term in claim.said.terms if term in OPPOSITE)
    restricted = not _ONLY.search(claim.text) and any(_ONLY.search(one.text) for one in said)
    return bool(denied or asserted) or opposed or restricted or _denied_anew(claim.said, said)


def _lonely(claim: Claim, best: Window) -> bool:
    """Whether the claim has a clause of which nothing is there."""
    units = best.here | best.above
    found = {word for place, word in enumerate(claim.words, start=len(claim.said.items)) if units >> place & 1}
    clauses = map(take_apart, _CLAUSE.split(claim.text))
    return any(
        not one.items and len(one.content) >= _LEAST_CLAUSE and len(one.content & found) < _LONELY * len(one.content)
        for one in clauses
    )


def _quoted(claim: Claim, quotes: Sequence[str], passages: Sequence[str], shelf: Shelf, allowed: Collection[int]) -> Finding:
    """The verdict on a sentence with quotations: they stand there, and what else it names is not something else there."""
    best = Finding(Support.NOT_FOUND, missing=tuple(f'"{quote}"' for quote in quotes))
    possible = set.intersection(*(shelf.having(take_apart(quote).terms, _slips(quote)) for quote in quotes))
    for passage in (one for one in allowed if one in possible):
        if not all(_stands(quote, passages[passage]) for quote in quotes):
            continue
        found = shelf.of(passage)
        runs = ((first, size) for size in range(1, WINDOW + 1) for first in range(len(found) - size + 1))
        first, size = next((run for run in runs if _stands(quotes[0], _text(found[run[0] : sum(run)]))), (0, len(found)))
        said, near = found[first : first + size], found[max(first - 1, 0) : first + size + 1]
        above = shelf.above[passage]
        around = "\n".join([*passages[max(passage - _SPEAKER, 0) : passage + 2], above.lowered]).lower()
        others = [one for statement in said for one in (*statement.items, *_subjects(statement, shelf))]
        others = [one for one in others if not claimed(one, claim.said) and not any(one.shown in quote for quote in quotes)]
        lost: list[str] = []
        for item in (*claim.said.items, *_subjects(claim.said, shelf)):
            is_near = item.name != "" and (
                named(item, above.title)
                or ((named(item, around) or item.name in above.subjects) and not any(comparable(item, one) for one in others))
            )
            if not is_near and not any(holds(one, item) for one in (said if item.name else near)):
                lost.append(item.shown)
        if NEGATIONS.isdisjoint(claim.said.terms):
            lost += [f'"{quote}"' for quote in quotes if _cut_off(quote, said)]
        if not lost:
            return Finding(Support.SUPPORTED, passage, _text(said))
        if best.passage is None:
            best = Finding(Support.PARTLY, passage, _text(said), tuple(lost))
    return best


def _subjects(statement: Statement, shelf: Shelf) -> list[Item]:
    """What its sentences say it of, if only its place may give it the capital: *Hanno wrote*, but not *Residents wrote*."""
    found = _SUBJECT.findall(plain(statement.text))
    return [Item(Kind.NAME, name, name.lower()) for name in found if stem(name) in statement.content - shelf.common]


def _cut_off(quote: str, said: Sequence[Statement]) -> bool:
    """Whether a quotation leaves out a denial right before it in its sentence."""
    wanted = tuple(map(stem, words(quote)))
    places = ((one, at) for one in said for at in range(len(one.terms)) if one.terms[at : at + len(wanted)] == wanted)
    return any(
        one.terms[place] in NEGATIONS and one.spots[at] - one.spots[place] <= _CUT for one, at in places for place in range(at)
    )


def _slips(quote: str) -> int:
    """How many slips of the pen are forgiven."""
    return max(len(words(quote)) // _WORDS_A_SLIP, 1)


@lru_cache(maxsize=64)
def _read(passage: str) -> tuple[PageText, list[str]]:
    return PageText(passage), words(passage)


def _stands(quote: str, passage: str) -> bool:
    """Whether a quotation is in the passage, whatever its marks and blanks; a slip of the pen is forgiven."""
    wanted, slips = words(quote), _slips(quote)
    if len(set(wanted).difference(words(passage))) > slips:
        return False
    page, terms = _read(_SAID.sub(" ", passage))
    found, missed = page.stretches(quote.rstrip(" .,;:!?"))
    if found and not missed:
        return True
    runs = (terms[first : first + len(wanted)] for first in range(len(terms) - len(wanted) + 1))
    return any(slips_between(run, wanted, slips) <= slips for run in runs)
