"""Page text as text: whether it is text at all, its plain words with places, its sentences.

Pages are Markdown. Snippets and extracts are cut from what a reader would see: links by their words, headings without
marks. Pure functions; knows no index and no query.
"""

import re
import unicodedata
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from sanderling.world.terms import cjk_count, spans, term_text

_TARGET = r"\[([^\[\]]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+\"[^\"]*\")?\)"
_IMAGE, _LINK = re.compile("!" + _TARGET), re.compile(_TARGET)
_LINE_MARK = re.compile(r"\n[ \t]*(?:#{1,6}[ \t]+|[*+\-][ \t]+|>[ \t]?)")
_INLINE_MARK = re.compile(r"[*_]{2,3}|`+")
_OPENS = r"[\s(.。！？」』]"
_TWO, _THREE = "Mr|Ms|Dr|St|No|pp|ed|Ed|Jr|Sr|vs|cf|ca|Bd", "Mrs|vol|Vol|geb"
_NOT_ABBREVIATED = rf"(?<!{_OPENS}[^\W\d_]\.)(?<!{_OPENS}(?:{_TWO})\.)(?<!{_OPENS}(?:{_THREE})\.)(?<!{_OPENS}Prof\.)"
_SENTENCE_END = re.compile(
    rf"[.!?。！？](?:(?<=[.!?]){_NOT_ABBREVIATED}[\"')\]»”’]*\s+(?=[^a-z\s])|(?<=[。！？])[。！？]*[」』”’）]*\s*)"
)
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\r\t\f\v]")
_ENDS_WITHOUT_SPACE = "。！？"
_SAMPLE = 20_000
_NOISE_SHARE = 0.05
_UNSPACED = 2.5
"""Characters a word, at most, of a page in a script without spaces."""


def clean(text: str) -> str:
    """The text without lone surrogates and null characters, which no file or model can hold."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def is_text(text: str) -> bool:
    """False for binary noise: more than 5% of control, unassigned, private or replacement characters at the start.

    Characters U+0080 to U+009F do not count: text in a wrongly guessed encoding is full of them, and it is text still.
    """
    sample = text[:_SAMPLE]
    if "\ufffd" not in sample and sample.replace("\n", "").isprintable():  # nearly every page, and quickly told
        return True
    noise = sum(1 for char in _UNUSUAL.findall(sample) if not char.isprintable() and _is_noise(char)) + sample.count("\ufffd")
    return noise <= len(sample) * _NOISE_SHARE


def _is_noise(char: str) -> bool:
    if char in "\n\r\t\f\v" or "\x80" <= char <= "\x9f":
        return False
    return unicodedata.category(char) in ("Cc", "Cn", "Co", "Cs")


def plain(text: str) -> str:
    """Markdown as one would read it aloud: link words without addresses, no marks."""
    return _without_inline_marks(_LINE_MARK.sub("\n", "\n" + without_addresses(text))[1:])


def spoken(text: str) -> str:
    """Text with the same words as `plain`, faster: marks that touch no word are left in."""
    return _without_inline_marks(without_addresses(text))


def without_addresses(text: str) -> str:
    """Links and images of Markdown by their words alone, images within links too."""
    if "](" not in text:
        return text
    return _LINK.sub(itemgetter(1), _IMAGE.sub(itemgetter(1), text) if "![" in text else text)


def _without_inline_marks(text: str) -> str:
    return _INLINE_MARK.sub("", text) if "*" in text or "_" in text or "`" in text else text


def sentences(line: str) -> list[str]:
    """The sentences of one paragraph, spaces at the ends removed; abbreviations and initials do not end one."""
    line = " " + line
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(line)), len(line)]
    parts = [line[start:end].strip() for start, end in pairwise(cuts)]
    return [part for part in parts if part]


def word_count(text: str) -> int:
    """Words; each character of a script without spaces is one."""
    return len(term_text(text).split())


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A page's plain text in one line, with the place of every word."""

    text: str
    terms: str
    """The terms of all words in order, a space before and after each (`terms.term_text`)."""
    starts: NDArray[np.int32]
    """For each word the place in ``text`` where it begins."""
    ends: NDArray[np.int32]
    opens: frozenset[int]
    """Numbers of the words that open a sentence."""
    unspaced: bool
    """Whether most of it is in a script without spaces, in which words are single characters."""


def flow(title: str, text: str) -> Flow:
    """Lay out a page for snippets. A first heading that only repeats the title is left out."""
    lines = [_single_spaced(line) for line in plain(text).splitlines()]
    lines = [line for line in lines if line]
    if lines and lines[0].casefold() == " ".join(title.split()).casefold():
        lines = lines[1:]
    joined, borders = _run_together(lines)
    starts, ends = spans(joined)
    opens = frozenset(starts.searchsorted(borders).tolist()) - {len(starts)}
    unspaced = len(joined) < _UNSPACED * len(starts) and 2 * cjk_count(joined) > len(starts)
    return Flow(joined, f" {term_text(joined)} ", starts, ends, opens, unspaced)


def _run_together(lines: list[str]) -> tuple[str, list[int]]:
    """Lines as one, and where sentences begin in it: at each line, and where `sentences` cuts one."""
    joined = " ".join(lines)
    if any(sign in joined for sign in _ENDS_WITHOUT_SPACE):
        lines = [part for line in lines for part in sentences(line)]
        joined = " ".join(lines)
        return joined, [0, *accumulate(len(line) + 1 for line in lines[:-1])]
    begins = accumulate((len(line) + 1 for line in lines[:-1]), initial=0)
    return joined, [*begins, *(match.end() - 1 for match in _SENTENCE_END.finditer(" " + joined))]


def _single_spaced(line: str) -> str:
    return line.strip() if line.isprintable() and "  " not in line else " ".join(line.split())
