"""A file's text, piece by piece, whatever its compression and encoding.

Contract: never more than a few pieces in memory. gzip, bzip2 and Zstandard are recognised by their first bytes; UTF-8, UTF-16
and UTF-32 with a mark or without; bytes that are not UTF-8 are read as Windows-1252 and counted, the rest of the file being
read as ever. A compressed file that ends early gives all that stands before its end. Knows no JSON.
"""

import bz2
import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import pyarrow as pa

from sanderling.core.errors import UserError
from sanderling.data.importers.items import Remark

_PIECE = 1 << 20
_SMALL = 1 << 16
"""Read at once where a damaged end would cost everything that was asked for with it."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FOREIGN = re.compile("[\udc80-\udcff]+")
"""How ``surrogateescape`` shows bytes that are not UTF-8."""


class _Bytes(Protocol):
    """What a file and all that unpacks one have in common."""

    def read(self, size: int, /) -> bytes | None: ...


class TextFile:
    """The text of one file. ``done``: bytes of the file read so far."""

    def __init__(self, path: Path) -> None:
        """Raises UserError when the file cannot be opened."""
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error

    @property
    def done(self) -> int:
        return 0 if self._file.closed else self._file.tell()

    def pieces(self) -> Iterator[str | Remark]:
        """Pieces of text in order, and what was odd about the file."""
        with self._file:
            stream = _plain(self._file)
            head, ended = self._read(stream)
            mark, encoding = _encoding(head)
            if encoding != "utf-8":
                yield Remark("not_utf8_file", f"read as {encoding}")
            decoder = codecs.getincrementaldecoder(encoding)("surrogateescape" if encoding == "utf-8" else "replace")
            yield from _mended(decoder.decode(head[len(mark) :]))
            while ended is None:
                piece, ended = self._read(stream)
                if not piece:
                    break
                yield from _mended(decoder.decode(piece))
            yield from _mended(decoder.decode(b"", final=True))
            if ended is not None:
                yield Remark("truncated_file", ended)

    def _read(self, stream: _Bytes) -> tuple[bytes, str | None]:
        """The next bytes, and why there are no more where the file is damaged."""
        try:
            at_once = getattr(stream, "read1", None)  # gives what there is, where ``read`` would fail with all of it
            return (at_once(_PIECE) if at_once else stream.read(_SMALL)) or b"", None
        except (EOFError, OSError, zlib.error, ValueError) as error:
            return b"", str(error) or "the compressed file ends early"


def _plain(file: IO[bytes]) -> _Bytes:
    """The file's bytes, unpacked."""
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(file)
    if magic[:3] == b"BZh":
        return bz2.open(file)
    if magic == b"\x28\xb5\x2f\xfd":
        return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    return file


def _encoding(head: bytes) -> tuple[bytes, str]:
    """The mark at the beginning and the encoding; without a mark, every second byte NUL means UTF-16."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return mark, encoding
    sample = head[:512]
    if len(sample) >= 4:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        most = 0.8 * (len(sample) // 2)
        if odd > most and even == 0:
            return b"", "utf-16-le"
        if even > most and odd == 0:
            return b"", "utf-16-be"
    return b"", "utf-8"


def _mended(text: str) -> Iterator[str | Remark]:
    """Text in which bytes that were not UTF-8 are Windows-1252's characters."""
    if text.isascii() or _FOREIGN.search(text) is None:
        yield text
        return
    found = _FOREIGN.findall(text)
    first = _FOREIGN.search(text)
    assert first is not None
    yield Remark("not_utf8", _FOREIGN.sub(_western, text[max(0, first.start() - 40) : first.end() + 40]), len(found))
    yield _FOREIGN.sub(_western, text)


def _western(found: re.Match[str]) -> str:
    data = found[0].encode("utf-8", "surrogateescape")
    return "".join(_character(byte) for byte in data)


def _character(byte: int) -> str:
    """A byte in Windows-1252, or in Latin-1 where that has none."""
    try:
        return bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(byte)
