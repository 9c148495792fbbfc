"""Figures of a set of trajectories: turns, calls, browse share, tokens, endings. Pure; judges nothing.

Browse share is DR-Venus' measure: visits among all tool calls. Only main branches are counted; rejected attempts apart.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sanderling.core.observations import tool_role
from sanderling.core.record import NodeKind, Trajectory

NO_ENDING = "not recorded"
"""How an ending is called in counts where the record does not say."""


@dataclass(frozen=True)
class TrajectoryStats:
    """Sums over trajectories."""

    trajectories: int = 0
    turns: int = 0
    rejected: int = 0
    """Attempts that were tried again."""
    searches: int = 0
    visits: int = 0
    other_calls: int = 0
    answered: int = 0
    """Trajectories with an answer of the agent's own."""
    with_tokens: int = 0
    """Trajectories whose main branch has token ids throughout; the token counts are theirs."""
    sampled_tokens: int = 0
    context_tokens: int = 0
    """Length of the main branches, sampled tokens included."""
    seconds: float = 0.0
    endings: dict[str, int] = field(default_factory=dict)
    """Ending -> trajectories, the most frequent first."""

    @property
    def calls(self) -> int:
        return self.searches + self.visits + self.other_calls

    @property
    def browse_share(self) -> float | None:
        """Visits among all calls; None without calls."""
        return self.visits / self.calls if self.calls else None

    @property
    def turns_per_trajectory(self) -> float | None:
        return self.turns / self.trajectories if self.trajectories else None

    @property
    def sampled_tokens_per_trajectory(self) -> float | None:
        """Among trajectories with token ids; None where there are none."""
        return self.sampled_tokens / self.with_tokens if self.with_tokens else None


def call_roles(trajectory: Trajectory) -> list[str]:
    """What each call of the main branch does, in order: the tools' own word where recorded, else by name."""
    branch = trajectory.branch()
    roles: list[str] = []
    for index, node in enumerate(branch):
        if node.kind is not NodeKind.TURN:
            continue
        following = branch[index + 1] if index + 1 < len(branch) else None
        events = following.events if following is not None and following.kind is NodeKind.OBSERVATION else ()
        told = [event.role for event in events] if len(events) == len(node.calls) else [""] * len(node.calls)
        roles += [role or tool_role(call.name) for role, call in zip(told, node.calls, strict=True)]
    return roles


def summarise(trajectories: Iterable[Trajectory]) -> TrajectoryStats:
    """The figures of a set.

    Example: ``summarise(TrajectoryStore(path)).browse_share``
    """
    counts: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    seconds = 0.0
    for trajectory in trajectories:
        roles = Counter(call_roles(trajectory))
        turns = list(trajectory.turns())
        ids = trajectory.token_ids()
        counts["trajectories"] += 1
        counts["turns"] += len(turns)
        counts["rejected"] += sum(node.rejected for node in trajectory.nodes)
        counts["searches"] += roles["search"]
        counts["visits"] += roles["visit"]
        counts["other_calls"] += roles.total() - roles["search"] - roles["visit"]
        counts["answered"] += trajectory.answer is not None
        if ids:
            counts["with_tokens"] += 1
            counts["context_tokens"] += len(ids)
            counts["sampled_tokens"] += sum(len(turn.token_ids or ()) for turn in turns)
        endings[trajectory.ending.value if trajectory.ending else NO_ENDING] += 1
        seconds += trajectory.seconds
    return TrajectoryStats(**counts, seconds=seconds, endings=dict(endings.most_common()))
