"""Reading what recorded tools returned: search results and pages, in each layout of `profiles.ResultLayout`.

Nothing here raises: what could not be read is named by a code. URLs keep their parentheses, titles their brackets, queries
their quotes; ``Date published`` lines become dates. A truncated JSON list yields every entry that is whole.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from sanderling.core.profiles import MISSES, ListedPage, ResultLayout, SearchBlock
from sanderling.core.record import Passage, ToolEvent
from sanderling.core.types import ToolStatus

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"
_NEXT = re.compile(r"</tool_response>\s*<tool_response>")
_DECODER = json.JSONDecoder(strict=False)
_SEARCH = "search google_search web_search websearch search_web internet_search bing_search serper_search"
_VISIT = "visit browse fetch_url visit_page visit_url visit_webpage open_url read_page read_url web_visit web_fetch jina_reader"
_ROLES = {name: role for role, names in (("search", _SEARCH), ("visit", _VISIT)) for name in names.split()}
_HEADER = re.compile(
    r"^A Google search for '((?:(?!\n=======\n).)*?)' found (\d+) results?:[ ]*\n+## Web Results[ ]*(?:\n|\Z)", re.M | re.S
)
_FAILED = re.compile(r"^A Google search for '((?:(?!\n=======\n).)*?)' failed\. ([^\n]+)", re.M | re.S)
_ENTRY = re.compile(r"^(\d+)\. \[", re.M)
_BRACKETS, _PARENTHESES = re.compile(r"[\[\]]"), re.compile("[()]")
_SEPARATOR = re.compile(r"\n=======\s*\Z")
_EXTRACT = re.compile(r"^The useful information in (.+?) for user goal (.{0,4000}?) as follows:[ ]*(?:\n|\Z)", re.M | re.S)
_EVIDENCE = re.compile(r"\s*Evidence in page:[ ]*(?:\n|\Z)")
_SUMMARY = re.compile(r"^Summary:[ ]*(?:\n|\Z)", re.M)
_DATE = re.compile(r"\s*Date (?:published|updated):[ ]*(.*)\s*(?:\n|\Z)")
_SOURCE = re.compile(r"\s*Source:[ ].*\n")
_DEAD = re.compile(
    r"could not be (?:accessed|processed|fully loaded|loaded|retrieved)|no information from this page is available", re.I
)
_DEAD_CHARS = 400  # most of a notice of failure: longer evidence that has its words is a page about something else
_QUERY = re.compile(r'\{\s*"query"\s*:\s*')
_BETWEEN = re.compile(r"[, \n\r\t]*")
_LIST = re.compile(r'\s*,\s*"web_page_info_list"\s*:\s*\[\s*')
_COMPACT_ENTRY = re.compile(r"^\[(\d+)\] (.*)\n([\w+.-]+://\S+)(?:\n|\Z)", re.M)
_CITED = re.compile(r"""^Results for ('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"):(?:\n|\Z)""", re.M)
_CITED_ENTRY = re.compile(r"^- (.*)\n  ([\w+.-]+://\S+)(?:\n  |\n|\Z)", re.M)
_CITED_PAGE = re.compile(r"(?:\A|(?<=\n\n))(\S.*)\n([\w+.-]+://\S+)\n(?:\n|(.+)(?:\n\n|\Z))")
_ABOUT = re.compile(r" \((?:([^()]*), )?(\d{4}-\d\d-\d\d)\)\Z")  # source and date; a year may be the title's own
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(00[01][0-9a-f]{5})|(.))")
_PARTS_NOTE = re.compile(r"\n\n\((?:Part \d+ of|Passages of a long page)[^\n]*\)\Z")
_SENTENCES, _NOTICES = (frozenset(each) for each in zip(*MISSES.values(), strict=True))
_NO_PART = re.compile(r"This page has no part \d+; the last is \S+\.|No part \d+ of \d+\.")


@dataclass(frozen=True)
class Extract:
    """What a visit returned of one page."""

    url: str
    goal: str
    evidence: str  # the page's own words, where they were recorded
    summary: str
    dead: bool = False
    title: str = ""  # where the layout tells it

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
    layout: ResultLayout | None = None  # where it is known: of pages, JSON and Markdown have the same
    problems: tuple[str, ...] = ()
    """Codes: ``truncated_results``, ``odd_hit``, ``odd_block``, ``unread_entry``, ``unknown_layout``, ``tool_timeout``,
    ``tool_failed``."""


def tool_role(name: str) -> str:
    """``"search"``, ``"visit"``, or ``""`` for any other tool."""
    return _ROLES.get(name.strip().lower(), "")


def read_result(text: str, events: Sequence[ToolEvent]) -> Reading:
    """What an observation holds: the passages and addresses that its tools told, and for the rest its text."""
    visits = [event for event in events if event.role == "visit"]
    reading = read_observation(text, [url for event in visits for url in event.provenance])
    told: dict[str, list[Passage]] = {}
    for passage in (passage for event in visits for passage in event.passages):
        told.setdefault(passage.url, []).append(passage)
    if not told:
        return reading
    texts = {url: "\n\n".join(passage.text for passage in passages) for url, passages in told.items()}
    pages = [Extract(url, "", texts[url], "", title=passages[0].title) for url, passages in told.items()]
    return replace(reading, extracts=(*pages, *(page for page in reading.extracts if page.dead)), problems=())


def read_observation(text: str, pages: Sequence[str] = ()) -> Reading:
    """What an observation holds, whatever its layout; the results of several calls are read one by one.

    ``pages``: the addresses that were read, where that is known, without which our own layouts of pages are not taken for such.
    The compact one does not even tell them, nor a list's query.
    """
    bare = text.strip()
    inner = bare.removeprefix(_OPEN).removesuffix(_CLOSE)
    parts = [part.strip() for part in (_NEXT.split(inner) if bare.startswith(_OPEN) else [inner])]
    readings = [_read_part(part, frozenset(pages)) for part in parts]
    if len(readings) == 1 and readings[0].problems == ("unknown_layout",) and len(pages) == 1:
        return Reading(extracts=(_compact_page(parts[0], pages[0]),), layout=ResultLayout.COMPACT)
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


def _read_part(body: str, pages: frozenset[str]) -> Reading:
    for read, layout in ((_compact_results, ResultLayout.COMPACT), (_cited_results, ResultLayout.CITED)):
        if found := read(body):
            status = ToolStatus.OK if any(block.hits for block in found) else ToolStatus.EMPTY
            return Reading(blocks=tuple(found), status=status, layout=layout)
    if extracts := _cited_pages(body, pages):
        status = ToolStatus.NOT_FOUND if all(page.dead for page in extracts) else ToolStatus.OK
        return Reading(extracts=tuple(extracts), status=status, layout=ResultLayout.CITED)
    if body.startswith("[") or _HEADER.search(body) or _FAILED.match(body):
        blocks, problems = (_json_results if body.startswith("[") else _markdown_results)(body)
        status = ToolStatus.OK if any(block.hits for block in blocks) else ToolStatus.EMPTY
        return Reading(blocks=tuple(blocks), status=status, problems=tuple(problems))
    if _EXTRACT.search(body):
        return _extracts(body)
    if body.startswith("Tool execution timed out"):
        return Reading(status=ToolStatus.TIMEOUT, problems=("tool_timeout",))
    if body.startswith("No results found for"):
        return Reading(status=ToolStatus.EMPTY)
    if body.startswith("{") and (decoded := _decode(body, 0)) is not None and not body[decoded[1] :].strip():
        value = decoded[0]  # in place of a result: nothing at all, or an error with its server or its status
        code = value.get("status_code")
        failed = isinstance(code, int) and code >= 400
        if value == {} or failed or (isinstance(value.get("error"), str) and "server_id" in value):
            return Reading(status=ToolStatus.OUTAGE if value else ToolStatus.EMPTY, problems=("tool_failed",))
    return Reading(problems=("unknown_layout",))


def _json_results(body: str) -> tuple[list[SearchBlock], list[str]]:
    decoded = _decode(body, 0)
    items, problems = (_salvaged(body), ["truncated_results"]) if decoded is None else (decoded[0], [])
    if decoded is not None and body[decoded[1] :].strip():
        problems.append("unknown_layout")
    blocks: list[SearchBlock] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("web_page_info_list"), list):
            problems.append("odd_block")
            continue
        hits: list[ListedPage] = []
        for entry in item["web_page_info_list"]:
            url = entry.get("url") if isinstance(entry, dict) else None
            if not isinstance(url, str) or not url.strip():
                problems.append("odd_hit")
                continue
            date, snippet = _dated(_text(entry.get("snippet")))
            date = _text(entry.get("date")) or date
            hits.append(ListedPage(_text(entry.get("title")).strip(), url.strip(), snippet.strip(), date))
        blocks.append(SearchBlock(str(item.get("query", "")), tuple(hits), _text(item.get("error"))))
    return blocks, problems


def _salvaged(body: str) -> Iterator[dict[str, Any]]:
    """The blocks of a list that was cut off or damaged, with the entries that are whole."""
    for found in _QUERY.finditer(body):
        query = _decode(body, found.end())
        opening = None if query is None else _LIST.match(body, query[1])
        if query is None or opening is None:
            continue
        entries, at = [], opening.end()
        while body.startswith("{", at) and (entry := _decode(body, at)) is not None:
            entries.append(entry[0])
            between = _BETWEEN.match(body, entry[1])
            at = between.end() if between else entry[1]
        yield {"query": query[0], "web_page_info_list": entries}


def _decode(body: str, at: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.raw_decode(body, at)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dated(text: str) -> tuple[str, str]:
    """A leading date line, and the text without it and without a source line."""
    found = _DATE.match(text)
    rest = text[found.end() :] if found else text
    source = _SOURCE.match(rest)
    return (found[1].strip() if found else ""), (rest[source.end() :] if source else rest)


def _sections(heads: list[re.Match[str]], body: str) -> Iterator[tuple[re.Match[str], str]]:
    """Each head and the text below it."""
    for head, following in zip_longest(heads, heads[1:]):
        yield head, body[head.end() : following.start() if following else len(body)]


def _markdown_results(body: str) -> tuple[list[SearchBlock], list[str]]:
    heads = sorted([*_HEADER.finditer(body), *_FAILED.finditer(body)], key=re.Match.start)
    problems = ["unknown_layout"] if body[: heads[0].start()].strip() else []
    blocks: list[SearchBlock] = []
    for head, below in _sections(heads, body):
        if head.re is _FAILED:
            blocks.append(SearchBlock(head[1], (), head[2].strip()))
            continue
        section = _SEPARATOR.sub("", below.rstrip())
        starts: list[re.Match[str]] = []
        for found in _ENTRY.finditer(section):  # numbers only rise: a list within a snippet is not taken for entries
            if not starts or int(found[1]) > int(starts[-1][1]):
                starts.append(found)
        hits: list[ListedPage] = []
        for _, entry in _sections(starts, section):
            line, _, rest = entry.partition("\n")
            link = read_link(f"[{line}")
            if link is None:
                problems.append("unread_entry")
                continue
            date, snippet = _dated(rest)
            hits.append(ListedPage(*link, snippet.strip(), date))
        blocks.append(SearchBlock(head[1], tuple(hits)))
    return blocks, problems


def _is_miss(said: str) -> bool:
    """Whether a whole paragraph is what our tools say where there is nothing."""
    return said in _SENTENCES or said in _NOTICES or bool(_NO_PART.fullmatch(said))


def _compact_results(body: str) -> list[SearchBlock]:
    """Blocks without their queries, which the layout does not tell; none where it is another."""
    heads = list[re.Match[str]]()
    for head in _COMPACT_ENTRY.finditer(body):  # numbers rise by one, or begin again: a list within a snippet is none of ours
        if int(head[1]) == 1 or (heads and int(head[1]) == int(heads[-1][1]) + 1):
            heads.append(head)
    before = body[: heads[0].start()].split("\n\n")[:-1] if heads else []
    if not heads or heads[0][1] != "1" or not all(map(_is_miss, before)) or (heads[0].start() and not before):
        return []
    found = [_nothing("", said) for said in before]
    for place, (head, below) in enumerate(_sections(heads, body)):
        parts = below.strip().split("\n\n")
        after = list[str]()
        while (place + 1 == len(heads) or heads[place + 1][1] == "1") and len(parts) > 1 and _is_miss(parts[-1]):
            after.insert(0, parts.pop())
        hit, last = ListedPage(head[2], head[3], "\n\n".join(parts)), () if head[1] == "1" else found.pop().hits
        found += [SearchBlock("", (*last, hit)), *(_nothing("", said) for said in after)]
    return found


def _nothing(query: str, said: str) -> SearchBlock:
    return SearchBlock(query, (), "" if said in MISSES[ToolStatus.EMPTY] else said)


def _compact_page(body: str, url: str) -> Extract:
    """The one page that was read, without what is said of others."""
    parts = body.split("\n\n")
    while len(parts) > 1 and _is_miss(parts[0]):
        parts.pop(0)
    while len(parts) > 1 and _is_miss(parts[-1]):
        parts.pop()
    title, below, text = "\n\n".join(parts).partition("\n")
    return Extract(url, "", text.strip() if below else title, "", title=title if below else "")


def _cited_results(body: str) -> list[SearchBlock]:
    """None where the layout is another."""
    found, heads = list[SearchBlock](), [*_CITED.finditer(body)]
    if not heads or heads[0].start():
        return []
    for head, below in _sections(heads, body):
        query = _ESCAPE.sub(_character, head[1][1:-1])
        entries = [*_CITED_ENTRY.finditer(below)]
        if below[: entries[0].start()].strip() if entries else not _is_miss(below.strip()):
            return []
        hits, (rest, _, last) = list[ListedPage](), below.rstrip().rpartition("\n")
        error = last if entries and _is_miss(last) else ""  # of one place of several
        for entry, snippet in _sections(entries, rest if error else below):
            about = _ABOUT.search(entry[1])
            source, date = (about[1] or "", about[2]) if about else ("", "")
            hits.append(ListedPage(entry[1][: about.start()] if about else entry[1], entry[2], snippet.strip(), date, source))
        found.append(SearchBlock(query, tuple(hits), error) if hits else _nothing(query, below.strip()))
    return found


def _character(found: re.Match[str]) -> str:
    """What an escape in a query, which stands as Python writes it, means."""
    if code := found[1] or found[2] or found[3]:
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else found[0]
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[4], found[4])


def _cited_pages(body: str, pages: frozenset[str]) -> list[Extract]:
    """The pages that were read, and those of which it is said that there are none; none where the layout is another."""
    heads = [head for head in _CITED_PAGE.finditer(body) if (_is_miss(head[3]) if head[3] else head[2] in pages)]
    if not heads or heads[0].start():
        return []
    found = list[Extract]()
    for head, below in _sections(heads, body):
        text, title = _PARTS_NOTE.sub("", below.rstrip()).strip(), "" if head[1] == "Page" else head[1]
        if head[3] and text:  # a page that nobody told of follows
            return []
        found.append(Extract(head[2], "", head[3] or text, "", dead=head[3] is not None, title=title))
    return found


def read_link(line: str) -> tuple[str, str] | None:
    """Title and URL of ``[title](url)`` that begins a line, with any brackets in the title and parentheses in the URL."""
    split = _balanced(line, _BRACKETS)
    if split is None or not line.startswith("](", split):
        split = line.rfind("](http" if "](http" in line else "](")
    if split <= 0:
        return None
    rest = line[split + 1 :].strip()
    end = _balanced(rest, _PARENTHESES)
    if (end is None or rest[end + 1 :].strip()) and rest.endswith(")") and not re.search(r"\s", rest[1:].strip()):
        end = len(rest) - 1  # a URL with a parenthesis of its own that nothing closes
    url = "" if end is None else rest[1:end].strip()
    return (line[1:split].strip(), url) if url else None


def _balanced(text: str, brackets: re.Pattern[str]) -> int | None:
    """Index of the bracket that closes the one that the text begins with."""
    depth = 0
    for found in brackets.finditer(text):
        depth += 1 if found[0] in "[(" else -1
        if depth == 0:
            return found.start()
    return None


def _extracts(body: str) -> Reading:
    heads = list(_EXTRACT.finditer(body))
    problems = ("unknown_layout",) if body[: heads[0].start()].strip() else ()
    extracts: list[Extract] = []
    for head, below in _sections(heads, body):
        section = _SEPARATOR.sub("", below.rstrip())
        label = _EVIDENCE.match(section)
        evidence, summary = section[label.end() :] if label else section, ""
        *_, last = None, *_SUMMARY.finditer(evidence)  # the page may have a line "Summary:" of its own
        if last is not None:
            evidence, summary = evidence[: last.start()], evidence[last.end() :].strip()
        evidence = evidence.strip()
        told = evidence or summary
        dead = len(told) < _DEAD_CHARS and bool(_DEAD.search(f"{told}\n{summary[:_DEAD_CHARS]}"))
        extracts.append(Extract(head[1], head[2], evidence, summary, dead=dead or not told))
    status = ToolStatus.NOT_FOUND if all(extract.dead for extract in extracts) else ToolStatus.OK
    return Reading(extracts=tuple(extracts), status=status, problems=problems)
