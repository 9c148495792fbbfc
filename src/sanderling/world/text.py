"""Page text as text: whether it is text at all, its plain words with places, its sentences.

Pages are Markdown. Snippets and extracts are cut from what a reader would see: links by their words, headings without
marks. Pure functions; knows no index and no query.
"""

import re
import unicodedata
from dataclasses import dataclass

from sanderling.world.terms import WORD, normal

_LINK = re.compile(r"!?\[([^\[\]]*)\]\(((?:[^()\s]|\([^()\s]*\))*)(?:\s+\"[^\"]*\")?\)")
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|[*+\-][ \t]+|>[ \t]?)+|[*_]{2,3}|`+", re.MULTILINE)
_SENTENCE_END = re.compile(r"[.!?][\"')\]»”’]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*\s*")
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
    return _MARKS.sub("", _LINK.sub(r"\1", text))


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
    return sum(1 for _ in WORD.finditer(text))


@dataclass(frozen=True, slots=True)
class Flow:
    """A page's plain text in one line, with the place of every word."""

    text: str
    terms: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
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
    borders: set[int] = set()
    at = 0
    for part in parts:
        borders.add(at)
        at += len(part) + 1
    found = list(WORD.finditer(joined))
    starts = tuple(match.start() for match in found)
    opens = _opens(starts, sorted(borders))
    return Flow(joined, tuple(normal(m.group()) for m in found), starts, tuple(m.end() for m in found), opens)


def _opens(starts: tuple[int, ...], borders: list[int]) -> frozenset[int]:
    """The first word at or after each border."""
    opens: set[int] = set()
    word = 0
    for border in borders:
        while word < len(starts) and starts[word] < border:
            word += 1
        if word < len(starts):
            opens.add(word)
    return frozenset(opens)
