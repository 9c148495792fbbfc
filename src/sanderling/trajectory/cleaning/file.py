"""Cleaning a file of trajectories: kept ones into one file, dropped ones with their reasons beside it, and the report.

Contract: nothing is lost: every trajectory of the source stands in one of the two files. All three appear complete, the kept
ones last, or what stood there stays. Memory does not grow with the file.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sanderling.errors import UserError
from sanderling.files import replace_file
from sanderling.trajectory.cleaning.contract import Dropped, Target
from sanderling.trajectory.cleaning.parallel import Batch, clean_batches
from sanderling.trajectory.cleaning.recipe import CleaningRecipe
from sanderling.trajectory.cleaning.report import CleanReport
from sanderling.trajectory.cleaning.run import Cleaner
from sanderling.trajectory.codec import encode_trajectory
from sanderling.trajectory.parquet import write_parquet
from sanderling.trajectory.record import Trajectory

DROPPED_KEY = "dropped"
"""Where a dropped trajectory's step, reason and detail stand in its ``meta``."""

Advance = Callable[[int], None]


@dataclass(frozen=True)
class CleanedFile:
    """What was written."""

    out: Path
    dropped: Path
    """Absent when nothing was dropped."""
    report_file: Path
    report: CleanReport


def clean_file(
    trajectories: Iterable[Trajectory],
    out: Path,
    recipe: CleaningRecipe,
    target: Target,
    *,
    origin: str,
    workers: int = 1,
    advance: Advance = lambda _: None,
) -> CleanedFile:
    """Clean trajectories into ``out`` (Parquet if it is called so, else a store).

    ``origin`` names them in the report; ``advance`` is told how many more were cleaned. Raises UserError when a file cannot be
    written or a process was killed.
    """
    beside = CleanedFile(out, out.with_suffix(".dropped.jsonl"), out.with_suffix(".clean.json"), CleanReport())
    batches = clean_batches(trajectories, recipe, target, workers) if workers > 1 else _here(trajectories, recipe, target)
    with _whole_file(beside.dropped) as dropped:

        def kept() -> Iterator[Trajectory]:
            for batch in batches:
                for one in batch.found:
                    if isinstance(one, Trajectory):
                        yield one
                    else:
                        dropped.write(encode_trajectory(_with_reason(one)) + b"\n")
                beside.report.add(batch.report)
                advance(len(batch.found))

        _write(out, kept())
    if not beside.report.dropped:
        beside.dropped.unlink(missing_ok=True)
    told = {
        "origin": origin,
        "profile": target.profile.name,
        "recipe": recipe.model_dump(mode="json"),
        **beside.report.as_json(),
    }
    replace_file(beside.report_file, json.dumps(told, ensure_ascii=False, indent=1) + "\n")
    return beside


def _here(trajectories: Iterable[Trajectory], recipe: CleaningRecipe, target: Target) -> Iterator[Batch]:
    """In this process, one by one; the report goes with the last of them."""
    cleaner = Cleaner(recipe, target)
    nothing = cleaner.empty_report()
    for trajectory in trajectories:
        yield Batch([cleaner.clean(trajectory)], nothing)
    yield Batch([], cleaner.report)


def _with_reason(one: Dropped) -> Trajectory:
    told = {"step": one.step, "reason": one.reason.value, "detail": one.detail}
    return one.trajectory.model_copy(update={"meta": {**one.trajectory.meta, DROPPED_KEY: told}})


def _write(out: Path, trajectories: Iterator[Trajectory]) -> None:
    if out.suffix == ".parquet":
        write_parquet(out, trajectories)
        return
    with _whole_file(out) as file:
        for trajectory in trajectories:
            file.write(encode_trajectory(trajectory) + b"\n")


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of what stood there once all is written."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise UserError(f"Cannot write {path} ({error.strerror}): choose another place, or free some space.") from error
    finally:
        partial.unlink(missing_ok=True)
