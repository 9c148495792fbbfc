"""Recording: every call of a tool, with what it returned and how long it took, one line each in an append-only log.

Contract: the wrapped tool answers as it would without; a call is in the log before its result is handed on, in one write, so a
killed process loses no finished call, and a torn last line is dropped by the reader and cut off by the next append. A broken
backend is recorded as an outage, then raised as before. The layout is one for all tools and layouts of results: the text as the
agent read it, and beside it the result lists and pages in structured form, where they can be told from the text. Several runs
may share one log. Knows no model; what recordings are good for is in `recording_readers`.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sanderling.core.errors import UserError
from sanderling.core.observations import ListedPage, Reading, SearchBlock, read_observation
from sanderling.core.parse import normalise_arguments
from sanderling.core.profiles import ToolNames
from sanderling.core.types import ToolCall, ToolSpec, ToolStatus
from sanderling.runs.jsonl import JsonlLog
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult

VERSION = 1
_HEAD = b'{"recording":'
"""How every line begins."""
_NAMES = ToolNames()
_COMPACT = re.compile(r"^\[(\d+)\] (.*)\n(\S+)\n(.*)$", re.M)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RecordedHit(_Model):
    """One ranked result."""

    title: str
    url: str
    snippet: str
    date: str = ""


class RecordedList(_Model):
    """The results of one query."""

    query: str
    hits: tuple[RecordedHit, ...]
    status: ToolStatus


class RecordedPage(_Model):
    """What one visit returned."""

    url: str
    goal: str
    evidence: str
    """The page's words; empty for a failure."""
    summary: str = ""
    status: ToolStatus


class RecordedCall(_Model):
    """One line of a recording."""

    recording: int = VERSION
    episode: str
    """Whose call it was."""
    question: str = ""
    """What the episode researches: attempts at one question belong together."""
    tool: str
    role: str
    """"search", "visit", or "" for others, whatever the tool is called."""
    arguments: dict[str, Any]
    ordinal: int
    occurrence: int
    text: str
    status: ToolStatus
    parts: tuple[ToolStatus, ...] = ()
    latency_s: float
    """As the tool says: virtual in a world."""
    elapsed_s: float = Field(ge=0.0)
    """As measured around the call."""
    provenance: tuple[str, ...] = ()
    lists: tuple[RecordedList, ...] = ()
    pages: tuple[RecordedPage, ...] = ()
    outage: str = ""
    """What the backend said when it broke."""


class RecordingTool:
    """A tool whose calls are written down.

    Args:
        tool: answers the calls.
        log: where they are written.
        episode: whose calls they are.
        question: what the episode researches.
        role: what the tool does: "search", "visit" or "".
        clock: seconds, rising.

    Example: ``RecordingTool(tool, open_recording("calls.jsonl"), episode="e1", role="search")``; see `recorded_tools`.

    """

    def __init__(
        self,
        tool: Tool,
        log: JsonlLog,
        *,
        episode: str,
        role: str,
        question: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._tool = tool
        self._log = log
        self._episode = episode
        self._question = question
        self._role = role
        self._clock = clock

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Run one call; see `tools.contract.Tool`. Raises UserError when the log cannot be written."""
        started = self._clock()
        try:
            result = await self._tool(arguments, context)
        except ToolOutageError as error:
            broken = ToolResult(text="", status=ToolStatus.OUTAGE)
            self._write(arguments, context, broken, self._clock() - started, str(error))
            raise
        self._write(arguments, context, result, self._clock() - started, "")
        return result

    def _write(self, arguments: dict[str, Any], context: ToolContext, result: ToolResult, elapsed: float, outage: str) -> None:
        lists, pages = structured(self._role, arguments, result)
        call = RecordedCall(
            episode=self._episode,
            question=self._question,
            tool=self._tool.spec.name,
            role=self._role,
            arguments=arguments,
            ordinal=context.ordinal,
            occurrence=context.occurrence,
            text=result.text,
            status=result.status,
            parts=result.parts,
            latency_s=result.latency_s,
            elapsed_s=max(0.0, elapsed),
            provenance=result.provenance,
            lists=lists,
            pages=pages,
            outage=outage,
        )
        self._log.append(call.model_dump(mode="json"))


def recorded_tools(
    tools: Mapping[str, Tool], roles: Mapping[str, str], log: JsonlLog, *, episode: str, question: str = ""
) -> dict[str, Tool]:
    """An agent's tools, each recorded into one log."""
    return {
        name: RecordingTool(tool, log, episode=episode, question=question, role=roles.get(name, ""))
        for name, tool in tools.items()
    }


def open_recording(path: Path | str) -> JsonlLog:
    """A log to record into; lines outlive the process, whatever ends it.

    Raises UserError when the file holds something else, or its place cannot be written.
    """
    log = JsonlLog(path, durable=False)
    if log.path.exists() and not log.path.is_file():
        raise UserError(f"{path} is no file: choose another place to record to.")
    if log.path.exists() and not is_recording(log.path):
        raise UserError(f"{path} holds something else than a recording: choose another place.")
    try:
        log.path.parent.mkdir(parents=True, exist_ok=True)
        with log.path.open("ab"):
            pass
    except OSError as error:
        raise UserError(f"Cannot open {path} for writing ({error.strerror}): choose another place.") from error
    return log


def is_recording(path: Path) -> bool:
    """Whether a file begins like a recording, an empty or a torn one included. Raises UserError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return _HEAD.startswith(file.read(len(_HEAD)))
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error


def read_recording(path: Path | str) -> Iterator[RecordedCall]:
    """The calls in the order they ended; a torn last line is left out with a warning.

    Raises UserError when there is no such file, or naming the line that is no call.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no recording at {path}: make one with sanderling ask --record FILE.")
    for number, row in enumerate(JsonlLog(path), start=1):
        try:
            yield RecordedCall.model_validate(row)
        except ValidationError as error:
            raise UserError(
                f"Line {number} of {path} is no recorded call ({error.error_count()} fields): remove it."
            ) from error


def structured(
    role: str, arguments: Mapping[str, Any], result: ToolResult
) -> tuple[tuple[RecordedList, ...], tuple[RecordedPage, ...]]:
    """Result lists and pages as far as the text tells them; never raises, and guesses nothing.

    Read from the layouts of `trajectory.observations`, and from the compact one: lists where as many blocks as answered queries
    are found, a page where a single one was asked for.
    """
    wanted = normalise_arguments(ToolCall(name=role, arguments=dict(arguments)), _NAMES).arguments
    reading = read_observation(result.text)
    if role == "search":
        return _lists(reading, _texts(wanted.get(_NAMES.search_query)), result), ()
    if role == "visit":
        goal = wanted.get(_NAMES.visit_goal)
        return (), _pages(reading, _texts(wanted.get(_NAMES.visit_url)), goal if isinstance(goal, str) else "", result)
    return (), ()


def _lists(reading: Reading, queries: Sequence[str], result: ToolResult) -> tuple[RecordedList, ...]:
    blocks = reading.blocks or _compact_blocks(result, queries)
    statuses = result.parts if len(result.parts) == len(blocks) else ()
    found = []
    for index, block in enumerate(blocks):
        status = statuses[index] if statuses else ToolStatus.OK if block.hits else ToolStatus.EMPTY
        hits = tuple(RecordedHit(title=h.title, url=h.url, snippet=h.snippet, date=h.date) for h in block.hits)
        found.append(RecordedList(query=block.query, hits=hits, status=status))
    return tuple(found)


def _compact_blocks(result: ToolResult, queries: Sequence[str]) -> tuple[SearchBlock, ...]:
    """Blocks of the compact layout, one for each query, in order; none when their number does not fit the statuses."""
    entries: list[list[ListedPage]] = []
    for found in _COMPACT.finditer(result.text):
        if found[1] == "1":
            entries.append([])
        if entries:
            entries[-1].append(ListedPage(found[2], found[3], found[4]))
    parts = result.parts or (result.status,)
    if len(parts) != len(queries) or parts.count(ToolStatus.OK) != len(entries):
        return ()
    rest = iter(entries)
    pairs = zip(queries, parts, strict=True)
    return tuple(SearchBlock(query, tuple(next(rest)) if status is ToolStatus.OK else ()) for query, status in pairs)


def _pages(reading: Reading, urls: Sequence[str], goal: str, result: ToolResult) -> tuple[RecordedPage, ...]:
    if reading.extracts:
        statuses = result.parts if len(result.parts) == len(reading.extracts) else ()
        found = []
        for index, extract in enumerate(reading.extracts):
            status = statuses[index] if statuses else ToolStatus.NOT_FOUND if extract.dead else ToolStatus.OK
            words = (extract.evidence, extract.summary) if status is ToolStatus.OK else ("", "")
            page = RecordedPage(url=extract.url, goal=extract.goal, evidence=words[0], summary=words[1], status=status)
            found.append(page)
        return tuple(found)
    parts = result.parts or (result.status,)
    if len(urls) == len(parts) and (len(urls) == 1 or ToolStatus.OK not in parts):
        text = result.text.partition("\n")[2]
        return tuple(
            RecordedPage(url=url, goal=goal, evidence=text if status is ToolStatus.OK else "", status=status)
            for url, status in zip(urls, parts, strict=True)
        )
    return ()


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
