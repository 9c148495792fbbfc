"""Whether an answer gives the number, quantity or date that an accepted answer is: ``numeric``, in whatever unit and notation.

The accepted answer must be one quantity and nothing else but words like *about* and what is counted: "11" or "11 planets",
never "Apollo 11". Of an answer with several numbers, those of the right kind have to agree. Written places count: 3.2 million
is met by 3,214,000, and 1969 by 1969 alone. A unit that one side leaves out is granted. Where a number may stand in a way that
is not read (half, a dozen, 10^5), the judge says so instead of calling the answer wrong, and the next judge may.
"""

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from sanderling.core.record import Trajectory
from sanderling.judge.quantities import SIGNS, WORDS, Quantity, alike, quantities
from sanderling.judge.verdict import Code, Verdict, decided, unscored


@dataclass(frozen=True)
class NumericJudge:
    """An answer is right where it states the quantity or date of an accepted one.

    ``tolerance``: relative error that is allowed; None: what the written places allow.
    """

    tolerance: float | None = None
    places: tuple[str, ...] = field(default=(), init=False)

    @property
    def name(self) -> str:
        """With the tolerance, where there is one."""
        return "numeric" if self.tolerance is None else f"numeric:{self.tolerance:g}"

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """See `verdict.Judge`."""
        found = {compare(trajectory.answer or "", accepted, self.tolerance) for accepted in trajectory.question.answers}
        if True in found:
            return decided(True, "the same quantity")
        if None in found or not found:
            return unscored(Code.NOT_COMPARABLE, "the answers are not one quantity each, or their units have no fixed factor")
        return decided(False, "another quantity, or none")


_AFTER = re.compile(r"(?!(?:to|or|and|x|by)(?: |$))[a-z-]+(?: [a-z-]+)?")
_DECADE = re.compile(r"\b[12]\d\d0['\u2019]?s\b")
_RANGE_BEGINS = re.compile(r"\s?(?:[-\u2013\u2014~:/]|\.\.+|to\b|or\b)\s?[$€£¥]?\d")
_RANGE_ENDS = re.compile(r"\d[^\s\d]{0,3}\s?(?:[-\u2013\u2014~:/]|\.\.+|\bto|\bor)\s?[$€£¥]?$")
_UNREAD = re.compile(
    rf"(?<!\w)(?<![^\W\d_]-)\d|[{''.join(SIGNS)}]"
    r"|\b(?:half|halves|thirds?|quarters?|fifths?|tenths?|dozens?|hundreds?|thousands?|millions?|billions?|trillions?|none|nil"
    r"|once|twice|thrice|double|triple|first|second|fourth|sixth|seventh|eighth|ninth)\b",
    re.IGNORECASE,
)
"""A number among what is left of a text without its quantities."""
_READ_OTHERWISE = re.compile(
    r"\b(?:ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty) (?:oh|ten|eleven|twelve|\w+teen|\w+ty)\b"
    r"|\d\s+(?:in|of|out of)\s+\d|\d\s?[mbt]\b|\^",
    re.IGNORECASE,
)
"""Years in words, shares, letters that may be a million or a metre, powers: what was read of them is not their number."""


def compare(answer: str, accepted: str, tolerance: float | None = None) -> bool | None:
    """Whether an answer, such as "It is 5,000 m", is an accepted one, such as "5 km".

    None where rules cannot tell: the accepted one is no quantity, the answer gives several, or units have no fixed factor.
    """
    date = _only_date(accepted)
    if date is not None:  # an answer gives at least what it gives, and the same
        given = _dates(answer).values()
        if not given and re.search(r"\d", answer):
            return None
        return _agreed(one[:2] == date[:2] and date[2] in (None, one[2]) for one in given)
    read, asked = quantities(answer), quantities(accepted)
    # The 1960s are neither 1960 nor seconds.
    if len(asked) != 1 or bool(_DECADE.search(answer)) is not bool(_DECADE.search(accepted)):
        return None
    wanted = asked[0]
    before = re.findall(r"[^\W\d_]+", accepted[: wanted.start].lower())
    after = accepted[wanted.end :].strip(" .,;:!?)(]['\"\n*" + "".join(WORDS["counters"]))
    if not set(before).issubset(WORDS["before"]) or (after and not _AFTER.fullmatch(after)):
        return None
    found = [quantity for quantity in read if _same_kind(quantity, wanted)] or read
    match = _agreed(_same(quantity, wanted, tolerance) for quantity in found)
    if match:  # an end of a range or a ratio, as in 3-5 km and 3:1
        is_open = any(_RANGE_BEGINS.match(answer, one.end) or _RANGE_ENDS.search(answer[: one.start]) for one in found)
    else:
        left = list(answer)
        for one in read:
            left[one.start : one.end] = "\0" * (one.end - one.start)
        is_open = bool(_UNREAD.search("".join(left)) or _READ_OTHERWISE.search(answer))
    return None if is_open else match


def _agreed(found: Iterable[bool | None]) -> bool | None:
    """What all of them say; nothing at all is another answer."""
    matches = set(found) or {False}
    return matches.pop() if len(matches) == 1 else None


_UNCERTAIN = (
    *({"ton", "mass"}, {"gallon", "volume"}, {"barrel", "volume"}),
    *({"horsepower", "power"}, {"years", "time"}, {"percentage points", "share"}),
)
"""Pairs of kinds between which people convert, by factors that differ."""
_DEGREES = {"angle", "temperature"}
_CONVERTED = Fraction(1, 100)  # most that rounding may move a converted value


def _same_kind(given: Quantity, wanted: Quantity) -> bool:
    """Whether both have units, which people would compare."""
    if given.unit is None or wanted.unit is None:
        return False
    kinds = {unit.kind for unit in alike(given.unit, wanted.unit)}
    return len(kinds) == 1 or kinds in _UNCERTAIN or kinds == _DEGREES


def _same(given: Quantity, wanted: Quantity, tolerance: float | None) -> bool | None:
    """Compare values: as they are written, or in the base unit where the units differ."""
    one, other = given.unit, wanted.unit
    value, places = wanted.value, wanted.grain / 2
    pairs = [(given.value, value, places)]
    if one is None or other is None or {one.kind, other.kind} == _DEGREES:
        if "share" in (one and one.kind, other and other.kind):  # 12 or 0.12 for 12%
            pairs.append((given.base, wanted.base, places * (1 if other is None else other.factor)))
    else:
        one, other = alike(one, other)
        if one.kind != other.kind:
            return None if {one.kind, other.kind} in _UNCERTAIN else False
        if one != other:
            second = value * other.factor + other.offset
            places = ((given.grain or 1) * one.factor + (wanted.grain or 1) * other.factor) / 2
            pairs = [(given.value * one.factor + one.offset, second, min(places, abs(second) * _CONVERTED))]
    return any(
        abs(first - second) <= (most if tolerance is None else abs(second) * Fraction(tolerance))
        for first, second, most in pairs
    )


_MONTHS = WORDS["months"]
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


def _dates(text: str) -> dict[tuple[int, int], tuple[int, int, int | None]]:
    """Year, month and perhaps day of the dates in a text, by where they stand. A bare year is a number, no date."""
    found: dict[tuple[int, int], tuple[int, int, int | None]] = {}
    for form in _FORMS:
        for match in form.finditer(text[:2_000]):
            parts = match.groupdict()
            name, day = parts.get("month"), parts.get("day")
            month = int(parts["number"]) if name is None else 1 + [one[:3] for one in _MONTHS].index(name[:3].lower())
            try:
                datetime.date(int(parts["year"]), month, int(day or 1))
            except ValueError:
                continue
            if all(end <= match.start() or match.end() <= start for start, end in found):
                found[match.span()] = int(parts["year"]), month, int(day) if day else None
    return found


def _only_date(text: str) -> tuple[int, int, int | None] | None:
    """The date that a text is, and nothing else."""
    found = _dates(text)
    if len(found) != 1:
        return None
    [((start, end), date)] = found.items()
    words = re.findall(r"[^\W_]+", (text[:start] + text[end:]).lower())
    return date if all(word in ("on", "the", "in") or word.endswith("day") for word in words) else None
