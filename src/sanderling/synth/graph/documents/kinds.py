"""What a page's subject is, in a word: the noun that stands behind links to it most often ("the `pickle` module"). Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from sanderling.synth.graph.documents.blocks import Line

NOUNS = frozenset(
    [
        "module",
        "package",
        "function",
        "method",
        "class",
        "exception",
        "attribute",
        "statement",
        "operator",
        "constant",
        "type",
        "command",
        "tool",
        "program",
        "utility",
        "file",
        "directory",
        "protocol",
        "format",
        "distribution",
        "library",
        "service",
        "server",
        "daemon",
        "option",
        "variable",
        "macro",
        "structure",
        "environment",
        "project",
        "organization",
        "company",
        "event",
        "city",
        "river",
        "person",
        "book",
        "standard",
        "algorithm",
        "interface",
        "framework",
        "language",
        "decorator",
        "keyword",
        "parameter",
        "article",
        "species",
        "country",
        "mountain",
        "lake",
        "film",
        "album",
        "ship",
        "aircraft",
        "war",
        "battle",
        "university",
        "team",
    ]
)
_BEHIND = re.compile(r"⟦(\d+)⟧ (\w+)")
_AFTER_NOUN = re.compile(
    r",| (?:that|which|who|for|of|in|on|to|with|by|from|as|and|designed|developed|dedicated|used|\w+izing|\w+ising)\b"
)
_FEWEST = 2


def nouns_behind_links(line: Line) -> Iterator[tuple[str, str, str]]:
    """Links of a line with such a noun behind them: words, address, noun."""
    for found in _BEHIND.finditer(line.marked):
        noun = found[2]
        if noun in NOUNS:
            link = line.links[int(found[1])]
            yield link.words, link.url, noun


def most_often(nouns: Iterable[str]) -> str:
    """The noun that most say, when it is more than half of them and not one alone; empty otherwise."""
    counts = Counter(nouns)
    if not counts:
        return ""
    noun, count = counts.most_common(1)[0]
    return noun if count >= _FEWEST and 2 * count > counts.total() else ""


def noun_in(what: str) -> str:
    """The noun of a definition, "a Debian-based distribution specializing in …", where it is one of `NOUNS`."""
    head = _AFTER_NOUN.split(what, maxsplit=1)[0].split()
    noun = head[-1].lower() if head else ""
    return noun if noun in NOUNS else ""
