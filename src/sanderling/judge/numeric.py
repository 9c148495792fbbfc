"""Whether an answer gives the number or quantity that an accepted answer is: ``numeric``, in whatever unit and notation.

The accepted answer must be one quantity and nothing else but words like *about* and what is counted: "11" or "11 planets",
never "Apollo 11". Of an answer with several numbers, those of the right kind have to agree. Written places count: 3.2 million
is met by 3,214,000, and 1969 by 1969 alone. A unit that one side leaves out is granted, BC is not. Where a number may stand in
a way that is not read (half, a dozen, 1/2, 10^5, dates), the judge says so instead of calling the answer wrong, and the next
judge may.
"""

import itertools
import re
import tomllib
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from sanderling.core.record import Trajectory
from sanderling.judge.verdict import Code, Verdict, agreed, decided, unscored

_LONGEST_TEXT = 2_000
_LONGEST_NUMBER = 40  # digits; longer runs are identifiers


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: ``value * factor + offset`` is in the base unit of its kind."""

    kind: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, what it counts or measures, and where it stands."""

    value: Fraction
    grain: Fraction  # of the last written place: rounding may have moved the value by half of it; 0 is exact, as in 1969
    unit: Unit | None
    start: int
    end: int

    @property
    def base(self) -> Fraction:
        """In the base unit of its kind."""
        return self.value if self.unit is None else self.value * self.unit.factor + self.unit.offset


_TABLE = tomllib.loads(Path(__file__).with_name("quantities.toml").read_text(encoding="utf-8"))
WORDS: dict[str, list[str]] = {kind: words.split() for kind, words in _TABLE["words"].items()}
_NUMBERS = {word: value for value, word in enumerate(WORDS["ones"])}
_NUMBERS |= {word: 10 * value for value, word in enumerate(WORDS["tens"], start=2)}
_MAGNITUDES = {word: int(power) for power, words in _TABLE["magnitudes"].items() for word in words.split()}
_SUFFIXES = {word: int(power) for power, words in _TABLE["suffixes"].items() for word in words.split()}
_UNITS = {
    name.replace("_", " "): Unit(kind, Fraction(scale.partition(" + ")[0]), Fraction(scale.partition(" + ")[2] or 0))
    for kind, scales in _TABLE["units"].items()
    for scale, names in scales.items()
    for name in names.split()
}
_FOLDED: dict[str, Unit | None] = {}  # by names in lower case; None where only capitals tell units apart, as in mW and MW
for _name, _unit in _UNITS.items():
    _FOLDED[_name.lower()] = _unit if _FOLDED.get(_name.lower(), _unit) == _unit else None
BEFORE_CHRIST, KILOGRAM = _UNITS["BC"], _UNITS["kg"]
_LONGEST_NAME = max(name.count(" ") for name in _UNITS) + 1  # in words


def alike(one: Unit, other: Unit) -> tuple[Unit, Unit]:
    """Two units, with *pounds*, which are money, read as mass where the other one is a mass."""
    if {one.kind, other.kind} == {"pounds", "mass"}:
        return (_UNITS["lb"], other) if one.kind == "pounds" else (one, _UNITS["lb"])
    return one, other


_SPACES = "\u00a0\u2007\u2009\u202f"
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212\u2013](?=[\d.]))?"
    rf"(?P<digits>\d{{1,3}}(?:[ {_SPACES}]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?:['\u2019]\d{3})+(?:\.\d+)?(?!\d)|\d[\d.,]*\d|\d|\.\d+)"
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+|\d{1,3}(?:\.\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}")  # and lakhs as in India


def _number_of(found: re.Match[str]) -> tuple[Fraction, Fraction] | None:
    """Value and grain of a match of `_NUMBER`; None where its digits make no number (1.2.3, 12,34,5)."""
    digits = re.sub(f"[ {_SPACES}'\u2019]", "", found["digits"])
    commas, dots = digits.count(","), digits.count(".")
    point = ""
    if commas and dots:
        point = max(",.", key=digits.rindex)
    elif dots == 1:
        point = "."
    elif commas == 1 and len(digits.partition(",")[2]) != 3:
        point = ","
    whole, _, places = digits.rpartition(point) if point else (digits, "", "")
    if len(digits) > _LONGEST_NUMBER or (("," in whole or "." in whole) and not _GROUPED.fullmatch(whole)):
        return None
    value = Fraction(f"{whole.replace(',', '').replace('.', '') or '0'}.{places or '0'}")
    grain = Fraction(1, 10 ** len(places)) if places else Fraction(0)
    return (value if found["sign"] in (None, "+") else -value), grain


_SPELT = rf"(?<![^\W_])(?=[{''.join(word[0] + word[0].upper() for word in _NUMBERS)}])(?:{'|'.join(_NUMBERS)})(?![^\W\d_])"
_BEGINS = re.compile(rf"[\d.]|[-+\u2212\u2013](?=[\d.])|{_SPELT}", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CURRENCY = re.compile(r"(?:^|(?<=[\s(\[:=~≈<>≤≥]))(US\$|[$€£¥₹]|USD|EUR|GBP|JPY|CNY|INR|CHF)\s?$")
_MINUS = re.compile(r"\b(?:minus|negative)\s$", re.IGNORECASE)
_LONGEST_SIGN = len("negative ")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2212\ufe63\uff0d", "-"))
_RAISED_DASH = re.compile("[\u207b\u208b](?=[0-9])")
_OWED = re.compile(r"(?<![^\s(\[:=~≈])([-\u2013])(US\$|[$€£¥₹])(?=[\d.])")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_UNIT = re.compile(r"\s?-?([^\s\d.,;:!?()\[\]]+(?:\^?[23](?!\d))?)((?:\s[^\s\d,;:!?()\[\]]+)*)")
_JOINING = re.compile(r"[\s,]*(?:and\s+)?")


def quantities(text: str) -> list[Quantity]:
    """All quantities of a text in order, compound ones as one; what brackets say again in another unit is left out."""
    if _BEGINS.search(text) is None:
        return []
    text = _RAISED_DASH.sub("-", text[:_LONGEST_TEXT].translate(_DASHES))
    text = _OWED.sub(r"\2\1", text)  # -$5 is $-5: every place stays where it was
    found: list[Quantity] = []
    end = 0
    for begin in _BEGINS.finditer(text):
        if (at := begin.start()) >= end:
            quantity = _in_words(text, at) if text[at].isalpha() else _in_digits(text, at)
            if quantity is not None:
                found.append(quantity)
                end = quantity.end
    added: list[Quantity] = []
    for quantity in found:  # neighbours of one kind, each smaller than the one before: 5 ft 11 in, 2 hours and 30 minutes
        last = added[-1] if added else None
        if (
            last
            and last.unit
            and quantity.unit
            and last.unit.kind == quantity.unit.kind
            and not (last.unit.offset or quantity.unit.offset)
            and quantity.unit.factor < last.unit.factor
            and 0 <= quantity.base < last.unit.factor
            and last.value.denominator == 1
            and _JOINING.fullmatch(text[last.end : quantity.start])
        ):
            added[-1] = replace(quantity, value=(last.base + quantity.base) / quantity.unit.factor, start=last.start)
        else:
            added.append(quantity)
    kept: list[Quantity] = []
    for quantity in added:
        last = kept[-1] if kept else None
        if last and last.unit and quantity.unit and re.fullmatch(r"\s*[(\[][^\d)\]]*", text[last.end : quantity.start]):
            one, other = alike(last.unit, quantity.unit)
            if one.kind == other.kind:
                continue  # 8,849 m (29,032 ft)
        kept.append(quantity)
    return kept


def _in_digits(text: str, at: int) -> Quantity | None:
    before = text[at - 1] if at else ""
    if before.isalnum() or (before and before in "-–/.,:^_#" and at > 1 and text[at - 2].isalnum()):
        return None
    found = _NUMBER.match(text, at)
    number = None if found is None else _number_of(found)
    if found is None or number is None:
        return None
    (value, grain), end = number, found.end()
    if _MINUS.search(text, max(at - _LONGEST_SIGN, 0), at):
        value = -value
    if ordinal := _ORDINAL.match(text, end):
        return Quantity(value, grain, None, at, ordinal.end())
    magnitude = _magnitude_at(text, end)
    if magnitude is None:
        return None
    power, end = magnitude
    if power:  # now it is a rounded number
        value, grain = value * 10**power, (grain or 1) * 10**power
    unit, ends = _unit_at(text, end)
    if unit == _UNITS["inch"] and text[ends - 1] == "n" and re.match(r"\s\w", text[ends : ends + 2]):
        unit = None  # "5 in 1999" has no inches
    else:
        end = ends
    if currency := _CURRENCY.search(text, max(at - _LONGEST_SIGN, 0), at):
        unit = _unit_of(currency[1]) or unit
    return Quantity(value, Fraction(grain), unit, at, end)


def _magnitude_at(text: str, end: int) -> tuple[int, int] | None:
    """The power of ten that stands behind a number, and its end; None where a letter makes the number part of a word."""
    power = 0
    word = _WORD.match(text, end)
    if word is not None:
        if letters := _SUFFIXES.get(word[0]) or _MAGNITUDES.get(word[0].lower()):
            return letters, word.end()
        return (0, end) if _unit_of(word[0].partition("-")[0]) or _unit_at(text, end)[0] else None
    if re.match(r"[\s\u00a0-]", text[end : end + 1]):
        word = _WORD.match(text, end + 1)
    while word is not None and word[0].lower() in _MAGNITUDES and power <= _LONGEST_NUMBER:
        power, end = power + _MAGNITUDES[word[0].lower()], word.end()
        word = _WORD.match(text, end + 1) if text[end : end + 1] == " " else None
    return power, end


def _in_words(text: str, at: int) -> Quantity | None:
    """A number in words, up to the first one that does not belong to it: "twenty-one thousand people" is 21,000."""
    if at and (text[at - 1].isalnum() or text[at - 1] in "-'"):
        return None
    spans = list(_WORD.finditer(text, at, at + 120))[:12]
    total, run, end, before = 0, 0, 0, at
    for span, following in itertools.zip_longest(spans, spans[1:]):
        if span is not spans[0] and text[before : span.start()] != " ":
            break
        word, before = span[0].lower(), span.end()
        parts = word.split("-")
        if word == "and" and end and following and following[0].lower().split("-")[0] in _NUMBERS:
            continue
        if all(part in _NUMBERS for part in parts):
            for part in parts:
                if end and run % (10 if _NUMBERS[part] < 10 and run % 100 >= 20 else 100):
                    return None  # "five nine" is no number
                run += _NUMBERS[part]
                end = span.end()
        elif end and word == "hundred":
            run *= 100
        elif end and _MAGNITUDES.get(word, 0) >= 3 and run:
            total, run = total + run * 10 ** _MAGNITUDES[word], 0
        else:
            break
        end = span.end()
    if not end:
        return None
    sign = -1 if _MINUS.search(text, max(at - _LONGEST_SIGN, 0), at) else 1
    unit, end = _unit_at(text, end)
    return Quantity(Fraction(sign * (total + run)), Fraction(0), unit, at, end)


def _unit_of(name: str) -> Unit | None:
    return _UNITS.get(name) or _FOLDED.get(name.lower())


def _unit_at(text: str, end: int) -> tuple[Unit | None, int]:
    """The unit that follows, by the longest of its names, and its end."""
    found = _UNIT.match(text, end)
    if not found:
        return None, end
    words = [found[1], *found[2].split()]
    for count in range(min(_LONGEST_NAME, len(words)), 0, -1):
        name = " ".join(words[:count])
        for stripped in (name, name.rstrip(".'\"*"), name.partition("-")[0] if count == 1 else ""):
            unit = _unit_of(stripped) if stripped else None
            if unit is not None:
                return unit, text.index(words[0], end) + len(stripped)
    return None, end


@dataclass(frozen=True)
class NumericJudge:
    """An answer is right where it states the quantity of an accepted one.

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
    r"(?<!\w)(?<![^\W\d_]-)\d"
    r"|\b(?:half|halves|thirds?|quarters?|fifths?|tenths?|dozens?|hundreds?|thousands?|millions?|billions?|trillions?|none|nil"
    r"|once|twice|thrice|double|triple|first|second|fourth|sixth|seventh|eighth|ninth)\b",
    re.IGNORECASE,
)
"""A number among what is left of a text without its quantities."""
_READ_OTHERWISE = re.compile(
    r"\b(?:ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty) (?:oh|ten|eleven|twelve|\w+teen|\w+ty)\b"
    r"|\d\s+(?:in|of|out of)\s+\d|\d\s?[mbt]\b|\^"
    r"|['\u2019]\d\d\b|[^\W\d_]-?[12]\d{3}\b|\b[12]\d{3}[01]\d[0-3]\d\b"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\W{1,2}\d\d\b",
    re.IGNORECASE,
)
"""Years in words, dates, shares, letters that may be a million or a metre, powers: what was read is not their number."""


_NOT_READ = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|[\u00bc-\u00be\u2150-\u215e]|\d\s?/\s?\d|\d[eE][-+]?\d|[x\u00d7*\u00b7]\s?10"
)
"""Chinese and Japanese, fractions, powers of ten."""


def compare(answer: str, accepted: str, tolerance: float | None = None) -> bool | None:
    """Whether an answer, such as "It is 5,000 m", is an accepted one, such as "5 km".

    None where rules cannot tell: the accepted one is no quantity, the answer gives several, units have no fixed factor, or a
    text is in Chinese or Japanese, or has a fraction, a power of ten or a date.
    """
    if _NOT_READ.search(answer) or _NOT_READ.search(accepted):
        return None
    read, asked = quantities(answer), quantities(accepted)
    # The 1960s are neither 1960 nor seconds.
    if len(asked) != 1 or bool(_DECADE.search(answer)) is not bool(_DECADE.search(accepted)):
        return None
    wanted = asked[0]
    before = re.findall(r"[^\W\d_]+", accepted[: wanted.start].lower())
    after = accepted[wanted.end :].strip(" .,;:!?)(]['\"\n*")
    if not set(before).issubset(WORDS["before"]) or (after and not _AFTER.fullmatch(after)):
        return None
    found = [quantity for quantity in read if _same_kind(quantity, wanted)] or read
    match = agreed([same(quantity, wanted, tolerance) for quantity in found] or [False])  # nothing at all is another answer
    if match:  # an end of a range or a ratio, as in 3-5 km and 3:1
        is_open = any(_RANGE_BEGINS.match(answer, one.end) or _RANGE_ENDS.search(answer[: one.start]) for one in found)
    else:
        left = list(answer)
        for one in read:
            left[one.start : one.end] = "\0" * (one.end - one.start)
        is_open = bool(_UNREAD.search("".join(left)) or _READ_OTHERWISE.search(answer))
    return None if is_open else match


_UNCERTAIN = (
    *({"ton", "mass"}, {"gallon", "volume"}, {"barrel", "volume"}),
    *({"horsepower", "power"}, {"years", "time"}, {"percentage points", "share"}),
)
"""Pairs of kinds between which people convert, by factors that differ."""
_DEGREES = {"angle", "temperature"}
CONVERTED = Fraction(1, 100)  # most that rounding may move a converted value


def _same_kind(given: Quantity, wanted: Quantity) -> bool:
    """Whether both have units, which people would compare."""
    if given.unit is None or wanted.unit is None:
        return False
    kinds = {unit.kind for unit in alike(given.unit, wanted.unit)}
    return len(kinds) == 1 or kinds in _UNCERTAIN or kinds == _DEGREES


def same(given: Quantity, wanted: Quantity, tolerance: float | None) -> bool | None:
    """Compare values: as they are written, or in the base unit where the units differ."""
    one, other = given.unit, wanted.unit
    if (one is None or other is None) and BEFORE_CHRIST in (one, other):
        return False  # the year 44 is after Christ
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
            pairs = [(given.value * one.factor + one.offset, second, min(places, abs(second) * CONVERTED))]
    return any(
        abs(first - second) <= (most if tolerance is None else abs(second) * Fraction(tolerance))
        for first, second, most in pairs
    )
