"""Resampling a file: one pass for ids and turns, one that writes each copy where it belongs.

Memory holds an id, a number of turns and an offset for each trajectory, whatever their length. Ids have to be unique, since
copies are told apart by them.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import decode_trajectory, encode_record
from sanderling.data.files import open_trajectories
from sanderling.data.resample import Resampled, Schedule, copy_id, resample
from sanderling.runs.writing import Shelf, shelved, write_lines, write_trajectories

_COPY = re.compile(r"~[0-9]+\Z")


@dataclass(frozen=True)
class Resampling:
    """What was done to a file."""

    trajectories: int
    written: int
    schedule: Schedule
    result: Resampled
    like_copies: int
    """Ids that end as copies' ids do: a file that was resampled before, or one with several attempts at a question."""


def resample_file(source: Path, out: Path, schedule: Schedule, seed: int = 0) -> Resampling:
    """Write the resampled trajectories of a file. Raises UserError for repeated ids, and for files it cannot read or write."""
    ids, turns = _index(source)
    result = resample(ids, turns, schedule, seed)
    taken = frozenset(id for id in ids if _COPY.search(id))
    with shelved(source, open_trajectories(source), out) as shelf:
        if len(shelf) != len(ids):
            raise UserError(f"{source} changed while it was read: run the command when nothing writes to it.")
        if out.suffix == ".parquet":
            written = write_trajectories(out, map(decode_trajectory, _copies(shelf, result, taken)))
        else:
            written = write_lines(out, map(encode_record, _copies(shelf, result, taken)))
    return Resampling(len(ids), written, schedule, result, len(taken))


def _index(source: Path) -> tuple[list[str], list[int]]:
    ids: list[str] = []
    turns: list[int] = []
    for trajectory in open_trajectories(source):
        ids.append(trajectory.id)
        turns.append(sum(1 for _ in trajectory.turns()))
    known = set(ids)
    if len(known) < len(ids):
        seen: set[str] = set()
        twice = next(id for id in ids if id in seen or seen.add(id))
        raise UserError(f"{source} holds the id {twice!r} more than once: give each trajectory an id of its own first.")
    return ids, turns


def _copies(shelf: Shelf, result: Resampled, taken: Container[str]) -> Iterator[dict]:
    for row, copy in zip(result.rows.tolist(), result.copies.tolist(), strict=True):
        record = shelf.record(row)
        yield record | {"id": copy_id(record["id"], copy, taken)}
