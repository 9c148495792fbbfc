"""The cells of a workbook's first sheet, as texts. Knows no benchmark.

An .xlsx file is a ZIP archive of XML; the standard library reads both. Cells are placed by their reference (gaps are None),
texts come from the table of shared strings or stand inline, a formula gives the value that was stored with it. Archives that
unpack to more than 512 MiB are refused, by what their directory says and by what is read.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

from sanderling.core.errors import UserError

_MOST_BYTES = 512 << 20
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_PLACE = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]+")
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_MOST_COLUMNS = 16_384
"""As the format has it."""


def sheet_rows(path: Path) -> Iterator[list[str | None]]:
    """Rows of the first sheet, each as long as the first one at least. Raises UserError for what is no workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > _MOST_BYTES:
                raise UserError(f"{path} unpacks to more than 512 MiB: no benchmark does, so it is not opened.")
            shared = _shared_strings(archive)
            with archive.open(_first_sheet(archive)) as sheet:
                width = 0
                for row in _rows(_Bounded(sheet), shared):
                    width = width or len(row)
                    yield row + [None] * (width - len(row))
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        ElementTree.ParseError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise UserError(f"{path} is no workbook (.xlsx) that can be read ({error}): unpack it, or save it as CSV.") from error


class _Bounded:
    """A part of an archive that may lie about its size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = _MOST_BYTES

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(piece)
        if self._left < 0:
            raise zipfile.BadZipFile("it unpacks to more than 512 MiB")
        return piece


def _first_sheet(archive: zipfile.ZipFile) -> str:
    """Where the first sheet of the workbook lies in the archive."""
    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
    sheet = book.find(f"{_MAIN}sheets/{_MAIN}sheet")
    if sheet is None:
        raise KeyError("it has no sheet")
    relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    for relation in relations:
        if relation.get("Id") == sheet.get(_PLACE):
            target = relation.get("Target", "")
            return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    raise KeyError("its first sheet is not in it")


def _shared_strings(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    found = []
    with archive.open("xl/sharedStrings.xml") as file:
        for _, item in ElementTree.iterparse(_Bounded(file)):
            if item.tag == f"{_MAIN}si":
                found.append(_text(item))
                item.clear()
    return found


def _rows(sheet: _Bounded, shared: list[str]) -> Iterator[list[str | None]]:
    for _, row in ElementTree.iterparse(sheet):
        if row.tag != f"{_MAIN}row":
            continue
        cells: list[str | None] = []
        for cell in row.findall(f"{_MAIN}c"):
            at = _column(cell.get("r", ""), len(cells))
            cells += [None] * (at - len(cells))
            cells.append(_value(cell, shared))
        row.clear()
        yield cells


def _column(reference: str, following: int) -> int:
    """The place of a cell in its row, from 0; the next one where the cell does not say it."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return following
    at = 0
    for letter in found[1]:
        at = at * 26 + ord(letter) - 64
    if not following < at <= _MOST_COLUMNS:
        raise KeyError(f"the cell {reference} stands where it cannot")
    return at - 1


def _value(cell: ElementTree.Element, shared: list[str]) -> str | None:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        inline = cell.find(f"{_MAIN}is")
        return None if inline is None else _text(inline)
    value = cell.findtext(f"{_MAIN}v")
    if value is None or kind == "e":
        return None
    if kind == "s":
        if not value.strip().isdecimal() or int(value) >= len(shared):
            raise KeyError(f"it has no shared text {value}")
        return shared[int(value)]
    return _plain(value)


def _text(item: ElementTree.Element) -> str:
    """The text of a string, whose parts may be formatted each in its own way; how it is read aloud (rPh) is no part of it."""
    parts = [item.findtext(f"{_MAIN}t") or "", *(run.findtext(f"{_MAIN}t") or "" for run in item.findall(f"{_MAIN}r"))]
    return _plain("".join(parts))


def _plain(text: str) -> str:
    """The format writes characters that XML cannot hold as _x000D_."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
