"""Documents as text: HTML (by `html`), Markdown, PDF, Office (by `office`), text and source code; and the files of a folder.

No bytes make a reader raise. Nothing outside a folder is read: symbolic links that leave it, or that lead to folders, are left
out with a count, as are pipes and devices.
"""

import io
import logging
import os
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import (
    Document,
    FileSource,
    Limits,
    Reason,
    Resolver,
    Skipped,
    address,
    base_of,
    decode,
    file_facts,
    markdown_link,
    place_mark,
    stamp_of,
    tidy_line,
    world_extra,
)
from sanderling.world.sources.html import read_html
from sanderling.world.sources.office import read_office
from sanderling.world.text import is_text, plain


class Kind(StrEnum):
    """How a document is read."""

    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    PDF = "pdf"
    OFFICE = "office"
    CODE = "code"


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
    if kind is Kind.OFFICE:
        return read_office(data, limits) if data else Reason.EMPTY
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
    if kind is Kind.CODE and len(text) > _LONG_LINES * (text.count("\n") + 1):
        return Reason.NOT_TEXT  # a program wrote it, for programs
    return Document("", text.strip("\n"), target.all(found.rstrip(_AFTER_BARE) for found in re.findall(_BARE, text)))


_LONG_LINES = 400  # characters, on the average
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
    title = given.get("title", "") or plain(heading.rstrip(" \t#")).replace("`", "").strip()
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


# -- the files of a folder -----------------------------------------------------------------------------------------------

_CODE_ENDINGS = """
py pyi js mjs ts tsx jsx java kt scala swift go rs c h cc cpp cxx hpp cs m rb php pl lua r jl hs ml ex erl dart sh bash zsh ps1
sql rst org adoc tex bib toml yaml yml ini cfg
"""
ENDINGS: dict[str, Kind] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), Kind.HTML),
    **dict.fromkeys((".md", ".markdown"), Kind.MARKDOWN),
    **dict.fromkeys((".txt", ".text", ".csv", ".tsv"), Kind.TEXT),
    ".pdf": Kind.PDF,
    **dict.fromkeys((".docx", ".docm", ".pptx", ".pptm", ".xlsx", ".xlsm", ".odt", ".odp", ".ods"), Kind.OFFICE),
    **{f".{ending}": Kind.CODE for ending in _CODE_ENDINGS.split()},
}


class FolderSource(FileSource[Path]):
    """The files of a folder and of its sub-folders; or one file, with the folder it lies in as its base."""

    def __init__(self, path: str | Path, base_url: str = "", limits: Limits | None = None) -> None:
        """``base_url``: empty: ``local://`` and the folder's name. Raises UserError when there is no such folder or file."""
        self.path, self.base_url, self.limits = Path(path), base_url, limits or Limits()
        if not self.path.exists():
            raise UserError(f"There is no folder or file {path}: give one that exists.")
        self._place = self.path.resolve()
        self._root = self._place if self._place.is_dir() else self._place.parent
        self._base = base_of(base_url, os.fsencode(self._root.name))

    @property
    def name(self) -> str:
        local = self.base_url.startswith("local://")
        return self.base_url.removeprefix("local://").strip("/") if local else self._place.name

    def bases(self) -> dict[str, str]:
        return {self._base: place_mark(self._root)}

    def documents(self) -> Iterator[Path | Skipped]:
        return files_below(self._place)

    def stamp(self) -> str:
        root = self._root
        files = (
            one.where if isinstance(one, Skipped) else f"{_shown(root, one)} {file_facts(one)}" for one in self.documents()
        )
        return stamp_of("folder", root.name, self.base_url, self.limits, *ENDINGS, *files)

    def read(self, file: Path) -> Page | Skipped:
        where = _shown(self._root, file)
        kind = ENDINGS.get(file.suffix.lower())
        try:
            if file.is_symlink() and not file.resolve().is_relative_to(self._root):
                return Skipped(where, Reason.LINK)
            size = file.stat().st_size
            if kind is None or not file.is_file():
                return Skipped(where, Reason.OTHER_KIND)
            if size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            data = file.read_bytes()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            return Skipped(where, Reason.UNREADABLE)
        url = address(self._base, os.fsencode(file.relative_to(self._root)))
        document = read_document(kind, data, url, self.limits, follow=self._to_index)
        if isinstance(document, Reason):
            return Skipped(where, document)
        return document.page(url, os.fsencode(file.stem).decode("utf-8", "replace"), f"folder {self._root.name}")

    def file(self, url: str) -> Path | None:
        """The file whose page has this address, where there is one."""
        path = unquote(url.removeprefix(self._base), errors="surrogateescape")
        inside = url.startswith(self._base) and not {"..", ""} & {*path.split("/")}
        try:
            return self._root / path if inside and (self._root / path).is_file() else None
        except OSError:  # it may not be looked at
            return None

    def _to_index(self, link: str) -> str:
        """A link to a sub-folder as one to its index, where it has one."""
        if not link.startswith(self._base):
            return link
        path = unquote(link[len(self._base) :], errors="surrogateescape")
        may_be_folder = not path or path.endswith("/") or "." not in path.rpartition("/")[2]
        if not may_be_folder or ".." in path or "\x00" in path or not (self._root / path / "index.html").is_file():
            return link
        return f"{link}index.html" if not path or path.endswith("/") else f"{link}/index.html"


def files_below(root: Path) -> Iterator[Path | Skipped]:
    """Every file, and every folder that is not entered (links to folders), in the order of names; files before sub-folders."""
    if not root.is_dir():
        yield root
        return
    unreadable: list[OSError] = []
    for folder, folders, files in os.walk(root, onerror=unreadable.append):
        links = {name for name in folders if (Path(folder) / name).is_symlink()}
        yield from (Skipped(_shown(root, Path(folder) / link), Reason.LINK) for link in sorted(links, key=os.fsencode))
        yield from (Path(folder) / name for name in sorted(files, key=os.fsencode))
        folders[:] = sorted(set(folders) - links, key=os.fsencode)
    yield from (Skipped(_shown(root, Path(error.filename)), Reason.UNREADABLE) for error in unreadable)


def _shown(root: Path, file: Path) -> str:
    """A file's path below the folder, as text."""
    return os.fsencode(file.relative_to(root)).decode("utf-8", "replace")
