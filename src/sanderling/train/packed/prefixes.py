"""Rows that begin alike, laid out once: the rows of a group as a tree of stretches (AgentRL's prefix merging).

What two rows share (system prompt, question, the first searches of two rollouts, the turns before a history reset) stands in
the line once, and every row continues it, so its keys, values and hidden states are computed once. A causal model cannot tell:
each token sees exactly the tokens before it in its own row, at the same positions. Rows are compared with those of their group;
rows that name no group, with those of their trajectory. Others hardly share more than a system prompt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sanderling.train.contract import IntArray, Row
from sanderling.train.packed.attention import Span, Stretch
from sanderling.train.row_source import grouped

COPIES = 4
"""How many budgets of tokens the rows of one line are long together, at most. With gradients a stretch keeps a copy of the keys
and values that it continues, so that without a bound memory would grow with what rows share. Keys and values of four times the
tokens are, where key heads are fewer than query heads, a small part of what a layer keeps of the tokens themselves."""


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


@dataclass(frozen=True)
class Bundle:
    """Rows that stand in one line together."""

    rows: tuple[int, ...]
    """By index."""
    tokens: int
    """That they take in the line."""
    copied: int
    """Lengths of the rows that add tokens to it: keys and values that their stretches hold with gradients, and their own."""

    @property
    def room(self) -> int:
        """What it takes of a budget."""
        return max(self.tokens, -(-self.copied // COPIES))


class Bundling:
    """Rows in the order in which neighbours share most, compared once and cut for any budget; deterministic.

    ``together``: parts of rows (by index) that are looked through for what they share; None: :func:`families`.
    """

    def __init__(self, rows: Sequence[Row], together: Sequence[Sequence[int]] | None = None) -> None:
        every = [row.ids for row in rows]
        self._lengths = [len(ids) for ids in every]
        self._orders: list[list[tuple[int, int]]] = []
        """Of each part its rows, and what each shares with the one before it."""
        for members in families(rows) if together is None else together:
            order = neighbours(every, members)
            shares = [common(every[before], every[index]) for before, index in pairwise(order)]
            self._orders.append(list(zip(order, [0, *shares], strict=True)))

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(self._lengths, default=0)

    def cut(self, budget: int) -> list[Bundle]:
        """Neighbours of a part together, as far as they take no more room than ``budget``.

        A longer row is alone, but for rows that are the same or its beginning: they add nothing to a line.
        """
        return [bundle for order in self._orders for bundle in self._cut(order, budget)]

    def _cut(self, order: Sequence[tuple[int, int]], budget: int) -> Iterator[Bundle]:
        found = Bundle((), 0, 0)
        for index, shared in order:
            length = self._lengths[index]
            new = length - shared if found.rows else length
            more = Bundle((*found.rows, index), found.tokens + new, found.copied + (length if new else 0))
            if found.rows and new and more.room > budget:
                yield found
                more = Bundle((index,), length, length)
            found = more
        yield found


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
