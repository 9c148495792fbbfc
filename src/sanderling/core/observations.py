"""Reading what recorded tools returned: search results in JSON or numbered Markdown links, and page extracts.

Contract: pure functions over an observation's text, in or out of its ``<tool_response>`` wrapper; they never raise, and what
could not be read is named by a code. URLs keep their parentheses, titles their brackets, queries their quotes; ``Date
published`` lines become dates. A truncated JSON list yields every entry that is whole.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sanderling.core.types import ToolStatus

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"
_NEXT = re.compile(r"</tool_response>\s*<tool_response>")
_DECODER = json.JSONDecoder(strict=False)
_HEADER = re.compile(
    r"^A Google search for '((?:(?!\n=======\n).)*?)' found (\d+) results?:[ ]*\n+## Web Results[ ]*(?:\n|\Z)", re.M | re.S
)
_FAILED = re.compile(r"^A Google search for '((?:(?!\n=======\n).)*?)' failed\. ([^\n]+)", re.M | re.S)
_ENTRY = re.compile(r"^(\d+)\. \[", re.M)
_SEPARATOR = re.compile(r"\n=======\s*\Z")
_EXTRACT = re.compile(r"^The useful information in (.+?) for user goal (.{0,4000}?) as follows:[ ]*(?:\n|\Z)", re.M | re.S)
_EVIDENCE = re.compile(r"\s*Evidence in page:[ ]*(?:\n|\Z)")
_SUMMARY = re.compile(r"^Summary:[ ]*(?:\n|\Z)", re.M)
_DATE = re.compile(r"\s*Date (?:published|updated):[ ]*(.*)\s*(?:\n|\Z)")
_SOURCE = re.compile(r"\s*Source:[ ].*\n")
_DEAD = re.compile(r"could not be (?:accessed|processed|fully loaded|loaded|retrieved)", re.I)
_DEAD_CHARS = 400
"""A notice of failure is short; longer evidence that says "could not be accessed" is a page about something else."""
_QUERY = re.compile(r'\{\s*"query"\s*:\s*')
_LIST = re.compile(r'\s*,\s*"web_page_info_list"\s*:\s*\[\s*')


@dataclass(frozen=True)
class ListedPage:
    """One entry of a recorded list of results."""

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True)
class SearchBlock:
    """The results of one query."""

    query: str
    hits: tuple[ListedPage, ...]
    error: str = ""
    """What was said of a search that failed."""


@dataclass(frozen=True)
class Extract:
    """What a visit returned of one page."""

    url: str
    goal: str
    evidence: str
    """The page's own words; empty where only a summary was recorded."""
    summary: str
    dead: bool = False
    """The page could not be read when it was recorded."""

    @property
    def text(self) -> str:
        """Evidence and summary as one text."""
        return "\n\n".join(part for part in (self.evidence, self.summary) if part)


@dataclass(frozen=True)
class Reading:
    """What one observation holds."""

    blocks: tuple[SearchBlock, ...] = ()
    extracts: tuple[Extract, ...] = ()
    status: ToolStatus = ToolStatus.OK
    parts: tuple[ToolStatus, ...] = ()
    """The status of each ``<tool_response>`` in the observation, where it holds several; empty where it holds one."""
    problems: tuple[str, ...] = ()
    """Codes: ``truncated_results``, ``odd_hit``, ``odd_block``, ``unread_entry``, ``unknown_layout``, ``tool_timeout``,
    ``tool_failed``."""


def unwrap(text: str) -> str:
    """An observation without its wrapper; exactly what stood between, or the text itself where the wrapper is not whole.

    Blanks around the wrapper, and a wrapper without its line breaks, do no harm.
    """
    bare = text.strip()
    if bare.startswith(_OPEN) and bare.endswith(_CLOSE) and len(bare) >= len(_OPEN) + len(_CLOSE):
        return bare[len(_OPEN) : -len(_CLOSE)].removeprefix("\n").removesuffix("\n")
    return text


def read_observation(text: str) -> Reading:
    """What an observation holds, whatever its layout; the results of several calls are read one by one."""
    bare = text.strip()
    inner = bare.removeprefix(_OPEN).removesuffix(_CLOSE)
    parts = _NEXT.split(inner) if bare.startswith(_OPEN) else [inner]
    readings = [_read_part(part.strip()) for part in parts]
    if len(readings) == 1:
        return readings[0]
    statuses = tuple(reading.status for reading in readings)
    return Reading(
        blocks=tuple(block for reading in readings for block in reading.blocks),
        extracts=tuple(extract for reading in readings for extract in reading.extracts),
        status=ToolStatus.OK if ToolStatus.OK in statuses else statuses[0],
        parts=statuses,
        problems=tuple(problem for reading in readings for problem in reading.problems),
    )


def _read_part(body: str) -> Reading:
    if body.startswith("["):
        return _json_results(body)
    if _HEADER.search(body) or _FAILED.match(body):
        return _markdown_results(body)
    if _EXTRACT.search(body):
        return _extracts(body)
    if body.startswith("Tool execution timed out"):
        return Reading(status=ToolStatus.TIMEOUT, problems=("tool_timeout",))
    if body.startswith("No results found for"):
        return Reading(status=ToolStatus.EMPTY)
    if body.startswith("{") and (decoded := _decode(body, 0)) is not None and not body[decoded[1] :].strip():
        value = decoded[0]  # in place of a result: nothing at all, or an error with its server or its status
        if value == {}:
            return Reading(status=ToolStatus.EMPTY, problems=("tool_failed",))
        code = value.get("status_code")
        failed = isinstance(code, int) and code >= 400
        if failed or (isinstance(value.get("error"), str) and "server_id" in value):
            return Reading(status=ToolStatus.OUTAGE, problems=("tool_failed",))
    return Reading(problems=("unknown_layout",))


def _json_results(body: str) -> Reading:
    decoded = _decode(body, 0)
    if decoded is None:
        blocks, problems = _salvaged(body)
        return _searched(blocks, ["truncated_results", *problems])
    value, end = decoded
    problems = ["unknown_layout"] if body[end:].strip() else []
    blocks = []
    for item in value:
        if not isinstance(item, dict) or not isinstance(item.get("web_page_info_list"), list):
            problems.append("odd_block")
            continue
        hits = [_hit(entry) for entry in item["web_page_info_list"]]
        problems += ["odd_hit"] * hits.count(None)
        found = tuple(hit for hit in hits if hit)
        blocks.append(SearchBlock(str(item.get("query", "")), found, _text(item.get("error"))))
    return _searched(blocks, problems)


def _salvaged(body: str) -> tuple[list[SearchBlock], list[str]]:
    """The whole entries of a list that was cut off or damaged."""
    blocks: list[SearchBlock] = []
    problems: list[str] = []
    for found in _QUERY.finditer(body):
        decoded = _decode(body, found.end())
        opening = None if decoded is None else _LIST.match(body, decoded[1])
        if decoded is None or opening is None:
            continue
        hits = [_hit(entry) for entry in _entries(body, opening.end())]
        problems += ["odd_hit"] * hits.count(None)
        blocks.append(SearchBlock(str(decoded[0]), tuple(hit for hit in hits if hit)))
    return blocks, problems


def _entries(body: str, at: int) -> Iterator[Any]:
    """JSON values from ``at`` on, separated by commas, as far as they can be read."""
    while at < len(body) and body[at] == "{":
        decoded = _decode(body, at)
        if decoded is None:
            return
        yield decoded[0]
        at = decoded[1]
        while at < len(body) and body[at] in ", \n\r\t":
            at += 1


def _decode(body: str, at: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.raw_decode(body, at)
    except (ValueError, RecursionError):
        return None


def _hit(entry: Any) -> ListedPage | None:
    """One entry of a JSON list; None when it has no URL."""
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str) or not entry["url"].strip():
        return None
    date, snippet = _dated(_text(entry.get("snippet")))
    return ListedPage(
        _text(entry.get("title")).strip(), entry["url"].strip(), snippet.strip(), _text(entry.get("date")) or date
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dated(text: str) -> tuple[str, str]:
    """A leading date line, and the text without it and without a source line."""
    found = _DATE.match(text)
    rest = text[found.end() :] if found else text
    source = _SOURCE.match(rest)
    return (found[1].strip() if found else ""), (rest[source.end() :] if source else rest)


def _markdown_results(body: str) -> Reading:
    heads = sorted([*_HEADER.finditer(body), *_FAILED.finditer(body)], key=re.Match.start)
    problems = ["unknown_layout"] if body[: heads[0].start()].strip() else []
    blocks: list[SearchBlock] = []
    for head, end in _sections(heads, len(body)):
        if head.re is _FAILED:
            blocks.append(SearchBlock(head[1], (), head[2].strip()))
            continue
        hits, odd = _markdown_hits(_SEPARATOR.sub("", body[head.end() : end].rstrip()))
        problems += odd
        blocks.append(SearchBlock(head[1], tuple(hits)))
    return _searched(blocks, problems)


def _sections(heads: list[re.Match[str]], size: int) -> Iterator[tuple[re.Match[str], int]]:
    """Each head and where its section ends."""
    ends = [*(head.start() for head in heads[1:]), size]
    return zip(heads, ends[: len(heads)], strict=True)


def _markdown_hits(section: str) -> tuple[list[ListedPage], list[str]]:
    """The entries of one block. Numbers only rise (some are left out), so a list within a snippet is not taken for entries."""
    starts: list[re.Match[str]] = []
    for found in _ENTRY.finditer(section):
        if not starts or int(found[1]) > int(starts[-1][1]):
            starts.append(found)
    hits: list[ListedPage] = []
    problems: list[str] = []
    for start, end in _sections(starts, len(section)):
        line, _, rest = section[start.end() - 1 : end].partition("\n")
        link = read_link(line)
        if link is None:
            problems.append("unread_entry")
            continue
        date, snippet = _dated(rest)
        hits.append(ListedPage(link[0], link[1], snippet.strip(), date))
    return hits, problems


def read_link(line: str) -> tuple[str, str] | None:
    """Title and URL of ``[title](url)`` that begins a line, with any brackets in the title and parentheses in the URL."""
    split = _title_end(line)
    if split is None:
        return None
    rest = line[split + 2 :].strip()
    end = _closing(rest)
    if (end is None or rest[end + 1 :].strip()) and rest.endswith(")") and not re.search(r"\s", rest):
        end = len(rest) - 1  # a URL with a parenthesis of its own that nothing closes
    url = rest[:end].strip() if end is not None else ""
    return (line[1:split].strip(), url) if url else None


def _title_end(line: str) -> int | None:
    """Index of the ``](`` that ends a title: where its brackets balance, or else before the last address."""
    depth = 0
    for index, char in enumerate(line):
        depth += (char == "[") - (char == "]")
        if depth == 0:
            if line.startswith("](", index):
                return index
            break
    at = max(line.rfind("](http"), -1)
    at = at if at >= 0 else line.rfind("](")
    return at if at > 0 else None


def _closing(rest: str) -> int | None:
    """Index of the parenthesis that closes a URL whose opening one stands before ``rest``."""
    depth = 1
    for index, char in enumerate(rest):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return index
    return None


def _searched(blocks: list[SearchBlock], problems: list[str]) -> Reading:
    status = ToolStatus.OK if any(block.hits for block in blocks) else ToolStatus.EMPTY
    return Reading(blocks=tuple(blocks), status=status, problems=tuple(problems))


def _extracts(body: str) -> Reading:
    heads = list(_EXTRACT.finditer(body))
    problems = ("unknown_layout",) if body[: heads[0].start()].strip() else ()
    found = tuple(
        _extract(head[1], head[2], _SEPARATOR.sub("", body[head.end() : end].rstrip()))
        for head, end in _sections(heads, len(body))
    )
    status = ToolStatus.NOT_FOUND if all(extract.dead for extract in found) else ToolStatus.OK
    return Reading(extracts=found, status=status, problems=problems)


def _extract(url: str, goal: str, section: str) -> Extract:
    label = _EVIDENCE.match(section)
    rest = section[label.end() :] if label else section
    *_, last = None, *_SUMMARY.finditer(rest)  # the page may have a line "Summary:" of its own
    evidence, summary = (rest[: last.start()].strip(), rest[last.end() :].strip()) if last else (rest.strip(), "")
    told = evidence or summary
    dead = len(told) < _DEAD_CHARS and bool(_DEAD.search(f"{told}\n{summary[:_DEAD_CHARS]}"))
    return Extract(url, goal, evidence, summary, dead=dead or not told)


_ROLES = {
    "search": "search",
    "google_search": "search",
    "web_search": "search",
    "websearch": "search",
    "search_web": "search",
    "internet_search": "search",
    "bing_search": "search",
    "serper_search": "search",
    "visit": "visit",
    "browse": "visit",
    "fetch_url": "visit",
    "visit_page": "visit",
    "visit_url": "visit",
    "visit_webpage": "visit",
    "open_url": "visit",
    "read_page": "visit",
    "read_url": "visit",
    "web_visit": "visit",
    "web_fetch": "visit",
    "jina_reader": "visit",
}


def tool_role(name: str) -> str:
    """``"search"``, ``"visit"``, or ``""`` for any other tool."""
    return _ROLES.get(name.strip().lower(), "")
