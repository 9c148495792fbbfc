"""One document of any kind as text: HTML (by `html`), Markdown, plain text and PDF. No bytes make a reader raise."""

import io
import logging
import re
from collections.abc import Callable
from enum import StrEnum

from sanderling.world.sources.base import Document, Limits, Reason, world_extra
from sanderling.world.sources.html import read_html
from sanderling.world.sources.links import Resolver, decode, markdown_link, tidy_line
from sanderling.world.text import is_text, plain


class Kind(StrEnum):
    """How a document is read."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    PDF = "pdf"


MIME_KINDS = {"text/html": Kind.HTML, "application/xhtml+xml": Kind.HTML, "text/plain": Kind.TEXT, "application/pdf": Kind.PDF}


def read_document(
    kind: Kind, data: bytes, url: str, limits: Limits, *, charset: str = "", follow: Callable[[str], str] | None = None
) -> Document | Reason:
    """Read a document that lies at ``url``, or say why there is none.

    ``charset``: as the sender of HTML declared it; ``follow``: from the address of a link to where it leads.
    """
    if len(data) > limits.document_bytes:
        return Reason.TOO_LARGE
    if kind is Kind.PDF:
        return _read_pdf(data, limits) if data.strip() else Reason.EMPTY
    text = decode(data, charset if kind is Kind.HTML else "")
    if not text.strip():
        return Reason.EMPTY
    if not is_text(text):
        return Reason.NOT_TEXT
    if kind is Kind.HTML:
        return read_html(text, url, limits, follow)
    target = Resolver(url, follow=follow)
    if kind is Kind.MARKDOWN:
        return _read_markdown(text, target)
    return Document("", text.strip("\n"), target.all(found.rstrip(_AFTER_BARE) for found in re.findall(_BARE, text)))


_HEAD = re.compile(r"\s{0,8}---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_HEAD_LINE = re.compile(r"(title|date)[ \t]*:[ \t]*(.*)", re.IGNORECASE)
_LONGEST_HEAD = 10_000
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
_BARE = r"(?<![(\w])(https?://[^\s<>\"\]]{1,2000})"
_LINK = re.compile(rf"{_CODE}|{_WORDS}(?:{_TARGET}|[ ]?\[([^\[\]\n]{{0,200}})\])|{_BARE}", re.MULTILINE)
_REFERENCE = re.compile(
    rf"{_CODE}|^[ ]{{0,3}}\[([^\[\]\n]{{1,200}})\]:[ \t]*<?(\S{{1,2000}}?)>?(?:[ \t]+[\"'(][^\n]*)?[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_AFTER_BARE = ".,;:!?'"


def _read_markdown(text: str, target: Resolver) -> Document | Reason:
    """Links with their full addresses, also those by reference; images as words; code as it is; a YAML head is read."""
    given, text = split_front_matter(text)
    references: dict[str, str] = {}
    links: list[str] = []

    def define(found: re.Match[str]) -> str:
        references.setdefault(found[3].casefold().strip(), found[4])
        return ""

    def write_out(found: re.Match[str]) -> str:
        _code, _fence, words, quoted, bare_target, reference, bare = found.groups()
        if bare:
            links.append(bare.rstrip(_AFTER_BARE))
            return found[0]
        written = quoted or bare_target or ""
        if reference is not None:
            written = references.get((reference or words).casefold().strip(), "")
            if not written:
                return found[0]
        links.append(written)
        url = target(written)
        return markdown_link(words, url) if url and tidy_line(words.strip()) else words

    text = _outside_code(_UNDERLINED, text, lambda found: f"{'#' if found['line'][0] == '=' else '##'} {found['words']}")
    text = _outside_code(_REFERENCE, text, define)
    text = _outside_code(_IMAGE, text, lambda found: found[3])
    text = _outside_code(_LINK, text, write_out).strip("\n")
    heading = next((found["words"] for found in _HEADING.finditer(text) if not found["code"]), "")
    title = given.get("title", "") or plain(heading.rstrip(" \t#")).strip()
    return Document(title, text, target.all(links), given.get("date", "")) if text.strip() else Reason.EMPTY


def _outside_code(pattern: re.Pattern[str], text: str, write: Callable[[re.Match[str]], str]) -> str:
    return pattern.sub(lambda found: found[0] if found["code"] else write(found), text)


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """``title`` and ``date`` of the head between two ``---`` lines (without either it is none), and the text without it."""
    head = _HEAD.match(text[:_LONGEST_HEAD])
    if head is None:
        return {}, text
    lines = (_HEAD_LINE.fullmatch(line.strip()) for line in head[1].splitlines())
    said = {line[1].lower(): line[2].strip().strip("'\"") for line in lines if line}
    return (said, text[head.end() :]) if said else ({}, text)


_BROKEN_WORD = re.compile(r"(?<=[a-z])-\n(?=[a-z])")


def _read_pdf(data: bytes, limits: Limits) -> Document | Reason:
    """The text of a file's pages, its title and the day it was made, by `pypdf`; scans are empty."""
    with world_extra():
        from pypdf import PdfReader
        from pypdf.errors import DependencyError, FileNotDecryptedError, WrongPasswordError
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports each oddity of a file; the reason here is enough
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return Reason.ENCRYPTED
        parts: list[str] = []
        size = 0
        for page in reader.pages:
            parts.append(page.extract_text().strip())
            size += len(parts[-1])
            if size > limits.document_bytes:
                return Reason.TOO_LARGE
        facts = reader.metadata
        title = str(getattr(facts, "title", None) or "").strip()
        made = getattr(facts, "creation_date", None)
        date = made.date().isoformat() if made is not None else ""
    except (FileNotDecryptedError, WrongPasswordError, DependencyError):
        return Reason.ENCRYPTED
    except Exception:  # a broken file fails wherever the reader meets the break, with any error
        return Reason.DAMAGED
    text = _BROKEN_WORD.sub("", "\n\n".join(part for part in parts if part)).strip()
    if not text:
        return Reason.EMPTY
    return Document(title, text, (), date) if is_text(text) else Reason.NOT_TEXT
