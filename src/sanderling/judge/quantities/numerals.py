"""One number as people write it: digits with separators, words, fractions, powers of ten, magnitudes.

Every number carries its grain: the value of its last written place, half of which is how far a rounded number may be from what
it stands for. A plain whole number has no grain: 1969 is 1969. Commas and dots are read as English writes them where both
readings are possible ("1.234" is one and a bit, "1,234" is a thousand); otherwise by what their groups allow.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

_SPACES = "\u00a0\u2007\u2009\u202f"
_PATTERN = (
    r"(?P<sign>[-+\u2212\u2013](?=[\d.]))?"
    r"(?P<digits>\d{1,3}(?:[ "
    + _SPACES
    + r"]\d{3})+(?:[.,]\d+)?(?!\d)|\d{1,3}(?:['\u2019]\d{3})+(?:\.\d+)?(?!\d)|\d[\d.,]*\d|\d|\.\d+)"
    r"(?P<power>[eE][-+]?\d{1,3}(?![\w.])|\s?[x\u00d7*\u00b7]\s?10\s?\^?\s?[-+\u2212]?\d{1,3}(?!\d)"
    r"|\s?[x\u00d7*\u00b7]\s?10[\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)?"
    r"(?P<fraction>\s?[\u00bc-\u00be\u2150-\u215e]|\s\d{1,3}/\d{1,3}(?![\d/])|/\d{1,6}(?![\d/]))?"
)
NUMBER = re.compile(_PATTERN)
_VULGAR = {
    "¼": "1/4", "½": "1/2", "¾": "3/4", "⅐": "1/7", "⅑": "1/9", "⅒": "1/10", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅖": "2/5",
    "⅗": "3/5", "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")
_LONGEST = 40
"""Most digits of a number; longer runs are identifiers."""
_MOST_POWER = 100

MAGNITUDES = {
    "hundred": 2, "thousand": 3, "lakh": 5, "million": 6, "crore": 7, "billion": 9, "trillion": 12, "quadrillion": 15,
    "hundreds": 2, "thousands": 3, "lakhs": 5, "millions": 6, "crores": 7, "billions": 9, "trillions": 12,
    "mn": 6, "mln": 6, "mio": 6, "bn": 9, "bln": 9, "tn": 12, "trn": 12,
}  # fmt: skip
SUFFIXES = {"k": 3, "K": 3, "M": 6, "B": 9, "bn": 9, "mn": 6, "tn": 12, "T": 12}
"""Letters that multiply when they follow a number at once: 5k, 3.2M."""
_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
WORDS = {word: value for value, word in enumerate(_ONES)} | {word: 10 * at for at, word in enumerate(_TENS, start=2)}


@dataclass(frozen=True, slots=True)
class Number:
    """A value and the value of its last written place; a grain of 0: exact."""

    value: Fraction
    grain: Fraction = Fraction(0)

    def times(self, power: int) -> "Number":
        """With a magnitude behind it: it now is a rounded number."""
        return Number(self.value * 10**power, (self.grain or Fraction(1)) * 10**power)


def vulgar(character: str) -> Number | None:
    """A fraction that is one character."""
    return Number(Fraction(_VULGAR[character])) if character in _VULGAR else None


def number_of(found: re.Match[str]) -> Number | None:
    """The number of a match of `NUMBER`; None where its digits make none (1.2.3, 12,34)."""
    plain = _decimal(found["digits"])
    if plain is None:
        return None
    number = Number(Fraction(plain), Fraction(1, 10 ** len(plain.partition(".")[2])) if "." in plain else Fraction(0))
    if found["fraction"]:
        part = _VULGAR.get(found["fraction"].strip(), found["fraction"].strip())
        if part.startswith("/"):
            part = f"1{part}"
            if number.grain or part == "1/0" or not Fraction(part[2:]):
                return None
            number = Number(number.value * Fraction(part))
        elif part.endswith("/0") or number.grain:
            return None
        else:
            number = Number(number.value + Fraction(part))
    if found["power"]:
        text = found["power"].translate(_RAISED).replace(" ", "")
        power = int(text[1:] if text[0] in "eE" else re.sub(r"^.10\^?", "", text))
        if abs(power) > _MOST_POWER:
            return None
        scaled = Fraction(10) ** power
        number = Number(number.value * scaled, (number.grain or Fraction(1)) * scaled)
    return Number(-number.value, number.grain) if found["sign"] and found["sign"] != "+" else number


def _decimal(digits: str) -> str | None:
    """Digits and one dot; None where the separators make no sense."""
    digits = re.sub(f"[ {_SPACES}'\u2019]", "", digits)
    if len(digits) > _LONGEST:
        return None
    commas, dots = digits.count(","), digits.count(".")
    if commas and dots:
        point = "," if digits.rindex(",") > digits.rindex(".") else "."
        group = "." if point == "," else ","
        whole, _, rest = digits.rpartition(point)
        return f"{_joined(whole, group)}.{rest}" if _joined(whole, group) and rest.isdigit() else None
    if commas:
        grouped = _joined(digits, ",")
        if grouped:
            return grouped
        whole, _, rest = digits.partition(",")
        return f"{whole or '0'}.{rest}" if commas == 1 and len(rest) != 3 and rest else None
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


def worded(words: list[str]) -> tuple[Number, int] | None:
    """A number in words at the start of a list of words: the number, and how many words it takes.

    Example: ``worded(["twenty-one", "thousand", "people"])`` is 21,000 and 2
    """
    total, run, taken = 0, 0, 0
    for index, word in enumerate(words):
        parts = [part for part in word.split("-") if part]
        if word == "and" and taken and index + 1 < len(words) and words[index + 1].split("-")[0] in WORDS:
            continue
        if parts and all(part in WORDS for part in parts):
            for part in parts:
                if taken and run % (10 if WORDS[part] < 10 and run % 100 >= 20 else 100):
                    return None  # "five nine" is no number
                run += WORDS[part]
                taken = index + 1
        elif taken and word == "hundred":
            run *= 100
        elif taken and word in MAGNITUDES and MAGNITUDES[word] >= 3 and run:
            total, run = total + run * 10 ** MAGNITUDES[word], 0
        else:
            break
        taken = index + 1
    return (Number(Fraction(total + run)), taken) if taken else None
