"""One process at a time at one place, and workers that end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from sanderling.core.errors import UserError
from sanderling.runs.files import or_cannot

Item = TypeVar("Item")
Result = TypeVar("Result")
LOCK = ".lock"
"""The file that a process in a directory has locked; it outlives the lock."""


def hold(file: Path, place: Path) -> FileLock:
    """Lock a file until it is released or the process ends. Raises UserError, which speaks of ``place``, when that fails."""
    held = FileLock(file, thread_local=False)
    with or_cannot(f"use {place}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            held.acquire(timeout=0.05, poll_interval=0.01)  # again at once where the last holder took its file away
        except Timeout:
            message = f"Another process is at work in {place}: wait for its end, or choose another directory with --out."
            raise UserError(message) from None
    return held


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep every other process out of a directory, such as a run's.

    Makes the directory, and takes it away again where the block fails before anything is in it. Raises UserError.
    """
    made = not directory.exists()
    held = hold(directory / LOCK, directory)
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError):  # gone already, or another process is just coming in: what failed is what is told
                if [file.name for file in directory.iterdir()] == [LOCK]:
                    (directory / LOCK).unlink()
                    directory.rmdir()
        raise
    finally:
        held.release()


@contextmanager
def locked_place(place: Path) -> Iterator[None]:
    """Keep every other process from making what will be renamed to ``place``, with a file beside it. Raises UserError."""
    file = place.with_name(f"{LOCK}-{place.name}")
    held = hold(file, place)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        held.release()


def end_with_parent() -> None:
    """Called in a worker: it ends as soon as its parent has ended, however that came about (``kill -9`` included)."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "this is no worker"

    def wait() -> None:
        parent.join()  # a pipe that the parent alone holds open: it closes when the parent ends, even by a signal
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


_WAITING = 3
"""Items under way for each process."""


def in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    *,
    killed: str,
    prepare: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """What ``work`` makes of each item, in their order, by processes of which each has only a few items under way.

    Each process calls ``prepare`` first. Raises UserError, with the sentence ``killed``, when a process was killed.
    """
    context = multiprocessing.get_context("spawn")  # a caller may have threads, which no fork survives
    pool = ProcessPoolExecutor(workers, context, _begin, (prepare,))
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) >= _WAITING * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(killed) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(prepare: Callable[[], None] | None) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was asked ends this one
    if prepare is not None:
        prepare()
