"""What is shown of a page for a goal: an extract. Without a model, and deterministic.

A page is split into passages: paragraphs, groups of sentences of long ones, rows of tables, each with the
heading or the table's head above it. They are ranked by BM25 (statistics of the page itself) over the goal's words, and the
best are kept within a budget of words, in page order; the first always is. Where the budget holds three full passages, a
paragraph also counts for something when its neighbours match. A page that fits is given whole; links are kept whole.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sanderling.world.cutting import Block, Prices, Stretch, affordable, as_read, blocks, part_cuts, pieces, split_page
from sanderling.world.text import content_terms, words

_LINE = re.compile(r"[^\n]+")
_LEAST_LINES = 3
_RULE = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_K1, _B = 1.2, 0.75
_MOST_GOAL_TERMS = 64
_PASSAGE_WORDS = 60
_LEAD_WORDS = 64  # words of a heading or a table's head that count for what stands below it
_SPREAD = (0.5, 0.25)  # of the score of the passage before or after it, and of the next but one, counts for a passage
_INDENT = 40  # blanks before a line that are kept: of code, which they are a part of, and of lists in lists
_GAP, _LINE_GAP, _ROW_GAP = " … ", "\n…\n", "\n| … |\n"


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A stretch of a page; a heading or a table's head is one too, and leads those below it."""

    text: str
    words: int  # what it costs
    paragraph: int  # number of the paragraph it comes from
    leads: tuple["Passage", ...] = ()  # what it is read with, outermost first
    row: bool = False  # whether it is a row of a table
    line: bool = False  # whether it begins a line of its paragraph


@dataclass(frozen=True, slots=True)
class Extract:
    """What is shown of a page."""

    text: str
    part: int  # 1: it is read from the top; 0: it was chosen for the goal
    parts: int  # in how many parts of the same budget the whole page can be read; 1: this is all of it


def read_page(text: str, goal: str, part: int, max_words: int) -> Extract:
    """An extract for the goal (``part`` 0), or a part of the page; past the last part the text is empty."""
    if not part:
        return extract(text, goal, max_words)
    parts = split_page(text.strip(), max_words)
    return Extract(parts[part - 1].strip() if part <= len(parts) else "", part, len(parts))


def extract(text: str, goal: str, max_words: int) -> Extract:
    """At most ``max_words`` words of a page, chosen for the goal; without a matching goal, from the top."""
    text = text.strip()
    prices = affordable(Prices(text), max_words)
    if prices.whole <= max_words:
        return Extract(prices.text, 1, 1)
    passage_words = min(_PASSAGE_WORDS, max(max_words // 3, min(8, max_words)))
    page = blocks(prices.text)
    passages = _outline(prices, page, passage_words)
    scores = _scores(passages, goal, linked=bool(prices.links))
    found = any(scores)
    if found and passage_words == _PASSAGE_WORDS:
        scores = _spread(passages, scores)
    order = list(range(1, len(scores)))
    if found:
        order = sorted((i for i in order if scores[i] > 0), key=lambda i: (-scores[i], i))
    shown = _render(passages, _choose(passages, [0, *order], max_words, greedy=found), max_words)
    return Extract(shown, 0 if found else 1, len(part_cuts(prices, page, max_words)))


def _outline(prices: Prices, page: Sequence[Block], passage_words: int) -> list[Passage]:
    """Split a page, of which the blocks are given. A page of headings alone has its headings as passages."""
    leads: list[Passage] = []
    passages: list[Passage] = []
    heading: tuple[Passage, ...] = ()

    def lead(start: int, end: int) -> Passage:
        leads.append(Passage(prices.text[start:end], prices.of(start, end), len(leads)))
        return leads[-1]

    def add(stretch: Stretch, paragraph: int, above: tuple[Passage, ...], *, row: bool) -> None:
        for start, end in pieces(prices, *stretch, passage_words):
            before = prices.text[max(start - _INDENT - 1, 0) : start]
            indent = before.rpartition("\n")[2]
            line = not start or ("\n" in before and not indent.strip())
            text = prices.text[start - len(indent) if line else start : end]
            passages.append(Passage(text, prices.of(start, end), paragraph, above, row, line))

    for number, block in enumerate(page):
        if block.heading:
            heading = (lead(block.start, block.end),)
        elif (table := _table(prices, block)) is None:
            add((block.start, block.end), number, heading, row=False)
        else:
            head, rows = table
            if block.start < head[0]:
                add((block.start, head[0]), number, heading, row=False)
            above = (*heading, lead(*head))
            for row in rows:
                add(row, number, above, row=True)
    return passages or leads


def _table(prices: Prices, block: Block) -> tuple[Stretch, list[Stretch]] | None:
    """The head of a table (names of columns, and the rule below if there is one) and its rows; None for what is no table.

    Without a rule, three lines and more of as many cells each, to the end of the paragraph, are a table.
    """
    text = prices.text
    if "|" not in text[block.start : block.end]:
        return None
    found = (line for line in _LINE.finditer(text, block.start, block.end) if line[0].strip())
    lines = [line.span() for line in found if prices.may_cut(line.start())]
    for i in range(1, len(lines) - 1):
        rule = text[slice(*lines[i])]
        if "|" in rule and _RULE.fullmatch(rule) and "|" in text[slice(*lines[i - 1])]:
            return (lines[i - 1][0], lines[i][1]), lines[i + 1 :]
    cells = [text.count(" | ", *line) for line in lines]
    first = len(lines)
    while first and cells[first - 1] == cells[-1] > 0:
        first -= 1
    return (lines[first], lines[first + 1 :]) if len(lines) - first >= _LEAST_LINES else None


def _scores(passages: Sequence[Passage], goal: str, *, linked: bool) -> list[float]:
    asked = content_terms(goal[:8_192], _MOST_GOAL_TERMS)
    if not asked:
        return [0.0] * len(passages)
    read = as_read if linked else str
    leads = {lead: words(read(lead.text))[:_LEAD_WORDS] for lead in {lead for p in passages for lead in p.leads}}
    bags = [Counter(words(read(p.text)) + [word for lead in p.leads for word in leads[lead]]) for p in passages]
    totals = [bag.total() for bag in bags]
    mean = sum(totals) / len(bags) or 1.0
    held = {term: n for term in asked if (n := sum([term in bag for bag in bags]))}
    weights = {term: math.log1p((len(bags) - n + 0.5) / (n + 0.5)) for term, n in held.items()}
    scores = []
    for bag, total in zip(bags, totals, strict=True):
        length = _K1 * (1 - _B + _B * total / mean)
        score = 0.0
        for term, weight in weights.items():
            score += weight * bag[term] * (_K1 + 1) / (bag[term] + length)
        scores.append(score)
    return scores


def _spread(passages: Sequence[Passage], scores: list[float]) -> list[float]:
    """Each passage's score and a share of the better of its neighbours'; rows of tables stand for themselves."""
    prose = [0.0 if passage.row else score for passage, score in zip(passages, scores, strict=True)]

    def near(i: int, distance: int) -> float:
        return max((prose[k] for k in (i - distance, i + distance) if 0 <= k < len(prose)), default=0.0)

    return [
        score if passage.row else score + sum(share * near(i, d) for d, share in enumerate(_SPREAD, start=1))
        for i, (passage, score) in enumerate(zip(passages, scores, strict=True))
    ]


def _choose(passages: Sequence[Passage], order: list[int], max_words: int, *, greedy: bool) -> list[int]:
    """Take passages in order while they fit; ``greedy``: a passage that does not fit is skipped, else it ends the choice."""
    chosen: list[int] = []
    shown: set[Passage] = set()
    left = max_words
    for i in order:
        passage = passages[i]
        cost = passage.words + sum(lead.words for lead in passage.leads if lead not in shown)
        if cost <= left:
            chosen.append(i)
            shown.update(passage.leads)
            left -= cost
        elif i == 0:
            chosen.append(i)
            left -= passage.words
        elif not greedy or left < 4:
            break
    return sorted(chosen)


def _render(passages: Sequence[Passage], chosen: list[int], max_words: int) -> str:
    """The chosen passages with their leads; an ellipsis marks what is left out within a paragraph or a table."""
    parts: list[str] = []
    shown: set[Passage] = set()
    left = max_words
    for i, before in zip(chosen, [None, *chosen], strict=False):
        passage = passages[i]
        glue = ""
        for lead in passage.leads:
            if lead not in shown and lead.words + passage.words <= left:
                parts.append(lead.text)
                left -= lead.words
                glue = "\n" if passage.row else ""
            shown.add(lead)
        if before is not None and not glue:
            glue = _glue(passages[before], passage, adjacent=before == i - 1)
        if glue and parts:
            parts[-1] += glue + passage.text
        else:
            parts.append(passage.text)
        left -= passage.words
    return "\n\n".join(parts)


def _glue(before: Passage, passage: Passage, *, adjacent: bool) -> str:
    """What stands between two chosen passages of one paragraph; empty: they are paragraphs of their own."""
    if before.paragraph != passage.paragraph or before.row != passage.row:
        return ""
    if passage.row:
        return "\n" if adjacent else _ROW_GAP
    if passage.line:
        return "\n" if adjacent else _LINE_GAP
    return " " if adjacent else _GAP
