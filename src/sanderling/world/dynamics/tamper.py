"""What a tampered text looks like: other numbers, an earlier state, a query said over and over. Pure functions.

Numbers are altered by a draw that is handed in, keyed by the number itself, so that one number becomes the same other number
wherever it stands on a page and in its snippet. Knows no world.
"""

import re
from collections.abc import Callable

from sanderling.world.text import sentences

Draw = Callable[[str], float]
"""A key to a number in [0, 1)."""

_NUMBER = re.compile(r"(?<![\w/.,\-=%&?#:])\d{2,4}(?![\w/\-=%]|[.,]\d)")
_YEAR = re.compile(r"(?<![\w/.\-])(1\d{3}|20\d{2})(?![\w/\-]|[.,]\d)")
_FARTHEST = 9


def altered(text: str, draw: Draw) -> str:
    """The text with each number of two to four digits moved by 1 to 9, up or down; addresses and longer numbers stay."""

    def other(match: re.Match[str]) -> str:
        number = int(match[0])
        step = int(draw(match[0]) * 2 * _FARTHEST) - _FARTHEST
        step += step >= 0  # -9..-1, 1..9
        return str(number + step if number + step >= 0 else number - step)

    return _NUMBER.sub(other, text)


def newest_year(text: str) -> str:
    """The latest year that a text names after an earlier one; empty when it names fewer than two."""
    years = set(_YEAR.findall(text))
    return max(years) if len(years) > 1 else ""


def without_year(text: str, year: str) -> str:
    """The text without the sentences that name a year; headings stay, and so does a text that would lose all."""
    if not year:
        return text
    named = re.compile(rf"(?<!\d){year}(?!\d)")
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#") or not named.search(line):
            lines.append(line)
            continue
        kept = [sentence for sentence in sentences(line) if not named.search(sentence)]
        if kept:
            lines.append(" ".join(kept))
    left = "\n".join(lines)
    return left if any(line.strip() and not line.startswith("#") for line in lines) else text


def spam_text(query: str) -> str:
    """A page that promises everything about a query and says nothing."""
    return (
        f"# {query}: the best results\n\nLooking for {query}? You have come to the right place. Here is all about {query}, "
        f"the latest {query}, and everything you ever wanted to know about {query}.\n\n"
        f"Many people ask: {query}? Our experts on {query} answer. Read on to learn more about {query}."
    )


def spam_snippet(query: str, words: int) -> str:
    """What a list of results shows of it, in at most ``words`` words."""
    return " ".join(spam_text(query).partition("\n\n")[2].split()[:words])
