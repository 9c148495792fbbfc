"""Cleaning a file of trajectories: kept ones into one file, dropped ones with their reasons beside it, and the report.

All three appear complete, the kept ones last, or what stood there stays. Memory does not grow with the file, and any number of
processes writes the same bytes.
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sanderling.core.errors import UserError
from sanderling.core.profiles import Profile
from sanderling.core.record import Trajectory, decode_record, decode_trajectory, encode_trajectory
from sanderling.data.cleaning.cleaner import Cleaner, CleanReport
from sanderling.data.cleaning.recipe import CleaningRecipe
from sanderling.runs.files import check_places
from sanderling.runs.jsonl import Lines, write_lines
from sanderling.runs.locks import in_processes
from sanderling.runs.parquet import write_parquet

DROPPED_KEY = "dropped"  # where a dropped trajectory's step, reason and detail stand in its ``meta``
_BATCH = 8
_KILLED = "A process that cleans trajectories was killed (often for want of memory): run again with fewer --workers."

Advance = Callable[[int], None]


class CleanedFile(NamedTuple):
    """What was written."""

    out: Path
    dropped: Path  # no file where nothing was
    report_file: Path
    report: CleanReport


def clean_file(
    trajectories: Iterable[Trajectory],
    out: Path,
    recipe: CleaningRecipe,
    profile: Profile,
    *,
    origin: Path,
    workers: int = 1,
    advance: Advance = lambda _: None,
) -> CleanedFile:
    """Clean trajectories of the file ``origin`` into ``out``; ``advance`` is told how many more were. Raises UserError."""
    done = CleanedFile(out, out.with_suffix(".dropped.jsonl"), out.with_suffix(".clean.json"), CleanReport())
    check_places([origin], [done.out, done.dropped, done.report_file])
    settings, source = recipe.model_dump(mode="json"), iter(trajectories)
    clean, some = partial(_cleaned, settings, profile), iter(lambda: list(islice(source, _BATCH)), [])

    def kept() -> Generator[bytes, None, None]:
        """The lines to keep; what was dropped, and the report, are in their places when the last one was taken."""
        batches = map(clean, some) if workers == 1 else in_processes(clean, some, workers, killed=_KILLED)
        with Lines(done.dropped, keep_empty=False) as dropped:
            for batch, left_out, report in batches:
                for line in left_out:
                    dropped.add(line)
                yield from batch
                done.report.add(report)
                advance(report.came_in)
        about = {"origin": origin.name, "profile": profile.name, "recipe": settings}
        text = json.dumps(about | done.report.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_lines(done.report_file, [text.encode("utf-8", "backslashreplace")])

    with closing(kept()) as lines:
        if out.suffix == ".parquet":
            write_parquet(out, (decode_trajectory(decode_record(line)) for line in lines))
        else:
            write_lines(out, lines)
    return done


def _cleaned(
    settings: dict[str, Any], profile: Profile, trajectories: Sequence[Trajectory]
) -> tuple[list[bytes], list[bytes], CleanReport]:
    """Lines of a store, kept and dropped, of some trajectories, and their report. Raises UserError."""
    cleaner = Cleaner(CleaningRecipe.model_validate(settings), profile)
    kept: list[bytes] = []
    dropped: list[bytes] = []
    for trajectory in trajectories:
        found = cleaner.clean(trajectory)
        try:
            if isinstance(found, Trajectory):
                kept.append(encode_trajectory(found))
                continue
            why = {DROPPED_KEY: {"step": found.step, "reason": found.reason, "detail": found.detail}}
            dropped.append(encode_trajectory(trajectory.model_copy(update={"meta": trajectory.meta | why})))
        except UserError as error:
            raise UserError(
                f"The trajectory {trajectory.id!r} cannot be written ({error}): run sanderling data import first, which leaves "
                "such records out and counts them."
            ) from error
    return kept, dropped, cleaner.report
