"""The head of a text between two ``---`` lines, as Markdown files and the corpora of OpenResearcher have it. Pure text work.

Only ``title`` and ``date`` are read; a head without either is no head, but two rulers with words between them.
"""

import re

_HEAD = re.compile(r"\s{0,8}---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_LINE = re.compile(r"(title|date)[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_LONGEST = 10_000


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """What the head says, by ``title`` and ``date`` (only those given), and the text without it."""
    head = _HEAD.match(text[:_LONGEST])
    if head is None:
        return {}, text
    lines = (_LINE.fullmatch(line.strip()) for line in head[1].splitlines())
    said = {line[1].lower(): line[2].strip().strip("'\"") for line in lines if line}
    return (said, text[head.end() :]) if said else ({}, text)
