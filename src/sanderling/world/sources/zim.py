"""A ZIM file (Kiwix): its HTML, text and PDF entries, read by `libzim`.

An address is the base and the entry's path. Redirects are counted, not kept; links to them lead to what they redirect to. Does
not know the address that an article has on the web: give it as the base.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.contract import DocumentSource, Limits, Reason, Skipped, file_facts, stamp_of, world_extra
from sanderling.world.sources.html import Document, read_html
from sanderling.world.sources.links import address
from sanderling.world.sources.markdown import read_markdown
from sanderling.world.sources.pdf import read_pdf

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

_MOST_HOPS = 8


@dataclass(frozen=True)
class ZimSource(DocumentSource[int]):
    """A ZIM file."""

    path: Path
    base_url: str = ""
    """Empty: ``local://`` and the file's name without ending."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Raises UserError when there is no such file, it is no ZIM file, or `libzim` is not installed."""
        _open(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def _base(self) -> str:
        base = self.base_url or address("local://", self.path.stem)
        return base if base.endswith("/") else base + "/"

    def documents(self, skip: int) -> Iterator[int | Skipped]:
        """The numbers of the entries."""
        return iter(range(skip, self.total()))

    def reader(self) -> Callable[[int], Page | Skipped]:
        archive = _open(self.path)
        return lambda number: self._entry(archive, number)

    def stamp(self) -> str:
        return stamp_of("zim", file_facts(self.path), self.base_url, self.limits)

    def total(self) -> int:
        return _open(self.path).entry_count

    def _entry(self, archive: "Archive", number: int) -> Page | Skipped:
        try:
            entry = archive._get_entry_by_id(number)
            if entry.is_redirect:
                return Skipped(entry.path, Reason.REDIRECT)
        except (RuntimeError, KeyError, ValueError):  # what libzim raises for damage
            return Skipped(f"entry {number}", Reason.DAMAGED)
        return self._read(archive, entry)

    def _read(self, archive: "Archive", entry: "Entry") -> Page | Skipped:
        where = entry.path
        url = address(self._base, where)
        try:
            item = entry.get_item()
            if item.size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            document = _document(item.mimetype, item.content, url, self.limits, lambda link: self._target(archive, link))
            if isinstance(document, Reason):
                return Skipped(where, document)
            title = document.title or entry.title
        except (RuntimeError, KeyError, ValueError):
            return Skipped(where, Reason.DAMAGED)
        source = f"zim {self.name}"
        return Page(url=url, title=title, text=document.text, links=document.links, date=document.date, source=source)

    def _target(self, archive: "Archive", link: str) -> str:
        """Where a link ends once redirects are followed."""
        if not link.startswith(self._base):
            return link
        path = unquote(link[len(self._base) :])
        for _ in range(_MOST_HOPS):
            if not archive.has_entry_by_path(path):
                return link
            entry = archive.get_entry_by_path(path)
            if not entry.is_redirect:
                return address(self._base, entry.path)
            path = entry.get_redirect_entry().path
        return link


def _open(path: Path) -> "Archive":
    with world_extra():
        from libzim.reader import Archive
    if not path.is_file():
        raise UserError(f"There is no file {path}: give a ZIM file.")
    try:
        return Archive(path)
    except RuntimeError as error:
        raise UserError(f"{path} is no ZIM file, or not a whole one: get it again.") from error


def _document(mime: str, content: memoryview, url: str, limits: Limits, follow: Callable[[str], str]) -> Document | Reason:
    kind = mime.partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return read_html(bytes(content), url, limits, follow=follow)
    if kind in ("text/plain", "text/markdown"):
        return read_markdown(bytes(content), url, limits, follow, marked=kind == "text/markdown")
    return read_pdf(bytes(content), limits) if kind == "application/pdf" else Reason.OTHER_KIND
