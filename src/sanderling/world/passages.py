"""Extracts: the passages of a page that serve a goal, without a model.

A page is split into passages (paragraphs, long ones by groups of sentences), each under its heading. Passages are ranked by
BM25 (k1 = 1.2, b = 0.75, statistics of the page itself) over the goal's words, and the best are kept within a budget of words,
in page order; the first passage, which says what the page is about, always is. A page that fits is given whole. Pure functions.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise

from sanderling.world.terms import WORD, content_terms, words
from sanderling.world.text import sentences, word_count

_K1, _B = 1.2, 0.75
_MOST_GOAL_TERMS = 64
_PASSAGE_WORDS = 60
_HEADING = re.compile(r"#{1,6}\s+\S")
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a page."""

    text: str
    words: int
    paragraph: int
    """Number of the paragraph it comes from."""
    heading: int
    """Number of the heading it stands under; -1: none."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A page as passages under headings."""

    passages: tuple[Passage, ...]
    headings: tuple[str, ...]


def outline(text: str, passage_words: int = _PASSAGE_WORDS) -> Outline:
    """Split a page. A page of headings alone has its headings as passages."""
    headings: list[str] = []
    passages: list[Passage] = []
    for number, block in enumerate(_paragraphs(text)):
        if _HEADING.match(block):
            headings.append(block)
            continue
        for part in _groups(block, passage_words):
            passages.append(Passage(part, word_count(part), number, len(headings) - 1))
    if not passages:
        passages = [Passage(part, word_count(part), n, -1) for n, part in enumerate(headings)]
    return Outline(tuple(passages), tuple(headings))


def extract(text: str, goal: str, max_words: int) -> str:
    """At most ``max_words`` words of a page, chosen for the goal; without a matching goal, from the top."""
    text = text.strip()
    if word_count(text) <= max_words:
        return text
    page = outline(text, min(_PASSAGE_WORDS, max(max_words // 3, min(8, max_words))))
    scores = _scores(page, goal)
    if any(scores):
        order = sorted((i for i in range(1, len(scores)) if scores[i] > 0), key=lambda i: (-scores[i], i))
    else:
        order = list(range(1, len(page.passages)))
    return _render(page, _choose(page, [0, *order], max_words, greedy=any(scores)), max_words)


def _paragraphs(text: str) -> list[str]:
    """Blocks between blank lines; a heading line is a block of its own."""
    blocks: list[str] = []
    for block in _BLANK_LINES.split(text):
        plain_lines: list[str] = []
        for line in block.strip().splitlines():
            if _HEADING.match(line):
                blocks.append("\n".join(plain_lines))
                plain_lines = []
                blocks.append(line.strip())
            else:
                plain_lines.append(line.rstrip())
        blocks.append("\n".join(plain_lines))
    return [block for block in blocks if block]


def _groups(block: str, most: int) -> list[str]:
    """A paragraph in groups of whole sentences (lists: of lines) of about ``most`` words."""
    if word_count(block) <= most:
        return [block]
    groups: list[str] = []
    size = 0
    for line in block.splitlines():
        opens_line = True
        for unit in (piece for sentence in sentences(line) for piece in _pieces(sentence, most)):
            count = word_count(unit)
            if groups and size + count <= most:
                groups[-1] += ("\n" if opens_line else " ") + unit
                size += count
            else:
                groups.append(unit)
                size = count
            opens_line = False
    return groups


def _pieces(sentence: str, most: int) -> list[str]:
    """A sentence, or its parts when it is longer than ``most`` words (tables, lists without full stops, noise)."""
    found = list(WORD.finditer(sentence))
    if len(found) <= most:
        return [sentence]
    cuts = [0, *(found[i].start() for i in range(most, len(found), most)), len(sentence)]
    return [sentence[a:b].strip() for a, b in pairwise(cuts)]


def _scores(page: Outline, goal: str) -> list[float]:
    asked = content_terms(goal[:8_192], _MOST_GOAL_TERMS)
    if not asked:
        return [0.0] * len(page.passages)
    headings = [words(heading) for heading in page.headings]
    bags = [words(p.text) + (headings[p.heading] if p.heading >= 0 else []) for p in page.passages]
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
        cost = passage.words + (word_count(page.headings[heading]) if heading >= 0 and heading not in shown else 0)
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
            count = word_count(page.headings[heading])
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
