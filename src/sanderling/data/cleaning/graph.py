"""A trajectory with another main branch: parents renumbered, other branches kept only where they still tell the truth.

A branch is what a model once saw. A branch off the main one is kept where everything it shares with it is as it was, and pruned
otherwise. Ids stay with a node whose text stays; the log-probabilities of a turn that comes after a change were sampled in
another context and go. Knows no step.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sanderling.core.record import Node, NodeKind, Trajectory
from sanderling.data.cleaning.contract import Note

Kept = tuple[int | None, Node]
"""A node of the new main branch, and the index it had; None: it is new."""


def main_branch(trajectory: Trajectory) -> list[Kept]:
    """The main branch as it is."""
    return [(index, trajectory.nodes[index]) for index in trajectory.path()]


def with_text(node: Node, text: str, **fields: Any) -> Node:
    """The node with another text: what was sampled for the old one goes with it. Equal text: only the fields change."""
    if text != node.text:
        fields |= {"text": text, "token_ids": None, "loss_mask": None, "logprobs": None, "versions": None}
    changed = {name: value for name, value in fields.items() if getattr(node, name) != value}
    return node.model_copy(update=changed) if changed else node


def rebuild(trajectory: Trajectory, kept: Sequence[Kept], notes: Iterable[Note] = ()) -> tuple[Trajectory, tuple[Note, ...]]:
    """The trajectory with this main branch, its nodes first; the same object where nothing changed."""
    path = trajectory.path()
    if [index for index, _ in kept] == path and all(
        node is trajectory.nodes[at] for at, (_, node) in zip(path, kept, strict=True)
    ):
        return trajectory, tuple(notes)
    return _Graph(trajectory, kept).build(tuple(notes))


class _Graph:
    """One rebuilding."""

    def __init__(self, trajectory: Trajectory, kept: Sequence[Kept]) -> None:
        self._trajectory = trajectory
        self._kept = kept
        self._nodes: list[Node] = []
        self._places: dict[int, int] = {}
        """Old index -> new index, of the nodes that are left."""
        self._intact: set[int] = set()
        """Old indices of nodes that stand where they stood, after what they stood after."""
        self._unsampled = 0

    def build(self, notes: tuple[Note, ...]) -> tuple[Trajectory, tuple[Note, ...]]:
        leaf = self._main()
        pruned = self._others()
        notes += (Note("branch_messages_pruned", pruned),) if pruned else ()
        notes += (Note("logprobs_dropped", self._unsampled),) if self._unsampled else ()
        last = self._nodes[leaf] if leaf is not None else None
        answer = last.answer if last is not None and last.kind is NodeKind.TURN else None
        update = {"nodes": tuple(self._nodes), "leaf": leaf, "answer": answer}
        return self._trajectory.model_copy(update=update), notes

    def _main(self) -> int | None:
        """The new main branch; returns its end."""
        last: int | None = None
        whole, before = True, None
        for old, node in self._kept:
            was = None if old is None else self._trajectory.nodes[old]
            whole = whole and was is not None and was.parent == before
            if not whole and node.kind is NodeKind.TURN and node.logprobs is not None:
                node = node.model_copy(update={"logprobs": None})
                self._unsampled += 1
            whole = whole and was is not None and (was.text, was.token_ids) == (node.text, node.token_ids)
            last = self._add(node, last)
            if old is not None:
                self._places[old] = last
                before = old
                if whole:
                    self._intact.add(old)
        return last

    def _others(self) -> int:
        """Branches off the main one; returns how many messages were pruned."""
        main = set(self._trajectory.path())
        pruned = 0
        for old, node in enumerate(self._trajectory.nodes):
            if old in main:
                continue
            if node.parent is not None and node.parent not in self._intact:
                pruned += 1
                continue
            self._places[old] = self._add(node, None if node.parent is None else self._places[node.parent])
            self._intact.add(old)
        return pruned

    def _add(self, node: Node, parent: int | None) -> int:
        self._nodes.append(node if node.parent == parent else node.model_copy(update={"parent": parent}))
        return len(self._nodes) - 1
