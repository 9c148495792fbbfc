"""A main branch as its rounds: what stands before the first turn, and each turn with what was said in reply to it.

A round that goes takes its replies along, so no two replies are ever left in a row. Knows no step.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.data.cleaning.graph import Kept, main_branch


@dataclass(frozen=True, slots=True)
class Round:
    """A turn and its replies."""

    turn: Kept
    replies: tuple[Kept, ...] = ()

    @property
    def node(self) -> Node:
        return self.turn[1]

    @property
    def observation(self) -> Kept | None:
        """What the tools returned; None where nothing is recorded."""
        return next((kept for kept in self.replies if kept[1].kind is NodeKind.OBSERVATION), None)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A main branch, taken apart."""

    head: tuple[Kept, ...]
    rounds: tuple[Round, ...]

    def joined(self) -> list[Kept]:
        """The branch again."""
        return join(self.head, self.rounds)


def join(head: Iterable[Kept], rounds: Iterable[Round]) -> list[Kept]:
    """A main branch of its parts."""
    kept = list(head)
    for one in rounds:
        kept.append(one.turn)
        kept.extend(one.replies)
    return kept


def take_apart(trajectory: Trajectory) -> Rounds:
    """The rounds of a trajectory's main branch."""
    head: list[Kept] = []
    rounds: list[tuple[Kept, list[Kept]]] = []
    for kept in main_branch(trajectory):
        if kept[1].kind is NodeKind.TURN:
            rounds.append((kept, []))
        else:
            (rounds[-1][1] if rounds else head).append(kept)
    return Rounds(tuple(head), tuple(Round(turn, tuple(replies)) for turn, replies in rounds))
