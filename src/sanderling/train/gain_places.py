"""Where information gain is measured: the contexts before a turn and after it, over all branches of a trajectory.

A context is named by the node that it ends with. Rejected attempts are no turns and no contexts; they stay out. Knows no model
and no answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sanderling.core.errors import UserError
from sanderling.core.record import NodeKind, Trajectory, turn_indices


class GainAfter(StrEnum):
    """Which boundary is the one after a turn, where a trajectory has several branches; on a single one they are the same."""

    OBSERVED = "observed"
    """The first that holds what its tools returned: the prompt of the next turn that goes on from it, and where none does
    (the history was reset, a hint took its place, the episode ended) the end of what was returned. No page is measured without
    itself."""
    NEXT_TURN = "next_turn"
    """The prompt of the next turn in time, on whatever branch: a reset's loss is the turn's before it."""


@dataclass(frozen=True)
class TurnPlaces:
    """A turn's contexts, by their last nodes."""

    before: int | None
    """Its own prompt; None: it has none."""
    after: int | None
    """None: nothing follows the turn."""


@dataclass(frozen=True)
class Contexts:
    """Contexts as beginnings of branches."""

    branches: tuple[list[int], ...]
    """Ids; the first is the main branch."""
    branch: tuple[int, ...]
    """Of each context, the branch that it is on."""
    length: tuple[int, ...]
    """And how many of its ids it has."""


def turn_places(trajectory: Trajectory, after: GainAfter) -> list[TurnPlaces]:
    """For each of :func:`sanderling.core.record.turn_indices` the contexts before and after it."""
    turns = turn_indices(trajectory)
    behind = {turn: set(trajectory.path(turn)) for turn in turns}
    found = []
    for number, turn in enumerate(turns):
        later = turns[number + 1 :]
        if after is GainAfter.OBSERVED:
            returned = _returned(trajectory, turn) or [turn]
            later = [other for other in later if not behind[other].isdisjoint(returned)]
        end = trajectory.nodes[later[0]].parent if later else _tail(trajectory, turn)
        found.append(TurnPlaces(trajectory.nodes[turn].parent, end))
    return found


def contexts(trajectory: Trajectory, ends: Sequence[int]) -> Contexts:
    """The contexts that end with given nodes, on as few branches as hold them. Raises UserError when a node has text only."""
    paths = [trajectory.path()]
    on = dict.fromkeys(paths[0], 0)
    for end in sorted(set(ends) - set(on), reverse=True):
        if end not in on:
            path = trajectory.path(end)
            on |= {node: len(paths) for node in path if node not in on}
            paths.append(path)
    sizes: dict[int, int] = {}
    for path in paths:
        size = 0
        for node in path:
            size += len(_ids(trajectory, node))
            sizes[node] = size
    branches = tuple([token for node in path for token in _ids(trajectory, node)] for path in paths)
    return Contexts(branches, tuple(on[end] for end in ends), tuple(sizes[end] for end in ends))


def _returned(trajectory: Trajectory, turn: int) -> list[int]:
    """What a turn's tools returned, in all the ways that it was told."""
    told = [index for index, node in enumerate(trajectory.nodes) if node.parent == turn]
    return [index for index in told if trajectory.nodes[index].kind is NodeKind.OBSERVATION]


def _tail(trajectory: Trajectory, turn: int) -> int | None:
    """The last message behind what a turn's tools returned, or behind the turn where they returned nothing."""
    at = max(_returned(trajectory, turn), default=turn)
    for index in range(at + 1, len(trajectory.nodes)):
        node = trajectory.nodes[index]
        if node.parent == at and node.kind is not NodeKind.TURN:
            at = index
    return None if at == turn else at


def _ids(trajectory: Trajectory, node: int) -> tuple[int, ...]:
    ids = trajectory.nodes[node].token_ids
    if ids is None:
        raise UserError(
            f"Trajectory {trajectory.id} has text only, and information gain needs token ids: "
            "use an in-process policy or an endpoint that returns token ids."
        )
    return ids
