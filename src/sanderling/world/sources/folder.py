"""A folder of HTML, Markdown, text and PDF files, or one such file.

Files come in the order of their names, those of a folder before its sub-folders. An address is the base and the file's path
below the folder; a link that ends at a sub-folder leads to its ``index.html``. Nothing outside the folder is read: symbolic
links that leave it, or that lead to folders, are left out with a count, as are pipes and devices. Does not know what a web
server would add.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sanderling.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.contract import Limits, Reason, Skipped
from sanderling.world.sources.html import Document, read_html
from sanderling.world.sources.links import address
from sanderling.world.sources.markdown import read_markdown
from sanderling.world.sources.pdf import read_pdf

Reader = Callable[[bytes, str, Limits], Document | Reason]

READERS: dict[str, Reader] = {
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": lambda data, url, limits: read_markdown(data, url, limits, marked=False),
    ".text": lambda data, url, limits: read_markdown(data, url, limits, marked=False),
    ".pdf": lambda data, _url, limits: read_pdf(data, limits),
}
"""Who reads files of which ending."""


@dataclass(frozen=True)
class FolderSource:
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

    def items(self) -> Iterator[Page | Skipped]:
        root = self.path.resolve()
        if root.is_file():
            yield self._read(root.parent, root)
            return
        refused: list[Skipped] = []

        def refuse(error: OSError) -> None:
            refused.append(Skipped(str(error.filename), Reason.UNREADABLE))

        for folder, folders, files in os.walk(root, onerror=refuse):
            folders.sort(key=os.fsencode)
            for name in list(folders):
                if (Path(folder) / name).is_symlink():
                    folders.remove(name)
                    yield Skipped(_shown(root, Path(folder) / name), Reason.LINK)
            for name in sorted(files, key=os.fsencode):
                yield self._read(root, Path(folder) / name)
            yield from refused
            refused.clear()
        yield from refused

    def _read(self, root: Path, file: Path) -> Page | Skipped:
        where = _shown(root, file)
        reader = READERS.get(file.suffix.lower())
        try:
            if not file.resolve().is_relative_to(root):
                return Skipped(where, Reason.LINK)
            if reader is None or not file.is_file():
                return Skipped(where, Reason.OTHER_KIND)
            if file.stat().st_size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            data = file.read_bytes()
        except (OSError, RuntimeError):  # RuntimeError: links in a circle
            return Skipped(where, Reason.UNREADABLE)
        base = _base(self.base_url, root)
        url = address(base, os.fsencode(file.relative_to(root)))
        document = reader(data, url, self.limits)
        if isinstance(document, Reason):
            return Skipped(where, document)
        links = tuple(_to_index(base, root, link) for link in document.links)
        title = document.title or os.fsencode(file.stem).decode("utf-8", "replace")
        return Page(url=url, title=title, text=document.text, links=links, date=document.date, source=f"folder {root.name}")


def _base(given: str, root: Path) -> str:
    base = given or address("local://", os.fsencode(root.name))
    return base if base.endswith("/") else base + "/"


def _to_index(base: str, root: Path, link: str) -> str:
    """A link to a sub-folder as one to its index, where it has one."""
    path = link.removeprefix(base)
    is_index = link.startswith(base) and (not path or path.endswith("/")) and ".." not in path and "\x00" not in path
    return f"{link}index.html" if is_index and (root / path / "index.html").is_file() else link


def _shown(root: Path, file: Path) -> str:
    return os.fsencode(file.relative_to(root)).decode("utf-8", "replace")
