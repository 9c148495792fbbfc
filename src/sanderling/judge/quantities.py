"""The quantities in a text: numbers as people write them, with their magnitudes and units.

``quantities("It is 8,849 m (29,032 ft) high")`` finds one length. Read are digits with separators of any kind, words,
fractions, powers of ten, magnitudes (5k, 3.2 million, 1.5 亿), Chinese numerals, compounds (5 ft 11 in), and the units of
``units.toml``. A number that belongs to a word (COVID-19, B2, 3D) is none. Every number carries its *grain*, the value of its
last written place, half of which is how far a rounded number may be from what it stands for; a plain whole number has none:
1969 is 1969. Commas and dots are read as English writes them where both readings are possible ("1.234" is one and a bit,
"1,234" a thousand).

Nothing here raises, whatever the text; of a long text only the beginning is read.
"""

import itertools
import re
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

_LONGEST_TEXT = 2_000
_LONGEST_NUMBER = 40
"""Digits; longer runs are identifiers."""
_MOST_POWER = 100

# Numbers ------------------------------------------------------------------------------------------------------------------

_SPACES = "\u00a0\u2007\u2009\u202f"
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212\u2013](?=[\d.]))?"
    rf"(?P<digits>\d{{1,3}}(?:[ {_SPACES}]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?:['\u2019]\d{3})+(?:\.\d+)?(?!\d)|\d[\d.,]*\d|\d|\.\d+)"
    r"(?P<power>[eE][-+]?\d{1,3}(?![\w.])|\s?[x\u00d7*\u00b7]\s?10\s?\^?\s?[-+\u2212]?\d{1,3}(?!\d)"
    r"|\s?[x\u00d7*\u00b7]\s?10[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)?"
    r"(?P<fraction>\s?[\u00bc-\u00be\u2150-\u215e]|\s\d{1,3}/\d{1,3}(?![\d/])|/\d{1,6}(?![\d/]))?"
)
_VULGAR = {
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅐": "1/7", "⅑": "1/9", "⅒": "1/10", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅖": "2/5",
    "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_MAGNITUDES = {
    "hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12, "quadrillion": 15,
    "hundreds": 2, "thousands": 3, "lakhs": 5, "millions": 6, "crores": 7, "billions": 9, "trillions": 12,
    "mn": 6, "mln": 6, "mio": 6, "bn": 9, "bln": 9, "tn": 12, "trn": 12,
}  # fmt: skip
_SUFFIXES = {"k": 3, "K": 3, "M": 6, "B": 9, "bn": 9, "mn": 6, "tn": 12, "T": 12}
"""Letters that multiply when they follow a number at once: 5k, 3.2M."""
_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: value for value, word in enumerate(_ONES)} | {word: 10 * at for at, word in enumerate(_TENS, start=2)}

_SIGN_DIGITS = {**dict(zip("零一二三四五六七八九", range(10), strict=True)), "〇": 0, "两": 2, "兩": 2}
_SIGN_TENS = {"十": 10, "百": 100, "千": 1_000}
_SIGN_MAGNITUDES = {"万": 4, "萬": 4, "亿": 8, "億": 8}
"""Powers of ten that multiply all that stands before them."""
SIGNS = frozenset((*_SIGN_DIGITS, *_SIGN_TENS, *_SIGN_MAGNITUDES))
"""Chinese signs that numbers are written with."""
COUNTERS = frozenset("年月日个個人名位座岁歲次层層本篇部家")
"""Chinese words that may follow a number and are no unit: 1969年, 11个."""


@dataclass(frozen=True, slots=True)
class Number:
    """A value and the value of its last written place; a grain of 0: exact."""

    value: Fraction
    grain: Fraction = Fraction(0)

    def times(self, power: int) -> "Number":
        """With a magnitude behind it: it now is a rounded number."""
        return Number(self.value * 10**power, (self.grain or Fraction(1)) * 10**power)


def _number_of(found: re.Match[str]) -> Number | None:
    """The number of a match of `_NUMBER`; None where its digits make none (1.2.3, 12,34)."""
    plain = _decimal(found["digits"])
    if plain is None:
        return None
    number = Number(Fraction(plain), Fraction(1, 10 ** len(plain.partition(".")[2])) if "." in plain else Fraction(0))
    if found["fraction"]:
        part = _VULGAR.get(found["fraction"].strip(), found["fraction"].strip())
        if number.grain or re.search("/0+$", part):
            return None
        is_whole_divided = part.startswith("/")
        number = Number(number.value / Fraction(part[1:]) if is_whole_divided else number.value + Fraction(part))
    if found["power"]:
        text = found["power"].translate(_RAISED).replace(" ", "")
        power = int(text[1:] if text[0] in "eE" else re.sub(r"^.10\^?", "", text))
        if abs(power) > _MOST_POWER:
            return None
        scaled = Fraction(10) ** power
        number = Number(number.value * scaled, (number.grain or Fraction(1)) * scaled)
    return Number(-number.value, number.grain) if found["sign"] and found["sign"] != "+" else number


def _decimal(digits: str) -> str | None:
    """Digits with one dot at most; None where the separators make no sense."""
    digits = re.sub(f"[ {_SPACES}'\u2019]", "", digits)
    if len(digits) > _LONGEST_NUMBER:
        return None
    commas, dots = digits.count(","), digits.count(".")
    if commas and dots:
        point = "," if digits.rindex(",") > digits.rindex(".") else "."
        whole, _, rest = digits.rpartition(point)
        joined = _joined(whole, "." if point == "," else ",")
        return f"{joined}.{rest}" if joined and rest.isdigit() else None
    if commas:
        whole, _, rest = digits.partition(",")
        is_decimal = commas == 1 and len(rest) != 3 and rest
        return _joined(digits, ",") or (f"{whole or '0'}.{rest}" if is_decimal else None)
    if dots > 1:
        return _joined(digits, ".")
    return f"0{digits}" if digits.startswith(".") else digits


def _joined(digits: str, separator: str) -> str | None:
    """Groups of three (or, as in India, of two before the last) as one run; None where they are no groups."""
    head, *groups = digits.split(separator)
    if not groups or not 1 <= len(head) <= 3 or len(groups[-1]) != 3:
        return None
    sizes = {len(group) for group in groups[:-1]}
    return "".join((head, *groups)) if sizes <= {3} or (sizes == {2} and len(head) <= 2 and separator == ",") else None


def _worded(words: list[str]) -> tuple[Number, int] | None:
    """A number in words at the start of a list of words: the number, and how many words it takes.

    Example: ``_worded(["twenty-one", "thousand", "people"])`` is 21,000 and 2
    """
    total, run, taken = 0, 0, 0
    for index, word in enumerate(words):
        parts = [part for part in word.split("-") if part]
        if word == "and" and taken and index + 1 < len(words) and words[index + 1].split("-")[0] in _WORDS:
            continue
        if parts and all(part in _WORDS for part in parts):
            for part in parts:
                if taken and run % (10 if _WORDS[part] < 10 and run % 100 >= 20 else 100):
                    return None  # "five nine" is no number
                run += _WORDS[part]
                taken = index + 1
        elif taken and word == "hundred":
            run *= 100
        elif taken and word in _MAGNITUDES and _MAGNITUDES[word] >= 3 and run:
            total, run = total + run * 10 ** _MAGNITUDES[word], 0
        else:
            break
        taken = index + 1
    return (Number(Fraction(total + run)), taken) if taken else None


def _signed(text: str, at: int) -> tuple[Number, int] | None:
    """The number in Chinese signs that begins at a place, and its end; None where its signs are in no order.

    Example: ``_signed("三百二十", 0)`` is 320 and 4
    """
    end = at
    while end < len(text) and text[end] in SIGNS and end < at + 24:
        end += 1
    run = text[at:end]
    if len(run) > 1 and all(sign in _SIGN_DIGITS for sign in run):  # digit by digit: 一九六九
        return Number(Fraction(int("".join(str(_SIGN_DIGITS[sign]) for sign in run)))), end
    total, section, digit = 0, 0, -1
    for sign in run:
        if sign in _SIGN_DIGITS:
            if digit > 0:
                return None
            digit = _SIGN_DIGITS[sign]
        elif sign in _SIGN_TENS:
            section += (1 if digit < 0 else digit) * _SIGN_TENS[sign]
            digit = -1
        else:
            total = (total + section + max(digit, 0)) * 10 ** _SIGN_MAGNITUDES[sign]
            section, digit = 0, -1
    return Number(Fraction(total + section + max(digit, 0))), end


# Units --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: ``value * factor + offset`` is in the base unit of its kind."""

    kind: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


def _read_units() -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    table = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
    for kind, units in table.items():
        for scale, names in units.items():
            factor, _, offset = scale.partition(" + ")
            unit = Unit(kind, Fraction(factor), Fraction(offset or 0))
            found |= {name.replace("_", " "): unit for name in names.split()}
    return found


_UNITS = _read_units()
_FOLDED: dict[str, Unit | None] = {}
"""By names in lower case; None where only capitals tell units apart, as in mW and MW."""
for _name, _unit in _UNITS.items():
    _FOLDED[_name.lower()] = _unit if _FOLDED.get(_name.lower(), _unit) == _unit else None
_LONGEST_NAME = max(name.count(" ") for name in _UNITS) + 1
"""Words in the longest name."""
_LONGEST_SIGNS = 4
"""Signs in the longest Chinese name."""


_INCH, _MASS_POUND = _UNITS["inch"], _UNITS["lb"]


def _unit_of(name: str) -> Unit | None:
    return _UNITS.get(name) or _FOLDED.get(name.lower())


def alike(one: Unit, other: Unit) -> tuple[Unit, Unit]:
    """Two units, with *pounds*, which are money, read as mass where the other one is a mass."""
    if {one.kind, other.kind} == {"pounds", "mass"}:
        return (_MASS_POUND, other) if one.kind == "pounds" else (one, _MASS_POUND)
    return one, other


# Quantities ---------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CURRENCY = re.compile(r"(?:^|(?<=[\s(\[:=~≈<>≤≥]))(US\$|[$€£¥₹]|USD|EUR|GBP|JPY|CNY|INR|CHF)\s?$")
_MINUS = re.compile(r"(?:\b(?:minus|negative)\s|[负負]|零下|マイナス)$", re.IGNORECASE)
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2212\ufe63\uff0d", "-"))
_RAISED_DASH = re.compile("[\u207b\u208b](?=[0-9])")
_OWED = re.compile(r"(?<![^\s(\[:=~≈])([-\u2013])(US\$|[$€£¥₹])(?=[\d.])")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_UNIT = re.compile(r"\s?-?([^\s\d.,;:!?()\[\]]+(?:\^?[23](?!\d))?)((?:\s[^\s\d,;:!?()\[\]]+)*)")
_JOINING = re.compile(r"[\s,]*(?:and\s+)?")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, what it counts or measures, and where it stands."""

    number: Number
    unit: Unit | None = None
    start: int = 0
    end: int = 0

    @property
    def base(self) -> Fraction:
        """In the base unit of its kind."""
        return self.number.value if self.unit is None else self.number.value * self.unit.factor + self.unit.offset


def quantities(text: str) -> list[Quantity]:
    """All quantities of a text in order, compound ones as one; what brackets say again in another unit is left out."""
    text = _RAISED_DASH.sub("-", text[:_LONGEST_TEXT].translate(_DASHES))
    text = _OWED.sub(r"\2\1", text)  # -$5 is $-5: every place stays where it was
    found: list[Quantity] = []
    at = 0
    while at < len(text):
        if text[at] in SIGNS:
            quantity = _in_signs(text, at)
        elif text[at].isalpha():
            quantity = _in_words(text, at)
        else:
            quantity = _in_digits(text, at)
        if quantity is not None:
            found.append(quantity)
        at = at + 1 if quantity is None else max(quantity.end, at + 1)
    return _without_repeated(text, _compounds(text, found))


def _in_digits(text: str, at: int) -> Quantity | None:
    before = text[at - 1] if at else ""
    is_within_word = before.isalnum() and not _is_east_asian(before)
    if is_within_word or (before and before in "-–/.,:^_#" and at > 1 and text[at - 2].isalnum()):
        return None
    found = _NUMBER.match(text, at)
    if found is None:
        number, end = Number(Fraction(_VULGAR[text[at]])) if text[at] in _VULGAR else None, at + 1
    else:
        number, end = _number_of(found), found.end()
    if number is None:
        return None
    if _MINUS.search(text[:at]):
        number = Number(-number.value, number.grain)
    if ordinal := _ORDINAL.match(text, end):
        return Quantity(number, None, at, ordinal.end())
    number, end = _magnified(text, number, end)
    if end is None:
        return None
    unit, end = _unit_at(text, end)
    if unit == _INCH and text[end - 1] == "n" and re.match(r"\s\w", text[end:]):
        unit = None  # "5 in 1999" has no inches
    if currency := _CURRENCY.search(text[:at]):
        unit = _unit_of(currency[1]) or unit
    return Quantity(number, unit, at, end)


def _magnified(text: str, number: Number, end: int) -> tuple[Number, int | None]:
    """The number with the magnitude behind it, and the end of that; no end where a letter makes it part of a word."""
    while text[end : end + 1] in _SIGN_MAGNITUDES:
        number, end = number.times(_SIGN_MAGNITUDES[text[end]]), end + 1
    if _is_east_asian(text[end : end + 1]):
        return number, end if _unit_at(text, end)[0] or _may_follow(text[end]) else None
    word = _WORD.match(text, end)
    if word is None:
        spaced = re.compile(r"[\s\u00a0-]").match(text, end)
        word = _WORD.match(text, end + 1) if spaced else None
        while word is not None and word[0].lower() in _MAGNITUDES:
            number, end = number.times(_MAGNITUDES[word[0].lower()]), word.end()
            word = _WORD.match(text, end + 1) if text[end : end + 1] == " " else None
        return number, end
    power = _SUFFIXES.get(word[0]) or _MAGNITUDES.get(word[0].lower())
    if power:
        return number.times(power), word.end()
    return number, end if _unit_of(word[0].partition("-")[0]) or _unit_at(text, end)[0] else None


def _in_words(text: str, at: int) -> Quantity | None:
    if at and (text[at - 1].isalnum() or text[at - 1] in "-'"):
        return None
    spans = list(_WORD.finditer(text, at, at + 120))[:12]
    words = [span[0].lower() for span in spans]
    if not words or words[0].split("-")[0] not in _WORDS:
        return None
    gaps = [text[one.end() : other.start()] for one, other in itertools.pairwise(spans)]
    joined = next((index + 1 for index, gap in enumerate(gaps) if gap != " "), len(words))
    found = _worded(words[:joined])
    if found is None:
        return None
    number, count = found
    unit, end = _unit_at(text, spans[count - 1].end())
    return Quantity(Number(-number.value, number.grain) if _MINUS.search(text[:at]) else number, unit, at, end)


def _in_signs(text: str, at: int) -> Quantity | None:
    """A number in Chinese signs, where a unit, a counting word or no further sign follows: 三星 is a name."""
    found = _signed(text, at)
    if found is None or (at and _is_east_asian(text[at - 1])):
        return None
    unit, end = _unit_at(text, found[1])
    return None if unit is None and not _may_follow(text[end : end + 1]) else Quantity(found[0], unit, at, end)


def _is_east_asian(char: str) -> bool:
    """Whether this is a Chinese character or kana, which stand next to numbers without a blank."""
    return "\u3040" <= char <= "\u30ff" or "\u3400" <= char <= "\u9fff"


def _may_follow(char: str) -> bool:
    """Whether a character may stand right behind a number without a unit."""
    return not _is_east_asian(char) or char in COUNTERS


def _unit_at(text: str, end: int) -> tuple[Unit | None, int]:
    """The unit that follows, by the longest of its names, and its end."""
    if _is_east_asian(text[end : end + 1]):
        names = (text[end : end + size] for size in range(_LONGEST_SIGNS, 0, -1))
        name = next((name for name in names if name in _UNITS), "")
        return _UNITS.get(name), end + len(name)
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


def _without_repeated(text: str, found: list[Quantity]) -> list[Quantity]:
    """Without what brackets say again in another unit: 8,849 m (29,032 ft)."""
    kept: list[Quantity] = []
    for quantity in found:
        last = kept[-1] if kept else None
        if last and last.unit and quantity.unit and re.fullmatch(r"\s*[(\[][^\d)\]]*", text[last.end : quantity.start]):
            one, other = alike(last.unit, quantity.unit)
            if one.kind == other.kind:
                continue
        kept.append(quantity)
    return kept
