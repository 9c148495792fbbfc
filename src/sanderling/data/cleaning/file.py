"""Cleaning a file of trajectories: kept ones into one file, dropped ones with their reasons beside it, and the report.

Contract: nothing is lost: every trajectory of the source stands in one of the two files. All three appear complete, the kept
ones last, or what stood there stays. Memory does not grow with the file.
"""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory, decode_record, decode_trajectory
from sanderling.data.cleaning.contract import Target
from sanderling.data.cleaning.parallel import clean_batches
from sanderling.data.cleaning.recipe import CleaningRecipe
from sanderling.data.cleaning.report import CleanReport
from sanderling.runs.files import replace_file
from sanderling.runs.parquet import write_parquet
from sanderling.runs.writing import Lines, check_places, write_lines

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
    origin: Path,
    workers: int = 1,
    advance: Advance = lambda _: None,
) -> CleanedFile:
    """Clean trajectories into ``out`` (Parquet if it is called so, else a store).

    ``origin``: where they come from, by whose name the report calls them; ``advance`` is told how many more were cleaned.
    Raises UserError when a file cannot be written, would take the place of the origin, or a process was killed.
    """
    done = CleanedFile(out, out.with_suffix(".dropped.jsonl"), out.with_suffix(".clean.json"), CleanReport())
    check_places([origin], [done.out, done.dropped, done.report_file])
    told = {"origin": origin.name, "profile": target.profile.name, "recipe": recipe.model_dump(mode="json")}

    def kept() -> Generator[bytes, None, None]:
        """The lines to keep; what was dropped, and the report, are in their places when the last one was taken."""
        with Lines(done.dropped, keep_empty=False) as dropped:
            for batch in clean_batches(trajectories, recipe, target, workers):
                for line in batch.dropped:
                    dropped.add(line)
                yield from batch.kept
                done.report.add(batch.report)
                advance(batch.report.came_in)
        _write_report(done, told)

    with closing(kept()) as lines:
        if out.suffix == ".parquet":
            write_parquet(out, (decode_trajectory(decode_record(line)) for line in lines))
        else:
            write_lines(out, lines)
    return done


def _write_report(done: CleanedFile, told: dict[str, object]) -> None:
    try:
        replace_file(done.report_file, json.dumps(told | done.report.as_json(), ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise UserError(
            f"Cannot write {done.report_file} ({error.strerror}): choose another place, or free some space."
        ) from error
