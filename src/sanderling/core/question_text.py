"""Questions as bags of short word sequences, so that "the same question" can be computed.

The normal form is what `core.folding` leaves, in words: letters and digits without punctuation, with the signs that make
another question. ``1.5``, ``-5``, ``c++`` and ``c#`` are words; ``%``, currencies and all other symbols (emoji too) are words
of their own, and so are ``+`` everywhere, ``/`` and ``*`` between numbers, ``^`` between words. HTML's entities are read.
Scripts that write no spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan; Korean with them) are taken character by
character. A shingle is three such words in a row.

Pure; knows no meaning: "capital of Norway" and "Norway's main city" have nothing in common here. Lost are what only case tells
(mW, MW), dashes and colons between numbers (2-1, 2:1), inches written with quotation marks, and signs that stand for
themselves (``&&``, ``!!``).
"""

import re
import unicodedata
from collections.abc import Sequence
from html import unescape

from sanderling.core.folding import MINUS, WIDE, folded

SHINGLE = 3
_SINGLE = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff" + WIDE  # Thai, Lao, Tibetan, Burmese, Khmer
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_LETTER = rf"[^\s.\-#/*'^+{MINUS}{_SINGLE}]"
_WORD = re.compile(
    rf"[{_SINGLE}]|{MINUS}?{_LETTER}+(?:(?<=\d)\.(?=\d){_LETTER}+)*(?:(?<!\d)(?:#+(?!{_LETTER})|\+{{2,}}|\+(?!{_LETTER})))?"
    rf"|\+|(?<=\d\ )[/*](?=\ {MINUS}?\d)|(?<={_LETTER}\ )\^(?=\ {MINUS}?{_LETTER})"
)
_OPERATOR = re.compile(rf"(?<=\d)( ?)([/*])\1(?={MINUS}?\d)|(?<={_LETTER})( ?)(\^)\3(?={MINUS}?{_LETTER})")
_RAW = frozenset(f".-#/*'^+{MINUS}")
_MODIFIERS = range(0x1F3FB, 0x1F400)
"""Colours of skin, which belong to an emoji."""


class _Table(dict[int, str]):
    """What becomes of each character, found out when it is first met: at most as many entries as Unicode has characters."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if category[0] in "LMN" or char in _RAW:
            kept = char
        elif char in "%\u2030\u2031" or (category in ("Sc", "Sm", "So") and char != "\ufffd") or code in _MODIFIERS:
            kept = f" {char} "
        else:
            kept = " "
        self[code] = kept
        return kept


_TABLE = _Table()


def question_tokens(text: str) -> list[str]:
    """The words of a question, as they are compared.

    Example: ``question_tokens("Who's the mayor of 京都?") == ["whos", "the", "mayor", "of", "京", "都"]``
    """
    if "&" in text:
        text = _ENTITY.sub(lambda found: unescape(found[0]), text)
    plain = _joined(folded(text).translate(_TABLE))
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)  # a mark joins the letter that a full stop kept it from
    if "/" in plain or "*" in plain or "^" in plain:
        plain = _OPERATOR.sub(lambda found: f" {found[2] or found[4]} ", " ".join(plain.split()))
    found = _WORD.findall(plain)
    return [word.replace(MINUS, "-") for word in found] if MINUS in plain else found


def normalised(text: str) -> str:
    """A text by its words alone: equal for texts that differ in case, punctuation or spacing."""
    return " ".join(question_tokens(text))


def shingles(tokens: Sequence[str], size: int = SHINGLE) -> frozenset[str]:
    """All runs of ``size`` words; a shorter text is one shingle, an empty one none."""
    if not tokens:
        return frozenset()
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))


def _joined(text: str) -> str:
    """Apostrophes and full stops taken out, so that "U.S." is "us" and "what's" one word; beside digits they divide."""
    if "'" in text:
        text = re.sub(r"(?<=\d)'(?=\d)", " ", text).replace("'", "")
    if "." in text:
        text = re.sub(r"\.{2,}", " ", text)
        text = re.sub(r"(?<!\d)\.|\.(?!\d)", " ", re.sub(r"(?<!\d)\.(?!\d)", "", text))
    return text
