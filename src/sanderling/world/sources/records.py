"""Files of records, a page each, as corpora are published: JSON lines and Parquet, flat or with ``metadata``.

Known layouts, as their own code reads them:

- LiteResearcher, ``url, title, doc`` (the released corpus) or ``id, text, metadata: {title, url}`` (an ``id`` stands in for a
  missing ``url``), and before its conversion ``link, title, content, snippet``: ``environment/README.md`` and
  ``environment/tools/convert_serper.py`` of simplexai-labs/LiteResearcher at ``ec5e48e``.
- Search-R1, ``id, contents``: the title, in quotes, is the first line: ``README.md`` and ``example/corpus.jsonl`` of
  PeterGriffinJin/Search-R1 at ``a14dc3a``.
- OpenResearcher and BrowseComp-Plus, ``docid, url, text``: the text opens with title, author and date between ``---`` lines:
  ``backend.py`` and ``scripts/deploy_search_service.py`` of TIGER-AI-Lab/OpenResearcher at ``105134a``. (There a later ``---``
  ends the page; here it does not.)
"""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Limits, Reason, Skipped
from sanderling.world.sources.documents import split_front_matter

_URL_NAMES = ("url", "link")
_BODY_NAMES = ("text", "doc", "content", "contents", "snippet")
_ID_NAMES = ("id", "docid", "doc_id", "_id")
_NAMES = frozenset((*_URL_NAMES, *_BODY_NAMES, *_ID_NAMES, "title", "date", "links", "metadata"))
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def read_record(record: Any, where: str) -> Page | Skipped:
    """The page of one record, or why there is none."""
    try:
        page = _page_of(record)
    except (ValueError, KeyError, TypeError):
        return Skipped(where, Reason.NOT_A_PAGE)
    if not page.url.strip():
        return Skipped(where, Reason.NO_URL)
    return page if page.text.strip() else Skipped(where, Reason.EMPTY)


def _page_of(record: Any) -> Page:
    """A page from one record. Raises ValueError, KeyError or TypeError when it is none."""
    if not isinstance(record, dict):
        raise TypeError("not an object")
    metadata = record.get("metadata")
    fields = record | (metadata if isinstance(metadata, dict) else {})
    url = next((fields[name] for name in _URL_NAMES if fields.get(name)), None)
    if not url:
        id = str(fields[next((name for name in _ID_NAMES if name in fields), "id")])
        url = id if "://" in id else f"local://{id}"
    body = next((name for name in _BODY_NAMES if fields.get(name)), "text")
    title, text, date = fields.get("title") or "", fields.get(body, ""), str(fields.get("date") or "")
    title = str(title) if isinstance(title, int | float) else title
    if body == "contents" and not title:
        head, _, rest = text.partition("\n")
        title, text = (head.strip().strip('"'), rest) if rest.strip() else ("", text)  # a passage of one line has no title
    elif not title and isinstance(text, str):
        said, text = split_front_matter(text)
        title, date = said.get("title", ""), date or said.get("date", "")
    links = fields.get("links")
    links = tuple(link for link in links if isinstance(link, str)) if isinstance(links, list) else ()
    return Page(url=url, title=title, text=text, links=links, date=date, source="jsonl")


class JsonlSource(FileSource[tuple[int, bytes]]):
    """A file of JSON lines, plain or compressed by gzip or zstd (as the corpus of LiteResearcher is)."""

    what = "a file of JSON lines"

    def reader(self) -> Callable[[tuple[int, bytes]], Page | Skipped]:
        return _read_line

    def documents(self) -> Iterator[tuple[int, bytes] | Skipped]:
        """The lines that are not blank, with their numbers in the file."""
        number = 0
        try:
            for number, line in enumerate(self._lines(), start=1):
                if line is None:
                    yield Skipped(f"line {number}", Reason.TOO_LARGE)
                elif line.strip():
                    yield number, line
        except EOFError:
            yield Skipped(f"after line {number}", Reason.TRUNCATED)
        except zlib.error:
            yield Skipped(f"after line {number}", Reason.DAMAGED)
        except OSError as error:  # what unpacks has no number for its errors, the system has
            yield Skipped(f"after line {number}", Reason.DAMAGED if error.errno is None else Reason.UNREADABLE)

    def _lines(self) -> Iterator[bytes | None]:
        """The lines; None for one past the limit, of which no more than that is held."""
        most = self.limits.document_bytes
        with _unpacked(self.path) as lines:
            while line := lines.readline(most + 1):
                if len(line) <= most or line.endswith(b"\n"):
                    yield line
                    continue
                while (rest := lines.readline(most)) and not rest.endswith(b"\n"):
                    pass
                yield None


def _unpacked(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """The file's bytes, unpacked where gzip or zstd packed them."""
    with path.open("rb") as file:
        head = file.read(4)
    if head == _ZSTD:
        return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    return gzip.open(path) if head.startswith(_GZIP) else path.open("rb")


def _read_line(numbered: tuple[int, bytes]) -> Page | Skipped:
    number, line = numbered
    where = f"line {number}"
    try:
        record = json.loads(line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Skipped(where, Reason.NOT_A_PAGE)
    return read_record(record, where)


class ParquetSource(FileSource[tuple[int, dict[str, Any]]]):
    """A Parquet file, a row a page, read a few at a time, and only the columns that a page is made of.

    What is damaged costs its group of rows, no more.
    """

    what = "a Parquet file"

    def __init__(self, path: str | Path, base_url: str = "", limits: Limits | None = None) -> None:
        """Raises UserError when it is no Parquet file, or has no column of words, too."""
        super().__init__(path, base_url, limits)
        try:
            with pq.ParquetFile(self.path) as file:
                self._columns = [name for name in file.schema_arrow.names if name in _NAMES]
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.path} is no Parquet file, or not a whole one: get it again.") from error
        if not self._columns:
            raise UserError(f"{self.path} has none of the columns {', '.join(sorted(_NAMES))}: it holds no pages.")

    def documents(self) -> Iterator[tuple[int, dict[str, Any]] | Skipped]:
        """The rows with their numbers from 1."""
        number = end = 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.metadata.num_row_groups):
                end += file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(64, row_groups=[group], columns=self._columns):
                        for record in batch.to_pylist():
                            number += 1
                            yield number, record
                except (pa.ArrowException, OSError, ValueError):
                    while number < end:
                        number += 1
                        yield Skipped(f"row {number}", Reason.DAMAGED)

    def reader(self) -> Callable[[tuple[int, dict[str, Any]]], Page | Skipped]:
        return self._read

    def total(self) -> int:
        with pq.ParquetFile(self.path) as file:
            return file.metadata.num_rows

    def _read(self, row: tuple[int, dict[str, Any]]) -> Page | Skipped:
        number, record = row
        where = f"row {number}"
        size = sum(len(value) for value in record.values() if isinstance(value, str | bytes))
        return Skipped(where, Reason.TOO_LARGE) if size > self.limits.document_bytes else read_record(record, where)
