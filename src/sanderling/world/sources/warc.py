"""A WARC file, plain or compressed: the HTML, text and PDF answers that it recorded with status 200, read by `fastwarc`.

The address is the recorded one; a page that names the same address with other query parameters as its canonical one has that.
A file cut in the middle keeps what came before. A document is read up to the limit however far it would unpack.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Reason, Skipped
from sanderling.world.sources.documents import MIME_KINDS, Kind, read_document

if TYPE_CHECKING:
    from fastwarc.stream_io import WarcReader
    from fastwarc.warc import WarcRecord

_BLOCK = 1 << 20
_CHUNK_HEAD = re.compile(rb"[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\r\n]*)?\r?\n")
_GZIP_NAMES = re.compile("(?:x-)?gzip$")


@dataclass(frozen=True, slots=True)
class Answer:
    """A document as it was recorded; its Transfer-Encoding and Content-Encoding (``packing``) are not yet undone."""

    url: str
    kind: Kind
    data: bytes
    transfer: str
    packing: str
    charset: str


class WarcSource(FileSource[Answer]):
    """A WARC file."""

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
            return Answer(url, kind, data, "", "", "")
        transfer, packing = ((headers.get(name) or "").lower().strip() for name in ("Transfer-Encoding", "Content-Encoding"))
        return Answer(url, kind, data, transfer, packing, record.http_charset or "")

    def read(self, answer: Answer) -> Page | Skipped:
        url, most = answer.url, self.limits.document_bytes
        try:
            data = answer.data
            if "chunked" in answer.transfer and _CHUNK_HEAD.match(data):
                data = _unpack(data, "chunked", most)
            was_unpacked = _GZIP_NAMES.match(answer.packing) and not data.startswith(b"\x1f\x8b")  # before it was written
            if not was_unpacked:
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
        if not record.is_http_parsed or record.http_headers is None:
            return Reason.TRUNCATED
        status = record.http_headers.status_code or 0
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
