"""Recording: every call of a tool, with what it returned and how long it took, one line each; and what becomes of recordings.

A call is in the log before its result is handed on, in one write, so a killed process loses no finished call. A broken backend
is recorded as an outage, then raised as before. The form is one for all tools and layouts: the text as the agent read it, and
beside it result lists and pages, where they can be told from the text. Several runs may share one log. A recording gives
trajectories (hence a world, a fidelity reference, a profile of faults) and a replay table.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.observations import ListedPage, SearchBlock, read_observation
from sanderling.core.parse import normalise_arguments
from sanderling.core.profiles import ToolNames
from sanderling.core.prompts import BETWEEN
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Role, ToolCall, ToolSpec, ToolStatus
from sanderling.runs.jsonl import JsonlLog
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult
from sanderling.world.recorded import Replay, ReplayTable, call_key

VERSION = 1
_HEAD = b'{"recording":'
"""How every line begins."""
_NAMES = ToolNames()
_COMPACT = re.compile(r"^\[(\d+)\] (.*)\n(\S+)\n(.*)$", re.M)


class RecordedList(Frozen):
    """The results of one query."""

    query: str
    hits: tuple[ListedPage, ...]
    status: ToolStatus


class RecordedPage(Frozen):
    """What one visit returned."""

    url: str
    goal: str
    evidence: str
    """The page's words; empty for a failure."""
    summary: str = ""
    status: ToolStatus


class RecordedCall(Frozen):
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


@dataclass(frozen=True)
class RecordingTool:
    """A tool whose calls are written down.

    Example: ``RecordingTool(tool, open_recording("calls.jsonl"), episode="e1", role="search")``; see `recorded_tools`.
    """

    tool: Tool
    log: JsonlLog
    episode: str
    role: str
    question: str = ""
    clock: Callable[[], float] = time.perf_counter

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Raises UserError when the log cannot be written."""
        started, outage = self.clock(), None
        try:
            result = await self.tool(arguments, context)
        except ToolOutageError as error:
            result, outage = ToolResult(text="", status=ToolStatus.OUTAGE), error
        lists, pages = structured(self.role, arguments, result)
        call = RecordedCall(
            episode=self.episode,
            question=self.question,
            tool=self.tool.spec.name,
            role=self.role,
            arguments=arguments,
            ordinal=context.ordinal,
            occurrence=context.occurrence,
            elapsed_s=self.clock() - started,
            lists=lists,
            pages=pages,
            outage="" if outage is None else str(outage),
            **vars(result),
        )
        self.log.append(call.model_dump(mode="json"))
        if outage is not None:
            raise outage
        return result


def recorded_tools(
    tools: Mapping[str, Tool], roles: Mapping[str, str], log: JsonlLog, *, episode: str, question: str = ""
) -> dict[str, Tool]:
    """An agent's tools, each recorded into one log."""
    return {name: RecordingTool(tool, log, episode, roles.get(name, ""), question) for name, tool in tools.items()}


def open_recording(path: Path | str) -> JsonlLog:
    """A log to record into; lines outlive the process. Raises UserError when the file holds something else."""
    log = JsonlLog(path, durable=False)
    if log.path.exists() and not is_recording(log.path):
        raise UserError(f"{path} holds something else than a recording: choose another place.")
    try:
        log.path.parent.mkdir(parents=True, exist_ok=True)
        log.path.open("ab").close()
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
    """The calls in the order they ended; a torn last line is left out with a warning. Raises UserError for what is no call."""
    for number, row in enumerate(JsonlLog(path), start=1):
        try:
            yield RecordedCall.model_validate(row)
        except ValidationError as error:
            raise UserError(f"Line {number} of {path} is no recorded call: remove it.") from error


def structured(
    role: str, arguments: Mapping[str, Any], result: ToolResult
) -> tuple[tuple[RecordedList, ...], tuple[RecordedPage, ...]]:
    """Result lists and pages as far as the text tells them; never raises, and guesses nothing.

    Of the compact layout: lists where as many blocks as answered queries are found, a page where a single one was asked for.
    """
    wanted = normalise_arguments(ToolCall(name=role, arguments=dict(arguments)), _NAMES).arguments
    reading, parts = read_observation(result.text), result.parts or (result.status,)
    if role == "search":
        blocks = reading.blocks or _compact_blocks(result.text, _texts(wanted.get(_NAMES.search_query)), parts)
        told = [ToolStatus.OK if block.hits else ToolStatus.EMPTY for block in blocks]
        found = zip(blocks, result.parts if len(result.parts) == len(blocks) else told, strict=True)
        return tuple(RecordedList(query=block.query, hits=block.hits, status=status) for block, status in found), ()
    if role != "visit":
        return (), ()
    pages: list[RecordedPage] = []
    if reading.extracts:
        told = [ToolStatus.NOT_FOUND if extract.dead else ToolStatus.OK for extract in reading.extracts]
        for extract, status in zip(reading.extracts, result.parts if len(result.parts) == len(told) else told, strict=True):
            words = (extract.evidence, extract.summary) if status is ToolStatus.OK else ("", "")
            page = RecordedPage(url=extract.url, goal=extract.goal, evidence=words[0], summary=words[1], status=status)
            pages.append(page)
        return (), tuple(pages)
    urls, goal = _texts(wanted.get(_NAMES.visit_url)), wanted.get(_NAMES.visit_goal)
    if len(urls) == len(parts) and (len(urls) == 1 or ToolStatus.OK not in parts):
        text = result.text.partition("\n")[2]
        for url, status in zip(urls, parts, strict=True):
            evidence = text if status is ToolStatus.OK else ""
            pages.append(RecordedPage(url=url, goal=goal if isinstance(goal, str) else "", evidence=evidence, status=status))
    return (), tuple(pages)


def _compact_blocks(text: str, queries: Sequence[str], parts: Sequence[ToolStatus]) -> tuple[SearchBlock, ...]:
    """Blocks of the compact layout, one for each query, in order; none when their number does not fit the statuses."""
    entries: list[list[ListedPage]] = []
    for found in _COMPACT.finditer(text):
        if found[1] == "1":
            entries.append([])
        if entries:
            entries[-1].append(ListedPage(found[2], found[3], found[4]))
    if len(parts) != len(queries) or parts.count(ToolStatus.OK) != len(entries):
        return ()
    rest = iter(entries)
    pairs = zip(queries, parts, strict=True)
    return tuple(SearchBlock(query, tuple(next(rest)) if status is ToolStatus.OK else ()) for query, status in pairs)


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def trajectories_of(calls: Iterable[RecordedCall]) -> tuple[Trajectory, ...]:
    """One trajectory for each run, in the order in which they began: a turn and an observation for each call.

    Observations are laid out so that `core.observations` reads them, whatever the agent's own layout was. Their events have
    status and latency, so that a profile of faults can be fitted to them. The question's id is its text, or the episode's id
    where none was recorded.
    """
    found: list[Trajectory] = []
    for id, run in _runs(calls):
        asked = run[0].question or run[0].episode
        nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=asked)]
        for call in run:
            made = ToolCall(name=call.tool, arguments=call.arguments)
            nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="", calls=(made,)))
            event = ToolEvent(
                name=call.tool,
                role=call.role,
                status=call.status,
                parts=call.parts,
                latency_s=call.latency_s if call.latency_s > 0 else call.elapsed_s,  # as measured where the tool says nothing
                provenance=call.provenance,
            )
            text = f"<tool_response>\n{_readable(call)}\n</tool_response>"
            seen = Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, events=(event,))
            nodes.append(seen)
        question = Question(id=asked, text=asked)
        found.append(Trajectory(id=id, question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None))
    return tuple(found)


def replay_table(calls: Iterable[RecordedCall]) -> ReplayTable:
    """Every call that returned, by its key, with the very text the agent read."""
    return ReplayTable(
        Replay((call_key(call.role or call.tool, call.arguments),), call.text, id, call.ordinal)
        for id, run in _runs(calls)
        for call in run
    )


def _runs(calls: Iterable[RecordedCall]) -> list[tuple[str, list[RecordedCall]]]:
    """The calls that returned, by run, each run in the order of its ordinals."""
    runs: list[tuple[str, dict[int, RecordedCall]]] = []
    current: dict[str, dict[int, RecordedCall]] = {}
    counts: Counter[str] = Counter()
    for call in calls:
        if call.outage:
            continue
        run = current.get(call.episode)
        if run is None or call.ordinal in run:
            run, number = {}, counts[call.episode]
            current[call.episode] = run
            runs.append((call.episode if not number else f"{call.episode}#{number}", run))
            counts[call.episode] += 1
        run[call.ordinal] = call
    return [(id, [run[ordinal] for ordinal in sorted(run)]) for id, run in runs]


def _readable(call: RecordedCall) -> str:
    """A call's result as `core.observations` reads it; what could not be told apart keeps its text."""
    if call.lists:
        blocks = [{"query": found.query, "web_page_info_list": [vars(hit) for hit in found.hits]} for found in call.lists]
        return json.dumps(blocks, ensure_ascii=False)
    pages = []
    for page in call.pages:
        told = page.evidence if page.status is ToolStatus.OK else f"The page could not be accessed ({page.status.value})."
        head = f"The useful information in {page.url} for user goal {page.goal} as follows: \n\n"
        pages.append(f"{head}Evidence in page: \n{told}\n\nSummary: \n{page.summary}")
    return BETWEEN.join(pages) if pages else call.text
