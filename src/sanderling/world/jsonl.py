"""A page from one line of JSON, in the usual shapes: flat or with ``metadata``; the body as text, doc, content or contents.

LiteResearcher writes ``url, title, doc`` or ``id, text, metadata``, Search-R1 ``id, contents`` (the title, in quotes, is the
first line), OpenResearcher ``docid, url, text``. Knows no file.
"""

from typing import Any

from sanderling.world.contract import Page

_BODY_NAMES = ("text", "doc", "content", "contents")
_ID_NAMES = ("id", "docid", "doc_id", "_id")


def page_of(record: Any) -> Page:
    """A page from one record. Raises ValueError, KeyError or TypeError when it is none."""
    if not isinstance(record, dict):
        raise TypeError("not an object")
    metadata = record.get("metadata")
    fields = record | (metadata if isinstance(metadata, dict) else {})
    body = next((name for name in _BODY_NAMES if name in fields), "text")
    url = fields["url"] if "url" in fields else f"local://{fields[next((name for name in _ID_NAMES if name in fields), 'id')]}"
    links = fields.get("links")
    links = tuple(links) if isinstance(links, list) else ()
    title = fields.get("title") or (_first_line(fields[body]) if body == "contents" else "")
    date = str(fields.get("date") or "")
    return Page(url=url, title=title, text=fields[body], links=links, date=date, source="jsonl")


def _first_line(contents: str) -> str:
    """The title of a passage of Search-R1; a passage of one line has none."""
    head, line_end, _ = contents.partition("\n")
    return head.strip().strip('"') if line_end else ""
