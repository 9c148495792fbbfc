"""Questions as bags of short word sequences, so that "the same question" can be computed.

Words are those of Unicode's letters and digits after NFKC and case folding, without punctuation; scripts that write no spaces
(Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan; Korean with them) are taken character by character. A shingle is three
such words in a row. Pure; knows no meaning: "capital of Norway" and "Norway's main city" have nothing in common here.
"""

import re
import unicodedata
from collections.abc import Sequence

SHINGLE = 3
_SINGLE = re.compile(
    "["
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f"
    "]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ASCII_SPLIT = re.compile(r"[^a-z0-9]+")
_JOINING = str.maketrans("", "", "'.\u2019")
"""Apostrophes and full stops are taken out, so that "U.S." is "us" and "what's" is one word; other punctuation divides."""


def question_tokens(text: str) -> list[str]:
    """The words of a question, as they are compared.

    Example: ``question_tokens("Who's the mayor of 京都?") == ["whos", "the", "mayor", "of", "京", "都"]``
    """
    if text.isascii():
        return _ASCII_SPLIT.sub(" ", text.lower().translate(_JOINING)).split()
    whole = _SURROGATE.sub("\ufffd", text)
    bare = unicodedata.normalize("NFKC", whole).translate(_JOINING)  # a mark joins the letter that a full stop kept it from
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", bare).casefold())
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded)
    return _SINGLE.sub(r" \g<0> ", kept).split()


def normalised(text: str) -> str:
    """A text by its words alone: equal for texts that differ in case, punctuation or spacing."""
    return " ".join(question_tokens(text))


def shingles(tokens: Sequence[str], size: int = SHINGLE) -> frozenset[str]:
    """All runs of ``size`` words; a shorter text is one shingle, an empty one none."""
    if not tokens:
        return frozenset()
    return frozenset(" ".join(tokens[start : start + size]) for start in range(max(1, len(tokens) - size + 1)))
