"""Rows that begin alike, laid out once: the branches of one trajectory as a tree of stretches (AgentRL's prefix merging).

What two branches share (system prompt, question, the turns before a history reset) stands in the line once, and every branch
continues it, so its keys, values and hidden states are computed once. A causal model cannot tell: each token sees exactly the
tokens before it in its own row, at the same positions. Knows ids and row names only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sanderling.train.attention import Span, Stretch
from sanderling.train.contract import IntArray, Row
from sanderling.train.row_source import grouped


@dataclass(frozen=True)
class Layout:
    """Rows in one line of T tokens."""

    ids: IntArray
    """[T]"""
    positions: IntArray
    """[T] the place of each token in its row."""
    stretches: tuple[Stretch, ...]
    where: tuple[IntArray, ...]
    """For each row, where in the line each of its tokens stands."""


def families(rows: Sequence[Row]) -> list[list[int]]:
    """Rows (by index) of one trajectory together, in the order of first appearance; a row without a name is alone."""
    return grouped([row.trajectory for row in rows])


def lay_out(rows: Sequence[Row]) -> Layout:
    """All rows in one line, in their order, nothing that rows of one trajectory share at their beginning twice."""
    where: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(rows)
    stretches: dict[int, Stretch] = {}
    family = {i: members for members in families(rows) for i in members}
    start = 0
    for index, row in enumerate(rows):
        before = [i for i in family[index] if i < index]
        shared, model = max(((common(rows[i].ids, row.ids), i) for i in before), default=(0, index), key=lambda pair: pair[0])
        kept = where[model][:shared]
        new = len(row.ids) - shared
        where[index] = np.concatenate((kept, np.arange(start, start + new, dtype=np.int64)))
        if new:
            stretches[start] = Stretch(new, spans(kept))
        start += new
    ids, positions = np.zeros(start, dtype=np.int64), np.zeros(start, dtype=np.int64)
    for row, places in zip(rows, where, strict=True):
        ids[places], positions[places] = row.ids, np.arange(len(row.ids))
    return Layout(ids, positions, tuple(stretches.values()), tuple(where))


def bundles(rows: Sequence[Row], budget: int) -> list[tuple[list[int], int]]:
    """Rows (by index) that stand in one line together, and the tokens they take there; deterministic.

    The rows of a trajectory, in their order, as far as they take at most ``budget`` tokens; a longer row is alone.
    """
    found: list[tuple[list[int], int]] = []
    for members in families(rows):
        bundle: list[int] = []
        tokens = 0
        for index in members:
            ids = rows[index].ids
            new = len(ids) - max((common(rows[i].ids, ids) for i in bundle), default=0)
            if bundle and tokens + new > budget:
                found.append((bundle, tokens))
                bundle, tokens, new = [], 0, len(ids)
            bundle.append(index)
            tokens += new
        found.append((bundle, tokens))
    return found


def common(one: IntArray, other: IntArray) -> int:
    """How many tokens two rows begin with alike."""
    size = min(len(one), len(other))
    unlike = np.flatnonzero(one[:size] != other[:size])
    return int(unlike[0]) if unlike.size else size


def spans(places: IntArray) -> tuple[Span, ...]:
    """Ascending places as spans without gaps."""
    if not places.size:
        return ()
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    return tuple((int(part[0]), int(part[-1]) + 1) for part in np.split(places, cuts))
