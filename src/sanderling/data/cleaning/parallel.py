"""Cleaning in batches, here or in several processes: the same lines in the same order with the same report.

With several processes trajectories are read here; they are cleaned and made into lines there, in small batches of which only a
few are under way, so that memory does not grow with their number. A process that is killed is told as a UserError. Knows no
files.
"""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

from sanderling.core.errors import UserError
from sanderling.core.record import Trajectory
from sanderling.data.cleaning.batch import Batch, clean_batch
from sanderling.data.cleaning.contract import Target
from sanderling.data.cleaning.recipe import CleaningRecipe
from sanderling.data.cleaning.run import Cleaner
from sanderling.runs.processes import end_with_parent

_BATCH = 8
_WAITING = 3
"""Batches under way for each process."""


def clean_batches(trajectories: Iterable[Trajectory], recipe: CleaningRecipe, target: Target, workers: int) -> Iterator[Batch]:
    """Clean trajectories in ``workers`` processes; 1: in this one. Raises UserError when one of them was killed."""
    if workers == 1:
        cleaner = Cleaner(recipe, target)
        for batch in _batched(trajectories, _BATCH):
            yield clean_batch(cleaner, batch)
        return
    context = multiprocessing.get_context("spawn")  # a caller may have threads, which no fork survives
    pool = ProcessPoolExecutor(workers, context, _prepare, (recipe, target))
    under_way: deque[Future[Batch]] = deque()
    try:
        for batch in _batched(trajectories, _BATCH):
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
    return clean_batch(_cleaners[0], pickle.loads(batch))


def _batched(found: Iterable[Trajectory], size: int) -> Iterator[list[Trajectory]]:
    """Lists of ``size``, the last one perhaps shorter."""
    source = iter(found)
    while batch := list(islice(source, size)):
        yield batch
