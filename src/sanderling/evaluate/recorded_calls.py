"""How much of what agents asked for a recorded world holds: a low figure over a recording may be the recording's.

A world of recorded trajectories answers any search out of the pages that it has, and has those that were met when it was
recorded. A query counts as recorded when it was asked to the letter, in whatever company; an address when there is a page of
it, in any spelling. Reads trajectories and a world's directory; knows no judge and no figure else.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.observations import tool_role
from sanderling.core.parse import normalise_arguments
from sanderling.core.profiles import ToolNames
from sanderling.core.record import Trajectory
from sanderling.core.types import ToolCall
from sanderling.evaluate.result import RecordedShare
from sanderling.report.numbers import percent
from sanderling.world.disk.store import open_world
from sanderling.world.recorded import REPLAY_FILE, ReplayTable

_NAMES = ToolNames()


@dataclass(frozen=True)
class Recording:
    """What a recorded world can be asked for.

    Example: ``recording_of(Path("worlds/recorded"))``
    """

    queries: frozenset[str]
    has_page: Callable[[str], bool]

    def share(self, trajectories: Iterable[Trajectory]) -> RecordedShare:
        """Counts over the calls of main branches; of two records of one attempt the last one counts."""
        last: dict[str, tuple[int, int, int, int]] = {}
        for trajectory in trajectories:
            asked, visited = _asked(trajectory)
            held = sum(query in self.queries for query in asked), sum(self.has_page(url) for url in visited)
            last[trajectory.id] = len(asked), held[0], len(visited), held[1]
        queries, recorded, addresses, held = (sum(column) for column in zip(*last.values(), strict=True)) if last else (0,) * 4
        return RecordedShare(queries=queries, queries_recorded=recorded, addresses=addresses, addresses_recorded=held)


def recording_of(world: Path) -> Recording | None:
    """What a world's directory recorded; None for a world of another kind. Raises UserError for a damaged one."""
    if not (world / REPLAY_FILE).is_file():
        return None
    queries = {query for key in ReplayTable.load(world / REPLAY_FILE).call_keys() for query in _queries(key)}
    opened = open_world(world)
    return Recording(frozenset(queries), lambda url: opened.page(url) is not None)


def share_told(share: RecordedShare) -> str:
    """One sentence."""
    queries = _of(share.queries_recorded, share.queries, "query", "queries")
    addresses = _of(share.addresses_recorded, share.addresses, "visited address", "visited addresses")
    return f"it holds {queries} and {addresses}; what it lacks makes an agent look weaker than it is."


def _of(held: int, asked: int, one: str, several: str) -> str:
    share = f" ({percent(held / asked)})" if asked else ""
    return f"{held:,} of {asked:,} {one if asked == 1 else several}{share}"


def _queries(key: str) -> list[str]:
    """Of a recorded call (`recorded.call_key`), what was searched for."""
    name, arguments = json.loads(key)
    asked = arguments.get(_NAMES.search_query) if name == _NAMES.search and isinstance(arguments, dict) else None
    return _texts(asked)


def _asked(trajectory: Trajectory) -> tuple[list[str], list[str]]:
    """Queries and addresses of an attempt, in order."""
    queries: list[str] = []
    addresses: list[str] = []
    for node in trajectory.turns() if trajectory.leaf is not None else ():
        for call in node.calls:
            named = normalise_arguments(ToolCall(name=tool_role(call.name), arguments=call.arguments), _NAMES)
            if named.name == _NAMES.search:
                queries += _texts(named.arguments.get(_NAMES.search_query))
            elif named.name == _NAMES.visit:
                addresses += _texts(named.arguments.get(_NAMES.visit_url))
    return queries, addresses


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
