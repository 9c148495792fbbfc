"""Files of records, a page each, as corpora are published: JSON lines and Parquet, flat or with ``metadata``.

- LiteResearcher (``ec5e48e``): ``url, title, doc``, or ``id, text, metadata: {title, url}`` (an ``id`` stands in for a missing
  ``url``), and before its conversion (``convert_serper.py``) ``link, title, content, snippet``.
- Search-R1 (``a14dc3a``): ``id, contents``: the title, in quotes, is the first line.
- OpenResearcher (``105134a``), BrowseComp-Plus: ``docid, url, text``: title, author and date between ``---`` lines come first.
"""

import codecs
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sanderling.core.errors import UserError
from sanderling.runs.files import Unpacked
from sanderling.world.contract import Page
from sanderling.world.sources.base import FileSource, Limits, Raw, Reason, Skipped, base_of, place_mark
from sanderling.world.sources.documents import split_front_matter

_URL_NAMES = ("url", "link")
_BODY_NAMES = ("text", "doc", "content", "contents", "snippet")
_ID_NAMES = ("id", "docid", "doc_id", "_id")
_NAMES = frozenset((*_URL_NAMES, *_BODY_NAMES, *_ID_NAMES, "title", "date", "links", "metadata"))


def read_record(record: Any, where: str, base: str = "local://") -> Page | Skipped:
    """The page of one record, below ``base`` if it has a number in place of an address; or why there is none."""
    if not isinstance(record, dict):
        return Skipped(where, Reason.NOT_A_PAGE)
    metadata = record.get("metadata")
    fields = record | (metadata if isinstance(metadata, dict) else {})
    url = next((fields[name] for name in _URL_NAMES if fields.get(name)), None)
    if not url:
        id = next((str(fields[name]) for name in _ID_NAMES if name in fields), None)
        if id is None:
            return Skipped(where, Reason.NOT_A_PAGE)
        url = id if "://" in id else base + id
    body = next((name for name in _BODY_NAMES if fields.get(name)), "text")
    title, text, date = fields.get("title") or "", fields.get(body, ""), str(fields.get("date") or "")
    title = str(title) if isinstance(title, int | float) else title
    if not title and isinstance(text, str):
        if body == "contents":
            head, _, rest = text.partition("\n")
            title, text = (head.strip().strip('"'), rest) if rest.strip() else ("", text)  # of one line: it has no title
        else:
            said, text = split_front_matter(text)
            title, date = said.get("title", ""), date or said.get("date", "")
    links = fields.get("links")
    links = tuple(link for link in links if isinstance(link, str)) if isinstance(links, list) else ()
    try:
        page = Page(url=url, title=title, text=text, links=links, date=date, source="jsonl")
    except ValueError:
        return Skipped(where, Reason.NOT_A_PAGE)
    if not page.url.strip():
        return Skipped(where, Reason.NO_URL)
    return page if page.text.strip() else Skipped(where, Reason.EMPTY)


class RecordSource(FileSource[Raw]):
    """A file of records, each a page."""

    @property
    def _base(self) -> str:
        return base_of(self.base_url, "") if self.base_url else "local://"

    def bases(self) -> dict[str, str]:
        """Told by the first page: whether its address is below the base that it was given."""
        probe = type(self)(self.path, "probe://records/", self.limits)
        first = next((item.url for item in probe.items() if isinstance(item, Page)), "")
        return {self._base: place_mark(self.path)} if first.startswith(probe.base_url) else {}


class JsonlSource(RecordSource[tuple[int, bytes]]):
    """A file of JSON lines, plain or packed (as the corpus of LiteResearcher is)."""

    what = "a file of JSON lines"

    def documents(self) -> Iterator[tuple[int, bytes] | Skipped]:
        """The lines that are not blank, with their numbers in the file; of one past the limit, no more than that is held."""
        number, most = 0, self.limits.document_bytes
        unpacked = Unpacked(self.path)
        with io.BufferedReader(unpacked, 1 << 16) as lines:
            while line := lines.readline(most + 1):
                rest = b"" if len(line) <= most else line
                while rest and not rest.endswith(b"\n"):
                    rest = lines.readline(most)
                if unpacked.damage and not line.endswith(b"\n"):
                    break
                number += 1
                if len(line) > most and not line.endswith(b"\n"):
                    yield Skipped(f"line {number}", Reason.TOO_LARGE)
                elif line.strip():
                    yield number, line
        if unpacked.damage:
            yield Skipped(f"after line {number}", Reason.TRUNCATED if unpacked.is_cut else Reason.DAMAGED)

    def read(self, numbered: tuple[int, bytes]) -> Page | Skipped:
        number, line = numbered
        try:
            record = json.loads(line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return Skipped(f"line {number}", Reason.NOT_A_PAGE)
        return read_record(record, f"line {number}", self._base)


class ParquetSource(RecordSource[tuple[int, dict[str, Any]]]):
    """A Parquet file, a row a page, read a few at a time, and only the columns that a page is made of."""

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
        number = 0
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(64, columns=self._columns):
                    for record in batch.to_pylist():
                        number += 1
                        yield number, record
        except (pa.ArrowException, OSError, ValueError):
            yield Skipped(f"after row {number}", Reason.DAMAGED)

    def read(self, row: tuple[int, dict[str, Any]]) -> Page | Skipped:
        number, record = row
        where = f"row {number}"
        size = sum(len(value) for value in record.values() if isinstance(value, str | bytes))
        return Skipped(where, Reason.TOO_LARGE) if size > self.limits.document_bytes else read_record(record, where, self._base)
