"""Where a page may be cut: its paragraphs and headings, and pieces of paragraphs that are too long. All by place in the text.

Borders are, best first: blank lines and heading lines, lines, sentences, words; never the inside of a link. What stands between
two places is taken from the text as it is. Pure functions; knows no goal and no budget of a page.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from sanderling.world.inline_links import Prices
from sanderling.world.text import sentences

_HEADING = re.compile(r"#{1,6}\s+\S")
_BLANK_LINES = re.compile(r"\n\s*\n")
_LINE = re.compile(r"[^\n]+")

Stretch = tuple[int, int]
"""A start and an end in the text, blanks at the ends left out."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, or a heading line."""

    start: int
    end: int
    heading: bool


def blocks(text: str) -> list[Block]:
    """The paragraphs and headings of a page, in order."""
    found: list[Block] = []
    for start, end in _between(text, [match.span() for match in _BLANK_LINES.finditer(text)]):
        marked = text.find("#", start, end) >= 0
        lines = [line.span() for line in _LINE.finditer(text, start, end) if _HEADING.match(line[0])] if marked else []
        at = start
        for a, b in lines:
            _add(found, text, at, a, heading=False)
            _add(found, text, a, b, heading=True)
            at = b
        _add(found, text, at, end, heading=False)
    return found


def pieces(prices: Prices, start: int, end: int, most: int) -> list[Stretch]:
    """A stretch in groups of whole sentences (lists: of lines) that cost at most ``most`` words; a dearer link stands alone."""
    if prices.of(start, end) <= most:
        return [(start, end)]
    groups: list[Stretch] = []
    for a, b in _units(prices, start, end, most):
        if groups and prices.of(groups[-1][0], b) <= most:
            groups[-1] = (groups[-1][0], b)
        else:
            groups.append((a, b))
    return groups


def _units(prices: Prices, start: int, end: int, most: int) -> list[Stretch]:
    """Sentences within their lines; the parts of those that cost more than ``most``."""
    text, borders = prices.text, [start]
    for line in _LINE.finditer(text, start, end):
        at = line.start()
        for sentence in sentences(line[0]):
            at = text.index(sentence, at)
            borders.append(at)
            at += len(sentence)
    kept = sorted({border for border in borders if prices.may_cut(border)})
    units: list[Stretch] = []
    for a, b in pairwise([*kept, end]):
        whole = _trimmed(text, a, b)
        if prices.of(*whole) <= most:
            units.append(whole)
        else:
            units += [_trimmed(text, *part) for part in _by_words(prices, *whole, most)]
    return [unit for unit in units if unit[0] < unit[1]]


def _by_words(prices: Prices, start: int, end: int, most: int) -> list[Stretch]:
    """Cut before the word, or the link, that would cost more than is left (tables, lists without full stops, noise)."""
    links = [(link.start, prices.of(link.start, link.end)) for link in prices.links_within(start, end)]
    cuts, left = [start], most
    for a, price in sorted([*links, *((place, 1) for place in prices.units(start, end))]):
        if price > left and a > cuts[-1]:
            cuts.append(a)
            left = most
        left -= price
    return list(pairwise([*cuts, end]))


def _between(text: str, gaps: list[Stretch]) -> list[Stretch]:
    starts, ends = [0, *(gap[1] for gap in gaps)], [*(gap[0] for gap in gaps), len(text)]
    return list(zip(starts, ends, strict=True))


def _add(found: list[Block], text: str, start: int, end: int, *, heading: bool) -> None:
    start, end = _trimmed(text, start, end)
    if start < end:
        found.append(Block(start, end, heading))


def _trimmed(text: str, start: int, end: int) -> Stretch:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
