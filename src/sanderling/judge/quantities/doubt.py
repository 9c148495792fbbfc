"""What a reader of numbers may have missed in a text: the cases in which a rule must not say "wrong", or "right". Pure.

A number that was read may be one end of a range or of a ratio (3-5 km, 3:1). And a text may say its number in a way that is not
read: half, a dozen, 10^5, 1 in 5, nineteen sixty-nine.
"""

import re
from collections.abc import Sequence

from sanderling.judge.quantities.east_asian import SIGNS
from sanderling.judge.quantities.reading import Quantity

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


def is_part(text: str, quantity: Quantity) -> bool:
    """Whether a quantity of a text is an end of a range, or of a ratio."""
    return bool(_ON.match(text, quantity.end) or _FROM.search(text[: quantity.start]))


def names_a_decade(text: str) -> bool:
    """Whether a text speaks of the 1960s, which are neither 1960 nor seconds."""
    return _DECADE.search(text) is not None


def is_unread(text: str, found: Sequence[Quantity]) -> bool:
    """Whether a text may say a number that is not among those that were found in it."""
    rest = list(text)
    for quantity in found:
        rest[quantity.start : quantity.end] = "\0" * (quantity.end - quantity.start)
    left = "".join(rest)
    return bool(
        _DIGIT.search(left) or _WORDED.search(left) or _READ_OTHERWISE.search(text) or any(char in SIGNS for char in left)
    )
