"""Turn-aware resampling: long trajectories are rare and worth imitating, so they are repeated.

DR-Venus' rule (arXiv 2604.19859): up to 50 turns of the policy on the main branch once, up to 100 twice, beyond five times. The
order follows from the ids and the seed alone; copies that would stand side by side are swapped apart where that is possible.
Memory holds an id, a number of turns and an offset for each trajectory.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, pairwise
from operator import eq
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.record import decode_trajectory
from sanderling.data.importing import open_trajectories
from sanderling.runs.jsonl import JsonlLog, TrajectoryStore, is_store, write_trajectories

_FARTHEST_SWAP = 1_000


@dataclass(frozen=True)
class Schedule:
    """How often a trajectory is repeated, by its turns."""

    thresholds: tuple[int, ...] = (50, 100)  # the most turns of each bucket but the last, ascending
    weights: tuple[int, ...] = (1, 2, 5)  # copies by bucket, the original included; 0 leaves a bucket out

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
        return bisect_left(self.thresholds, turns)

    def weight(self, turns: int) -> int:
        return self.weights[self.bucket(turns)]

    def names(self) -> tuple[str, ...]:
        """The buckets in words: ``up to 50``, ``51 to 100``, ``above 100``."""
        if not self.thresholds:
            return ("all",)
        middle = [f"{start + 1} to {end}" for start, end in pairwise(self.thresholds)]
        return (f"up to {self.thresholds[0]}", *middle, f"above {self.thresholds[-1]}")


class Resampled(NamedTuple):
    """The new order, and what it did to each bucket."""

    rows: list[int]  # place in the input, for each place in the output
    before: tuple[int, ...]
    after: tuple[int, ...]
    neighbours: int  # pairs of neighbours that are copies of one trajectory


def resample(ids: Sequence[str], turns: Sequence[int], schedule: Schedule, seed: int = 0) -> Resampled:
    """The order in which trajectories with these ids and turns are trained: by a keyed hash, then copies are moved apart.

    Example: ``resample(["a", "b"], [60, 10], Schedule()).rows == [0, 1, 0]``: a, b, a
    """

    def key(id: str, copy: int) -> bytes:
        return hashlib.blake2b(f"{seed}\0{copy}\0{id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()

    keyed = [(key(ids[row], copy), row) for row, number in enumerate(turns) for copy in range(schedule.weight(number))]
    rows = [row for _, row in sorted(keyed, key=lambda one: one[0])]
    _move_apart(rows)
    sizes = Counter(schedule.bucket(number) for number in turns)
    return Resampled(
        rows=rows,
        before=tuple(sizes[bucket] for bucket in range(len(schedule.weights))),
        after=tuple(sizes[bucket] * weight for bucket, weight in enumerate(schedule.weights)),
        neighbours=sum(map(eq, rows, rows[1:])),
    )


def _move_apart(order: list[int]) -> None:
    """Swap equal neighbours away, each with the nearest one behind it that leaves both apart."""

    def is_apart(place: int) -> bool:
        return order[place] not in order[max(place - 1, 0) : place] + order[place + 1 : place + 2]

    for place in range(1, len(order)):
        if order[place - 1] != order[place]:
            continue
        for step in range(1, min(len(order), _FARTHEST_SWAP)):
            other = (place + step) % len(order)
            order[place], order[other] = order[other], order[place]
            if is_apart(place) and is_apart(other):
                break
            order[place], order[other] = order[other], order[place]


def resample_file(source: Path, out: Path, schedule: Schedule, seed: int = 0) -> Resampled:
    """Write the resampled trajectories of a file, copies as ``ID~2`` and so on.

    Raises UserError for repeated ids, and for files it cannot read or write.
    """
    with ExitStack() as stack:
        store, head = TrajectoryStore(source), b""
        if source.is_file():
            with source.open("rb") as file:
                head = file.read(64)
        if not head.strip() or not is_store(head):
            out.parent.mkdir(parents=True, exist_ok=True)
            place = stack.enter_context(TemporaryDirectory(dir=out.parent, prefix=f".{out.name}."))
            store = TrajectoryStore(Path(place) / "copied.jsonl")
            write_trajectories(store.path, open_trajectories(source))
        offsets: list[int] = []
        turns: dict[str, int] = {}
        for offset, trajectory in store.with_offsets():
            if trajectory.id in turns:
                raise UserError(
                    f"{source} holds the id {trajectory.id!r} more than once: give each trajectory an id of its own first."
                )
            offsets.append(offset)
            turns[trajectory.id] = sum(1 for _ in trajectory.turns())
        result = resample(list(turns), list(turns.values()), schedule, seed)
        log, ids = JsonlLog(store.path), [copy_ids(id, turns) for id in turns]
        copies = (log.at(offsets[row]) | {"id": next(ids[row])} for row in result.rows)
        write_trajectories(out, map(decode_trajectory, copies))
    return result


def copy_ids(id: str, taken: Container[str]) -> Iterator[str]:
    """Ids of copies: its own for the first, ``ID~2`` for the second and so on, past ids that others have."""
    yield id
    yield from (name for number in count(2) if (name := f"{id}~{number}") not in taken)
