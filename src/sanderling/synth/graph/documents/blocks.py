"""A stored page as lines of a kind: headings, items of lists, rows of tables, code, and prose; links taken out of the words.

A link becomes a mark, ``⟦0⟧``, so that patterns see one thing and sentences end where they should. Knows no entity.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(((?:[^()\s]|\([^()\s]*\))+)\)")
_MARK = re.compile(r"⟦(\d+)⟧")
_PLAIN_BRACKETS = str.maketrans("⟦⟧", "[]")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_RULE = re.compile(r"\s{0,3}\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
"""Between the head and the body of a table."""
_HEADING = re.compile(r"(#{1,6}) +(.*)")
_LONGEST_CELL = 12
"""Words of a row's first cell."""
_ITEM = re.compile(r"( *)(?:[-*+]|\d+[.]) +(.*)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”)]?\s+(?=[A-Z⟦“(])")
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|St|Dr|Mr|Mrs|No|Fig)\.$")


class BlockKind(StrEnum):
    """What a line is."""

    HEADING = "heading"
    ITEM = "item"
    ROW = "row"
    CODE = "code"
    PROSE = "prose"


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead to an address."""

    words: str
    url: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page; ``marked`` has its links as marks."""

    kind: BlockKind
    marked: str
    links: tuple[Link, ...]
    level: int = 0
    """Of a heading, from 1."""
    after_blank: bool = True

    @property
    def text(self) -> str:
        """As a reader has it."""
        return self.read(self.marked)

    def with_links(self, marked: str, more: Iterable[Link]) -> "Line":
        """The same words with further ones taken for links; ``marked`` has their marks, numbered on."""
        return replace(self, marked=marked, links=(*self.links, *more))

    def read(self, marked: str) -> str:
        """A piece of the line as a reader has it."""
        return _MARK.sub(lambda mark: self.links[int(mark[1])].words, marked)

    def sentences(self) -> Iterator[str]:
        """Its sentences, links marked."""
        start = 0
        for end in _SENTENCE_END.finditer(self.marked):
            piece = self.marked[start : end.start()]
            if _ABBREVIATIONS.search(piece):
                continue
            yield self.marked[start : end.end()].strip()
            start = end.end()
        if rest := self.marked[start:].strip():
            yield rest


def lines_of(text: str) -> list[Line]:
    """The lines of a page that hold something. The rare brackets that marks are made of become plain ones.

    A line with bars is a row only beside another one: alone it is prose.
    """
    text = text.translate(_PLAIN_BRACKETS)
    found: list[Line] = []
    after_blank = True
    raws = text.split("\n")
    bars = [_has_bars(raw) for raw in raws]
    for number, raw in enumerate(raws):
        if not raw.strip():
            after_blank = True
            continue
        beside = [*bars[max(0, number - 1) : number], *bars[number + 1 : number + 2]]
        is_row = bars[number] and (raw.lstrip().startswith("|") or any(beside))
        found.append(_line(raw, after_blank, is_row))
        after_blank = False
    return found


def _has_bars(raw: str) -> bool:
    """Whether a line can be a row of a table: a bar within brackets, as in "(a | b)", or far into a sentence parts no cells."""
    if "|" not in raw:
        return False
    first, bar, _ = _BRACKETS.sub("", raw).partition(" | ")
    return (bool(bar) and len(first.split()) <= _LONGEST_CELL) or _RULE.fullmatch(raw) is not None


def _line(raw: str, after_blank: bool, is_row: bool) -> Line:
    kind, level, words = BlockKind.PROSE, 0, raw.strip()
    item = _ITEM.fullmatch(raw)
    if heading := _HEADING.fullmatch(raw):
        kind, level, words = BlockKind.HEADING, len(heading[1]), heading[2].strip()
    elif item:
        kind, words = BlockKind.ITEM, item[2].strip()
    elif raw.startswith("    "):
        kind, words = BlockKind.CODE, raw
    elif is_row:
        kind = BlockKind.ROW
    links: list[Link] = []

    def mark(match: re.Match[str]) -> str:
        links.append(Link(" ".join(match[1].split()), match[2]))
        return f"⟦{len(links) - 1}⟧"

    marked = words if kind is BlockKind.CODE else _LINK.sub(mark, words)
    return Line(kind, marked, tuple(links), level, after_blank)
