"""What an agent that is measured must not see: addresses that a blocklist names, and texts that repeat its question.

**Blocklist.** A rule is a host with everything below it, a host with the beginning of a path, or ``*/path`` on any host.
``www.``, letter case, ports, users, empty segments and escapes mean nothing, nor do a hub's ``/api/`` and a repository's
mirrors. An address is blocked too when one that it carries is: behind archives, reader proxies, translators and redirectors, up
to three deep.

**Guard.** Decided for each question and written down. A leak is a text that holds all words of the question as one run, at
least half of its distinct runs of 13 words and no fewer than two, or a benchmark's canary. Fewer runs are a quotation, often of
the very source from which the question was made: they are reported and hide nothing. Of questions in scripts without blanks
characters are counted, 26 a run. A question of fewer than 8 words (16 characters) is common property and never found; another
question's words hide nothing. The agent is told nothing: it would look elsewhere.
"""

import hashlib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, unquote_plus

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.text import question_tokens
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Occasion, VisitReply

_SITES = tomllib.loads(Path(__file__).with_name("blocked.toml").read_text(encoding="utf-8"))
_DEEPEST = 3
_MOST_WITHIN = 8  # addresses that one carries side by side: what carries more was not written by anybody
_MOST_OF_A_LAYER = 64  # addresses that all those of one depth carry together
_LONGEST = 8_192  # characters of an address that are looked at
_ENDS = r"(?=$|[/?@:;&]|\.git(?:$|[/?]))"  # what may follow a rule's path
_API = re.compile(r"/api(?:/v\d+|/i)?(?=/)")
_TRANSLATED = ".translate.goog"
_ADDRESS = re.compile(r"(?<![a-z])https?:/+", re.IGNORECASE)
_BARE = re.compile(r"[/=:?&]/{0,2}(?=(?:[\w\-]+\.)+[a-z]{2,}(?:[/:?&#]|$))", re.IGNORECASE)
_BARE_WITH_PATH = re.compile(r"(?:(?<!/wiki)/|[=:?&])/{0,2}(?=(?:[\w\-]+\.)+[a-z]{2,}(?::\d+)?/+[^/?#&])", re.IGNORECASE)
"""An address without a scheme, as proxies that nobody listed take it."""
_SHOWN_BY = re.compile(r"^(?:[a-z][a-z\-]*:)+(?=https?:)", re.IGNORECASE)
"""What browsers put before an address, such as ``view-source:``."""
_ESCAPED = 3  # times that a path may be escaped
_BACKSLASH = re.compile(r"\\|%5c", re.IGNORECASE)
_PARTS = re.compile(r"(?:[a-z][a-z0-9+.\-]*:)?/*([^/?\\]*)([^?]*)(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Blocklist:
    """Sites that no question may see, such as those that repeat a benchmark's questions with their answers."""

    hosts: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()  # canonical URLs
    paths: tuple[str, ...] = ()  # beginnings of paths that are blocked on every host

    @classmethod
    def parse(cls, text: str) -> "Blocklist":
        """One host, URL or ``*/path`` a line; ``#`` begins a comment. Raises UserError for a line that would block nothing."""
        hosts: list[str] = []
        prefixes: list[str] = []
        paths: list[str] = []
        for number, written in enumerate(text.splitlines(), start=1):
            line = re.split(r"(?:^|\s)#", written)[0].strip()
            key = canonical_url(re.sub(r"^((?:https?://)?)\*?\.", r"\1", line if "/" in line else line.rstrip(".")))
            if re.fullmatch(r"\*/[^/?\s*]\S*", line):
                paths.append(line[1:].rstrip("/"))
            elif line and (" " in line or not re.fullmatch(r"[a-z][a-z0-9+.\-]*://[^/?\s*]+(?:[/?]\S*)?", key)):
                raise UserError(
                    f"Line {number} of the blocklist, {line[:80]!r}, is neither a host, a URL nor */path: write one of them."
                )
            elif re.fullmatch(r"https://[^/?]+", key):
                hosts.append(key.removeprefix("https://"))
            elif line:
                prefixes.append(key)
        return cls(frozenset(hosts), tuple(prefixes), tuple(paths))

    def __bool__(self) -> bool:
        return bool(self.hosts or self.prefixes or self.paths)

    def __or__(self, other: "Blocklist") -> "Blocklist":
        prefixes = dict.fromkeys((*self.prefixes, *other.prefixes))
        return Blocklist(self.hosts | other.hosts, tuple(prefixes), tuple(dict.fromkeys((*self.paths, *other.paths))))

    def blocks(self, url: str) -> bool:
        return bool(self.rule_for(url))

    def rule_for(self, url: str) -> str:
        """The rule that blocks an address, in lower case; empty: none does."""
        for host, path in spots(url) if self else ():
            labels = host.split(".")
            names = (".".join(labels[start:]) for start in range(len(labels)))
            if name := next((name for name in names if name in self.hosts), ""):
                return name
            for rule in self._below.get(host, ()):
                if re.match(re.escape(rule) + _ENDS, path):
                    return f"{host}{rule}"
            if found := self._anywhere.match(_API.sub("", path, count=1) if path.startswith("/api") else path):
                return f"*{found[0]}"
        return ""

    @cached_property
    def _below(self) -> dict[str, tuple[str, ...]]:
        """Of each host the beginnings of paths that ``prefixes`` block there."""
        below: dict[str, dict[str, None]] = {}
        for prefix in self.prefixes:
            for host, path in _own_spots(canonical_url(prefix)):
                below.setdefault(host, {})[path.rstrip("/")] = None
        return {host: tuple(paths) for host, paths in below.items()}

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        """Matches a path that ``paths`` block on every host; without any, nothing."""
        paths = "|".join(re.escape(_path(path)) for path in self.paths)
        return re.compile(f"(?:{paths}){_ENDS}" if paths else r"(?!)")


@lru_cache(maxsize=32_768)
def spots(url: str) -> tuple[tuple[str, str], ...]:
    """Hosts and paths (with their queries) that an address leads to: its own, its twins', and of those that it carries."""
    found: dict[tuple[str, str], None] = {}
    seen: dict[str, None] = {}
    layer = [_SHOWN_BY.sub("", url.strip()[:_LONGEST])]
    for _ in range(_DEEPEST + 1):
        below: dict[str, None] = {}
        for address in layer:
            key = canonical_url(_BACKSLASH.sub("/", address))
            own = list(_own_spots(key))
            found.update(dict.fromkeys(own))
            below.update(dict.fromkeys(_within(key, own[0][0])))
        layer = [address for address in below if address not in seen][:_MOST_OF_A_LAYER]
        seen.update(dict.fromkeys(layer))
    return tuple(found)


def _own_spots(key: str) -> Iterator[tuple[str, str]]:
    """Host and path of a canonical address, and of its twins: behind a translator, a hub's ``/api/``, a repository's mirror."""
    found = _PARTS.fullmatch(key)
    authority, path, query = found.groups() if found else ("", "", "")
    host, path, query = _host(authority), _path(path), query.lower()
    if host.endswith(_TRANSLATED):
        yield host, path + query
        host = _host(host.removesuffix(_TRANSLATED).replace("--", "\0").replace("-", ".").replace("\0", "-"))
    if host in _SITES["hubs"] and path.startswith("/api"):
        path = _API.sub("", path, count=1)
    yield host, path + query
    before = _SITES["repositories"].get(host)
    if before is not None and path.startswith(f"{before}/"):
        yield "github.com", path[len(before) :] + query


def _host(authority: str) -> str:
    host = unquote(authority).rpartition("@")[2].partition(":")[0].lower().rstrip(".").removeprefix("www.")
    return _SITES["aliases"].get(host, host)


def _path(path: str) -> str:
    """A path as rules are compared with it."""
    kept: list[str] = []
    for _ in range(_ESCAPED):
        path = unquote(path)
    for segment in path.lower().split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return "".join(f"/{segment}" for segment in kept)


def _within(key: str, host: str) -> Iterator[str]:
    """Addresses that a canonical one carries in its path or query, escaped up to twice."""
    rest = key.partition("://")[2] or key
    bare = _BARE if any(host == name or host.endswith(f".{name}") for name in _SITES["wrappers"]) else _BARE_WITH_PATH
    for text in dict.fromkeys((rest, unquote_plus(rest), unquote_plus(unquote_plus(rest)))):
        for start in islice(_ADDRESS.finditer(text), _MOST_WITHIN):
            yield "https://" + text[start.end() :]
            yield "https://" + text[start.end() :].partition("&")[0]
        below = text[len(re.split("[/?]", text, maxsplit=1)[0]) :]
        for start in islice(bare.finditer(below), _MOST_WITHIN):
            yield "https://" + below[start.end() :]


# -- the guard -----------------------------------------------------------------------------------------------------------

VERSION = 2  # another number where other texts are found
_RUN, _FEWEST = 13, 8  # words of a run, and of the shortest question that is looked for
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


def _whole(page: VisitReply) -> str:
    return f"{page.title}\n{page.text}"


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

    @staticmethod
    def read(page: VisitReply) -> None:
        """Split a page into words and keep them for `hides`; from any thread."""
        as_words(_whole(page))

    def hides(self, occasion: Occasion, tool: str, page: VisitReply, *, noted: bool = True) -> bool:
        """Whether a page is one that the question must not see; ``noted``: written down if so, or if it quotes the question."""
        text = _whole(page)
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
