"""The guard against contamination: what an agent that is measured must not see, decided for each question and written down.

Hidden are addresses that a blocklist names, and texts that hold the question word for word or a benchmark's canary. A leak is a
text that holds all words of the question as one run, or at least half of the question's distinct runs of 13 words and no fewer
than two. Fewer are a quotation, often of the very source from which the question was made: they are reported and hide nothing.
Of questions in scripts without blanks characters are counted, 26 a run. A question of fewer than 8 words (16 characters) is
common property and never found; another question's words hide nothing. The agent is told nothing: it would look elsewhere.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from sanderling.core.config import Frozen
from sanderling.core.text import question_tokens
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import Occasion, VisitReply

VERSION = 2  # another number where other texts are found
_RUN, _FEWEST = 13, 8
_CHARACTERS = 2  # characters of scripts without blanks that count for a word
_SHORTEST_CANARY = 12  # characters: shorter ones would be found by chance, and are not looked for


@lru_cache(maxsize=64)
def as_words(text: str) -> str:
    """A text's words as they are compared, with a blank before and after each."""
    return f" {' '.join(question_tokens(text))} "


class GuardKind(StrEnum):
    """Why something was written down."""

    ADDRESS = "address"
    VERBATIM = "verbatim"
    CANARY = "canary"
    REPORTED = "reported"  # it was shown


Found = tuple[GuardKind, str]
"""What a text holds of a question: VERBATIM or REPORTED, and in words: ``whole question``, ``7 of 12 runs``."""


@dataclass(frozen=True)
class Wording:
    """A question as it is looked for, word for word."""

    whole: str  # its words between single blanks; empty: too short to be told from common phrases
    runs: tuple[str, ...]  # the different ones, in order

    @classmethod
    def of(cls, question: str) -> "Wording":
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
            return GuardKind.VERBATIM, "whole question"
        held = sum(f" {run} " in words for run in self.runs)
        leak = held >= max(2, math.ceil(len(self.runs) / 2))
        return (GuardKind.VERBATIM if leak else GuardKind.REPORTED, f"{held} of {len(self.runs)} runs") if held else None


class GuardLine(Frozen):
    """One line of ``guard.jsonl``. It holds no text of a page: that would be another copy of what leaked."""

    question: str
    attempt: int
    tool: str  # "search" or "visit"
    kind: GuardKind
    url: str
    rule: str  # the blocklist's, or how much of the question was found
    sha256: str = ""  # of title and text, a line each; empty where the address alone decided


class Guard:
    """What is hidden in one run.

    Args:
        blocklist: addresses that nobody may see.
        questions: texts by id, of those whose copies are hidden; others are only kept from addresses and canaries.
        canaries: strings that a benchmark's publisher put beside its texts, so that copies can be told.
        write: takes the line of each thing that is hidden or reported, before the agent sees the rest.

    Example: ``Guard(Blocklist.parse("leaks.example"), {"q1": "Who?"}, (), lambda line: log.append(line.model_dump()))``

    """

    def __init__(
        self, blocklist: Blocklist, questions: Mapping[str, str], canaries: Iterable[str], write: Callable[[GuardLine], None]
    ) -> None:
        canaries = sorted(set(canaries))
        self.blocklist = blocklist
        self._wordings = {id: Wording.of(text) for id, text in questions.items()}
        self.texts = {id: text for id, text in questions.items() if self._wordings[id].whole}
        """By id, of the questions that pages may repeat: the words to look for such pages."""
        self._canaries = [words for canary in canaries if len(words := as_words(canary)) >= _SHORTEST_CANARY + 2]
        self._write = write
        paths = [sorted(blocklist.hosts), sorted(blocklist.prefixes), sorted(blocklist.paths)]
        rules = [VERSION, *paths, canaries, bool(questions)]
        self.fingerprint = hashlib.sha256(repr(rules).encode("utf-8", "replace")).hexdigest()
        """Of the rules; what they come to for a question follows from its text."""

    def hides_address(self, occasion: Occasion, tool: str, url: str) -> bool:
        """Whether an address is blocked; written down if so."""
        rule = self.blocklist.rule_for(url)
        if rule:
            self._note(occasion, tool, GuardKind.ADDRESS, url, rule)
        return bool(rule)

    def hides(self, occasion: Occasion, tool: str, page: VisitReply, *, noted: bool = True) -> bool:
        """Whether a page is one that the question must not see; ``noted``: written down if so, or if it quotes the question."""
        text = f"{page.title}\n{page.text}"
        words, wording = as_words(text), self._wordings.get(occasion.question)
        found = wording.found_in(words) if wording is not None else None
        if any(canary in words for canary in self._canaries):
            found = GuardKind.CANARY, "canary"
        if found is not None and noted:
            sha256 = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
            self._note(occasion, tool, found[0], page.url, found[1], sha256)
        return found is not None and found[0] is not GuardKind.REPORTED

    def _note(self, occasion: Occasion, tool: str, kind: GuardKind, url: str, rule: str, sha256: str = "") -> None:
        question, attempt = occasion.question, occasion.attempt
        self._write(GuardLine(question=question, attempt=attempt, tool=tool, kind=kind, url=url, rule=rule, sha256=sha256))
