"""Deduplicating and splitting files: one pass for what the choice needs, one that writes what was chosen.

Memory holds questions, never trajectories. The order of the file is kept. Every trajectory that is left out is named, with the
one that stands for it.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, encode_trajectory
from sanderling.data.dedupe import Candidate, Deduped, Prefer, dedupe
from sanderling.data.files import open_trajectories
from sanderling.data.near import THRESHOLD
from sanderling.data.question_groups import Asked
from sanderling.data.split import Shares, Split, split
from sanderling.runs.writing import Lines, check_places, write_trajectories


@dataclass(frozen=True)
class LeftOut:
    """A trajectory that was left out, and the one kept for it, both by id and question."""

    id: str
    question: str
    kept: str
    kept_question: str


@dataclass(frozen=True)
class DedupedFile:
    """What was done to a file."""

    trajectories: int
    written: int
    result: Deduped
    left_out: tuple[LeftOut, ...]


def dedupe_file(
    source: Path,
    out: Path,
    *,
    threshold: float = THRESHOLD,
    by_answers: bool = True,
    keep: int = 1,
    prefer: Prefer = Prefer.SHORTEST,
) -> DedupedFile:
    """Write the trajectories of a file that :func:`dedupe` keeps. Raises UserError."""
    rows = [Candidate.of(trajectory) for trajectory in open_trajectories(source)]
    result = dedupe(rows, threshold=threshold, by_answers=by_answers, keep=keep, prefer=prefer)
    kept = set(result.kept)
    written = write_trajectories(out, (item for row, item in _numbered(source, len(rows)) if row in kept))
    left_out = tuple(
        LeftOut(rows[d.row].id, rows[d.row].question.text, rows[d.kept].id, rows[d.kept].question.text)
        for d in result.duplicates
    )
    return DedupedFile(len(rows), written, result, left_out)


@dataclass(frozen=True)
class SplitFiles:
    """What was written where."""

    names: tuple[str, ...]
    files: tuple[Path, ...]
    trajectories: tuple[int, ...]
    result: Split


def split_file(
    source: Path,
    directory: Path,
    shares: Shares,
    *,
    seed: int = 0,
    threshold: float = THRESHOLD,
    by_answers: bool = False,
) -> SplitFiles:
    """Write a store for each part; parts that got nothing are empty files. Raises UserError."""
    files = tuple(directory / f"{name}.jsonl" for name in shares.names)
    check_places([source], files)
    others = sorted(file.name for file in directory.glob("*.jsonl") if file not in files)
    if others:
        raise UserError(
            f"{directory} holds {others[0]}, which is no part of this split: a question may be there too. Choose another --out."
        )
    asked = [Asked(item.question.text, item.question.answers) for item in open_trajectories(source)]
    result = split(asked, shares, seed=seed, threshold=threshold, by_answers=by_answers)
    with ExitStack() as stack:
        parts = [stack.enter_context(Lines(file)) for file in files]
        for row, item in _numbered(source, len(asked)):
            parts[result.parts[row]].add(encode_trajectory(item))
    return SplitFiles(shares.names, files, tuple(part.count for part in parts), result)


def _numbered(source: Path, expected: int) -> Iterator[tuple[int, Trajectory]]:
    count = 0
    for row, item in enumerate(open_trajectories(source)):
        count += 1
        yield row, item
    if count != expected:
        raise UserError(f"{source} changed while it was read: run the command when nothing writes to it.")
