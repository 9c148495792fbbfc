"""A folder of HTML, Markdown, text and PDF files, or one such file; and the files below any folder, in a fixed order.

An address is the base and the file's path below the folder. Nothing outside the folder is read: symbolic links that leave it,
or that lead to folders, are left out with a count, as are pipes and devices.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Limits, Reason, Skipped, file_facts, stamp_of
from sanderling.world.sources.documents import Kind, read_document
from sanderling.world.sources.links import address, base_of

ENDINGS: dict[str, Kind] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), Kind.HTML),
    **dict.fromkeys((".md", ".markdown"), Kind.MARKDOWN),
    **dict.fromkeys((".txt", ".text"), Kind.TEXT),
    ".pdf": Kind.PDF,
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

    def documents(self) -> Iterator[Path | Skipped]:
        return files_below(self._place)

    def stamp(self) -> str:
        root = self._root
        files = (
            one.where if isinstance(one, Skipped) else f"{_shown(root, one)} {file_facts(one)}" for one in self.documents()
        )
        return stamp_of("folder", root.name, self.base_url, self.limits, *files)

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
