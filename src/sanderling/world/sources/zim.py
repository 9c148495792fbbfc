"""A ZIM file (Kiwix): its HTML, text and PDF entries, read by `libzim`.

An address is the base and the entry's path. Redirects are counted, not kept; links to them lead to what they redirect to. The
address that an article has on the web is not known: give it as the base.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Limits, Reason, Skipped
from sanderling.world.sources.documents import MIME_KINDS, Kind, read_document
from sanderling.world.sources.links import address, base_of

_MOST_HOPS = 8


class ZimSource(FileSource[int]):
    """A ZIM file."""

    what = "a ZIM file"
    needs = "libzim.reader"

    def __init__(self, path: str | Path, base_url: str = "", limits: Limits | None = None) -> None:
        """Raises UserError when it is no ZIM file, too."""
        super().__init__(path, base_url, limits)
        import libzim.reader

        self._base = base_of(base_url, self.path.stem)
        try:
            self._archive = libzim.reader.Archive(self.path)
        except RuntimeError as error:
            raise UserError(f"{path} is no ZIM file, or not a whole one: get it again.") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.base_url, self.limits)

    def documents(self) -> Iterator[int]:
        return iter(range(self.total()))

    def total(self) -> int:
        return self._archive.entry_count

    def read(self, number: int) -> Page | Skipped:
        where = f"entry {number}"
        try:
            entry = self._archive._get_entry_by_id(number)
            where = entry.path
            if entry.is_redirect:
                return Skipped(where, Reason.REDIRECT)
            item = entry.get_item()
            if item.size > self.limits.document_bytes:
                return Skipped(where, Reason.TOO_LARGE)
            mime = item.mimetype.partition(";")[0].strip().lower()
            kind = Kind.MARKDOWN if mime == "text/markdown" else MIME_KINDS.get(mime)
            if kind is None:
                return Skipped(where, Reason.OTHER_KIND)
            url, data = address(self._base, where), bytes(item.content)
            document = read_document(kind, data, url, self.limits, follow=self._target)
            if isinstance(document, Reason):
                return Skipped(where, document)
            return document.page(url, entry.title, f"zim {self.name}")
        except (RuntimeError, KeyError, ValueError):  # what libzim raises for damage
            return Skipped(where, Reason.DAMAGED)

    def _target(self, link: str) -> str:
        """Where a link ends once redirects are followed."""
        if not link.startswith(self._base):
            return link
        path = unquote(link[len(self._base) :])
        for _ in range(_MOST_HOPS):
            if not self._archive.has_entry_by_path(path):
                return link
            entry = self._archive.get_entry_by_path(path)
            if not entry.is_redirect:
                return address(self._base, entry.path)
            path = entry.get_redirect_entry().path
        return link
