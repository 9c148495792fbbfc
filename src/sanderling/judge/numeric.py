"""Whether an answer gives the number, quantity or date that an accepted answer is: ``numeric``, in whatever unit and notation.

The accepted answer must be one quantity and nothing else but words like *about* and what is counted: "11" or "11 planets",
never "Apollo 11", whose name is the answer. Of an answer with several numbers, those of the right kind have to agree. Written
places count: 3.2 million is met by 3,214,000, and 1969 by 1969 alone. A unit that one side leaves out is granted. Where rules
cannot tell, because a number may stand there in a way that is not read (half, a dozen, 10^5), the judge says so instead of
calling the answer wrong, and the next judge may.
"""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from sanderling.core.record import Trajectory
from sanderling.judge.quantities import COUNTERS, SIGNS, Quantity, alike, quantities
from sanderling.judge.verdict import Code, Ruling, Verdict, unscored


@dataclass(frozen=True)
class NumericJudge:
    """Right: the quantity of an accepted answer. ``tolerance``: relative, instead of what the written places allow."""

    tolerance: float | None = None
    places: tuple[str, ...] = field(default=(), init=False)

    @property
    def name(self) -> str:
        """With the tolerance, where there is one."""
        return "numeric" if self.tolerance is None else f"numeric:{self.tolerance:g}"

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `verdict.Judge`."""
        if trajectory.answer is None:
            return unscored(Code.NOT_ENDED, "there is no answer to judge")
        found = {compare(trajectory.answer, accepted, self.tolerance) for accepted in trajectory.question.answers}
        if Match.SAME in found:
            return Verdict(Ruling.CORRECT, 1.0, "the same quantity")
        if Match.UNSURE in found or not found:
            return unscored(Code.NOT_COMPARABLE, "the answers are not one quantity each, or their units have no fixed factor")
        return Verdict(Ruling.INCORRECT, 0.0, "another quantity, or none")


class Match(StrEnum):
    """What a comparison found."""

    SAME = "same"
    OTHER = "other"
    UNSURE = "unsure"
    """Rules cannot tell: the accepted answer is no quantity, the answer gives several, or the units have no fixed factor."""


def compare(answer: str, accepted: str, tolerance: float | None = None) -> Match:
    """Compare an answer with an accepted one.

    Example: ``compare("It is 5,000 m.", "5 km") is Match.SAME``
    """
    wanted_date = _only_date(accepted)
    if wanted_date is not None:
        given = dates(answer)
        if not given and re.search(r"\d", answer):
            return Match.UNSURE
        return _agreed([Match.SAME if date.agrees(wanted_date) else Match.OTHER for date in given])
    wanted = _only_quantity(accepted)
    # The 1960s are neither 1960 nor seconds.
    if wanted is None or bool(_DECADE.search(answer)) is not bool(_DECADE.search(accepted)):
        return Match.UNSURE
    read = quantities(answer)
    kinds = [quantity for quantity in read if wanted.unit and quantity.unit and _same_kind(quantity, wanted)]
    found = kinds or read
    match = _agreed([_same(quantity, wanted, tolerance) for quantity in found])
    is_open = {Match.SAME: any(_is_part(answer, quantity) for quantity in found), Match.OTHER: _is_unread(answer, read)}
    return Match.UNSURE if is_open.get(match) else match


def _agreed(found: list[Match]) -> Match:
    """What all of them say; nothing at all is another answer."""
    if not found:
        return Match.OTHER
    return found[0] if len(set(found)) == 1 else Match.UNSURE


# Quantities ---------------------------------------------------------------------------------------------------------------

_BEFORE = frozenset({
    "a", "about", "almost", "an", "approx", "approximately", "around", "at", "c", "ca", "circa", "exactly", "in", "just",
    "least", "less", "minus", "more", "most", "nearly", "negative", "of", "on", "only", "or", "over", "roughly", "some", "than",
    "the", "to", "total", "under", "up", "us", "usd", "year", "负", "負", "零下", "マイナス",
})  # fmt: skip
"""Words that may stand before a quantity that is the whole answer."""
_AFTER = re.compile(r"[a-z-]+(?: [a-z-]+)?")
_UNCERTAIN = frozenset({
    frozenset({"ton", "mass"}), frozenset({"gallon", "volume"}), frozenset({"barrel", "volume"}),
    frozenset({"horsepower", "power"}), frozenset({"years", "time"}), frozenset({"percentage points", "share"}),
})  # fmt: skip
"""Pairs of kinds between which people convert, by factors that differ."""
_DEGREES = frozenset({"angle", "temperature"})
_CONVERTED = Fraction(1, 100)
"""Most that rounding may move a converted value."""


def _only_quantity(text: str) -> Quantity | None:
    """The quantity that a text is, and nothing else."""
    found = quantities(text)
    if len(found) != 1:
        return None
    before = re.findall(r"[^\W\d_]+", text[: found[0].start].lower())
    after = text[found[0].end :].strip(" .,;:!?)(]['\"\n*" + "".join(COUNTERS))
    plain = not after or (_AFTER.fullmatch(after) is not None and after.split()[0] not in ("to", "or", "and", "x", "by"))
    return found[0] if all(word in _BEFORE for word in before) and plain else None


def _same_kind(one: Quantity, other: Quantity) -> bool:
    if one.unit is None or other.unit is None:
        return True
    kinds = frozenset(unit.kind for unit in alike(one.unit, other.unit))
    return len(kinds) == 1 or kinds in _UNCERTAIN or kinds == _DEGREES


def _same(given: Quantity, wanted: Quantity, tolerance: float | None) -> Match:
    value, grain = wanted.number.value, wanted.number.grain
    if given.unit is None or wanted.unit is None or {given.unit.kind, wanted.unit.kind} == _DEGREES:
        found = _near(given.number.value, value, grain / 2, tolerance)
        is_share = "share" in (given.unit and given.unit.kind, wanted.unit and wanted.unit.kind)
        if found is Match.SAME or not is_share:
            return found
        grain *= 1 if wanted.unit is None else wanted.unit.factor
        return _near(given.base, wanted.base, grain / 2, tolerance)
    one, other = alike(given.unit, wanted.unit)
    if one.kind != other.kind:
        return Match.UNSURE if frozenset({one.kind, other.kind}) in _UNCERTAIN else Match.OTHER
    if one == other:
        return _near(given.number.value, value, grain / 2, tolerance)
    first, second = given.number.value * one.factor + one.offset, value * other.factor + other.offset
    places = ((given.number.grain or 1) * one.factor + (grain or 1) * other.factor) / 2
    return _near(first, second, min(places, abs(second) * _CONVERTED), tolerance)


def _near(given: Fraction, wanted: Fraction, most: Fraction, tolerance: float | None) -> Match:
    """Whether two values differ by so much at most, or by the tolerance where there is one."""
    if tolerance is not None:
        most = abs(wanted) * Fraction(tolerance)
    return Match.SAME if abs(given - wanted) <= most else Match.OTHER


# What may not have been read ----------------------------------------------------------------------------------------------

_ON = re.compile(r"\s?(?:[-\u2013\u2014~:/]|\.\.+|to\b|or\b)\s?[$€£¥]?\d")
_FROM = re.compile(r"\d[^\s\d]{0,3}\s?(?:[-\u2013\u2014~:/]|\.\.+|\bto|\bor)\s?[$€£¥]?$")
_DECADE = re.compile(r"\b[12]\d\d0['\u2019]?s\b")
_DIGIT = re.compile(r"(?<!\w)(?<![^\W\d_]-)\d")
_WORDED = re.compile(
    r"\b(?:half|halves|thirds?|quarters?|fifths?|tenths?|dozens?|hundreds?|thousands?|millions?|billions?|trillions?|none|nil"
    r"|once|twice|thrice|double|triple|first|second|fourth|sixth|seventh|eighth|ninth)\b",
    re.IGNORECASE,
)
_READ_OTHERWISE = re.compile(
    r"\b(?:ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty) (?:oh|ten|eleven|twelve|\w+teen|\w+ty)\b"
    r"|\d\s+(?:in|of|out of)\s+\d|\d\s?[mbt]\b|\^",
    re.IGNORECASE,
)
"""Years in words, shares, letters that may be a million or a metre, powers: what was read of them is not their number."""


def _is_part(text: str, quantity: Quantity) -> bool:
    """Whether a quantity of a text is an end of a range, or of a ratio: 3-5 km, 3:1."""
    return bool(_ON.match(text, quantity.end) or _FROM.search(text[: quantity.start]))


def _is_unread(text: str, found: Sequence[Quantity]) -> bool:
    """Whether a text may hold a number that is not among those that were found in it."""
    rest = list(text)
    for quantity in found:
        rest[quantity.start : quantity.end] = "\0" * (quantity.end - quantity.start)
    left = "".join(rest)
    return bool(
        _DIGIT.search(left) or _WORDED.search(left) or _READ_OTHERWISE.search(text) or any(char in SIGNS for char in left)
    )


# Dates --------------------------------------------------------------------------------------------------------------------

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NAMES = "|".join(sorted({*_MONTHS, *(name[:3] for name in _MONTHS), "sept"}, key=len, reverse=True))
_YEAR = r"(?P<year>[12]\d{3})(?!\d)"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_FORMS = [
    re.compile(rf"(?<![\w.,/-])(?:{form})", re.IGNORECASE)
    for form in (
        r"(?P<year>[12]\d{3})-(?P<number>\d{1,2})-(?P<day>\d{1,2})(?![\d-])",
        r"(?P<year>[12]\d{3})/(?P<number>\d{1,2})/(?P<day>\d{1,2})(?![\d/])",
        r"(?P<year>[12]\d{3})\s?年\s?(?P<number>\d{1,2})\s?月(?:\s?(?P<day>\d{1,2})\s?[日号])?",
        rf"(?P<day>\d{{1,2}})\.\s?(?P<number>\d{{1,2}})\.\s?{_YEAR}",
        rf"{_DAY}(?:\s+of)?[\s-]+(?P<month>{_NAMES})\b\.?,?[\s-]+{_YEAR}",
        rf"(?P<month>{_NAMES})\b\.?\s+{_DAY},?\s+{_YEAR}",
        rf"(?P<month>{_NAMES})\b\.?,?\s+(?:of\s+)?{_YEAR}",
    )
]
"""By English month names, or as numbers whose order is certain: 3/4/1969 may be two days, and is no date."""


@dataclass(frozen=True, slots=True)
class Date:
    """A year, its month, and the day of it where one is given. A bare year is a number, not a date."""

    year: int
    month: int
    day: int | None
    start: int
    end: int

    def agrees(self, other: "Date") -> bool:
        """Whether this gives at least what the other one gives, and the same."""
        return (self.year, self.month) == (other.year, other.month) and other.day in (None, self.day)


def dates(text: str) -> list[Date]:
    """The dates of a text, in order."""
    found: list[Date] = []
    for form in _FORMS:
        for match in form.finditer(text[:2_000]):
            date = _date(match)
            if date is not None and not any(one.start < date.end and date.start < one.end for one in found):
                found.append(date)
    return sorted(found, key=lambda date: date.start)


def _date(match: re.Match[str]) -> Date | None:
    parts = match.groupdict()
    name = parts.get("month")
    month = int(parts["number"]) if name is None else 1 + [one[:3] for one in _MONTHS].index(name[:3].lower())
    year, day = int(parts["year"]), None if parts.get("day") is None else int(parts["day"])
    try:
        datetime.date(year, month, 1 if day is None else day)
    except ValueError:
        return None
    return Date(year, month, day, match.start(), match.end())


def _only_date(text: str) -> Date | None:
    found = dates(text)
    if len(found) != 1:
        return None
    words = re.findall(r"[^\W_]+", (text[: found[0].start] + text[found[0].end :]).lower())
    return found[0] if all(word in ("on", "the", "in") or word.endswith("day") for word in words) else None
