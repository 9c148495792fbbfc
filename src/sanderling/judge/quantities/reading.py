"""Quantities in a text: numbers with their magnitudes and units, in order. Pure; raises nothing for any text.

What stands in brackets after a quantity and is of the same kind, "8,849 m (29,032 ft)", says it again and is left out. A
number that belongs to a word ("COVID-19", "B2", "3D") is none.
"""

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction

from sanderling.judge.quantities.east_asian import COUNTERS, LARGE, SIGNS, is_east_asian, numeral
from sanderling.judge.quantities.numerals import MAGNITUDES, NUMBER, SUFFIXES, WORDS, Number, number_of, vulgar, worded
from sanderling.judge.quantities.units import LONGEST_NAME, LONGEST_SIGNS, UNITS, Unit, alike, unit_of

_LONGEST_TEXT = 2_000
_INCH = unit_of("inch")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BEFORE = re.compile(r"(?:^|(?<=[\s(\[:=~≈<>≤≥]))(US\$|[$€£¥₹]|USD|EUR|GBP|JPY|CNY|INR|CHF)\s?$")
_MINUS = re.compile(r"(?:\b(?:minus|negative)\s|[负負]|零下|マイナス)$", re.IGNORECASE)
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2212\ufe63\uff0d", "-"))
_RAISED_DASH = re.compile("[\u207b\u208b](?=[0-9])")
_OWED = re.compile(r"(?<![^\s(\[:=~≈])([-\u2013])(US\$|[$€£¥₹])(?=[\d.])")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_UNIT = re.compile(r"\s?-?([^\s\d.,;:!?()\[\]]+(?:\^?[23](?!\d))?)((?:\s[^\s\d,;:!?()\[\]]+)*)")
_JOINING = re.compile(r"[\s,]*(?:and\s+)?")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, and what it counts or measures."""

    number: Number
    unit: Unit | None = None
    start: int = 0
    end: int = 0

    @property
    def base(self) -> Fraction:
        """In the base unit of its kind."""
        return self.number.value if self.unit is None else self.number.value * self.unit.factor + self.unit.offset

    @property
    def grain(self) -> Fraction:
        """The last written place, in the base unit."""
        return self.number.grain if self.unit is None else self.number.grain * self.unit.factor


def quantities(text: str) -> list[Quantity]:
    """All quantities of a text, compound ones (5 ft 11 in) as one; of a long text, those of its beginning."""
    text = _RAISED_DASH.sub("-", text[:_LONGEST_TEXT].translate(_DASHES))
    text = _OWED.sub(r"\2\1", text)  # -$5 is $-5: every place stays where it was
    found: list[Quantity] = []
    at = 0
    while at < len(text):
        quantity = _at(text, at)
        if quantity is None:
            at += 1
            continue
        found.append(quantity)
        at = max(quantity.end, at + 1)
    return _once(text, _compounds(text, found))


def _at(text: str, at: int) -> Quantity | None:
    """The quantity that begins at a place."""
    if text[at] in SIGNS:
        return _in_signs(text, at)
    if text[at].isalpha():
        return _in_words(text, at)
    before_it = text[at - 1] if at else ""
    if at and (
        (before_it.isalnum() and not is_east_asian(before_it))
        or (before_it in "-–/.,:^_#" and at > 1 and text[at - 2].isalnum())
    ):
        return None
    found = NUMBER.match(text, at)
    number = vulgar(text[at]) if found is None else number_of(found)
    before = _BEFORE.search(text[:at])
    if number is None:
        return None
    if _MINUS.search(text[:at]):
        number = Number(-number.value, number.grain)
    end = at + 1 if found is None else found.end()
    ordinal = _ORDINAL.match(text, end)
    if ordinal:
        return Quantity(number, None, at, ordinal.end())
    number, end = _magnified(text, number, end)
    if end is None:
        return None
    unit, end = _unit(text, end)
    if unit == _INCH and text[end - 1] == "n" and re.match(r"\s\w", text[end:]):
        unit = None  # "5 in 1999" has no inches
    if before:
        unit = unit_of(before[1]) or unit
    return Quantity(number, unit, at, end)


def _in_words(text: str, at: int) -> Quantity | None:
    if at and (text[at - 1].isalnum() or text[at - 1] in "-'"):
        return None
    spans = list(_WORD.finditer(text, at, at + 120))[:12]
    words = [span[0].lower() for span in spans]
    if not words or words[0].split("-")[0] not in WORDS:
        return None
    gaps = [text[one.end() : other.start()] for one, other in itertools.pairwise(spans)]
    joined = next((index + 1 for index, gap in enumerate(gaps) if gap != " "), len(words))
    said = worded(words[:joined])
    if said is None:
        return None
    unit, end = _unit(text, spans[said[1] - 1].end())
    number = Number(-said[0].value, said[0].grain) if _MINUS.search(text[:at]) else said[0]
    return Quantity(number, unit, at, end)


def _in_signs(text: str, at: int) -> Quantity | None:
    """A numeral in Chinese signs, where a unit, a counting word or no further sign follows: 三星 is a name."""
    found = numeral(text, at)
    if found is None or (at and is_east_asian(text[at - 1])):
        return None
    unit, end = _unit(text, found[1])
    return None if unit is None and not _may_follow(text[end : end + 1]) else Quantity(Number(found[0]), unit, at, end)


def _may_follow(char: str) -> bool:
    """Whether a character may stand right behind a number without a unit."""
    return not is_east_asian(char) or char in COUNTERS


def _magnified(text: str, number: Number, end: int) -> tuple[Number, int | None]:
    """The number with the magnitude behind it, and the end of that; no end where a letter makes it part of a word."""
    while text[end : end + 1] in LARGE:
        number, end = number.times(LARGE[text[end]]), end + 1
    if is_east_asian(text[end : end + 1]):
        return number, end if _unit(text, end)[0] or _may_follow(text[end]) else None
    word = _WORD.match(text, end)
    if word is None:
        spaced = re.compile(r"[\s\u00a0-]").match(text, end)
        word = _WORD.match(text, end + 1) if spaced else None
        while word is not None and word[0].lower() in MAGNITUDES:
            number, end = number.times(MAGNITUDES[word[0].lower()]), word.end()
            word = _WORD.match(text, end + 1) if text[end : end + 1] == " " else None
        return number, end
    if word[0] in SUFFIXES:
        return number.times(SUFFIXES[word[0]]), word.end()
    if word[0].lower() in MAGNITUDES:
        return number.times(MAGNITUDES[word[0].lower()]), word.end()
    known = unit_of(word[0].partition("-")[0]) or _unit(text, end)[0]
    return number, end if known else None


def _unit(text: str, end: int) -> tuple[Unit | None, int]:
    """The unit that follows, by the longest of its names."""
    if is_east_asian(text[end : end + 1]):
        names = (text[end : end + size] for size in range(LONGEST_SIGNS, 0, -1))
        name = next((name for name in names if name in UNITS), "")
        return UNITS.get(name), end + len(name)
    found = _UNIT.match(text, end)
    if not found:
        return None, end
    words = [found[1], *found[2].split()]
    for count in range(min(LONGEST_NAME, len(words)), 0, -1):
        name = " ".join(words[:count])
        for stripped in (name, name.rstrip(".'\"*"), name.partition("-")[0] if count == 1 else ""):
            unit = unit_of(stripped) if stripped else None
            if unit is not None:
                return unit, text.index(words[0], end) + len(stripped)
    return None, end


def _compounds(text: str, found: list[Quantity]) -> list[Quantity]:
    """Neighbours of one kind, each smaller than the one before, added up: 5 ft 11 in, 2 hours and 30 minutes."""
    added: list[Quantity] = []
    for quantity in found:
        last = added[-1] if added else None
        if (
            last is not None
            and last.unit is not None
            and quantity.unit is not None
            and last.unit.kind == quantity.unit.kind
            and not (last.unit.offset or quantity.unit.offset)
            and quantity.unit.factor < last.unit.factor
            and 0 <= quantity.base < last.unit.factor
            and last.number.value.denominator == 1
            and _JOINING.fullmatch(text[last.end : quantity.start])
        ):
            value = Fraction(last.base + quantity.base) / quantity.unit.factor
            added[-1] = Quantity(Number(value, quantity.number.grain), quantity.unit, last.start, quantity.end)
        else:
            added.append(quantity)
    return added


def _once(text: str, found: list[Quantity]) -> list[Quantity]:
    """Without what brackets say again in another unit."""
    kept: list[Quantity] = []
    for quantity in found:
        between = text[kept[-1].end : quantity.start] if kept else ""
        again = kept and re.fullmatch(r"\s*[(\[][^\d)\]]*", between) and kept[-1].unit and quantity.unit
        if again and kept[-1].unit and quantity.unit:
            one, other = alike(kept[-1].unit, quantity.unit)
            if one.kind == other.kind:
                continue
        kept.append(quantity)
    return kept
