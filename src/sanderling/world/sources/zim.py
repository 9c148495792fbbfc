"""A ZIM file (Kiwix): its HTML, text and PDF entries, read by `libzim`.

An address is the base and the entry's path. Redirects are counted, not kept; links to them lead to what they redirect to. The
address that an article has on the web is not known: give it as the base.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Reason, Skipped, world_extra
from sanderling.world.sources.documents import Kind, read_document
from sanderling.world.sources.links import address, base_of

if TYPE_CHECKING:
    from libzim.reader import Archive

_MOST_HOPS = 8
_KINDS = {
    "text/html": Kind.HTML,
    "application/xhtml+xml": Kind.HTML,
    "text/plain": Kind.TEXT,
    "text/markdown": Kind.MARKDOWN,
    "application/pdf": Kind.PDF,
}


class ZimSource(FileSource[int]):
    """A ZIM file."""

    what = "a ZIM file"

    def __post_init__(self) -> None:
        """Raises UserError when it is no ZIM file, or `libzim` is not installed, too."""
        with world_extra():
            import libzim.reader  # noqa: F401
        super().__post_init__()
        _open(self.path)

    @property
    def _base(self) -> str:
        return base_of(self.base_url, self.path.stem)

    def documents(self, skip: int) -> Iterator[int | Skipped]:
        """The numbers of the entries."""
        return iter(range(skip, self.total()))

    def reader(self) -> Callable[[int], Page | Skipped]:
        archive = _open(self.path)
        return lambda number: self._entry(archive, number)

    def total(self) -> int:
        return _open(self.path).entry_count

    def _entry(self, archive: "Archive", number: int) -> Page | Skipped:
        where = f"entry {number}"
        try:
            entry = archive._get_entry_by_id(number)
            where = entry.path
            if entry.is_redirect:
                return Skipped(where, Reason.REDIRECT)
            item = entry.get_item()
            if item.size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            kind = _KINDS.get(item.mimetype.partition(";")[0].strip().lower())
            if kind is None:
                return Skipped(where, Reason.OTHER_KIND)
            url, data = address(self._base, where), bytes(item.content)
            document = read_document(kind, data, url, self.limits, follow=lambda link: self._target(archive, link))
            if isinstance(document, Reason):
                return Skipped(where, document)
            title = document.title or entry.title
        except (RuntimeError, KeyError, ValueError):  # what libzim raises for damage
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
    from libzim.reader import Archive

    try:
        return Archive(path)
    except RuntimeError as error:
        raise UserError(f"{path} is no ZIM file, or not a whole one: get it again.") from error
