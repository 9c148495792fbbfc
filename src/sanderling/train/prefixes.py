"""Rows that begin alike, laid out once: the rows of a group as a tree of stretches (AgentRL's prefix merging).

What two rows share (system prompt, question, the first searches of two rollouts, the turns before a history reset) stands in
the line once, and every row continues it, so its keys, values and hidden states are computed once. A causal model cannot tell:
each token sees exactly the tokens before it in its own row, at the same positions. Rows of a group, or without one of a
trajectory, are compared: others hardly share more than a system prompt. Knows ids and row names only.
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
    """Rows (by index) that are looked through for what they share, in the order of first appearance.

    Those of one group; without a group, of one trajectory; a row without either name is alone.
    """
    return grouped([f"group {row.group}" if row.group else row.trajectory and f"trajectory {row.trajectory}" for row in rows])


def trajectories(rows: Sequence[Row]) -> list[list[int]]:
    """Rows (by index) of one trajectory together, in the order of first appearance; a row without a name is alone."""
    return grouped([row.trajectory for row in rows])


def lay_out(rows: Sequence[Row]) -> Layout:
    """All rows in one line, nothing that rows of one family share at their beginning twice."""
    return trees([row.ids for row in rows], families(rows))


def trees(rows: Sequence[IntArray], together: Sequence[Sequence[int]]) -> Layout:
    """Rows in one line, each part of them (by index, every one in one part) as a tree of what its rows begin with."""
    where: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(rows)
    stretches: list[Stretch] = []
    parts: list[tuple[IntArray, int]] = []
    start = 0
    for members in together:
        last, kept = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for index in neighbours(rows, members):
            shared = common(last, rows[index])
            last, kept = rows[index], kept[:shared]
            new = len(last) - shared
            if new:
                stretches.append(Stretch(new, spans(kept)))
                parts.append((last[shared:], shared))
                kept = np.concatenate((kept, np.arange(start, start + new)))
            where[index] = kept
            start += new
    return Layout(
        ids=joined([ids for ids, _ in parts]),
        positions=joined([np.arange(first, first + len(ids)) for ids, first in parts]),
        stretches=tuple(stretches),
        where=tuple(where),
    )


def bundles(rows: Sequence[Row], budget: int, together: Sequence[Sequence[int]] | None = None) -> list[tuple[list[int], int]]:
    """Rows (by index) that stand in one line together, and the tokens they take there; deterministic.

    The rows of a family (or of each part of ``together``), neighbours sharing most, as far as they take at most ``budget``
    tokens; a longer row is alone.
    """
    found: list[tuple[list[int], int]] = []
    every = [row.ids for row in rows]
    for members in families(rows) if together is None else together:
        bundle: list[int] = []
        tokens = 0
        for index in neighbours(every, members):
            new = len(every[index]) - (common(every[bundle[-1]], every[index]) if bundle else 0)
            if bundle and tokens + new > budget:
                found.append((bundle, tokens))
                bundle, tokens, new = [], 0, len(every[index])
            bundle.append(index)
            tokens += new
        found.append((bundle, tokens))
    return found


def neighbours(rows: Sequence[IntArray], members: Sequence[int]) -> list[int]:
    """Some rows (by index) in an order in which none before shares more with a row than the one right before it.

    It is a dictionary's, backwards, so that a row stands behind those that go on from it; equal ones stay in their order.
    """
    if len(members) == 1:
        return list(members)
    # Bytes with the highest first are in the order of the numbers, and are compared as fast as memory is read.
    return sorted(members, key=lambda index: rows[index].astype(">i8").tobytes(), reverse=True)


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


def joined(parts: Sequence[IntArray]) -> IntArray:
    """Parts behind each other; there may be none."""
    return np.concatenate((np.zeros(0, dtype=np.int64), *parts))
