"""What a recording is good for: trajectories (hence a world and a fidelity reference), a replay table, statistics of faults.

Contract: pure functions over recorded calls. A trajectory stands for one run of an episode: a call whose ordinal the run has
already begins another run of it. Outages are in the statistics only: nothing was returned that could be replayed. Knows no
world and no file.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from sanderling.core.record import Node, NodeKind, Question, ToolEvent, Trajectory
from sanderling.core.types import Role, ToolCall, ToolStatus
from sanderling.tools.recording import RecordedCall, RecordedPage
from sanderling.world.recorded import Replay, ReplayTable, call_key

_BETWEEN = "\n=======\n"
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


class RoleStatistics(BaseModel):
    """How a tool behaved: what a fault profile can be fitted to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int
    outages: int
    """Calls in which the backend was broken."""
    parts: dict[ToolStatus, int]
    """Status -> queries or URLs; a call without parts counts as one."""
    latencies_s: tuple[float, ...]
    """Of the calls that returned, sorted: as the tool says, or as measured where it says none."""
    latency_quantiles_s: dict[str, float]


def trajectories_of(calls: Iterable[RecordedCall]) -> tuple[Trajectory, ...]:
    """One trajectory for each run, in the order in which they began: a turn and an observation for each call.

    Observations are laid out so that `trajectory.observations` reads them, whatever the agent's own layout was; what could
    not be told apart keeps its text. Their events have status and latency, so that `world.faults` can fit a profile to
    them. The question's id is its text, or the episode's id where none was recorded.
    """
    return tuple(_trajectory(id, run) for id, run in _runs(calls))


def replay_table(calls: Iterable[RecordedCall]) -> ReplayTable:
    """Every call that returned, by its key, with the very text the agent read."""
    replays = []
    for id, run in _runs(calls):
        for call in run:
            replays.append(Replay((call_key(call.role or call.tool, call.arguments),), call.text, id, call.ordinal))
    return ReplayTable(replays)


def statistics(calls: Iterable[RecordedCall]) -> dict[str, RoleStatistics]:
    """Status mix and latencies by role (a tool without one: by its name), sorted by name."""
    by_role: dict[str, list[RecordedCall]] = {}
    for call in calls:
        by_role.setdefault(call.role or call.tool, []).append(call)
    return {role: _statistics(by_role[role]) for role in sorted(by_role)}


def seconds_of(call: RecordedCall) -> float:
    """How long a call took: as the tool says, or as measured where it says nothing."""
    return call.latency_s if call.latency_s > 0 else call.elapsed_s


def _statistics(calls: Sequence[RecordedCall]) -> RoleStatistics:
    returned = [call for call in calls if call.status is not ToolStatus.OUTAGE or not call.outage]
    parts = Counter(status for call in calls for status in call.parts or (call.status,))
    latencies = sorted(map(seconds_of, returned))
    return RoleStatistics(
        calls=len(calls),
        outages=len(calls) - len(returned),
        parts=dict(sorted(parts.items())),
        latencies_s=tuple(latencies),
        latency_quantiles_s={f"{q:g}": float(np.quantile(latencies, q)) for q in QUANTILES} if latencies else {},
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
            run = current[call.episode] = {}
            number = counts[call.episode]
            runs.append((call.episode if not number else f"{call.episode}#{number}", run))
            counts[call.episode] += 1
        run[call.ordinal] = call
    return [(id, [run[ordinal] for ordinal in sorted(run)]) for id, run in runs]


def _trajectory(id: str, run: Sequence[RecordedCall]) -> Trajectory:
    asked = run[0].question or run[0].episode
    question = Question(id=asked, text=asked)
    nodes = [Node(parent=None, role=Role.USER, kind=NodeKind.QUESTION, text=question.text)]
    for call in run:
        made = ToolCall(name=call.tool, arguments=call.arguments)
        nodes.append(Node(parent=len(nodes) - 1, role=Role.ASSISTANT, kind=NodeKind.TURN, text="", calls=(made,)))
        event = ToolEvent(
            name=call.tool,
            role=call.role,
            status=call.status,
            parts=call.parts,
            latency_s=seconds_of(call),
            provenance=call.provenance,
        )
        text = f"<tool_response>\n{_readable(call)}\n</tool_response>"
        seen = Node(parent=len(nodes) - 1, role=Role.USER, kind=NodeKind.OBSERVATION, text=text, events=(event,))
        nodes.append(seen)
    return Trajectory(id=id, question=question, nodes=tuple(nodes), leaf=len(nodes) - 1, ending=None)


def _readable(call: RecordedCall) -> str:
    if call.lists:
        blocks = [
            {"query": found.query, "web_page_info_list": [hit.model_dump() for hit in found.hits]} for found in call.lists
        ]
        return json.dumps(blocks, ensure_ascii=False)
    if call.pages:
        return _BETWEEN.join(map(_extract, call.pages))
    return call.text


def _extract(page: RecordedPage) -> str:
    told = page.evidence if page.status is ToolStatus.OK else f"The page could not be accessed ({page.status.value})."
    head = f"The useful information in {page.url} for user goal {page.goal} as follows: \n\n"
    return f"{head}Evidence in page: \n{told}\n\nSummary: \n{page.summary}"
