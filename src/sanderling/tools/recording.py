"""Recording: every call of a tool, with what it returned and how long it took, one line each; and what becomes of recordings.

A call is in the log before its result is handed on, in one write, so a killed process loses no finished call. A broken backend
is recorded as an outage, then raised as before. The form is one for all tools: the text as the agent read it. Several runs may
share one log. A recording gives trajectories, hence a world and a fidelity reference, where `core.observations` reads the
layout.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from sanderling.core.chat import wrap_observation
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Role, ToolCall, ToolSpec, ToolStatus
from sanderling.runs.files import or_cannot
from sanderling.runs.jsonl import JsonlLog
from sanderling.tools.contract import Tool, ToolContext, ToolOutageError, ToolResult

VERSION = 1
_HEAD = b'{"recording":'  # how every line begins


class RecordedCall(Frozen, extra="ignore"):  # of earlier versions, which kept more beside the text, as well
    """One line of a recording."""

    recording: int = VERSION
    episode: str  # whose call it was
    question: str = ""  # what the episode researches: attempts at one question belong together
    tool: str
    role: str  # "search", "visit", or "" for others, whatever the tool is called
    arguments: dict[str, Any]
    ordinal: int
    occurrence: int
    text: str
    status: ToolStatus
    parts: tuple[ToolStatus, ...] = ()
    latency_s: float  # as the tool says: virtual in a world
    elapsed_s: float = Field(ge=0.0)  # as measured around the call
    provenance: tuple[str, ...] = ()
    outage: str = ""  # what the backend said when it broke


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
        call = RecordedCall(
            episode=self.episode,
            question=self.question,
            tool=self.tool.spec.name,
            role=self.role,
            arguments=arguments,
            ordinal=context.ordinal,
            occurrence=context.occurrence,
            elapsed_s=self.clock() - started,
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
    with or_cannot(f"open {path} for writing", "choose another place"):
        log.path.parent.mkdir(parents=True, exist_ok=True)
        log.path.open("ab").close()
    return log


def is_recording(path: Path) -> bool:
    """Whether a file begins like a recording, an empty or a torn one included. Raises UserError when it cannot be read."""
    with or_cannot(f"read {path}", "check the path"), path.open("rb") as file:
        return _HEAD.startswith(file.read(len(_HEAD)))


def read_recording(path: Path | str) -> Iterator[RecordedCall]:
    """The calls in the order they ended; a torn last line is left out with a warning. Raises UserError for what is no call."""
    for number, row in enumerate(JsonlLog(path), start=1):
        try:
            yield RecordedCall.model_validate(row)
        except ValidationError as error:
            raise UserError(f"Line {number} of {path} is no recorded call: remove it.") from error


def trajectories_of(calls: Iterable[RecordedCall]) -> tuple[Trajectory, ...]:
    """One trajectory for each run, in the order in which they began: a turn and an observation for each call.

    The question's id is its text, or the episode's id where none was recorded.
    """
    found: list[Trajectory] = []
    for id, run in _runs(calls):
        asked = run[0].question or run[0].episode
        nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=asked)]
        for call in run:
            made = ToolCall(name=call.tool, arguments=call.arguments)
            nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="", calls=(made,)))
            latency_s = call.latency_s if call.latency_s > 0 else call.elapsed_s  # as measured where the tool says nothing
            told = call.model_dump(include={"role", "status", "parts", "provenance"})
            event = ToolEvent(name=call.tool, latency_s=latency_s, **told)
            seen: dict[str, Any] = {"text": wrap_observation(call.text), "events": (event,)}
            nodes.append(Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, **seen))
        question = Question(id=asked, text=asked)
        found.append(Trajectory(id=id, question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None))
    return tuple(found)


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
