"""Archives of sites: WARC files, read by `fastwarc`, and ZIM files (Kiwix), read by `libzim`."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Limits, Reason, Skipped, address, base_of, place_mark
from sanderling.world.sources.documents import MIME_KINDS, Kind, read_document

if TYPE_CHECKING:
    from fastwarc.stream_io import WarcReader
    from fastwarc.warc import WarcRecord

_BLOCK = 1 << 20
_CHUNK_HEAD = re.compile(rb"[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\r\n]*)?\r?\n")
_GZIP_NAMES = re.compile("(?:x-)?gzip$")
_MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """A document as it was recorded; its Transfer-Encoding and Content-Encoding (``packing``) are not yet undone."""

    url: str
    kind: Kind
    data: bytes
    transfer: str = ""
    packing: str = ""
    charset: str = ""


class WarcSource(FileSource[Answer]):
    """A WARC file, plain or compressed: the HTML, text and PDF answers that it recorded with status 200.

    The address is the recorded one, or its canonical one where that has other query parameters alone.
    """

    what = "a WARC file"
    needs = "fastwarc.warc"

    def documents(self) -> Iterator[Answer | Skipped]:
        from fastwarc.warc import ArchiveIterator, WarcRecordType

        kinds = WarcRecordType.response | WarcRecordType.resource | WarcRecordType.conversion | WarcRecordType.revisit
        where = "the start"
        try:
            with self.path.open("rb") as file:
                for record in ArchiveIterator(file, record_types=kinds, auto_decode="none"):
                    where = (record.headers.get("WARC-Target-URI") or "").strip().strip("<>")
                    yield self._answer(record, where)
        except OSError:
            yield Skipped(f"after {where}", Reason.DAMAGED)

    def _answer(self, record: "WarcRecord", url: str) -> Answer | Skipped:
        """One record, read no further than the limit."""
        kind = _kind(record)
        most = self.limits.document_bytes
        data = _read_up_to(record.reader, most + 1)
        if len(data) > most:
            return Skipped(url, kind if isinstance(kind, Reason) else Reason.TOO_LARGE)
        if len(data) < record.content_length:  # of a record that was cut, what its head says cannot be relied on
            return Skipped(url, Reason.TRUNCATED)
        if isinstance(kind, Reason):
            return Skipped(url, kind)
        if not url:
            return Skipped("a record without address", Reason.NO_URL)
        headers = record.http_headers if record.is_http_parsed else None
        if headers is None:
            return Answer(url, kind, data)
        transfer, packing = ((headers.get(name) or "").lower().strip() for name in ("Transfer-Encoding", "Content-Encoding"))
        return Answer(url, kind, data, transfer, packing, record.http_charset or "")

    def read(self, answer: Answer) -> Page | Skipped:
        url, data, most = answer.url, answer.data, self.limits.document_bytes
        try:
            if "chunked" in answer.transfer and _CHUNK_HEAD.match(data):
                data = _unpack(data, "chunked", most)
            if not _GZIP_NAMES.match(answer.packing) or data.startswith(b"\x1f\x8b"):  # some crawlers unpack, and do not say so
                data = _unpack(data, answer.packing, most)
        except (OSError, ValueError):
            return Skipped(url, Reason.DAMAGED)
        document = read_document(answer.kind, data, url, self.limits, charset=answer.charset)
        if isinstance(document, Reason):
            return Skipped(url, document)
        own = document.canonical.partition("?")[0] == url.partition("?")[0]  # one that claims to be another's is not believed
        shown = document.canonical if document.canonical and own else url
        links = tuple(link for link in document.links if link != shown)
        title = urlsplit(url).path.rpartition("/")[2] or url
        return replace(document, links=links).page(shown, title, f"warc {self.name}")


def _kind(record: "WarcRecord") -> Kind | Reason:
    """How a record is read, or why it is not."""
    from fastwarc.warc import WarcRecordType

    if record.record_type == WarcRecordType.revisit:
        return Reason.REDIRECT
    if record.headers.get("Content-Length") is None:
        return Reason.TRUNCATED
    mime = (record.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if mime == "application/http":
        status = (record.http_headers.status_code or 0) if record.is_http_parsed and record.http_headers is not None else 0
        if status < 100:
            return Reason.TRUNCATED
        if status != 200:
            return Reason.REDIRECT if 300 <= status < 400 else Reason.NOT_OK
        mime = (record.http_content_type or "").partition(";")[0].strip().lower()
    return MIME_KINDS.get(mime, Reason.OTHER_KIND)


def _unpack(data: bytes, packing: str, most: int) -> bytes:
    """Unpacked data, no further than one byte past ``most``. Raises OSError when it is damaged."""
    from fastwarc.stream_io import BrotliReader, ChunkedReader, GzipReader, ZstdReader

    if packing in ("gzip", "x-gzip", "deflate"):
        return _read_up_to(GzipReader(io.BytesIO(data), zlib=packing == "deflate"), most + 1)
    reader = {"br": BrotliReader, "zstd": ZstdReader, "chunked": ChunkedReader}.get(packing)
    return _read_up_to(reader(io.BytesIO(data)), most + 1) if reader else data


def _read_up_to(reader: "WarcReader", most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := reader.read(min(most, _BLOCK))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


class ZimSource(FileSource[int]):
    """The HTML, text and PDF entries of a ZIM file; links to redirects lead to what they redirect to."""

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

    def bases(self) -> dict[str, str]:
        return {self._base: place_mark(self.path)}

    def documents(self) -> Iterator[int]:
        return iter(range(self._archive.entry_count))

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
            url = address(self._base, where)
            document = read_document(kind, bytes(item.content), url, self.limits, follow=self._target)
            if isinstance(document, Reason):
                return Skipped(where, document)
            return document.page(url, entry.title, f"zim {self.name}")
        except (RuntimeError, KeyError, ValueError):  # what libzim raises for damage
            return Skipped(where, Reason.DAMAGED)

    def _target(self, link: str) -> str:
        """Where a link ends once redirects are followed."""
        path = unquote(link[len(self._base) :]) if link.startswith(self._base) else ""
        for _ in range(_MOST_HOPS):
            if not path or not self._archive.has_entry_by_path(path):
                return link
            entry = self._archive.get_entry_by_path(path)
            if not entry.is_redirect:
                return address(self._base, entry.path)
            path = entry.get_redirect_entry().path
        return link
