"""Replaying recorded tools: an exactly recorded call is answered with the recorded observation, byte for byte.

Contract: a call's key is its tool's role and its arguments as canonical JSON (argument names of all families are one, a lone
text is a list of one; the texts themselves count to the letter). A turn with several calls is one key, as it has one
observation. Where the same call was answered differently, the trajectory decides, then the ordinal of the call in it, then how
often it was made before. Knows no model and no tool (`tools.replay` answers from it).
"""

import itertools
import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.observations import tool_role, unwrap
from sanderling.core.parse import normalise_arguments
from sanderling.core.profiles import ToolNames
from sanderling.core.record import NodeKind, Trajectory
from sanderling.core.types import ToolCall
from sanderling.runs.files import replace_file
from sanderling.runs.jsonl import JsonlLog

_NAMES = ToolNames()
REPLAY_FILE = "replay.jsonl"
"""In a recorded world's directory."""


def call_key(name: str, arguments: dict[str, Any]) -> str:
    """The canonical form of one call."""
    call = normalise_arguments(ToolCall(name=tool_role(name) or name, arguments=arguments), _NAMES)
    return json.dumps([call.name, call.arguments], sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Replay:
    """One recorded observation."""

    calls: tuple[str, ...]
    """Keys of the turn's calls (`call_key`)."""
    text: str
    """What the tools said, without the wrapper."""
    trajectory_id: str
    ordinal: int
    """How many calls the trajectory had made before this turn."""


class ReplayTable:
    """Recorded observations by the calls they answer.

    Example: ``ReplayTable.from_trajectories(found).lookup("search", {"query": ["tidal flats"]})``
    """

    def __init__(self, replays: Iterable[Replay]) -> None:
        self._replays = tuple(replays)
        self._by_calls: dict[tuple[str, ...], dict[str, list[Replay]]] = {}
        for replay in self._replays:
            self._by_calls.setdefault(replay.calls, {}).setdefault(replay.trajectory_id, []).append(replay)

    @classmethod
    def from_trajectories(cls, trajectories: Iterable[Trajectory]) -> "ReplayTable":
        """Every observation on a main branch that follows a turn with calls."""
        return cls(replay for trajectory in trajectories for replay in _replays(trajectory))

    def __len__(self) -> int:
        return len(self._replays)

    def of(self, trajectories: Set[str]) -> "ReplayTable":
        """The table of some trajectories only, by id."""
        return ReplayTable(replay for replay in self._replays if replay.trajectory_id in trajectories)

    def call_keys(self) -> set[str]:
        """The key of every recorded call (`call_key`)."""
        return {key for replay in self._replays for key in replay.calls}

    def lookup(
        self,
        name: str,
        arguments: dict[str, Any],
        trajectory_id: str | None = None,
        occurrence: int = 0,
        ordinal: int | None = None,
    ) -> str | None:
        """The observation that answered this call, made alone in its turn; None when it was not recorded.

        ``trajectory_id``: whose answer is preferred; else the first trajectory that made the call. ``occurrence``: how often
        the episode made the call before; past the last recording, the last one answers. ``ordinal``: how many calls of any
        kind the episode made before; it decides where a recording has it.
        """
        return self._find((call_key(name, arguments),), trajectory_id, occurrence, ordinal)

    def lookup_turn(self, calls: Sequence[ToolCall], trajectory_id: str | None = None, occurrence: int = 0) -> str | None:
        """The whole observation that answered a turn's calls together; None when it was not recorded."""
        return self._find(tuple(call_key(call.name, call.arguments) for call in calls), trajectory_id, occurrence, None)

    def _find(self, calls: tuple[str, ...], trajectory_id: str | None, occurrence: int, ordinal: int | None) -> str | None:
        recorded = self._by_calls.get(calls)
        if recorded is None:
            return None
        answers = recorded.get(trajectory_id or "") or next(iter(recorded.values()))
        exact = next((replay for replay in answers if replay.ordinal == ordinal), None)
        return (exact or answers[min(occurrence, len(answers) - 1)]).text

    def save(self, path: Path | str) -> None:
        """Write the table as JSONL, whole or not at all. Raises UserError when the place cannot be written."""
        try:
            replace_file(Path(path), "".join(json.dumps(vars(replay)) + "\n" for replay in self._replays))
        except OSError as error:
            raise UserError(f"Cannot write {path} ({error.strerror}): choose another place.") from error

    @classmethod
    def load(cls, path: Path | str) -> "ReplayTable":
        """Read a saved table. Raises UserError when it is missing or damaged."""
        if not Path(path).is_file():
            raise UserError(f"There is no replay table at {path}: build the recorded world first.")
        replays = []
        for number, row in enumerate(JsonlLog(path), start=1):
            try:
                replays.append(Replay(tuple(row["calls"]), row["text"], row["trajectory_id"], row["ordinal"]))
            except (KeyError, TypeError) as error:
                raise UserError(f"Line {number} of {path} is not a replay: build the recorded world again.") from error
        return cls(replays)


def _replays(trajectory: Trajectory) -> Iterable[Replay]:
    branch = trajectory.branch()
    ordinal = 0
    for turn, node in itertools.pairwise(branch):
        if turn.kind is not NodeKind.TURN or not turn.calls or node.kind is not NodeKind.OBSERVATION:
            continue
        keys = tuple(call_key(call.name, call.arguments) for call in turn.calls)
        yield Replay(keys, unwrap(node.text), trajectory.id, ordinal)
        ordinal += len(turn.calls)
