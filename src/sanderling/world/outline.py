"""A page as passages under what they are read with: headings, and the heads of tables.

A passage is a paragraph, a group of its sentences where it is long, or one row of a table. A heading goes with every passage
below it, a table's head with every row. Pure functions; knows no goal.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sanderling.world.cutting import Block, Stretch, pieces
from sanderling.world.inline_links import Prices

_LINE = re.compile(r"[^\n]+")
_LEAST_LINES = 3
_RULE = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")


@dataclass(frozen=True, slots=True)
class Lead:
    """A heading or a table's head."""

    text: str
    words: int
    """What it costs."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a page."""

    text: str
    words: int
    """What it costs."""
    paragraph: int
    """Number of the paragraph it comes from."""
    leads: tuple[int, ...] = ()
    """Numbers of the leads it is read with, outermost first."""
    row: bool = False
    """Whether it is a row of a table."""
    line: bool = False
    """Whether it begins a line of its paragraph."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A page as passages."""

    passages: tuple[Passage, ...]
    leads: tuple[Lead, ...]


def outline(prices: Prices, page: Sequence[Block], passage_words: int) -> Outline:
    """Split a page, of which the blocks are given. A page of headings alone has its headings as passages."""
    leads: list[Lead] = []
    passages: list[Passage] = []
    heading: tuple[int, ...] = ()

    def lead(start: int, end: int) -> int:
        leads.append(Lead(prices.text[start:end], prices.of(start, end)))
        return len(leads) - 1

    def add(stretch: Stretch, paragraph: int, above: tuple[int, ...], *, row: bool) -> None:
        for start, end in pieces(prices, *stretch, passage_words):
            line = "\n" in prices.text[max(start - 2, 0) : start]
            passages.append(Passage(prices.text[start:end], prices.of(start, end), paragraph, above, row, line))

    for number, block in enumerate(page):
        if block.heading:
            heading = (lead(block.start, block.end),)
            continue
        table = _table(prices, block)
        if table is None:
            add((block.start, block.end), number, heading, row=False)
            continue
        head, rows = table
        if block.start < head[0]:
            add((block.start, head[0]), number, heading, row=False)
        above = (*heading, lead(*head))
        for row in rows:
            add(row, number, above, row=True)
    if not passages:
        passages = [Passage(each.text, each.words, n) for n, each in enumerate(leads)]
    return Outline(tuple(passages), tuple(leads))


def _table(prices: Prices, block: Block) -> tuple[Stretch, list[Stretch]] | None:
    """The head of a table (names of columns, and the rule below if there is one) and its rows; None for what is no table.

    Without a rule, three lines and more of as many cells each, to the end of the paragraph, are a table; the first is its head.
    """
    text = prices.text
    if "|" not in text[block.start : block.end]:
        return None
    lines = [line for line in _lines(text, block) if prices.may_cut(line[0])]
    for i in range(1, len(lines) - 1):
        rule = text[slice(*lines[i])]
        if "|" in rule and _RULE.fullmatch(rule) and "|" in text[slice(*lines[i - 1])]:
            return (lines[i - 1][0], lines[i][1]), lines[i + 1 :]
    cells = [text.count(" | ", *line) for line in lines]
    first = len(lines)
    while first and cells[first - 1] == cells[-1] > 0:
        first -= 1
    return (lines[first], lines[first + 1 :]) if len(lines) - first >= _LEAST_LINES else None


def _lines(text: str, block: Block) -> Iterator[Stretch]:
    for line in _LINE.finditer(text, block.start, block.end):
        if line[0].strip():
            yield line.span()
