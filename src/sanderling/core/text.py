"""Texts as they are compared: folded, with the signs that tell two things apart.

Folded away are case, compositions, full-width forms, characters of no width, kinds of dashes and apostrophes, digits of other
scripts, commas between thousands. What stays is what another thing would lack: the point in ``1.5`` (``.5`` is ``0.5``), the
sign of ``-5``, the power in ``10²`` (``10^2``), the signs of ``C++`` and ``C#``, symbols.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import unescape
from itertools import islice
from typing import Any

MINUS = "\u2212"  # the sign before a number in a folded text; every other dash is ``-``
WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f"
"""Chinese, Japanese and Korean characters, for a class of a regular expression."""
SUFFIX = r"(?:(?<=[^\W\d_])(?:#+(?!\w)|\+{2,}|\+(?!\w)))?"
"""What may follow a word and belongs to it, as in C++, C# and A+; for the end of a regular expression."""

_CURRENCY = "$\u00a2-\u00a5\u0e3f\u20a0-\u20c0"
NO_WIDTH = re.compile(
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
        text = unicodedata.normalize("NFKC", NO_WIDTH.sub("", text)).casefold()
        text = unicodedata.normalize("NFKC", text).translate(_SAME)
        text = _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text)
        text = unicodedata.normalize("NFKC", NO_WIDTH.sub("", text))
    text = _BARE_POINT.sub("0.", _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text))
    return _SIGN.sub(MINUS, _OWED.sub(r"\1-", text)) if "-" in text else text


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_UNPRINTABLE = re.compile("[\x80-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def counted_as(number: int, what: str) -> str:
    """So many of something, as English says it: ``1 turn``, ``2 turns``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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


# -- JSON as models write it ----------------------------------------------------------------------------------------------

_MAX_DEPTH = 32
_MAX_JSON5_CHARS = 8_000  # json5 is written in Python, about five microseconds a character: longer texts are given up
_MOST_OPENINGS = 32
# NaN and the infinities have no place in JSON: they stay as words.
_STRICT, _LOOSE = (json.JSONDecoder(parse_constant=str, strict=strict) for strict in (True, False))


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, as U+FFFD; of the same length."""
    return _SURROGATE.sub("\ufffd", text)


def decode_json(text: str, start: int = 0) -> tuple[Any, int, bool] | None:
    """The JSON value that begins at ``start``: value, index after it, whether leniency was needed. None: no value there."""
    for decoder in (_STRICT, _LOOSE):
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, start)
            return _clean(value), end, decoder is _LOOSE
    return None


def decode_json5(text: str) -> Any | None:
    """The whole text as one JSON5 value (single quotes, bare keys, trailing commas, comments), or None."""
    import json5  # slow to import, and rarely needed

    with suppress(ValueError, RecursionError):
        return _clean(json5.loads(text)) if len(text) <= _MAX_JSON5_CHARS else None
    return None


def find_object(reply: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """The first JSON object in a model's reply that is wanted, whatever stands around it; None when there is none.

    Reasoning before ``</think>`` is passed over; a code fence, words before and after, and JSON5's liberties do no harm.
    """
    text = reply.rpartition("</think>")[2]
    for opening in islice(re.finditer("{", text), _MOST_OPENINGS):
        decoded = decode_json(text, opening.start())
        if decoded is not None and isinstance(decoded[0], dict) and wanted(decoded[0]):
            return decoded[0]
    loose = decode_json5(text[text.find("{") : text.rfind("}") + 1]) if "{" in text else None
    return loose if isinstance(loose, dict) and wanted(loose) else None


def _clean(value: Any, depth: int = 0) -> Any:
    """Without NUL characters and lone surrogates; non-finite and giant numbers as strings. Raises ValueError when too deep."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        return without_surrogates(value).replace("\x00", "")
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > 63:
        return hex(value)
    return value
