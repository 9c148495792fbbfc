"""One Markdown or plain text file. The title is the first heading (Markdown) or nothing; links are those in Markdown or bare.

Links of Markdown are written out with their full addresses, also those by reference; links into the page itself and images are
their words. Code stays as it is. A YAML head between ``---`` lines is read for ``title`` and ``date`` and left out. Knows no
other dialect.
"""

import re
from collections.abc import Callable

from sanderling.world.front_matter import split_front_matter
from sanderling.world.sources.contract import Limits, Reason
from sanderling.world.sources.decoding import decode
from sanderling.world.sources.html import Document
from sanderling.world.sources.html_text import link, tidy_line
from sanderling.world.sources.links import Resolver
from sanderling.world.text import is_text, plain

_CODE = (
    r"(?P<code>^[ ]{0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n"
    r"(?:(?![ ]{0,3}(?P=fence))[^\n]*(?:\n|\Z))*(?:[ ]{0,3}(?P=fence)[^\n]*)?"
    r"|``[^\n]{1,400}?``|`[^`\n]{1,400}`)"
)
_HEADING = re.compile(rf"{_CODE}|^#{{1,6}}[ \t]+(?P<words>\S.*)$", re.MULTILINE)
_UNDERLINED = re.compile(rf"{_CODE}|^(?P<words>\S.*)\n(?P<line>=+|-+)[ \t]*$", re.MULTILINE)
_WORDS = r"\[([^\[\]\n]{0,400})\]"
_TARGET = (
    r"\([ \t]*(?:<([^<>\n]{0,2000})>|((?:[^()\s<>]|\([^()\s<>]{0,400}\)){0,2000}))(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
)
_IMAGE = re.compile(rf"{_CODE}|!{_WORDS}(?:{_TARGET}|\[[^\[\]\n]{{0,200}}\])", re.MULTILINE)
_LINK = re.compile(
    rf"{_CODE}|{_WORDS}(?:{_TARGET}|[ ]?\[([^\[\]\n]{{0,200}})\])|(?<![(\w])(https?://[^\s<>\"\]]{{1,2000}})", re.MULTILINE
)
_REFERENCE = re.compile(
    rf"{_CODE}|^[ ]{{0,3}}\[([^\[\]\n]{{1,200}})\]:[ \t]*<?(\S{{1,2000}}?)>?(?:[ \t]+[\"'(][^\n]*)?[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_BARE = re.compile(r"(?<![(\w])(https?://[^\s<>\"\]]{1,2000})")
_AFTER_BARE = ".,;:!?'"


def read_markdown(
    data: bytes, url: str, limits: Limits, follow: Callable[[str], str] | None = None, *, marked: bool = True
) -> Document | Reason:
    """Read a file that lies at ``url``; ``marked`` False: plain text, without headings. Never raises for any bytes.

    ``follow``: from the address of a link to where it leads.
    """
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    text = decode(data)
    if not text.strip():
        return Reason.EMPTY
    if not is_text(text):
        return Reason.NOT_TEXT
    target = Resolver(url, follow=follow)
    if not marked:
        return Document("", text.strip("\n"), target.all(found[1].rstrip(_AFTER_BARE) for found in _BARE.finditer(text)))
    given, text = split_front_matter(text)
    text = _UNDERLINED.sub(_with_marks, text)
    text, links = _with_full_links(text, target)
    heading = next((found["words"] for found in _HEADING.finditer(text) if not found["code"]), "")
    title = given.get("title", "") or plain(heading.rstrip(" \t#")).strip()
    text = text.strip("\n")
    return Document(title, text, target.all(links), given.get("date", "")) if text.strip() else Reason.EMPTY


def _with_marks(found: re.Match[str]) -> str:
    """An underlined heading as one with marks."""
    return found[0] if found["code"] else f"{'#' if found['line'][0] == '=' else '##'} {found['words']}"


def _with_full_links(text: str, target: Resolver) -> tuple[str, list[str]]:
    """The text with the full address of every link, and the links as they were written, in order."""
    references: dict[str, str] = {}
    links: list[str] = []

    def define(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        references.setdefault(found[3].casefold().strip(), found[4])
        return ""

    def show_words(found: re.Match[str]) -> str:
        return found[0] if found["code"] else found[3]

    def write_out(found: re.Match[str]) -> str:
        code, _fence, words, quoted, bare_target, reference, bare = found.groups()
        if code:
            return found[0]
        if bare:
            links.append(bare.rstrip(_AFTER_BARE))
            return found[0]
        if reference is not None:
            written = references.get((reference or words).casefold().strip(), "")
            if not written:
                return found[0]
        else:
            written = quoted or bare_target or ""
        links.append(written)
        address = target(written)
        return link(words, address) if address and tidy_line(words.strip()) else words

    text = _REFERENCE.sub(define, text)
    return _LINK.sub(write_out, _IMAGE.sub(show_words, text)), links
