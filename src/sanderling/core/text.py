"""Texts as they are compared: folded, with the signs that tell two things apart.

Folded away are case, compositions, full-width forms, characters of no width, kinds of dashes and apostrophes, digits of other
scripts, commas between thousands. What stays is what another thing would lack: the point in ``1.5`` (``.5`` is ``0.5``), the
sign of ``-5``, the power in ``10²`` (``10^2``), the signs of ``C++`` and ``C#``, symbols.
"""

import re
import unicodedata
from collections.abc import Sequence
from html import unescape

MINUS = "\u2212"
"""The sign before a number in a folded text; every other dash is ``-``."""
WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f"
"""Chinese, Japanese and Korean characters, for a class of a regular expression."""
SUFFIX = r"(?:(?<=[^\W\d_])(?:#+(?!\w)|\+{2,}|\+(?!\w)))?"
"""What may follow a word and belongs to it, as in C++, C# and A+; for the end of a regular expression."""

_CURRENCY = "$\u00a2-\u00a5\u0e3f\u20a0-\u20c0"
_NO_WIDTH = re.compile(
    "[\u00ad\u034f\u0640\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20dd-\u20e4\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e0fff]"
)
"""Soft hyphens, joiners, marks of direction, variation selectors, enclosing marks, the Arabic stroke that only lengthens."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_RAISED = re.compile(r"(?<=\d)(?=[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079])")
_VULGAR = re.compile(r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215e])")
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b", "-"),
        **dict.fromkeys("\u2018\u2019\u201b\u02bc\u02bb", "'"),
        **{"\u266f": "#", "\u2044": "/", "\u2215": "/", "\u066a": "%", "\u066b": ".", "\u066c": ","},
    }
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
_BARE_POINT = re.compile(rf"(?<![^\W_{WIDE}])(?<!\.)\.(?=\d)")
_OWED = re.compile(rf"-([{_CURRENCY}] ?)(?=\.?\d)")
_BEFORE_SIGN = rf"(?<![^\s(\[{{\u201c\u201e\u00ab=<>~\u2248\u00b1*/^+:,{_CURRENCY}{WIDE}])|(?<=[\s(][\"'])|(?<=^[\"'])"
_SIGN = re.compile(rf"(?:{_BEFORE_SIGN})-(?=\d)")
"""A dash is a sign before a number that follows nothing, a blank, an opening bracket or quotation mark, or another sign."""


def folded(text: str) -> str:
    """The text as it is compared.

    Example: ``folded("Ｃ＋＋ cost 1,200 at –5 °C") == "c++ cost 1200 at −5 °c"``
    """
    if text.isascii():
        text = text.lower()
    else:
        text = _VULGAR.sub(" ", _RAISED.sub("^", _SURROGATE.sub(" ", text)))  # before NFKC makes 10² and 1½ into 102 and 11/2
        text = unicodedata.normalize("NFKC", _NO_WIDTH.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text).translate(_SAME)
        text = _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text)
        text = unicodedata.normalize("NFKC", _NO_WIDTH.sub("", text))
    text = _BARE_POINT.sub("0.", _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text))
    return _SIGN.sub(MINUS, _OWED.sub(r"\1-", text)) if "-" in text else text


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_UNPRINTABLE = re.compile("[\x80-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with control characters as their pictures, and what would break an encoding or turn a line as U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", _CONTROL.sub(lambda found: chr(0x2400 + min(ord(found[0]), 0x21)), text))


_SINGLE = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff" + WIDE  # Thai, Lao, Tibetan, Burmese, Khmer
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_LETTER = rf"[^\s.\-#/*'^+{MINUS}{_SINGLE}]"
_WORD = re.compile(
    rf"[{_SINGLE}]|{MINUS}?{_LETTER}+(?:(?<=\d)\.(?=\d){_LETTER}+)*(?:(?<!\d)(?:#+(?!{_LETTER})|\+{{2,}}|\+(?!{_LETTER})))?"
    rf"|\+|(?<=\d\ )[/*](?=\ {MINUS}?\d)|(?<={_LETTER}\ )\^(?=\ {MINUS}?{_LETTER})"
)
_OPERATOR = re.compile(rf"(?<=\d)( ?)([/*])\1(?={MINUS}?\d)|(?<={_LETTER})( ?)(\^)\3(?={MINUS}?{_LETTER})")
_RAW = frozenset(f".-#/*'^+{MINUS}")
_MODIFIERS = range(0x1F3FB, 0x1F400)  # colours of skin, which belong to an emoji


class _Table(dict[int, str]):
    """What becomes of each character, found out when it is first met: at most as many entries as Unicode has characters."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        kept = " "
        if category[0] in "LMN" or char in _RAW:
            kept = char
        elif char in "%\u2030\u2031" or (category in ("Sc", "Sm", "So") and char != "\ufffd") or code in _MODIFIERS:
            kept = f" {char} "
        return self.setdefault(code, kept)


_TABLE = _Table()


def question_tokens(text: str) -> list[str]:
    """The words of a question, as they are compared.

    Example: ``question_tokens("Who's the mayor of 京都?") == ["whos", "the", "mayor", "of", "京", "都"]``
    """
    if "&" in text:
        text = _ENTITY.sub(lambda found: unescape(found[0]), text)
    plain = folded(text).translate(_TABLE)
    # Apostrophes and full stops are taken out, so that "U.S." is "us" and "what's" one word; beside digits they divide.
    if "'" in plain:
        plain = re.sub(r"(?<=\d)'(?=\d)", " ", plain).replace("'", "")
    if "." in plain:
        plain = re.sub(r"\.{2,}", " ", plain)
        plain = re.sub(r"(?<!\d)\.|\.(?!\d)", " ", re.sub(r"(?<!\d)\.(?!\d)", "", plain))
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)  # a mark joins the letter that a full stop kept it from
    if "/" in plain or "*" in plain or "^" in plain:
        plain = _OPERATOR.sub(lambda found: f" {found[2] or found[4]} ", " ".join(plain.split()))
    found = _WORD.findall(plain)
    return [word.replace(MINUS, "-") for word in found] if MINUS in plain else found


def normalised(text: str) -> str:
    """A text by its words alone: equal for texts that differ in case, punctuation or spacing."""
    return " ".join(question_tokens(text))


def shingles(tokens: Sequence[str], size: int = 3) -> frozenset[str]:
    """All runs of ``size`` words; a shorter text is one shingle, an empty one none."""
    if not tokens:
        return frozenset()
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))
