"""Checking a file against benchmarks, whatever layout either has, and writing what is clean."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Question, Trajectory, encode_record, encode_trajectory
from sanderling.data.contamination import Benchmarks, Hit
from sanderling.data.importers import open_import
from sanderling.data.near import THRESHOLD
from sanderling.data.questions import read_questions
from sanderling.runs.writing import Lines


@dataclass(frozen=True)
class Checked:
    """What was found in a file."""

    benchmarks: int
    """Questions of the benchmarks."""
    rows: int
    hits: tuple[Hit, ...]


def check_file(
    source: Path, against: Sequence[Path], *, threshold: float = THRESHOLD, read: bool = False, out: Path | None = None
) -> Checked:
    """Check trajectories or questions; ``read``: what the agents read as well; ``out``: what was not hit goes there.

    Raises UserError for files that cannot be read, or that hold no question.
    """
    known = Benchmarks(threshold)
    for path in against:
        known.add(path.stem, read_questions(path))
    hits: list[Hit] = []
    rows = 0
    with ExitStack() as stack:
        clean = stack.enter_context(Lines(out)) if out is not None else None
        for row in _rows(source):
            rows += 1
            hit = known.check(row.id, row.question if isinstance(row, Trajectory) else row)
            if hit is None and read and isinstance(row, Trajectory):
                hit = known.check_read(row)
            if hit is not None:
                hits.append(hit)
            elif clean is not None:
                clean.add(encode_trajectory(row) if isinstance(row, Trajectory) else encode_record(row))
    return Checked(len(known), rows, tuple(hits))


def _rows(source: Path) -> Iterator[Trajectory | Question]:
    """The trajectories of a file, or where it has none its questions."""
    if not source.exists():
        raise UserError(f"There is no file {source}: give trajectories or questions.")
    if source.is_file() and not source.stat().st_size:
        return  # what a step that kept nothing leaves
    kind: type[Trajectory] | type[Question] | None = None
    for found in open_import(source):
        kind = kind or type(found)
        if not isinstance(found, kind):
            raise UserError(
                f"{source} holds trajectories and questions: part them with sanderling data import --questions, and check each."
            )
        yield found
