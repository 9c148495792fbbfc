"""Turn-aware resampling: long trajectories are rare and worth imitating, so they are repeated.

DR-Venus' rule (arXiv 2604.19859): up to 50 turns of the policy on the main branch once, up to 100 twice, beyond five times. A
shuffled order follows from the ids and the seed alone. Memory holds an id, a number of turns and an offset for each trajectory.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from sanderling.core.errors import UserError
from sanderling.data.importing import open_trajectories
from sanderling.runs.files import or_cannot
from sanderling.runs.jsonl import TrajectoryStore, write_trajectories


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


def resample(ids: Sequence[str], turns: Sequence[int], schedule: Schedule, seed: int = 0, *, shuffle: bool = True) -> Resampled:
    """The order in which trajectories with these ids and turns are trained: that of a keyed hash of each copy.

    Not to ``shuffle``, as DR-Venus' script does by default: their own order, the copies of one in a row.

    Example: ``Counter(resample(["a", "b"], [60, 10], Schedule()).rows) == {0: 2, 1: 1}``
    """
    buckets = list(map(schedule.bucket, turns))
    keyed: list[tuple[bytes, int]] = []
    for row, bucket in enumerate(buckets):
        for copy in range(schedule.weights[bucket]):
            text = f"{seed}\0{copy}\0{ids[row]}".encode("utf-8", "surrogatepass")
            keyed.append((hashlib.blake2b(text, digest_size=8).digest() if shuffle else b"", row))
    sizes = Counter(buckets)
    before = tuple(sizes[bucket] for bucket in range(len(schedule.weights)))
    after = tuple(size * weight for size, weight in zip(before, schedule.weights, strict=True))
    return Resampled([row for _, row in sorted(keyed, key=itemgetter(0))], before, after)


def resample_file(source: Path, out: Path, schedule: Schedule, seed: int = 0, *, shuffle: bool = True) -> Resampled:
    """Write the resampled trajectories of a file, copies as ``ID~2`` and so on. Raises UserError."""
    with or_cannot(f"write {out}"):
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
    with beside as place:
        store = TrajectoryStore(Path(place) / "copied.jsonl", durable=False)
        offsets: list[int] = []
        turns: dict[str, int] = {}
        for trajectory in open_trajectories(source):
            if trajectory.id in turns:
                raise UserError(f"{source} holds the id {trajectory.id!r} more than once: give each trajectory one of its own.")
            turns[trajectory.id] = sum(1 for _ in trajectory.turns())
            offsets.append(store.append(trajectory))
        result = resample(list(turns), list(turns.values()), schedule, seed, shuffle=shuffle)
        ids = [_copy_ids(id, turns) for id in turns]
        copies = (store.at(offsets[row]).model_copy(update={"id": next(ids[row])}) for row in result.rows)
        write_trajectories(out, copies)
    return result


def _copy_ids(id: str, taken: Container[str]) -> Iterator[str]:
    """Ids of copies: its own for the first, ``ID~2`` for the second and so on, past ids that others have."""
    yield id
    yield from (name for number in count(2) if (name := f"{id}~{number}") not in taken)
