"""Whether a text holds a question word for word, as pages do that repeat a benchmark.

A leak is a text that holds all words of the question as one run, or at least half of the question's distinct runs of 13 words
and no fewer than two. Fewer are a quotation: often of the very source from which the question was made, so that they are told
and hide nothing. Of questions in scripts without blanks characters are counted, 26 a run. A question of fewer than 8 words (16
characters) is common property and never found. Words are compared as `question_tokens` has them, without case and punctuation.

A page that repeats its address's query is no leak for saying so: in its title and its first line the query does not count once,
where nothing but what search pages say of themselves stands beside it (`echoes`). A benchmark's canary is found whatever else a
text says. Pure; knows no page store and no log.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sanderling.core.text import question_tokens
from sanderling.world.echoes import asked_by, site_words, without_echo

VERSION = 2
"""Another number where other texts are found."""
_RUN, _FEWEST = 13, 8
_CHARACTERS = 2
"""Characters of scripts without blanks that count for a word."""
_SHORTEST_CANARY = 12


@dataclass(frozen=True)
class Found:
    """What a text holds of a question."""

    leak: bool
    what: str
    """For people: ``whole question``, ``7 of 12 runs``."""


@dataclass(frozen=True)
class Wording:
    """A question as it is looked for."""

    whole: str
    """Its words between single blanks; empty: too short to be told from common phrases."""
    runs: tuple[str, ...]
    """The different ones, in order."""

    @classmethod
    def of(cls, question: str) -> "Wording":
        """The words of a question."""
        words = question_tokens(question)
        characters = sum(len(word) == 1 and not word.isascii() for word in words)
        each = _CHARACTERS if 2 * characters > len(words) else 1
        if len(words) < _FEWEST * each:
            return cls("", ())
        size = _RUN * each
        runs = (" ".join(words[start : start + size]) for start in range(len(words) - size + 1))
        return cls(" ".join(words), tuple(dict.fromkeys(runs)))

    def found_in(self, words: str) -> Found | None:
        """What words in normal form (`as_words`) hold of the question; None: nothing to speak of."""
        if not self.whole:
            return None
        if f" {self.whole} " in words:
            return Found(True, "whole question")
        held = sum(f" {run} " in words for run in self.runs)
        if not held:
            return None
        return Found(held >= max(2, math.ceil(len(self.runs) / 2)), f"{held} of {len(self.runs)} runs")

    def found_on(self, url: str, title: str, text: str) -> Found | None:
        """What a page holds of the question."""
        if not self.whole:
            return None
        found = self.found_in(as_words(f"{title}\n{text}"))
        asked = [words for words in asked_by(url) if self.found_in(f" {words} ") is not None] if found else []
        if not asked:
            return found
        first, _, rest = text.lstrip().partition("\n")
        kept = [without_echo(as_words(line), asked, site_words(url)) for line in (title, first)]
        return self.found_in(f" {' '.join(part.strip(' ') for part in (*kept, as_words(rest)))} ")


class Canaries:
    """Strings that a benchmark's publisher put beside its texts, so that copies can be told.

    Shorter than 12 characters they would be found by chance, and are not looked for.
    """

    def __init__(self, canaries: Iterable[str]) -> None:
        self._by_word: dict[str, list[str]] = {}
        for words in dict.fromkeys(" ".join(question_tokens(canary)) for canary in canaries):
            if len(words) >= _SHORTEST_CANARY:
                self._by_word.setdefault(max(words.split(), key=len), []).append(words)

    def in_words(self, words: str) -> bool:
        """Whether one stands in words in normal form (`as_words`)."""
        if not self._by_word:
            return False
        held = self._by_word.keys() & set(words.split())
        return any(f" {canary} " in words for word in held for canary in self._by_word[word])


@lru_cache(maxsize=64)
def as_words(text: str) -> str:
    """A text's words as they are compared, with a blank before and after each."""
    return f" {' '.join(question_tokens(text))} "
