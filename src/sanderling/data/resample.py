"""Turn-aware resampling: long trajectories are rare and worth imitating, so they are repeated.

DR-Venus' rule (arXiv 2604.19859): up to 50 turns once, up to 100 twice, beyond that five times. Turns are the policy's own on
the main branch, which is that system's ``(messages - 1) // 2``.

Contract: pure and deterministic. The order follows from the ids and the seed alone, not from the order of the rows, so the
same rows in any order come out the same. Copies of one trajectory are never neighbours where that is possible at all. It is
possible when no trajectory has more than half of all slots, rounded up: between m copies of one there have to stand m - 1
others. Where it is not possible, as few are neighbours as can be. Knows no file.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from sanderling.core.errors import UserError

IntArray = NDArray[np.int64]
_FARTHEST_SWAP = 1_000


@dataclass(frozen=True)
class Schedule:
    """How often a trajectory is repeated, by its turns.

    Example: ``Schedule((50, 100), (1, 2, 5)).weight(51) == 2``
    """

    thresholds: tuple[int, ...] = (50, 100)
    """Upper ends of all buckets but the last, ascending; a trajectory of exactly so many turns is in the bucket."""
    weights: tuple[int, ...] = (1, 2, 5)
    """Copies in all, by bucket; 0 leaves a bucket out."""

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.thresholds) + 1:
            raise UserError(
                f"{len(self.thresholds)} thresholds make {len(self.thresholds) + 1} buckets, and there are "
                f"{len(self.weights)} weights: give one weight for each bucket."
            )
        if list(self.thresholds) != sorted(set(self.thresholds)) or min(self.thresholds, default=0) < 0:
            raise UserError(f"The thresholds {self.thresholds} do not ascend: give numbers of turns, the smallest first.")
        if min(self.weights) < 0:
            raise UserError(f"The weights {self.weights} are not all 0 or more: give whole numbers of copies.")

    def bucket(self, turns: int) -> int:
        """Which bucket so many turns are in."""
        return bisect_left(self.thresholds, turns)

    def weight(self, turns: int) -> int:
        """How many copies there will be, the original included."""
        return self.weights[self.bucket(turns)]

    def names(self) -> tuple[str, ...]:
        """The buckets in words: ``up to 50``, ``51 to 100``, ``above 100``."""
        if not self.thresholds:
            return ("all",)
        starts = [None, *(threshold + 1 for threshold in self.thresholds[:-1])]
        middle = [
            f"up to {end}" if start is None else f"{start} to {end}" for start, end in zip(starts, self.thresholds, strict=True)
        ]
        return (*middle, f"above {self.thresholds[-1]}")


@dataclass(frozen=True)
class Resampled:
    """The new order, and what it did to each bucket."""

    rows: IntArray
    """Place in the input, for each place in the output."""
    copies: IntArray
    """Parallel to ``rows``: 1 for a trajectory's first copy in the order."""
    before: tuple[int, ...]
    """Trajectories by bucket."""
    after: tuple[int, ...]
    neighbours: int
    """Pairs of neighbours that are copies of one trajectory; 0 wherever that is possible."""


def resample(ids: Sequence[str], turns: Sequence[int], schedule: Schedule, seed: int = 0) -> Resampled:
    """The order in which trajectories with these ids and turns are trained.

    Example: ``resample(["a", "b"], [60, 10], Schedule()).rows`` is 0, 1, 0: a, b, a
    """
    weights = np.fromiter((schedule.weight(number) for number in turns), dtype=np.int64, count=len(turns))
    buckets = np.fromiter((schedule.bucket(number) for number in turns), dtype=np.int64, count=len(turns))
    sizes = np.bincount(buckets, minlength=len(schedule.weights)) if len(buckets) else np.zeros(len(schedule.weights), int)
    rows = _apart(_shuffled(ids, weights, seed), weights)
    return Resampled(
        rows=rows,
        copies=_occurrences(rows),
        before=tuple(int(size) for size in sizes),
        after=tuple(int(size) * weight for size, weight in zip(sizes, schedule.weights, strict=True)),
        neighbours=int(np.count_nonzero(rows[1:] == rows[:-1])),
    )


def copy_id(id: str, copy: int, taken: Container[str] = ()) -> str:
    """A copy's id: its own for the first, ``ID~2`` for the second and so on, past ids that others have."""
    if copy == 1:
        return id
    free = (name for number in count(2) if (name := f"{id}~{number}") not in taken)
    return next(islice(free, copy - 2, None))


def _shuffled(ids: Sequence[str], weights: IntArray, seed: int) -> IntArray:
    """Every copy, in the order of a keyed hash: the same on every machine, and whatever order the rows came in."""
    rows = np.repeat(np.arange(len(ids), dtype=np.int64), weights)
    keys = np.empty(len(rows), dtype=np.uint64)
    at = 0
    for row, weight in enumerate(weights.tolist()):
        for copy in range(weight):
            keys[at] = _key(seed, copy, ids[row])
            at += 1
    return rows[np.argsort(keys, kind="stable")]


def _key(seed: int, copy: int, id: str) -> int:
    text = f"{seed}\0{copy}\0{id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def _apart(rows: IntArray, weights: IntArray) -> IntArray:
    """The order with copies apart: neighbours are swapped away one by one, and where that fails all are placed anew."""
    order = rows.tolist()
    for place in np.flatnonzero(rows[1:] == rows[:-1]).tolist():
        if order[place] == order[place + 1] and not _swap_away(order, place + 1):
            return _placed(rows, weights)
    return np.array(order, dtype=np.int64)


def _swap_away(order: list[int], place: int) -> bool:
    """Swap one slot with the nearest one behind it (on from the start at the end) that leaves both apart from neighbours."""
    size = len(order)
    for step in range(1, min(size, _FARTHEST_SWAP)):
        other = (place + step) % size
        order[place], order[other] = order[other], order[place]
        if _is_apart(order, place) and _is_apart(order, other):
            return True
        order[place], order[other] = order[other], order[place]
    return False


def _is_apart(order: list[int], place: int) -> bool:
    before = place > 0 and order[place - 1] == order[place]
    after = place + 1 < len(order) and order[place + 1] == order[place]
    return not (before or after)


def _placed(rows: IntArray, weights: IntArray) -> IntArray:
    """Copies placed by construction: the most frequent first, onto the even slots and then the odd ones.

    Of n slots, h = ceil(n / 2) are even. Two neighbours are h or h - 1 apart in the order of filling, so only who has h copies
    or more can meet itself. With at most h, the first begins at the start and ends before it would; a second with h as well
    fills just the odd slots. With more than h, its first h copies take the even slots (n odd or even) and the rest has to meet.
    """
    first_seen = {row: place for place, row in reversed(list(enumerate(rows.tolist())))}
    by_weight = sorted(first_seen, key=lambda row: (-int(weights[row]), first_seen[row]))
    filled = np.repeat(np.array(by_weight, dtype=np.int64), weights[by_weight])
    placed = np.empty_like(filled)
    even = (len(filled) + 1) // 2
    if int(weights[by_weight[0]]) <= even:
        placed[0::2], placed[1::2] = filled[:even], filled[even:]
        return placed
    others = filled[int(weights[by_weight[0]]) :]
    placed[:] = by_weight[0]
    placed[1 : 2 * len(others) : 2] = others
    return placed


def _occurrences(rows: IntArray) -> IntArray:
    """For each place, the how-manieth of its kind it is."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(rows) else np.zeros(0, np.int64)
    lengths = np.diff(np.concatenate((starts, [len(rows)])))
    found = np.empty(len(rows), dtype=np.int64)
    found[order] = np.arange(len(rows)) - np.repeat(starts, lengths) + 1
    return found
