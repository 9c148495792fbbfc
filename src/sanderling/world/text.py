"""Page text as text: whether it is text at all, its plain words with places, its sentences.

Pages are Markdown. Snippets and extracts are cut from what a reader would see: links by their words, headings without
marks. Pure functions; knows no index and no query.
"""

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from sanderling.world.terms import spans, term_text, words

_LINK = re.compile(r"!?\[([^\[\]]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+\"[^\"]*\")?\)")
_LINE_MARK = re.compile(r"\n[ \t]*(?:#{1,6}[ \t]+|[*+\-][ \t]+|>[ \t]?)")
_INLINE_MARK = re.compile(r"[*_]{2,3}|`+")
_INLINE_SIGNS = ("`", "**", "__", "*_", "_*")
_SENTENCE_END = re.compile(r"[.!?。！？](?:(?<=[.!?])[\"')\]»”’]*\s+(?=[^a-z\s])|(?<=[。！？])[。！？]*[」』”’）]*\s*)")
_ABBREVIATED = re.compile(r"(?:^|[\s(.])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|St|No|vol|Vol|pp|ed|Ed|Prof|Jr|Sr|vs|cf|ca|c|Bd|geb)$")
_SAMPLE = 20_000
_NOISE_SHARE = 0.05


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
    noise = sum(1 for char in sample if not char.isprintable() and _is_noise(char)) + sample.count("\ufffd")
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
    """Links and images of Markdown by their words alone."""
    return _LINK.sub(r"\1", text) if "](" in text else text


def _without_inline_marks(text: str) -> str:
    return _INLINE_MARK.sub("", text) if any(sign in text for sign in _INLINE_SIGNS) else text


def sentences(line: str) -> list[str]:
    """The sentences of one paragraph, spaces at the ends removed; abbreviations and initials do not end one."""
    parts: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if line[end.start()] == "." and _ABBREVIATED.search(line[max(start, end.start() - 8) : end.start()]):
            continue
        parts.append(line[start : end.end()].strip())
        start = end.end()
    parts.append(line[start:].strip())
    return [part for part in parts if part]


def word_count(text: str) -> int:
    """Words; each character of a script without spaces is one."""
    return len(term_text(text).split())


@dataclass(frozen=True, slots=True)
class Flow:
    """A page's plain text in one line, with the place of every word."""

    text: str
    terms: list[str]
    starts: list[int]
    ends: list[int]
    opens: frozenset[int]
    """Numbers of the words that open a sentence."""


def flow(title: str, text: str) -> Flow:
    """Lay out a page for snippets. A first heading that only repeats the title is left out."""
    lines = [line.strip() for line in plain(text).splitlines()]
    lines = [" ".join(line.split()) for line in lines if line]
    if lines and lines[0].casefold() == " ".join(title.split()).casefold():
        lines = lines[1:]
    parts = [part for line in lines for part in sentences(line)]
    joined = " ".join(parts)
    borders = [0, *accumulate(len(part) + 1 for part in parts)]
    starts, ends = spans(joined)
    opens = frozenset(word for border in borders[:-1] if (word := bisect_left(starts, border)) < len(starts))
    return Flow(joined, words(joined), starts, ends, opens)
