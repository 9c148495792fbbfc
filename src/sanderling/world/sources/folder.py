"""A folder of HTML, Markdown, text and PDF files, or one such file; and the files below any folder, in a fixed order.

An address is the base and the file's path below the folder; a link to a sub-folder, with or without its last slash, leads to
its ``index.html``. Nothing outside the folder is read: symbolic links that leave it, or that lead to folders, are left out with
a count, as are pipes and devices.
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
from sanderling.world.sources.base import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of
from sanderling.world.sources.documents import Kind, read_document
from sanderling.world.sources.links import address, base_of

ENDINGS: dict[str, Kind] = {
    ".html": Kind.HTML,
    ".htm": Kind.HTML,
    ".xhtml": Kind.HTML,
    ".md": Kind.MARKDOWN,
    ".markdown": Kind.MARKDOWN,
    ".txt": Kind.TEXT,
    ".text": Kind.TEXT,
    ".pdf": Kind.PDF,
}
"""How files of which ending are read."""


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
        local = self.base_url.startswith("local://")
        return self.base_url.removeprefix("local://").strip("/") if local else self.path.resolve().name

    def documents(self, skip: int) -> Iterator[Path | Skipped]:
        return islice(files_below(self.path.resolve()), skip, None)

    def reader(self) -> Callable[[Path], Page | Skipped]:
        root = self._root
        return lambda file: self._read(root, file)

    def stamp(self) -> str:
        root = self._root
        files = (
            one.where if isinstance(one, Skipped) else f"{_shown(root, one)} {file_facts(one)}"
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
        where = _shown(root, file)
        kind = ENDINGS.get(file.suffix.lower())
        try:
            if file.is_symlink() and not file.resolve().is_relative_to(root):
                return Skipped(where, Reason.LINK)
            stat = file.stat()
            if kind is None or not S_ISREG(stat.st_mode):
                return Skipped(where, Reason.OTHER_KIND)
            if stat.st_size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            data = file.read_bytes()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            return Skipped(where, Reason.UNREADABLE)
        base = base_of(self.base_url, os.fsencode(root.name))
        url = address(base, os.fsencode(file.relative_to(root)))
        document = read_document(kind, data, url, self.limits, follow=lambda link: _to_index(base, root, link))
        if isinstance(document, Reason):
            return Skipped(where, document)
        title = document.title or os.fsencode(file.stem).decode("utf-8", "replace")
        source = f"folder {root.name}"
        return Page(url=url, title=title, text=document.text, links=document.links, date=document.date, source=source)


def _to_index(base: str, root: Path, link: str) -> str:
    """A link to a sub-folder as one to its index, where it has one."""
    if not link.startswith(base):
        return link
    path = unquote(link[len(base) :], errors="surrogateescape")
    may_be_folder = not path or path.endswith("/") or "." not in path.rpartition("/")[2]
    if not may_be_folder or ".." in path or "\x00" in path or not (root / path / "index.html").is_file():
        return link
    return f"{link}index.html" if not path or path.endswith("/") else f"{link}/index.html"


def files_below(root: Path) -> Iterator[Path | Skipped]:
    """Every file, and every folder that is not entered: in the order of their names, those of a folder before its sub-folders.

    Symbolic links to folders are not followed. A file as ``root`` is the one file; none is opened.
    """
    if not root.is_dir():
        yield root
        return
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            yield Skipped(_shown(root, folder), Reason.UNREADABLE)
            continue
        kinds = [(Path(entry.path), _is_folder(entry), entry.is_symlink()) for entry in entries]
        yield from (Skipped(_shown(root, path), Reason.LINK) for path, is_folder, is_link in kinds if is_folder and is_link)
        yield from (path for path, is_folder, _ in kinds if not is_folder)
        waiting += [path for path, is_folder, is_link in reversed(kinds) if is_folder and not is_link]


def _shown(root: Path, file: Path) -> str:
    """A file's path below the folder, as text."""
    return os.fsencode(file.relative_to(root)).decode("utf-8", "replace")


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False
