"""A folder of HTML, Markdown, text and PDF files, or one such file.

Files come in the order of their names, those of a folder before its sub-folders. An address is the base and the file's path
below the folder; a link to a sub-folder, with or without its last slash, leads to its ``index.html``. Nothing outside the
folder is read: symbolic links that leave it, or that lead to folders, are left out with a count, as are pipes and devices. Does
not know what a web server would add.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of
from sanderling.world.sources.html import Document, read_html
from sanderling.world.sources.links import address
from sanderling.world.sources.markdown import read_markdown
from sanderling.world.sources.pdf import read_pdf
from sanderling.world.sources.walk import files_below, shown

Reader = Callable[[bytes, str, Limits, Callable[[str], str]], Document | Reason]


def _html(data: bytes, url: str, limits: Limits, follow: Callable[[str], str]) -> Document | Reason:
    return read_html(data, url, limits, follow=follow)


def _plain_text(data: bytes, url: str, limits: Limits, follow: Callable[[str], str]) -> Document | Reason:
    return read_markdown(data, url, limits, follow, marked=False)


def _pdf(data: bytes, _url: str, limits: Limits, _follow: Callable[[str], str]) -> Document | Reason:
    return read_pdf(data, limits)


READERS: dict[str, Reader] = {
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": _plain_text,
    ".text": _plain_text,
    ".pdf": _pdf,
}
"""Who reads files of which ending."""


@dataclass(frozen=True)
class FolderSource(DocumentSource[Path]):
    """The files of a folder and of its sub-folders; or one file, with the folder it lies in as its base."""

    path: Path
    base_url: str = ""
    """Empty: ``local://`` and the folder's name."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raises UserError when there is no such folder or file."""
        if not self.path.exists():
            raise UserError(f"There is no folder or file {self.path}: give one that exists.")

    @property
    def name(self) -> str:
        return self.base_url.removeprefix("local://").strip("/") if self._is_local else self.path.resolve().name

    @property
    def _is_local(self) -> bool:
        return self.base_url.startswith("local://")

    def documents(self, skip: int) -> Iterator[Path | Skipped]:
        return islice(files_below(self.path.resolve()), skip, None)

    def reader(self) -> Callable[[Path], Page | Skipped]:
        root = self._root
        return lambda file: self._read(root, file)

    def stamp(self) -> str:
        root = self._root
        files = (
            one.where if isinstance(one, Skipped) else f"{shown(root, one)} {file_facts(one)}"
            for one in files_below(self.path.resolve())
        )
        return stamp_of("folder", root.name, self.base_url, self.limits, *files)

    def total(self) -> int:
        return sum(1 for _ in files_below(self.path.resolve()))

    @property
    def _root(self) -> Path:
        place = self.path.resolve()
        return place if place.is_dir() else place.parent

    def _read(self, root: Path, file: Path) -> Page | Skipped:
        where = shown(root, file)
        reader = READERS.get(file.suffix.lower())
        try:
            if file.is_symlink() and not file.resolve().is_relative_to(root):
                return Skipped(where, Reason.LINK)
            stat = file.stat()
            if reader is None or not S_ISREG(stat.st_mode):
                return Skipped(where, Reason.OTHER_KIND)
            if stat.st_size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            data = file.read_bytes()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            return Skipped(where, Reason.UNREADABLE)
        base = _base(self.base_url, root)
        url = address(base, os.fsencode(file.relative_to(root)))
        document = reader(data, url, self.limits, lambda link: _to_index(base, root, link))
        if isinstance(document, Reason):
            return Skipped(where, document)
        title = document.title or os.fsencode(file.stem).decode("utf-8", "replace")
        source = f"folder {root.name}"
        return Page(url=url, title=title, text=document.text, links=document.links, date=document.date, source=source)


def _base(given: str, root: Path) -> str:
    base = given or address("local://", os.fsencode(root.name))
    return base if base.endswith("/") else base + "/"


def _to_index(base: str, root: Path, link: str) -> str:
    """A link to a sub-folder as one to its index, where it has one."""
    if not link.startswith(base):
        return link
    path = unquote(link[len(base) :], errors="surrogateescape")
    may_be_folder = not path or path.endswith("/") or "." not in path.rpartition("/")[2]
    if not may_be_folder or ".." in path or "\x00" in path or not (root / path / "index.html").is_file():
        return link
    return f"{link}index.html" if not path or path.endswith("/") else f"{link}/index.html"
