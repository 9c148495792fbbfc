"""What can be checked in a text: numbers with their units, dates, names and identifiers, in whatever form they are written.

A number may be a word, a share (*a quarter of a day*, *one in ten*), one end of a range, or rounded where the text says *about*
or *nearly*. A word with a capital is a name; where any word has one, at the start of a sentence, it may be a name.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise, permutations
from typing import NamedTuple

from sanderling.judge.numeric import BEFORE_CHRIST, CONVERTED, KILOGRAM, Quantity, alike, quantities, same
from sanderling.world.text import STOP_WORDS, words

Date = tuple[int, int, int]  # year, month, day; 0 for what is not said


class Kind(StrEnum):
    """Things of one kind can stand in each other's place."""

    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    CODE = "code"


class Item(NamedTuple):
    """Something in a statement that can be checked."""

    kind: Kind
    shown: str
    name: str = ""  # as it is compared
    number: Quantity | None = None
    date: Date = (0, 0, 0)
    hedge: str = ""  # at least, at most, more or less than this
    near: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))  # how far below and above another one may be: about, nearly
    undated: bool = False  # whether the year of a date may be left out
    opens: bool = False  # a name, if the capital is not only from the place where it stands
    at: int = 0  # words before it
    until: int = 0  # and up to its end
    group: int = 0  # the same for what no word parts: first name and surname
    row: int = 0  # the same for all in "A, B and C"

    @property
    def ends(self) -> tuple[int, int]:
        """Places of its first word and its last one."""
        return self.at, max(self.until - 1, self.at)

    @property
    def is_share(self) -> bool:
        """Whether the number is a share of something."""
        return self.number is not None and self.number.unit is not None and self.number.unit.kind == "share"

    @property
    def is_year(self) -> bool:
        """Whether the number looks like a year."""
        number = self.number
        return number is not None and number.unit is None and number.value.denominator == 1 and 1000 <= number.value <= 2100


_OPENING = """
since under according through during unlike despite although because while until both each every many most when where however
whereas via per within without among between see note new changed if besides instead here therefore thus
later earlier afterwards today yesterday meanwhile still finally
"""
_CALENDAR = """
january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday
"""
_NO_MATTER = "mr mrs ms miss dr prof professor herr frau mme sir readme faq"
HONORIFICS = frozenset(_NO_MATTER.split())
_NO_NAMES = STOP_WORDS | HONORIFICS | frozenset([*_OPENING.split(), *_CALENDAR.split()])
_HEDGES = {
    "most": r"at most|(?:no|not|cannot have) (?:more|longer|later) than|up to|maximum|as (?:much|many) as|limited to|within",
    "least": r"at least|(?:no|not) (?:less|fewer) than|minimum",
    "more": r"more than|over|above|exceed\w*|greater than|longer than|after|since",
    "less": r"less than|fewer than|under|below|before|until|smaller than|shorter than",
}
_HEDGE = {name: re.compile(rf"\b(?:{said})\W+(?:\w+\W+){{0,2}}$", re.IGNORECASE) for name, said in _HEDGES.items()}
CONTRARY = {"most": "least", "least": "most", "more": "less", "less": "more"}
_HEDGED = 40  # characters
_ABOUT = re.compile(r"\b(?:about|roughly|around|approximately|nearly|almost|some|over|more than)\s+\S{0,2}$", re.IGNORECASE)
_NEARBY = tuple(
    (re.compile(rf"(?:\b(?:{said})|~)\s+\W?$", re.IGNORECASE), (Fraction(below, 100), Fraction(above, 100)))
    for said, below, above in (
        ("about|around|roughly|approximately|some|circa", 3, 3),
        ("(?:just|slightly|a little) (?:under|below|less than)|nearly|almost|not quite|close to", 5, 0),
        ("(?:just|slightly|a little) (?:over|above|more than)|good", 0, 5),
        ("over|above|more than", 0, 15),
    )
)
_ROUNDING = 1e-9
_FEW = {"": 1, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_PARTS = {"half": 2, "halv": 2, "thir": 3, "quar": 4, "fift": 5, "tent": 10}  # by their first letters
_PART = re.compile(
    r"\b(?:(?P<few>(?a:an?|one|two|three|four))[ -])?(?P<part>(?a:half|halves|(?:third|quarter|fifth|tenth)s?))\b"
    r"(?:(?P<of>\s+of\b|(?<=half)\s+the\b)?(?:\s+(?:an?|one)\s+(?P<unit>\w+))?|(?=[.,;:)]|\s*$))",
    re.IGNORECASE,
)
_HAS_PARTS = re.compile("half|third|quarter|fifth|tenth|halves|dozen")
_DIGIT = re.compile(r"\d")
_AND_A_HALF = re.compile(r"\b(\d+|[a-z]+) and a half (\w+)", re.IGNORECASE)
_DOZEN = re.compile(r"\b(?:((?a:a|one|two|three|four|five|six))\s+)?dozen\b", re.IGNORECASE)
_IN = re.compile(r"\s+(?:[a-z]+\s+){0,2}(?:in|out of)\s+(?:every\s+)?")
_RANGE = re.compile(
    r"(?<![\w.,/–-])(\d[\d,]*(?:\.\d+)?)(?:\s?[–-]\s?|\s+(?:to|and)\s+)(\d[\d,]*(?:\.\d+)?)(\s?%|\s?[a-zA-Z]+)?(?![\w–/-]|[.,]\d)"
)
_FROM, _TO = re.compile(r"\b(?:from|between)\W{0,2}$", re.IGNORECASE), re.compile(r"\s+(?:to|and)\W{1,2}")
_PERCENT = quantities("1%")[0]
_ARGUMENTS = re.compile(r"\([^()]*\)$")
_CODE = re.compile(
    r"`([^`]+)`"
    r"|(?<![\w.-])(\d+(?:\.\d+)+\.(?:\d+|x)(?![\w.]*\d)"
    r"|(?<!\.)(?:[A-Za-z_]\w+\.)+[A-Za-z_]\w+(?:\(\))?|\w+\(\)|[a-z]+[A-Z]\w*|\w*_\w+|--?[A-Za-z][\w-]*|[a-z]+\d\w*)"
)
_NAME = re.compile(r"(?<![\w'’.-])[A-ZÀ-ÖØ-Þ][\w’'-]*(?!:\s)(?![\w’'-])")
_POSSESSIVE = re.compile(r"['’]s?$")
_ROUND = re.compile(r"\b(?:tens|dozens|hundreds|thousands|millions|billions)\b", re.IGNORECASE)
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_MONTH = (
    r"(?P<m>Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\b\.?"
)
_DATES = (
    re.compile(rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<y>\d{{4}}))?"),
    re.compile(rf"\b{_MONTH}\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s+(?P<y>\d{{4}}))?"),
    re.compile(rf"\b{_MONTH}(?P<d>)\s+(?P<y>\d{{4}})"),
    re.compile(r"(?<!\d)(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})(?!\d)"),
    re.compile(r"(?<![\d./])(?P<d>\d{1,2})(?P<sep>[./])(?P<m>0?[1-9]|1[0-2])(?P=sep)(?P<y>(?:19|20)\d{2})(?!\d)"),
)


def items_of(text: str) -> Iterator[tuple[Item, int, int]]:
    """What can be checked in a text, with where it stands; each finder sees what those before it left."""
    left = text

    def without(found: re.Match[str]) -> str:
        return left[: found.start()] + " " * len(found[0]) + left[found.end() :]

    for pattern in _DATES if _DIGIT.search(text) else ():
        for found in pattern.finditer(left):
            month = _MONTHS.get(found["m"][:3].lower()) or int(found["m"])
            date = (int(found["y"] or 0), month, int(found["d"] or 0))
            hedge = _hedge(_before(text, found.start()))
            yield Item(Kind.DATE, found[0], date=date, hedge=hedge), found.start(), found.end()
            left = without(found)
    for found in _CODE.finditer(left):
        name = _ARGUMENTS.sub("", (found[1] or found[2]).strip().lower())
        is_number = re.fullmatch(r"[\d.,\s-]+", name) and name.count(".") < 2  # 3.11.2 is a name
        if name and not is_number and not _is_unit(left, found):
            yield Item(Kind.CODE, found[1] or found[2], name), found.start(), found.end()
            left = without(found)
    numbers = _numbers(left)
    for number in numbers:
        if number.unit is None and number.value in (1, 2) and left[number.start].isalpha():
            continue  # "one" and "two" are often no numbers
        shown = left[number.start : number.end].strip()
        before = _before(left, number.start)
        near = next((most for said, most in _NEARBY if said.search(before)), (Fraction(0), Fraction(0)))
        number = _rounded(before, number)
        yield Item(Kind.NUMBER, shown, number=number, hedge=_hedge(before), near=near), number.start, number.end
    for found in _ROUND.finditer(left):
        yield Item(Kind.NAME, found[0], found[0].lower()), found.start(), found.end()
    for found in _NAME.finditer(left):
        name = _POSSESSIVE.sub("", found[0])
        lowered = name.lower()
        is_unit = any(number.start <= found.start() < number.end for number in numbers)
        if len(name) > 1 and lowered not in _NO_NAMES and not is_unit:
            yield Item(Kind.NAME, name, lowered, opens=_merely_begins(left, found)), found.start(), found.end()


def _is_unit(text: str, found: re.Match[str]) -> bool:
    """Whether what looks like an identifier is the unit of a number before it: *7.8 kW*."""
    return bool(re.search(r"\d\s?$", _before(text, found.start()))) and any(one.unit for one in quantities(f"1 {found[0]}"))


def _numbers(text: str) -> list[Quantity]:
    """Numbers of a text, *a quarter of a day*, *two dozen*, *one in ten* and both ends of *30-50%* among them."""
    found: list[Quantity] = []
    has_parts = _HAS_PARTS.search(text.lower())
    for half in _AND_A_HALF.finditer(text) if has_parts else ():
        for one in quantities(f"{half[1]} {half[2]}"):
            found.append(replace(one, value=one.value + Fraction(1, 2), start=half.start(), end=half.end()))
    for part in _PART.finditer(_AND_A_HALF.sub(lambda half: " " * len(half[0]), text)) if has_parts else ():
        unit = quantities(f"1 {part['unit']}") if part["unit"] else []
        value = Fraction(_FEW[(part["few"] or "").lower()], _PARTS[part["part"].lower()[:4]])
        if unit and unit[0].unit:
            found.append(replace(unit[0], value=value, start=part.start(), end=part.end()))
        elif part["few"] or part["of"]:
            found.append(replace(_PERCENT, value=100 * value, start=part.start(), end=part.end("part")))
    for dozen in _DOZEN.finditer(text) if has_parts else ():
        value = Fraction(12 * _FEW[(dozen[1] or "").lower()])
        found.append(Quantity(value, Fraction(0), None, dozen.start(), dozen.end()))
    for both in _RANGE.finditer(text):
        ends = [one for end in (1, 2) for one in quantities(f"{both[end]}{both[3] or ''}")]
        if len(ends) == 2 and (ends[0].value < ends[1].value) is not (ends[0].unit == BEFORE_CHRIST):
            found += [replace(one, start=both.start(n), end=both.end(n)) for n, one in enumerate(ends, start=1)]
    for one in quantities(text):
        if any(other.start < one.end and one.start < other.end for other in found):
            continue
        last = found[-1] if found else None
        if last and last.unit is one.unit is None and _is_share(last, one, text[last.end : one.start]):
            found[-1] = replace(_PERCENT, value=100 * last.value / one.value, start=last.start, end=one.end)
        else:
            found.append(one)
    found.sort(key=lambda one: one.start)
    for place, (one, other) in enumerate(pairwise(found)):
        between = text[one.end : other.start]
        if one.unit is None and other.unit and _TO.fullmatch(between) and _FROM.search(_before(text, one.start)):
            found[place] = replace(one, unit=other.unit)  # from 412 to 255 MWh
    return found


def _is_share(one: Quantity, other: Quantity, between: str) -> bool:
    """Whether two numbers are a share, as in *nineteen cases out of twenty*; the other one may not be a year."""
    is_year = 1900 <= other.value <= 2100
    return 0 < one.value < other.value and not is_year and bool(_IN.fullmatch(between))


def _merely_begins(text: str, word: re.Match[str]) -> bool:
    """Whether a word has its capital from the place where it stands: it opens a sentence, a cell or a title."""
    before = text[: word.start()].rstrip(' *_"“#>(')
    begins = not before.strip(" |-•+") or (before[-1] in ".!?:|" and not re.search(r"\b[A-Z]\.$", before[-3:]))
    return begins and not re.match(r"\s+[A-Z]", text[word.end() :]) and not re.search(r"[A-Z0-9]", word[0][1:])


def _before(text: str, at: int) -> str:
    """What stands before a place, as far as it may hedge a number."""
    return text[max(at - _HEDGED, 0) : at]


def _hedge(before: str) -> str:
    return next((name for name, pattern in _HEDGE.items() if pattern.search(before)), "")


def _rounded(before: str, number: Quantity) -> Quantity:
    """The number with the places that *about* leaves open: about 38,000 may be 38,214."""
    if number.grain or number.value.denominator != 1 or not number.value or not _ABOUT.search(before):
        return number
    digits = str(abs(int(number.value)))
    return replace(number, grain=Fraction(10 ** (len(digits) - len(digits.rstrip("0")))))


def equal(one: Item, wanted: Item) -> bool:
    """Whether an item says all that the wanted one says."""
    if wanted.number is not None:
        if one.number is None:
            value = wanted.number.value
            return one.kind is Kind.DATE and wanted.number.unit is None and value > 0 and value in (one.date[0], one.date[2])
        unit_unsaid = wanted.number.unit is not None and one.number.unit is None
        contrary = bool(wanted.hedge) and CONTRARY[wanted.hedge] == one.hedge
        return not unit_unsaid and not contrary and (bool(same(one.number, wanted.number, None)) or _is_near(one, wanted))
    if one.kind is not wanted.kind:
        return False
    if one.kind is Kind.DATE:
        given = (wanted.date[0], *one.date[1:]) if wanted.undated and not one.date[0] else one.date
        return all(not asked or said == asked for said, asked in zip(given, wanted.date, strict=True))
    return one.name == wanted.name


def amounts_of(item: Item) -> set[float]:
    """What a number or date is found by: as it is written, in its base unit, as a mass where *pounds* may be one."""
    if item.number is None:
        return set(map(float, item.date)) - {0.0}
    unit, value = item.number.unit, item.number.value
    return {float(item.number.base), float(value), float(value * alike(unit, KILOGRAM)[0].factor if unit else value)}


def spans_of(item: Item) -> Iterator[tuple[float, float]]:
    """Between which amounts those lie by which equal numbers and dates are found."""
    number = item.number
    grain = 0.0 if number is None else float(number.grain / 2 * max(number.unit.factor if number.unit else 1, 1))
    for amount in (float(item.date[1]),) if number is None else amounts_of(item):
        margin = grain + abs(amount) * float(CONVERTED + max(item.near)) + _ROUNDING
        yield amount - margin, amount + margin


def within(item: Item, found: Item) -> bool:
    """Whether an item is another one, or stands in its name."""
    return equal(found, item) or bool(item.name and found.name and named(item, found.name))


def _is_near(one: Item, wanted: Item) -> bool:
    """Whether a number is as near to the wanted one as *about*, *nearly* or *over* lets it be."""
    given, asked = one.number, wanted.number
    if (
        given is None
        or asked is None
        or wanted.near == (0, 0)
        or (given.unit and given.unit.kind) != (asked.unit and asked.unit.kind)
    ):
        return False
    below, above = wanted.near
    return asked.base * (1 - below) <= given.base <= asked.base * (1 + above)


def named(item: Item, lowered: str, letters: str | None = None) -> bool:
    """Whether a name or identifier is there: as it is, in another form of the word, or as what initials stand for.

    ``letters``: the text's `first_letters`, where they are known.
    """
    singular, pattern = _forms(item.name, item.kind is Kind.NAME)
    if singular in lowered and pattern.search(lowered):
        return True
    return is_initials(item) and item.name in (first_letters(words(lowered)) if letters is None else letters)


def first_letters(said: Sequence[str]) -> str:
    """The first letter of each word that says something."""
    return "".join(word[0] for word in said if word not in STOP_WORDS)


@lru_cache(maxsize=10_000)
def _forms(name: str, is_word: bool) -> tuple[str, re.Pattern[str]]:
    """A name without its plural ending, and where it stands, in whatever number."""
    singular = name.removesuffix("s") if is_word and len(name) > 3 else name
    before, after = (r"\w" if re.match(r"\w", end) else re.escape(end) for end in (name[0], singular[-1]))
    return singular, re.compile(rf"(?<!{before}){re.escape(singular)}{'(?:e?s)?' if is_word else ''}(?!{after})")


def is_initials(item: Item) -> bool:
    """Whether a name may be the initials of several words, as in CFO."""
    return item.kind is Kind.NAME and item.shown.isupper() and item.shown.isalpha() and 3 <= len(item.name) <= 5


_SHAPES = (
    ("version", re.compile(r"\d")),
    ("error", re.compile(r"\w+(?:Error|Exception|Warning)$")),
    ("option", re.compile(r"-")),
    ("constant", re.compile(r"[A-Z0-9]*_[A-Z0-9_]+$")),
    ("initials", re.compile(r"[A-Z]{2,5}s?$")),
    ("code", re.compile(r".*[_.(=]|[a-z]")),
    ("name", re.compile(r"")),
)


@lru_cache(maxsize=10_000)
def _shaped(shown: str) -> str:
    return next(name for name, pattern in _SHAPES if pattern.match(shown))


def _shape(item: Item) -> str:
    """What sort of name it is by its looks: an error class stands in no option's place."""
    return _shaped(item.shown.strip("`")) if item.name else ""


def comparable(one: Item, other: Item) -> bool:
    """Whether one could stand in the other's place."""
    if one.name or other.name:
        return _shape(one) == _shape(other)
    if one.kind is not other.kind:
        return False
    if one.number is not None and other.number is not None and (one.number.unit or other.number.unit):
        return bool(one.number.unit and other.number.unit and one.number.unit.kind == other.number.unit.kind)
    return one.is_year == other.is_year


_MOST_ADDED = 8  # numbers of which one may be the difference or sum of others
_CUES = {
    "difference": r"more|less|fewer|lower|higher|up|down|rose|risen|fell|fallen|grew|grown|dropped|increased?|decreased?|by|not"
    r"|raised?|reduced|difference|longer|shorter|later|earlier|extra|above|below|still|left|remain\w*|other|rest|older|younger"
    r"|apart|short",
    "sum": "total|together|altogether|combined|sum|in all|overall|both|whole",
    "year": r"twelve months|12 months|(?:a|per|each|every) year|yearly|annual\w*",
}
_CUE = {name: re.compile(rf"\b(?:{said})\b", re.IGNORECASE) for name, said in _CUES.items()}


def cues_in(text: str) -> set[str]:
    """In which ways the numbers of a text may follow from others: as a difference, a sum, or for twelve months."""
    return {name for name, cue in _CUE.items() if cue.search(text)}


def may_follow(item: Item, cues: Collection[str]) -> bool:
    """Whether a number may be one that follows from others; a share is, without any cue."""
    return item.number is not None and not item.is_year and (bool(cues) or item.is_share)


def follows(item: Item, cues: Collection[str], numbers: Sequence[tuple[Item, float]]) -> bool:
    """Whether a number follows from some others, each with its value in the base unit."""
    if item.number is None or not numbers or len(numbers) > _MOST_ADDED:
        return False
    values = [value for one, value in numbers if comparable(item, one) and not one.is_year]
    made: list[float] = []
    if "difference" in cues:
        made += (abs(one - other) for one, other in combinations(values, 2) if one != other)
    if "sum" in cues and len(values) > 1:
        made.append(sum(values))
    if "year" in cues:
        made += (12 * one for one in values)
    if item.is_share:
        pairs = ((one[1], other[1]) for one, other in permutations(numbers, 2) if comparable(one[0], other[0]))
        shares = [one / other for one, other in pairs if other not in (0, one)]
        made += (*shares, *(abs(share - 1) for share in shares))
    asked, (below, above) = float(item.number.base), map(float, item.near)
    margin = abs(asked) * _ROUNDING
    return any(asked * (1 - below) - margin <= one <= asked * (1 + above) + margin for one in made)
