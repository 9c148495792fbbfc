"""Office documents as text: Word, PowerPoint, Excel, and LibreOffice's Writer, Impress and Calc. Each is a zip of XML files.

Headings and tables become Markdown's; of a presentation each slide has its number above it, of a workbook each sheet its name.
"""

import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import BadZipFile, ZipFile

from sanderling.world.sources.base import Document, Limits, Reason
from sanderling.world.text import is_text

_OLE = b"\xd0\xcf\x11\xe0"  # how the files of old versions begin, and those of new ones that are encrypted
_BROKEN = (BadZipFile, ElementTree.ParseError, zlib.error, KeyError, ValueError, RuntimeError, NotImplementedError, EOFError)
_NUMBER = re.compile(r"\d+")
_MOST_REPEATED = 100  # cells and blanks that one element stands for: a sheet fills its last row and column up with empty ones


class _TooLargeError(Exception):
    pass


def read_office(data: bytes, limits: Limits) -> Document | Reason:
    """Read a document of any of these programs, or say why there is none."""
    if data.startswith(_OLE):
        return Reason.ENCRYPTED if "EncryptedPackage".encode("utf-16-le") in data else Reason.OTHER_KIND
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            parts = _Parts(archive, limits.document_bytes)
            text = "\n\n".join(filter(None, (part.strip() for part in parts.texts())))
            title, date = parts.about()
    except _TooLargeError:
        return Reason.TOO_LARGE
    except _BROKEN as error:
        return Reason.ENCRYPTED if "encrypted" in str(error) else Reason.DAMAGED
    if not text:
        return Reason.EMPTY
    return Document(title, text, (), date) if is_text(text) else Reason.NOT_TEXT


class _Parts:
    """The XML files of a document, unpacked up to a limit together."""

    def __init__(self, archive: ZipFile, most: int) -> None:
        self._archive, self._left = archive, most
        self._names = set(archive.namelist())

    def texts(self) -> Iterator[str]:
        """The text of each part. Raises KeyError for a zip of something else."""
        if "word/document.xml" in self._names:
            yield _blocks(self._xml("word/document.xml"))
            for name in self._numbered(r"word/(?:footnotes|endnotes)\.xml"):
                yield _blocks(self._xml(name))
        elif "xl/workbook.xml" in self._names:
            yield from self._sheets()
        elif slides := self._numbered(r"ppt/slides/slide\d+\.xml"):
            for number, name in enumerate(slides, start=1):
                yield f"## {number}\n\n{_blocks(self._xml(name))}"
        else:
            if b"encryption-data" in self._read("META-INF/manifest.xml"):
                raise RuntimeError("encrypted")
            yield _blocks(self._xml("content.xml"))

    def about(self) -> tuple[str, str]:
        """Title and the day it was made."""
        with suppress(KeyError, ElementTree.ParseError):
            facts = self._xml("docProps/core.xml" if "docProps/core.xml" in self._names else "meta.xml")
            said = {_name(one): (one.text or "").strip() for one in facts.iter()}
            day = said.get("created") or said.get("creation-date") or ""
            return said.get("title", ""), day[:10]
        return "", ""

    def _sheets(self) -> Iterator[str]:
        shared = []
        if "xl/sharedStrings.xml" in self._names:
            shared = [_words(one) for one in self._xml("xl/sharedStrings.xml") if _name(one) == "si"]
        names = [one.get("name", "") for one in self._xml("xl/workbook.xml").iter() if _name(one) == "sheet"]
        for place, name in enumerate(self._numbered(r"xl/worksheets/sheet\d+\.xml")):
            rows = []
            for row in (one for one in self._xml(name).iter() if _name(one) == "row"):
                cells = []
                for cell in row:
                    said = "".join(_words(one) for one in cell if _name(one) in ("v", "is"))
                    cells.append(shared[int(said)] if cell.get("t") == "s" and said else said)
                rows.append(_row(cells))
            yield f"## {names[place] if place < len(names) else ''}\n\n" + "\n".join(filter(None, rows))

    def _numbered(self, pattern: str) -> list[str]:
        """The parts whose name is of a kind, in the order of their numbers."""
        found = (name for name in self._names if re.fullmatch(pattern, name))
        return sorted(found, key=lambda name: (int(number[0]) if (number := _NUMBER.search(name)) else 0, name))

    def _read(self, name: str) -> bytes:
        with self._archive.open(name) as file:
            data = file.read(self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        return data

    def _xml(self, name: str) -> Element:
        data = self._read(name)
        if b"<!DOCTYPE" in data[:1_000]:  # no program writes one here; entities could make much of little
            raise ValueError("a document type")
        return ElementTree.fromstring(data)


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _get(element: Element, name: str) -> str:
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), "")


def _words(element: Element) -> str:
    """The text of a paragraph or cell; what was deleted, fields' codes and remarks are not in it."""
    parts = []
    for one in element:
        name = _name(one)
        if name in ("t", "delText", "instrText", "v"):
            parts.append((one.text or "") if name in ("t", "v") else "")
        elif name in ("tab", "br", "line-break", "cr"):
            parts.append(" ")
        elif name == "s":
            parts.append(" " * min(int(_get(one, "c") or 1), _MOST_REPEATED))
        elif name not in ("annotation", "rPh", "tracked-changes"):
            parts.append(_words(one))
        parts.append(one.tail or "")
    return (element.text or "") + "".join(parts)


def _blocks(element: Element) -> str:
    """Paragraphs, headings and tables below an element, a blank line between them."""
    found: list[str] = []
    for one in element:
        name = _name(one)
        if name in ("p", "h"):
            text = " ".join(_words(one).split())
            level = _level(one, name)
            found.append(f"{'#' * level} {text}" if level and text else text)
        elif name in ("tbl", "table"):
            rows = (row for row in one.iter() if _name(row) in ("tr", "table-row"))
            found.append("\n".join(filter(None, (_row(_cells(row)) for row in rows))))
        elif name not in ("tracked-changes", "annotation"):
            found.append(_blocks(one))
    return "\n\n".join(filter(None, found))


def _level(paragraph: Element, name: str) -> int:
    """Of which level a heading is; 0: it is none."""
    if name == "h":
        return min(int(_get(paragraph, "outline-level") or 1), 6)
    style = next((_get(one, "val") for one in paragraph.iter() if _name(one) == "pStyle"), "")
    found = re.fullmatch(r"(?:Heading|berschrift|Titre)(\d)|(Title)", style)
    return 0 if found is None else min(int(found[1] or 1), 6)


def _cells(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if _name(cell) in ("tc", "table-cell"):
            text = " ".join(" ".join(_words(one).split()) for one in cell.iter() if _name(one) == "p")
            cells += [text] * min(int(_get(cell, "number-columns-repeated") or 1), _MOST_REPEATED)
    return cells


def _row(cells: list[str]) -> str:
    shown = [" ".join(cell.split()).replace("|", "/") for cell in cells]
    while shown and not shown[-1]:
        shown.pop()
    return f"| {' | '.join(shown)} |" if shown else ""
