"""Cleaning in several processes: the same trajectories in the same order with the same report, sooner.

Trajectories are read here and cleaned there in small batches, of which only a few are under way, so that memory does not grow
with their number. A process that is killed is told as a UserError. Knows no files.
"""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice

from sanderling.errors import UserError
from sanderling.processes import end_with_parent
from sanderling.trajectory.cleaning.contract import Dropped, Target
from sanderling.trajectory.cleaning.recipe import CleaningRecipe
from sanderling.trajectory.cleaning.report import CleanReport
from sanderling.trajectory.cleaning.run import Cleaner
from sanderling.trajectory.record import Trajectory

_BATCH = 8
_WAITING = 3
"""Batches under way for each process."""


@dataclass(frozen=True)
class Batch:
    """Some trajectories' outcomes, in order, and the report of these alone."""

    found: list[Trajectory | Dropped]
    report: CleanReport


def clean_batches(trajectories: Iterable[Trajectory], recipe: CleaningRecipe, target: Target, workers: int) -> Iterator[Batch]:
    """Clean trajectories in ``workers`` processes. Raises UserError when one of them was killed."""
    context = multiprocessing.get_context("spawn")  # a caller may have threads, which no fork survives
    pool = ProcessPoolExecutor(workers, context, _prepare, (recipe, target))
    under_way: deque[Future[Batch]] = deque()
    source = iter(trajectories)
    try:
        while batch := list(islice(source, _BATCH)):
            under_way.append(pool.submit(_clean, pickle.dumps(batch)))
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


_cleaners: list[Cleaner] = []
"""Of a process that cleans: the one it was made for."""


def _prepare(recipe: CleaningRecipe, target: Target) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked ends this one
    _cleaners[:] = [Cleaner(recipe, target)]


def _clean(batch: bytes) -> Batch:
    cleaner = _cleaners[0]
    cleaner.report = cleaner.empty_report()
    found = [cleaner.clean(trajectory) for trajectory in pickle.loads(batch)]
    return Batch(found, cleaner.report)
