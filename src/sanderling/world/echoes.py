"""What a page says back of the query in its own address, as search engines do in their title and first line.

An echo is a line that holds the query and nothing else but what such pages say of themselves (``Results for … - Search``, the
site's own name), or one in which the query stands right between such words. A query that is followed by anything else is not
said back but answered. Texts are words in normal form. Pure; knows no question.
"""

import re
from collections.abc import Iterable
from itertools import dropwhile
from urllib.parse import parse_qsl, unquote_plus

from sanderling.core.text import question_tokens

_CUT = 13
"""So many words of a longer query make it known: titles are cut."""
_OF_THEMSELVES = frozenset({
    "search", "searches", "searched", "searching", "result", "results", "showing", "found", "find", "for", "of", "the", "your",
    "you", "web", "page", "query", "at", "on", "in", "搜", "索", "结", "果", "的",
})  # fmt: skip
_BEFORE = re.compile(r" (?:(?:results?|search(?:ed|ing)?) (?:found )?for|search query|搜 索) $")
_AFTER = re.compile(r"(?:(?:web )?search(?: results?)?|results?|的? ?搜 索(?: 结 果)?)(?: |$)")
_HOST = re.compile(r"^(?:[a-z][a-z0-9+.\-]*:)?/*(?:[^/?#]*@)?([^/?#:]*)", re.IGNORECASE)


def asked_by(url: str) -> tuple[str, ...]:
    """What an address asks for: its query's names and values, each in normal form without blanks around it."""
    query = url.partition("#")[0].partition("?")[2]
    texts = (unquote_plus(text) for pair in parse_qsl(query, keep_blank_values=True) for text in pair)
    return tuple(dict.fromkeys(words for text in texts if (words := " ".join(question_tokens(text)))))


def site_words(url: str) -> frozenset[str]:
    """What a site may call itself: the parts of its host."""
    found = _HOST.match(url)
    return frozenset(question_tokens(found[1].replace(".", " "))) if found else frozenset()


def without_echo(line: str, asked: Iterable[str], site: frozenset[str]) -> str:
    """A line's words without one echo of each thing that was asked for; where there is none, as they are.

    Example: ``without_echo(" tide tables search ", ["tide tables"], frozenset())`` is ``" search "``
    """
    for query in asked:
        place = _place(line, query)
        if place is None:
            continue
        before, after = line[: place[0] + 1], line[place[1] - 1 :]
        alone = all(_is_of_the_page(word, site) for word in (*before.split(), *after.split()))
        follows = " ".join(dropwhile(lambda word: _names(word, site), after.split()))
        if alone or _BEFORE.search(before) or _AFTER.match(follows):
            line = f"{before}\n{after}" if before.strip() and after.strip() else before if before.strip() else after
    return line


def _is_of_the_page(word: str, site: frozenset[str]) -> bool:
    return word in _OF_THEMSELVES or _names(word, site)


def _names(word: str, site: frozenset[str]) -> bool:
    return word in site or not any(character.isalnum() for character in word)


def _place(line: str, query: str) -> tuple[int, int] | None:
    """From the blank before the query to behind the one after it; of a query that was cut, its beginning."""
    start = line.find(f" {query} ")
    if start >= 0:
        return start, start + len(query) + 2
    words = query.split()
    start = line.find(f" {' '.join(words[:_CUT])} ") if len(words) > _CUT else -1
    if start < 0:
        return None
    end = start + 1
    for word in words:
        if not line.startswith(f"{word} ", end):
            break
        end += len(word) + 1
    return start, end
