"""A source whose documents are read by several processes: the same items in the same order, sooner.

Documents are fetched here, one after the other, and read there in small batches, of which only a few are under way, so that
memory does not grow with the source. A process that is killed is told as a UserError: every item yielded before is whole.
What is read, and how, is the source's business.
"""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from sanderling.core.errors import UserError
from sanderling.runs.processes import end_with_parent
from sanderling.world.contract import Page
from sanderling.world.sources.contract import DocumentSource, Skipped

_BATCH, _BATCH_BYTES = 16, 2**20
_WAITING = 3
"""Batches under way for each process."""


@dataclass(frozen=True)
class ParallelSource:
    """A source, read by ``workers`` processes."""

    source: DocumentSource[Any]
    workers: int

    @property
    def name(self) -> str:
        return self.source.name

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        """Raises UserError when a process was killed."""
        context = multiprocessing.get_context("spawn")  # the world that is being written has threads, which no fork survives
        pool = ProcessPoolExecutor(self.workers, context, _prepare, (self.source,))
        under_way: deque[Future[list[Page | Skipped]]] = deque()
        try:
            for batch in self._batches(skip):
                under_way.append(pool.submit(_read, batch))
                if len(under_way) >= _WAITING * self.workers:
                    yield from under_way.popleft().result()
            while under_way:
                yield from under_way.popleft().result()
        except BrokenProcessPool as error:
            raise UserError(
                "A process that reads documents was killed (often for want of memory): "
                "run the same command again, with fewer --workers; it goes on from here."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)

    def stamp(self) -> str:
        """The source's own: how many read it changes no item."""
        return self.source.stamp()

    def total(self) -> int | None:
        return self.source.total()

    def _batches(self, skip: int) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        size = 0
        for document in self.source.documents(skip):
            batch.append(pickle.dumps(document))
            size += len(batch[-1])
            if len(batch) == _BATCH or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch


_readers: list[Callable[[Any], Page | Skipped]] = []
"""Of a process that reads: the one that its source gave it."""


def _prepare(source: DocumentSource[Any]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked ends this one
    _readers[:] = [source.reader()]


def _read(batch: list[bytes]) -> list[Page | Skipped]:
    documents = map(pickle.loads, batch)
    return [document if isinstance(document, Skipped) else _readers[0](document) for document in documents]
