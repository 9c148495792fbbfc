"""Reading a long page on: its parts, in page order, and the addresses that ask for them.

A part is asked for by the fragment ``#page=N`` (RFC 8118 has this form for PDF), which any client can say and no key of a page
holds. Parts of a budget of words partition the page: joined, they are the page. They end between paragraphs, and a heading goes
with what stands below it; only what so costs more than the budget is cut, between lines, sentences or words, never within a
link. A link that alone costs more than the budget is given without its address. Pure functions; knows no goal.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from sanderling.world.cutting import Block, blocks, pieces
from sanderling.world.inline_links import Prices, affordable

_ASKED = re.compile(r"page=([0-9]{1,9})")


def asked_part(url: str) -> int:
    """Which part an address asks for, from 1; 0: none."""
    if "#" not in url:
        return 0
    options = url.strip().rpartition("#")[2].split("&")
    asked = [int(found[1]) for found in map(_ASKED.fullmatch, options) if found]
    return asked[-1] if asked else 0


def part_address(url: str, part: int) -> str:
    """The address of a part of a page."""
    return f"{url.partition('#')[0]}#page={part}"


def page_address(url: str) -> str:
    """The address of the page that an address asks a part of; every other address is its own."""
    return url.partition("#")[0] if asked_part(url) else url


def same_part(asked: str, url: str) -> str:
    """The address of the part of another page that an address asks for of its own."""
    part = asked_part(asked)
    return part_address(url, part) if part else url


def split_page(text: str, max_words: int) -> tuple[str, ...]:
    """The parts of a page: at least one, each of at most ``max_words`` words, together the whole text."""
    prices = affordable(Prices(text), max_words)
    cuts = part_cuts(prices, blocks(prices.text), max_words)
    return tuple(prices.text[a:b] for a, b in pairwise([*cuts, len(prices.text)]))


def part_cuts(prices: Prices, page: Sequence[Block], max_words: int) -> list[int]:
    """Where the parts of a text of these blocks begin, the first at 0; no link in it costs more than ``max_words``."""
    cuts = [0]
    for start, end in _chunks(prices, page, max_words):
        if start > cuts[-1] and prices.of(cuts[-1], end) > max_words and prices.of(cuts[-1], start):
            cuts.append(start)
    return cuts


def _chunks(prices: Prices, page: Sequence[Block], most: int) -> list[tuple[int, int]]:
    """Paragraphs with the headings above them, cut where they cost more than ``most``."""
    chunks: list[tuple[int, int]] = []
    opened: int | None = None
    for i, block in enumerate(page):
        start = block.start if opened is None else opened
        opened = start if block.heading and i + 1 < len(page) else None
        if opened is None:
            chunks += pieces(prices, start, block.end, most)
    return chunks
