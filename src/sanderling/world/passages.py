"""Extracts: the passages of a page that serve a goal, without a model.

A page is split into passages (paragraphs, long ones by groups of sentences), each under its heading. Passages are ranked by
BM25 (k1 = 1.2, b = 0.75, statistics of the page itself) over the goal's words, and the best are kept within a budget of words,
in page order; the first passage, which says what the page is about, always is. A page that fits is given whole. Links are kept
whole, count as `inline_links` says, and serve a goal by their words alone. Pure functions.
"""

import math
from dataclasses import dataclass

from sanderling.world.cutting import blocks, pieces
from sanderling.world.inline_links import Prices, affordable, as_read
from sanderling.world.parts import part_cuts, split_page
from sanderling.world.terms import content_terms, words

_K1, _B = 1.2, 0.75
_MOST_GOAL_TERMS = 64
_PASSAGE_WORDS = 60


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a page."""

    text: str
    words: int
    """What it costs."""
    paragraph: int
    """Number of the paragraph it comes from."""
    heading: int
    """Number of the heading it stands under; -1: none."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A page as passages under headings."""

    passages: tuple[Passage, ...]
    headings: tuple[str, ...]
    heading_words: tuple[int, ...]
    """What each heading costs."""


@dataclass(frozen=True, slots=True)
class Extract:
    """What is shown of a page."""

    text: str
    part: int
    """1: it is read from the top; 0: it was chosen for the goal."""
    parts: int
    """In how many parts of the same budget the whole page can be read; 1: this is all of it."""


def outline(prices: Prices, passage_words: int = _PASSAGE_WORDS) -> Outline:
    """Split a page. A page of headings alone has its headings as passages."""
    headings: list[str] = []
    costs: list[int] = []
    passages: list[Passage] = []
    for number, block in enumerate(blocks(prices.text)):
        if block.heading:
            headings.append(prices.text[block.start : block.end])
            costs.append(prices.of(block.start, block.end))
            continue
        for start, end in pieces(prices, block.start, block.end, passage_words):
            passages.append(Passage(prices.text[start:end], prices.of(start, end), number, len(headings) - 1))
    if not passages:
        passages = [Passage(part, costs[n], n, -1) for n, part in enumerate(headings)]
    return Outline(tuple(passages), tuple(headings), tuple(costs))


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
    page = outline(prices, min(_PASSAGE_WORDS, max(max_words // 3, min(8, max_words))))
    scores = _scores(page, goal)
    if any(scores):
        order = sorted((i for i in range(1, len(scores)) if scores[i] > 0), key=lambda i: (-scores[i], i))
    else:
        order = list(range(1, len(page.passages)))
    shown = _render(page, _choose(page, [0, *order], max_words, greedy=any(scores)), max_words)
    return Extract(shown, 0 if any(scores) else 1, len(part_cuts(prices, max_words)))


def _scores(page: Outline, goal: str) -> list[float]:
    asked = content_terms(goal[:8_192], _MOST_GOAL_TERMS)
    if not asked:
        return [0.0] * len(page.passages)
    headings = [words(as_read(heading)) for heading in page.headings]
    bags = [words(as_read(p.text)) + (headings[p.heading] if p.heading >= 0 else []) for p in page.passages]
    mean = sum(map(len, bags)) / len(bags) or 1.0
    sets = [set(bag) for bag in bags]
    holders = {term: sum(1 for bag in sets if term in bag) for term in asked}
    weights = {term: math.log1p((len(bags) - n + 0.5) / (n + 0.5)) for term, n in holders.items() if n}
    scores = []
    for bag, distinct in zip(bags, sets, strict=True):
        length = _K1 * (1 - _B + _B * len(bag) / mean)
        score = 0.0
        for term, weight in weights.items():
            if term in distinct:
                count = bag.count(term)
                score += weight * count * (_K1 + 1) / (count + length)
        scores.append(score)
    return scores


def _choose(page: Outline, order: list[int], max_words: int, *, greedy: bool) -> list[int]:
    """Take passages in order while they fit; ``greedy``: a passage that does not fit is skipped, else it ends the choice."""
    chosen: set[int] = set()
    shown: set[int] = set()
    left = max_words
    for i in order:
        passage = page.passages[i]
        heading = passage.heading
        cost = passage.words + (page.heading_words[heading] if heading >= 0 and heading not in shown else 0)
        if cost <= left:
            chosen.add(i)
            shown.add(heading)
            left -= cost
        elif i == 0:
            chosen.add(i)
            left -= passage.words
        elif not greedy or left < 4:
            break
    return sorted(chosen)


def _render(page: Outline, chosen: list[int], max_words: int) -> str:
    """The chosen passages with their headings; an ellipsis marks sentences left out within a paragraph."""
    parts: list[str] = []
    shown: set[int] = set()
    left = max_words
    before: int | None = None
    for i in chosen:
        passage = page.passages[i]
        heading = passage.heading
        if heading >= 0 and heading not in shown:
            shown.add(heading)
            count = page.heading_words[heading]
            if count + passage.words <= left:
                parts.append(page.headings[heading])
                left -= count
        same = before is not None and page.passages[before].paragraph == passage.paragraph
        if same and parts:
            parts[-1] += (" " if before == i - 1 else " … ") + passage.text
        else:
            parts.append(passage.text)
        left -= passage.words
        before = i
    return "\n\n".join(parts)
