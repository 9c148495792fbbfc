"""Pages from records of a page each, in the usual shapes: flat or with ``metadata``, the body under one of several names.

Known layouts, as their own code reads them:

- LiteResearcher, ``url, title, doc`` (the released corpus) or ``id, text, metadata: {title, url}`` (an ``id`` stands in for a
  missing ``url``), and before its conversion ``link, title, content, snippet``: ``environment/README.md`` and
  ``environment/tools/convert_serper.py`` of simplexai-labs/LiteResearcher at ``ec5e48e``.
- Search-R1, ``id, contents``: the title, in quotes, is the first line: ``README.md`` and ``example/corpus.jsonl`` of
  PeterGriffinJin/Search-R1 at ``a14dc3a``.
- OpenResearcher and BrowseComp-Plus, ``docid, url, text``: the text opens with title, author and date between ``---`` lines:
  ``backend.py`` and ``scripts/deploy_search_service.py`` of TIGER-AI-Lab/OpenResearcher at ``105134a``. (There a later ``---``
  ends the page; here it does not.)

Knows no file.
"""

from typing import Any

from sanderling.world.contract import Page
from sanderling.world.front_matter import split_front_matter

SOURCE = "jsonl"

_URL_NAMES = ("url", "link")
_BODY_NAMES = ("text", "doc", "content", "contents", "snippet")
_ID_NAMES = ("id", "docid", "doc_id", "_id")
NAMES = frozenset((*_URL_NAMES, *_BODY_NAMES, *_ID_NAMES, "title", "date", "links", "metadata"))
"""Of all fields that are read."""


def page_of(record: Any) -> Page:
    """A page from one record. Raises ValueError, KeyError or TypeError when it is none."""
    if not isinstance(record, dict):
        raise TypeError("not an object")
    metadata = record.get("metadata")
    fields = record | (metadata if isinstance(metadata, dict) else {})
    url = next((fields[name] for name in _URL_NAMES if fields.get(name)), None) or _address(fields)
    body = next((name for name in _BODY_NAMES if fields.get(name)), "text")
    title, text, date = fields.get("title") or "", fields.get(body, ""), str(fields.get("date") or "")
    title = str(title) if isinstance(title, int | float) else title
    if body == "contents" and not title:
        title, text = _quoted_title(text)
    elif not title and isinstance(text, str):
        said, text = split_front_matter(text)
        title, date = said.get("title", ""), date or said.get("date", "")
    links = fields.get("links")
    links = tuple(link for link in links if isinstance(link, str)) if isinstance(links, list) else ()
    return Page(url=url, title=title, text=text, links=links, date=date, source=SOURCE)


def _address(fields: dict[str, Any]) -> str:
    """The address of a record without one. Raises KeyError when it has no id either."""
    given = str(fields[next((name for name in _ID_NAMES if name in fields), "id")])
    return given if "://" in given else f"local://{given}"


def _quoted_title(contents: str) -> tuple[str, str]:
    """Title and text of a passage of Search-R1; a passage of one line has no title."""
    head, _, rest = contents.partition("\n")
    return (head.strip().strip('"'), rest) if rest.strip() else ("", contents)
