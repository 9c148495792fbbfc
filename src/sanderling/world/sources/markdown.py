"""One Markdown or plain text file. The title is the first heading (Markdown) or nothing; links are those in Markdown or bare.

A YAML head between ``---`` lines is read for ``title`` and ``date`` and left out. Knows no other dialect.
"""

import re

from sanderling.world.sources.contract import Limits, Reason
from sanderling.world.sources.decoding import decode
from sanderling.world.sources.html import Document
from sanderling.world.sources.links import resolve_all
from sanderling.world.text import is_text, plain

_HEAD = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_HEAD_LINE = re.compile(r"(title|date)[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_MOST_HEAD = 10_000
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
_UNDERLINED = re.compile(r"^(\S.*)\n(=+|-+)[ \t]*$", re.MULTILINE)
_LINK = re.compile(
    r"(?<!!)\[[^\[\]\n]{0,400}\]\(<?((?:[^()\s<>]|\([^()\s<>]{0,400}\)){1,2000})>?"
    r"|^\[[^\[\]\n]{1,200}\]:[ \t]*(\S{1,2000})"
    r"|(?<![(\w])(https?://[^\s<>\"\]]{1,2000})",
    re.MULTILINE,
)


def read_markdown(data: bytes, url: str, limits: Limits, *, marked: bool = True) -> Document | Reason:
    """Read a file that lies at ``url``; ``marked`` False: plain text, without headings. Never raises for any bytes."""
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    text = decode(data)
    if not text.strip():
        return Reason.EMPTY
    if not is_text(text):
        return Reason.NOT_TEXT
    title = date = ""
    if marked:
        given, text = _without_head(text)
        title, date = given.get("title", ""), given.get("date", "")
        text = _UNDERLINED.sub(lambda found: f"{'#' if found[2][0] == '=' else '##'} {found[1]}", text)
        heading = _HEADING.search(text)
        title = title or (plain(heading[1].rstrip(" \t#")).strip() if heading else "")
    found = (next(filter(None, match.groups())) for match in _LINK.finditer(text))
    links = resolve_all(url, (link.rstrip(".,;:!?'") for link in found))
    text = text.strip("\n")
    return Document(title, text, links, date) if text.strip() else Reason.EMPTY


def _without_head(text: str) -> tuple[dict[str, str], str]:
    head = _HEAD.match(text[:_MOST_HEAD])
    if head is None:
        return {}, text
    lines = (_HEAD_LINE.fullmatch(line.strip()) for line in head[1].splitlines())
    return {line[1].lower(): line[2].strip().strip("'\"") for line in lines if line}, text[head.end() :]
