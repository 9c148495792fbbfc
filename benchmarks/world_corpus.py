"""Pages and queries for measuring worlds: invented words by Zipf's law, seeded, streamed, of any number.

A page has about 300 words (log-normal), drawn with P(rank) ~ 1/rank from 300,000 word types: sentences, capitals, three links
in Markdown. Common words are short. None is an English stop word: what a query builder knows of English helps nobody here, so
queries with common words are the hard case, and those without are what is left of a question once its stop words are gone.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice

import numpy as np

from sanderling.world.contract import Page
from sanderling.world.text import STOP_WORDS

WORD_TYPES = 300_000
MEAN_WORDS = 300
SPREAD = 0.45
SENTENCE = 15
LINKS = 3
COMMON_RANKS = 50
RARE_RANKS = (1_000, 100_000)
_BLOCK = 500
_SYLLABLES = [c + v for c in "bcdfghjklmnprstvz" for v in ("a", "e", "i", "o", "u", "ar", "en")]
_PLURAL_EVERY, _PLURAL_FROM = 12, 300


@cache
def vocabulary() -> tuple[str, ...]:
    """All word types, the most frequent first, of one to three syllables; every twelfth is the plural of the one before."""
    words = list(_SYLLABLES)
    rng, base = random.Random(0), len(_SYLLABLES)
    words += [_SYLLABLES[n // base] + _SYLLABLES[n % base] for n in rng.sample(range(base**2), base**2)]
    longer = rng.sample(range(base**3), WORD_TYPES)
    words += [_SYLLABLES[n // base**2] + _SYLLABLES[n // base % base] + _SYLLABLES[n % base] for n in longer]
    words = [word for word in words if word not in STOP_WORDS]
    for place in range(_PLURAL_FROM, WORD_TYPES, _PLURAL_EVERY):
        words[place] = words[place - 1] + "s"
    return tuple(words[:WORD_TYPES])


@cache
def _cumulative() -> np.ndarray:
    shares = 1.0 / np.arange(1, WORD_TYPES + 1)
    return np.cumsum(shares / shares.sum())


@cache
def _forms() -> np.ndarray:
    """The vocabulary as it stands within, at the beginning, at the end, and alone in a sentence."""
    plain = vocabulary()
    capital = [word.capitalize() for word in plain]
    return np.array([*plain, *capital, *[w + "." for w in plain], *[w + "." for w in capital]], dtype=object)


def url(number: int) -> str:
    """The address of a page."""
    return f"https://corpus.example/{number % 997}/page-{number}"


def number_of(address: str) -> int:
    """The number of the page of an address."""
    return int(address.rpartition("-")[2])


def pages(count: int, seed: int = 0) -> Iterator[Page]:
    """The first ``count`` pages; a page does not depend on how many follow."""
    blocks = (page for block in range(-(-count // _BLOCK)) for page in _block(block, seed))
    return islice(blocks, count)


def _block(block: int, seed: int) -> Iterator[Page]:
    rng = np.random.default_rng([seed, block])
    sizes = np.maximum(rng.lognormal(np.log(MEAN_WORDS) - SPREAD**2 / 2, SPREAD, _BLOCK).astype(int), 2 * SENTENCE)
    total = int(sizes.sum())
    ranks = np.searchsorted(_cumulative(), rng.random(total))
    ends = rng.random(total) < 1 / SENTENCE
    ends[np.cumsum(sizes) - 1] = True
    begins = np.roll(ends, 1)
    words = _forms()[ranks + WORD_TYPES * begins + 2 * WORD_TYPES * ends].tolist()
    titles = _forms()[WORD_TYPES + rng.integers(*RARE_RANKS, (_BLOCK, 2))].tolist()
    targets = rng.integers(0, max(block * _BLOCK, _BLOCK), (_BLOCK, LINKS)).tolist()
    start = 0
    for place, size in enumerate(sizes.tolist()):
        title = " ".join(titles[place])
        half = start + size // 2
        links = " ".join(f"[{words[half + i].strip('.')}]({url(target)})" for i, target in enumerate(targets[place]))
        text = f"# {title}\n\n{' '.join(words[start:half])}\n\n{links}\n\n{' '.join(words[half : start + size])}\n"
        yield Page(url=url(block * _BLOCK + place), title=title, text=text)
        start += size


def queries(count: int, seed: int = 0, *, common: int = 5) -> list[str]:
    """Queries of five rarer words (ranks 1,000 to 100,000, log-uniform) and ``common`` of the fifty most frequent, shuffled."""
    words, rng = vocabulary(), random.Random(f"queries {seed} {common}")
    low, high = np.log(RARE_RANKS)
    found = []
    for _ in range(count):
        asked = [words[int(np.exp(rng.uniform(low, high)))] for _ in range(5)]
        asked += [words[rank] for rank in rng.sample(range(COMMON_RANKS), common)]
        rng.shuffle(asked)
        found.append(" ".join(asked))
    return found
