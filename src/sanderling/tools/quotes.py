"""Where a quote stands in a page, however it was typed: for the page reader, the checker of citations, facts in synthesis."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from sanderling.world.cutting import find_links
from sanderling.world.text import is_cjk, sentences, word_count

_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:\.{3}|…)\s*\]|\.{3,}|…|\n+)\s*")
_SAME = {
    **dict.fromkeys("‘’‚‛′`´", "'"),
    **dict.fromkeys("“”„‟″«»「」『』", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    **dict.fromkeys("*_#|>~\\\u00ad\u200b\u200c\u200d\u2060\ufeff", ""),
}
_TELLING_WORDS = 3
Stretch = tuple[int, int]


@lru_cache(maxsize=8_192)
def _folded(char: str) -> str:
    if char in _SAME:
        return _SAME[char]
    parts = unicodedata.normalize("NFKD", char)
    return "".join(" " if part.isspace() else _SAME.get(part, part) for part in parts)


class PageText:
    """A page in which quotes can be found, whatever its Markdown marks, addresses of links, blanks, quotation marks, dashes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._chars, self._starts, self._ends = _fold(text)

    def stretches(self, quote: str) -> tuple[list[Stretch], int]:
        """Where a quote stands in the page, by its pieces if need be; and how many pieces do not."""
        folded = _fold(quote)[0].strip()
        if any(char.isalnum() for char in folded):
            whole = self._place(folded) or self._place(folded.strip("\"' "))
            if whole is not None:
                return [whole], 0
        pieces = [piece for piece in _ELLIPSIS.split(quote) if piece.strip()]
        if len(pieces) < 2:
            pieces = sentences(quote)
        if len(pieces) < 2:
            return [], 1
        telling = [piece for piece in pieces if word_count(piece) >= _TELLING_WORDS]
        found, missed = self.stretches_of(telling)
        return found, missed + len(pieces) - len(telling)

    def stretches_of(self, quotes: Iterable[str]) -> tuple[list[Stretch], int]:
        """As `stretches`, of several quotes."""
        found = [self.stretches(quote) for quote in quotes]
        return [stretch for stretches, _ in found for stretch in stretches], sum(missed for _, missed in found)

    def passages(self, stretches: list[Stretch]) -> list[str]:
        """The page's own words at these places, in page order; stretches that meet are one."""
        joined: list[Stretch] = []
        for start, end in sorted(stretches):
            if joined and not self._text[joined[-1][1] : start].strip():
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return [self._text[start:end] for start, end in joined]

    def _place(self, folded: str) -> Stretch | None:
        """Where a folded text stands, neither end of it within a word."""
        at = self._chars.find(folded)
        while at >= 0:
            if not self._cuts_a_word(at) and not self._cuts_a_word(at + len(folded)):
                return self._starts[at], self._ends[at + len(folded) - 1]
            at += 1
            while self._cuts_a_word(at):
                at += 1
            at = self._chars.find(folded, at)
        return None

    def _cuts_a_word(self, place: int) -> bool:
        pair = self._chars[place - 1 : place + 1] if 0 < place < len(self._chars) else " "
        return all(char.isalnum() and not is_cjk(char) for char in pair)


def _fold(text: str) -> tuple[str, list[int], list[int]]:
    """The text as it is compared, and for each of its characters the stretch of the original it stands for."""
    chars: list[str] = []
    starts: list[int] = []
    ends: list[int] = []

    def take(char: str, start: int, end: int) -> None:
        for part in _folded(char):
            if part == " " and (not chars or chars[-1] == " "):
                continue
            chars.append(part)
            starts.append(start)
            ends.append(end)

    at = 0
    for link in (*find_links(text), None):
        for place in range(at, link.start if link else len(text)):
            take(text[place], place, place + 1)
        if link:
            for char in link.words or text[link.start : link.end]:
                take(char, link.start, link.end)
            at = link.end
    return "".join(chars), starts, ends
