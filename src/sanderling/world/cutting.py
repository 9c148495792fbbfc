"""Where a page may be cut, and what each stretch of it costs a reader.

A link is one thing that is never cut. Prices are in words: those it shows, and for its address a word for every four characters
begun, though never less than the words in it. So does every stretch of more than a hundred characters without the beginning of
a word: noise is not free. Link words may hold brackets and an image, addresses may hold parentheses three deep; a link ends
within its paragraph, a bare URL (of ASCII) at the first blank, quote or bar.

Borders are, best first: blank lines and heading lines, lines, sentences, words. The parts of a page, joined, are the page. A
link that alone costs more than the budget is given without its address.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from sanderling.world.text import sentences, spans, word_count

Stretch = tuple[int, int]  # a start and an end in the text
_CHARS_PER_WORD = 4
_LONG = 100  # characters from the beginning of one word to that of the next that cost nothing more
_TOKEN = re.compile(r"\\.|!?\[|\]|\n(?=[^\S\n]*\n|#)", re.DOTALL)
_INNER = r"(?:\\[()]|[^()\s<>]"
_TARGET = re.compile(
    r"\([ \t]*+(?:\n[ \t]*+)?(?:<([^<>\n]*+)>|("
    rf"{_INNER}|\({_INNER}|\({_INNER}|\((?:\\[()]|[^()\s<>])*+\))*+\))*+\))*+"
    r"))(?:[ \t]++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?[ \t]*+\)"
)
_BARE = re.compile(r"(?<![A-Za-z0-9])(?:https?://|www\.)[!#-;=?-{}~]++", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+\S")
_BLANK_LINES = re.compile(r"\n\s*\n")
_LINE = re.compile(r"[^\n]+")


@dataclass(frozen=True, slots=True)
class Link:
    """One link or bare address, ``text[start:end]``, its words without an address, and what its addresses cost beyond theirs.

    ``addresses``: where it and the links and images within it lead, as written.
    """

    start: int
    end: int
    words: str
    surplus: int
    addresses: tuple[str, ...] = ()


def find_links(text: str) -> tuple[Link, ...]:
    """The outermost links and bare addresses of a text, in order, without overlap."""
    marked = _marked(text) if "](" in text else []
    if "://" not in text and "www." not in text.lower():
        return tuple(marked)
    found: list[Link] = []
    at = 0
    for link in (*marked, None):
        gap = _BARE.finditer(text, at, link.start if link else len(text))
        found += (Link(bare.start(), bare.end(), "", _surplus(bare[0]), (bare[0],)) for bare in gap)
        if link:
            found.append(link)
            at = link.end
    return tuple(found)


def as_read(text: str) -> str:
    """The text as a reader has it: link words stay, addresses go."""
    return only_words(text, find_links(text))


class Prices:
    """What stretches of one text cost, in words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.links = find_links(text)
        self._starts = [link.start for link in self.links]
        self._surplus = [0, *accumulate(link.surplus for link in self.links)]
        words = spans(text)[0]
        further = [place for place in _further(text, words) if self.link_at(place) is None]
        self._words: list[int] = sorted([*words.tolist(), *further]) if further else words.tolist()

    @property
    def whole(self) -> int:
        return len(self._words) + self._surplus[-1]

    def units(self, start: int, end: int) -> list[tuple[int, int]]:
        """Places in ``text[start:end]`` with their prices: where a link begins, or a word, or one costs more for its length."""
        found = self._words[bisect_left(self._words, start) : bisect_left(self._words, end)]
        links = self.links[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        priced = [(link.start, self.of(link.start, link.end)) for link in links]
        return sorted([*priced, *((place, 1) for place in found if self.link_at(place) is None)])

    def of(self, start: int, end: int) -> int:
        """The price of ``text[start:end]``, which cuts neither a word nor a link."""
        words = bisect_left(self._words, end) - bisect_left(self._words, start)
        if not self.links:
            return words
        return words + self._surplus[bisect_left(self._starts, end)] - self._surplus[bisect_left(self._starts, start)]

    def link_at(self, place: int) -> Link | None:
        before = bisect_right(self._starts, place) - 1
        return self.links[before] if before >= 0 and place < self.links[before].end else None

    def may_cut(self, place: int) -> bool:
        """Whether a cut before the character at this place leaves every link whole."""
        link = self.link_at(place)
        return link is None or link.start == place


def affordable(prices: Prices, most: int) -> Prices:
    """The text in which links that cost more than ``most`` words have lost their addresses."""
    dear = [link for link in prices.links if prices.of(link.start, link.end) > most]
    return Prices(only_words(prices.text, dear)) if dear else prices


def _marked(text: str) -> list[Link]:
    """Markdown links and images; of nested ones the outer, with all words between its marks and those of links in it."""
    outer: list[Stretch] = []
    marks: list[tuple[int, int, str | None]] = []  # what stands before a link's words, and behind them with its address
    opened: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        if marks and token.start() < marks[-1][1]:  # within an address
            continue
        if token[0].endswith("["):
            opened.append(token)
        elif token[0] == "\n":
            opened.clear()
        elif token[0] == "]" and opened:
            start = opened.pop()
            target = _TARGET.match(text, token.end())
            if target is None:
                continue
            while outer and outer[-1][0] > start.start():
                outer.pop()
            outer.append((start.start(), target.end()))
            marks += [(*start.span(), None), (token.start(), target.end(), target[1] or target[2] or "")]
    links: list[Link] = []
    rest = iter(sorted(marks))
    for start, end in outer:
        shown: list[str] = []
        addresses: list[str] = []
        at, surplus = start, 0
        while at < end:
            until, after, address = next(rest)
            words = text[at:until]
            surplus += sum(_surplus(bare[0]) for bare in _BARE.finditer(words))
            shown.append(_BARE.sub("", words))
            surplus += len(_further(shown[-1], spans(shown[-1])[0])) if len(shown[-1]) > _LONG else 0
            if address is not None:
                surplus += _surplus(address)
                addresses.append(address)
            at = after
        links.append(Link(start, end, "".join(shown), surplus, tuple(addresses)))
    return links


def _further(text: str, words: NDArray[np.int32]) -> list[int]:
    """Where a stretch without the beginning of a word costs one word more, again and again."""
    borders = np.concatenate(([0], words, [len(text)]))
    long = (np.diff(borders) > _LONG).nonzero()[0].tolist()
    return [place for i in long for place in range(int(borders[i]) + _LONG, int(borders[i + 1]), _CHARS_PER_WORD)]


def _surplus(address: str) -> int:
    return max(-(-len(address) // _CHARS_PER_WORD) - word_count(address), 0)


def only_words(text: str, links: Iterable[Link]) -> str:
    """The text with links replaced by their words."""
    parts: list[str] = []
    at = 0
    for link in links:
        parts += [text[at : link.start], link.words]
        at = link.end
    return "".join((*parts, text[at:]))


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, or a heading line."""

    start: int
    end: int
    heading: bool


def blocks(text: str) -> list[Block]:
    """The paragraphs and headings of a page, in order."""
    found: list[Block] = []
    gaps = [match.span() for match in _BLANK_LINES.finditer(text)]
    for start, end in zip([0, *(gap[1] for gap in gaps)], [*(gap[0] for gap in gaps), len(text)], strict=True):
        marked = text.find("#", start, end) >= 0
        lines = [line.span() for line in _LINE.finditer(text, start, end) if _HEADING.match(line[0])] if marked else []
        at = start
        for a, b in (*lines, (end, end)):
            for stretch, heading in ((_trimmed(text, at, a), False), (_trimmed(text, a, b), True)):
                if stretch[0] < stretch[1]:
                    found.append(Block(*stretch, heading))
            at = b
    return found


def pieces(prices: Prices, start: int, end: int, most: int) -> list[Stretch]:
    """A stretch in groups of whole sentences (lists: of lines) that cost at most ``most``; a dearer sentence is cut."""
    if prices.of(start, end) <= most:
        return [(start, end)]
    text, borders = prices.text, {start}
    for line in _LINE.finditer(text, start, end):
        at = line.start()
        for sentence in sentences(line[0]):
            at = text.index(sentence, at)
            borders.add(at)
            at += len(sentence)
    groups: list[Stretch] = []
    for border, after in pairwise([*sorted(filter(prices.may_cut, borders)), end]):
        whole = _trimmed(text, border, after)
        cut = prices.of(*whole) > most
        for a, b in [_trimmed(text, *part) for part in _by_words(prices, *whole, most)] if cut else [whole]:
            if groups and a < b and prices.of(groups[-1][0], b) <= most:
                groups[-1] = (groups[-1][0], b)
            elif a < b:
                groups.append((a, b))
    return groups


def _by_words(prices: Prices, start: int, end: int, most: int) -> list[Stretch]:
    """Cut before the word, or the link, that would cost more than is left (tables, lists without full stops, noise)."""
    cuts, left = [start], most
    for a, price in prices.units(start, end):
        if price > left and a > cuts[-1]:
            cuts.append(a)
            left = most
        left -= price
    return list(pairwise([*cuts, end]))


def _trimmed(text: str, start: int, end: int) -> Stretch:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def split_page(text: str, max_words: int) -> tuple[str, ...]:
    """The parts of a page: at least one, each of at most ``max_words`` words, together the whole text."""
    prices = affordable(Prices(text), max_words)
    cuts = part_cuts(prices, blocks(prices.text), max_words)
    return tuple(prices.text[a:b] for a, b in pairwise([*cuts, len(prices.text)]))


def part_cuts(prices: Prices, page: Sequence[Block], max_words: int) -> list[int]:
    """Where the parts of a text of these blocks begin, the first at 0; no link in it costs more than ``max_words``."""
    cuts = [0]
    above: int | None = None
    for i, block in enumerate(page):
        start = block.start if above is None else above
        above = start if block.heading and i + 1 < len(page) else None
        for a, b in pieces(prices, start, block.end, max_words) if above is None else ():
            if a > cuts[-1] and prices.of(cuts[-1], b) > max_words and prices.of(cuts[-1], a):
                cuts.append(a)
    return cuts
