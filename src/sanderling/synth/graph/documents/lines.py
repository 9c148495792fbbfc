"""The words of every line of a world, and where each word is: for asking which lines hold all of some words.

Words are numbered; a line is a sorted run of numbers in one array, and so are the lines of a word in another, so that a world
of 24 MB takes some tens of megabytes. A line holds a word or does not: neither order nor number is kept. Knows no names.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sanderling.core.text import SUFFIX
from sanderling.synth.graph.documents.blocks import lines_of
from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page

Numbers = NDArray[np.uint32]
_WORD = re.compile(rf"v(?=\d+\.\d)|\d+(?:\.\d+)+|\w+{SUFFIX}")
"""A version is one word, with or without a v before it: 3.3 is not in 3.30, nor in 3.3.1."""
_NOWHERE: Numbers = np.zeros(0, np.uint32)


def words_in(text: str) -> list[str]:
    """The words of a text, as they are compared."""
    return _WORD.findall(text.casefold())


class Lines:
    """Lines by number, in the order of the pages."""

    def __init__(self, words: dict[str, int], held: Numbers, starts: Numbers, urls: list[str], firsts: list[int]) -> None:
        self._words = words
        """Word to its number."""
        self._held = held
        """The words of line after line, each line's in ascending order."""
        self._starts = starts
        """Where each line begins there, and where the last one ends."""
        self._urls = urls
        self._firsts = firsts
        """The first line of each page, and how many lines there are."""
        self._of_page = {canonical_url(url): range(*ends) for url, *ends in zip(urls, firsts[:-1], firsts[1:], strict=True)}
        self._holders, self._places = _turned(held, starts, len(words))

    @classmethod
    def of(cls, pages: Iterable[Page]) -> "Lines":
        """Read pages."""
        words: dict[str, int] = {}
        held, starts = array("I"), array("I", [0])
        urls: list[str] = []
        firsts = [0]
        for page in pages:
            for line in lines_of(page.text):
                held.extend(sorted({words.setdefault(word, len(words)) for word in words_in(line.text)}))
                starts.append(len(held))
            urls.append(page.url)
            firsts.append(len(starts) - 1)
        return cls(words, np.array(held, np.uint32), np.array(starts, np.uint32), urls, firsts)

    def page_of(self, line: int) -> str:
        """The address of the page on which a line is."""
        return self._urls[bisect_right(self._firsts, line) - 1]

    def of_page(self, url: str) -> range:
        """The lines of a page; none of an unknown one."""
        return self._of_page.get(canonical_url(url), range(0))

    def words(self, line: int) -> frozenset[int]:
        """The numbers of a line's words."""
        return frozenset(self._held[self._starts[line] : self._starts[line + 1]].tolist())

    def numbers(self, words: Iterable[str]) -> frozenset[int] | None:
        """The numbers of words; None when no line holds one of them."""
        found = {self._words.get(word) for word in words}
        return None if None in found else frozenset(number for number in found if number is not None)

    def count(self, word: int) -> int:
        """How many lines hold a word, by its number."""
        return int(self._places[word + 1] - self._places[word])

    def holding(self, words: Iterable[str], within: range | None = None) -> list[int]:
        """The lines that hold all these words, in order; ``within``: of these lines. No words: no lines."""
        numbers = sorted(self.numbers(words) or (), key=self.count)
        if not numbers:
            return []
        found = self._lines_with(numbers[0])
        if within is not None:
            found = found[np.searchsorted(found, within.start) : np.searchsorted(found, within.stop)]
        for number in numbers[1:]:
            others = self._lines_with(number)
            at = np.minimum(np.searchsorted(others, found), len(others) - 1)
            found = found[others[at] == found]
        return found.tolist()

    def _lines_with(self, word: int) -> Numbers:
        return self._holders[self._places[word] : self._places[word + 1]]


def _turned(held: Numbers, starts: Numbers, words: int) -> tuple[Numbers, Numbers]:
    """The lines of word after word, each word's in ascending order; and where each word's begin, and the last one's end."""
    if not len(held):
        return _NOWHERE, np.zeros(words + 1, np.uint32)
    lines = np.repeat(np.arange(len(starts) - 1, dtype=np.uint32), np.diff(starts))
    places = np.zeros(words + 1, np.uint32)
    np.cumsum(np.bincount(held, minlength=words), out=places[1:])
    return lines[np.argsort(held, kind="stable")], places
