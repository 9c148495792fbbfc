"""Extracts: the passages of a page that serve a goal, without a model.

A page is split into passages (`outline`): paragraphs, groups of sentences of long ones, rows of tables, each with the heading
or the table's head above it. Passages are ranked by BM25 (k1 = 1.2, b = 0.75, statistics of the page itself) over the goal's
words, and the best are kept within a budget of words, in page order; the first, which says what the page is about, always is.
Where the budget holds three full passages, a paragraph also counts for something when its neighbours match: prose names its
subject once and then goes on. A page that fits is given whole. Links are kept whole, count as `inline_links` says, and serve a
goal by their words alone. Pure functions.
"""

import math
from dataclasses import dataclass

from sanderling.world.cutting import blocks
from sanderling.world.inline_links import Prices, affordable, as_read
from sanderling.world.outline import Outline, Passage, outline
from sanderling.world.parts import part_cuts, split_page
from sanderling.world.terms import content_terms, words

_K1, _B = 1.2, 0.75
_MOST_GOAL_TERMS = 64
_PASSAGE_WORDS = 60
_LEAD_WORDS = 64
"""Words of a heading or a table's head that count for what stands below it: there can be many thousands of rows."""
_SPREAD = (0.5, 0.25)
"""How much of the score of the passage before or after it, and of the next but one, counts for a passage."""
_GAP, _LINE_GAP, _ROW_GAP = " … ", "\n…\n", "\n| … |\n"


@dataclass(frozen=True, slots=True)
class Extract:
    """What is shown of a page."""

    text: str
    part: int
    """1: it is read from the top; 0: it was chosen for the goal."""
    parts: int
    """In how many parts of the same budget the whole page can be read; 1: this is all of it."""


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
    found_blocks = blocks(prices.text)
    page = outline(prices, found_blocks, passage_words)
    scores = _scores(page, goal, linked=bool(prices.links))
    found = any(scores)
    if found and passage_words == _PASSAGE_WORDS:
        scores = _spread(page, scores)
    rest = range(1, len(scores))
    order = sorted((i for i in rest if scores[i] > 0), key=lambda i: (-scores[i], i)) if found else list(rest)
    shown = _render(page, _choose(page, [0, *order], max_words, greedy=found), max_words)
    return Extract(shown, 0 if found else 1, len(part_cuts(prices, found_blocks, max_words)))


def _scores(page: Outline, goal: str, *, linked: bool) -> list[float]:
    asked = content_terms(goal[:8_192], _MOST_GOAL_TERMS)
    if not asked:
        return [0.0] * len(page.passages)
    read = as_read if linked else str
    leads = [words(read(lead.text))[:_LEAD_WORDS] for lead in page.leads]
    bags = [words(read(p.text)) + [word for lead in p.leads for word in leads[lead]] for p in page.passages]
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


def _spread(page: Outline, scores: list[float]) -> list[float]:
    """Each passage's score and a share of the better of its neighbours'; rows of tables stand for themselves."""
    prose = [0.0 if passage.row else score for passage, score in zip(page.passages, scores, strict=True)]

    def near(i: int, distance: int) -> float:
        return max((prose[k] for k in (i - distance, i + distance) if 0 <= k < len(prose)), default=0.0)

    return [
        score if passage.row else score + sum(share * near(i, d) for d, share in enumerate(_SPREAD, start=1))
        for i, (passage, score) in enumerate(zip(page.passages, scores, strict=True))
    ]


def _choose(page: Outline, order: list[int], max_words: int, *, greedy: bool) -> list[int]:
    """Take passages in order while they fit; ``greedy``: a passage that does not fit is skipped, else it ends the choice."""
    chosen: set[int] = set()
    shown: set[int] = set()
    left = max_words
    for i in order:
        passage = page.passages[i]
        cost = passage.words + sum(page.leads[lead].words for lead in passage.leads if lead not in shown)
        if cost <= left:
            chosen.add(i)
            shown.update(passage.leads)
            left -= cost
        elif i == 0:
            chosen.add(i)
            left -= passage.words
        elif not greedy or left < 4:
            break
    return sorted(chosen)


def _render(page: Outline, chosen: list[int], max_words: int) -> str:
    """The chosen passages with their leads; an ellipsis marks what is left out within a paragraph or a table."""
    parts: list[str] = []
    shown: set[int] = set()
    left = max_words
    before: int | None = None
    for i in chosen:
        passage = page.passages[i]
        glue = ""
        for lead in passage.leads:
            if lead in shown:
                continue
            shown.add(lead)
            count = page.leads[lead].words
            if count + passage.words <= left:
                parts.append(page.leads[lead].text)
                left -= count
                glue = "\n" if passage.row else ""
        if before is not None and not glue:
            glue = _glue(page.passages[before], passage, adjacent=before == i - 1)
        if glue and parts:
            parts[-1] += glue + passage.text
        else:
            parts.append(passage.text)
        left -= passage.words
        before = i
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
