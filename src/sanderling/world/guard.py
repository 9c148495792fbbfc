"""The guard against contamination: what an agent that is measured must not see, decided for each question and written down.

Hidden are addresses that a blocklist names, and texts that hold the question word for word or a benchmark's canary. A leak is a
text that holds all words of the question as one run, or at least half of the question's distinct runs of 13 words and no fewer
than two. Fewer are a quotation, often of the very source from which the question was made: they are reported and hide nothing.
Of questions in scripts without blanks characters are counted, 26 a run. A question of fewer than 8 words (16 characters) is
common property and never found; another question's words hide nothing.

A search page that repeats its address's query is no leak for saying so: in its title and its first line the query does not
count once, where nothing but what such pages say of themselves stands beside it (``Results for … - Search``, the site's own
name). A query that is followed by anything else is not said back but answered. The agent is told nothing: it would look
elsewhere.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import dropwhile
from urllib.parse import parse_qsl, unquote_plus

from sanderling.core.config import Frozen
from sanderling.core.text import question_tokens
from sanderling.world.blocked import Blocklist
from sanderling.world.contract import Occasion, Page, VisitReply

VERSION = 2  # another number where other texts are found
_RUN, _FEWEST = 13, 8
_CUT = 13  # so many words of a longer query make it known: titles are cut
_CHARACTERS = 2  # characters of scripts without blanks that count for a word
_SHORTEST_CANARY = 12  # characters: shorter ones would be found by chance, and are not looked for
_OF_THEMSELVES = frozenset({
    "search", "searches", "searched", "searching", "result", "results", "showing", "found", "find", "for", "of", "the", "your",
    "you", "web", "page", "query", "at", "on", "in", "搜", "索", "结", "果", "的",
})  # fmt: skip
_BEFORE = re.compile(r" (?:(?:results?|search(?:ed|ing)?) (?:found )?for|search query|搜 索) $")
_AFTER = re.compile(r"(?:(?:web )?search(?: results?)?|results?|的? ?搜 索(?: 结 果)?)(?: |$)")
_HOST = re.compile(r"^(?:[a-z][a-z0-9+.\-]*:)?/*(?:[^/?#]*@)?([^/?#:]*)", re.IGNORECASE)


@lru_cache(maxsize=64)
def as_words(text: str) -> str:
    """A text's words as they are compared, with a blank before and after each."""
    return f" {' '.join(question_tokens(text))} "


def without_echo(line: str, asked: Iterable[str], url: str) -> str:
    """A line's words without one echo of each thing that its page's address asked for.

    Example: ``without_echo(" tide tables search ", ["tide tables"], "https://s.example")`` is ``" search "``
    """
    host = _HOST.match(url)
    site = frozenset(question_tokens(host[1].replace(".", " "))) if host else frozenset()

    def names(word: str) -> bool:
        return word in site or not any(character.isalnum() for character in word)

    for query in asked:
        words = query.split()
        start = line.find(f" {query} ")
        if start < 0 and len(words) > _CUT:
            start = line.find(f" {' '.join(words[:_CUT])} ")
        if start < 0:
            continue
        end = start + 1
        for word in words:
            if not line.startswith(f"{word} ", end):
                break
            end += len(word) + 1
        before, after = line[: start + 1], line[end - 1 :]
        alone = all(word in _OF_THEMSELVES or names(word) for word in (*before.split(), *after.split()))
        follows = " ".join(dropwhile(names, after.split()))
        if alone or _BEFORE.search(before) or _AFTER.match(follows):
            line = f"{before}\n{after}" if before.strip() and after.strip() else before if before.strip() else after
    return line


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

    def asked_by(self, url: str) -> list[str]:
        """What of the question an address asks for in its query, in normal form without blanks around it."""
        query = url.partition("#")[0].partition("?")[2]
        texts = (unquote_plus(text) for pair in parse_qsl(query, keep_blank_values=True) for text in pair)
        asked = dict.fromkeys(" ".join(question_tokens(text)) for text in texts)
        return [words for words in asked if words and self.found_in(f" {words} ") is not None]

    def found_on(self, page: VisitReply | Page) -> Found | None:
        """What a page holds of the question, but for what it says back."""
        found = self.found_in(as_words(f"{page.title}\n{page.text}"))
        asked = self.asked_by(page.url) if found else []
        if not asked:
            return found
        first, _, rest = page.text.lstrip().partition("\n")
        kept = [without_echo(as_words(line), asked, page.url) for line in (page.title, first)]
        return self.found_in(f" {' '.join(part.strip(' ') for part in (*kept, as_words(rest)))} ")


class GuardLine(Frozen):
    """One line of ``guard.jsonl``. It holds no text of a page: that would be another copy of what leaked."""

    question: str
    attempt: int
    tool: str
    """"search" or "visit"."""
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
        self,
        blocklist: Blocklist,
        questions: Mapping[str, str],
        canaries: Iterable[str],
        write: Callable[[GuardLine], None],
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
        words = as_words(f"{page.title}\n{page.text}")
        wording = self._wordings.get(occasion.question)
        found = wording.found_on(page) if wording is not None else None
        if any(canary in words for canary in self._canaries):
            found = GuardKind.CANARY, "canary"
        if found is not None and noted:
            sha256 = hashlib.sha256(f"{page.title}\n{page.text}".encode("utf-8", "replace")).hexdigest()
            self._note(occasion, tool, found[0], page.url, found[1], sha256)
        return found is not None and found[0] is not GuardKind.REPORTED

    def _note(self, occasion: Occasion, tool: str, kind: GuardKind, url: str, rule: str, sha256: str = "") -> None:
        question, attempt = occasion.question, occasion.attempt
        self._write(GuardLine(question=question, attempt=attempt, tool=tool, kind=kind, url=url, rule=rule, sha256=sha256))
