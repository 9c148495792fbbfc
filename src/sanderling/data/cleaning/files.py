"""Cleaning a file of trajectories: kept ones into one file, dropped ones with their reasons beside it, and the report.

Nothing is lost: every trajectory of the source stands in one of the two files. All three appear complete, the kept ones last,
or what stood there stays. Memory does not grow with the file, and any number of processes writes the same bytes.
"""

import json
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
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
from sanderling.runs.locks import end_with_parent
from sanderling.runs.parquet import write_parquet

DROPPED_KEY = "dropped"
"""Where a dropped trajectory's step, reason and detail stand in its ``meta``."""
_BATCH = 8
_WAITING = 3

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
    profile: Profile,
    *,
    origin: Path,
    workers: int = 1,
    advance: Advance = lambda _: None,
) -> CleanedFile:
    """Clean trajectories into ``out`` (Parquet if it is called so, else a store).

    ``origin``: the file they come from; ``advance`` is told how many more were cleaned. Raises UserError.
    """
    done = CleanedFile(out, out.with_suffix(".dropped.jsonl"), out.with_suffix(".clean.json"), CleanReport())
    check_places([origin], [done.out, done.dropped, done.report_file])
    settings = recipe.model_dump(mode="json")

    def kept() -> Generator[bytes, None, None]:
        """The lines to keep; what was dropped, and the report, are in their places when the last one was taken."""
        with Lines(done.dropped, keep_empty=False) as dropped:
            for batch in _batches(trajectories, settings, profile, workers):
                for line in batch.dropped:
                    dropped.add(line)
                yield from batch.kept
                done.report.add(batch.report)
                advance(batch.report.came_in)
        about = {"origin": origin.name, "profile": profile.name, "recipe": settings}
        text = json.dumps(about | done.report.model_dump(mode="json"), ensure_ascii=False, indent=1)
        write_lines(done.report_file, [text.encode("utf-8", "backslashreplace")])

    with closing(kept()) as lines:
        if out.suffix == ".parquet":
            write_parquet(out, (decode_trajectory(decode_record(line)) for line in lines))
        else:
            write_lines(out, lines)
    return done


class _Batch(NamedTuple):
    """What became of some trajectories: lines of a store, in the order in which they came in, and the report of these alone."""

    kept: list[bytes]
    dropped: list[bytes]
    report: CleanReport


def _batches(trajectories: Iterable[Trajectory], settings: dict[str, Any], profile: Profile, workers: int) -> Iterator[_Batch]:
    """Clean in this process, or in several of which each has only a few batches under way."""
    source = iter(trajectories)
    some = iter(lambda: list(islice(source, _BATCH)), [])
    if workers == 1:
        yield from (_cleaned(settings, profile, batch) for batch in some)
        return
    context = multiprocessing.get_context("spawn")  # a caller may have threads, which no fork survives
    pool = ProcessPoolExecutor(workers, context, _prepare)
    under_way: deque[Future[_Batch]] = deque()
    try:
        for batch in some:
            under_way.append(pool.submit(_cleaned, settings, profile, batch))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(
            "A process that cleans trajectories was killed (often for want of memory): run again with fewer --workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked ends this one


def _cleaned(settings: dict[str, Any], profile: Profile, trajectories: Sequence[Trajectory]) -> _Batch:
    """Clean some trajectories. Raises UserError for one that no line can hold."""
    cleaner = Cleaner(CleaningRecipe.model_validate(settings), profile)
    batch = _Batch([], [], cleaner.report)
    for trajectory in trajectories:
        found = cleaner.clean(trajectory)
        try:
            if isinstance(found, Trajectory):
                batch.kept.append(encode_trajectory(found))
                continue
            why = {DROPPED_KEY: {"step": found.step, "reason": found.reason, "detail": found.detail}}
            batch.dropped.append(encode_trajectory(trajectory.model_copy(update={"meta": trajectory.meta | why})))
        except UserError as error:
            raise UserError(
                f"The trajectory {trajectory.id!r} cannot be written ({error}): run sanderling data import first, which leaves "
                "such records out and counts them."
            ) from error
    return batch
