"""Work in several processes of one thread each: for tiny models that is faster than one process of several threads.

Each task is a module-level function with picklable arguments. A worker ends as soon as its parent has ended, however that came
about, so a run that was killed does not go on writing behind the one that takes it up again.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.runs.locks import end_with_parent

_LINGER_S = 60.0
"""How long others get when one has failed; ranks on CUDA would wait for it for hours."""


@dataclass(frozen=True)
class Task:
    """A function to be called in a worker."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_tasks(tasks: Sequence[Task], workers: int, poll: Callable[[], None], every_s: float = 0.5) -> list[Any]:
    """Run all tasks, at most ``workers`` at a time; returns their results in order. ``poll`` is called now and then meanwhile.

    After a failure no further task is begun, and the first exception is raised as itself when the tasks that run have ended,
    or after a minute. After Ctrl-C, or what ``poll`` raises, the workers are ended at once. Raises UserError when a worker was
    killed.
    """
    context = multiprocessing.get_context("spawn")
    futures: list[Future[Any]] = []
    running: set[Future[Any]] = set()
    failure: BaseException | None = None
    failed = 0.0
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool, _ended_with_us():
            while True:
                # One by one: what the pool has in its queue it would begin even after a failure.
                while failure is None and len(futures) < len(tasks) and len(running) < workers:
                    task = tasks[len(futures)]
                    with _deaf_to_interrupts():
                        futures.append(pool.submit(task.function, *task.arguments))
                    running.add(futures[-1])
                if not running:
                    break
                done, running = wait(running, timeout=every_s, return_when=FIRST_COMPLETED)
                poll()
                if failure is None:
                    failure = next((future.exception() for future in done if future.exception() is not None), None)
                    failed = time.monotonic()
                elif time.monotonic() - failed > _LINGER_S:
                    raise failure
        if failure is not None:
            raise failure
    except BrokenProcessPool as error:
        raise UserError(
            "A worker process was killed, most likely for want of memory: run the same command again to go on, "
            "with fewer processes at a time if it happens again."
        ) from error
    return [future.result() for future in futures]


def run_team(function: Callable[..., Any], arguments: tuple[Any, ...], size: int, poll: Callable[[], None]) -> list[Any]:
    """Run ``function(rank, size, meeting, *arguments)`` in ``size`` workers together; returns the ranks' results.

    ``meeting`` is a new directory in which the ranks find each other. The rest, and what it raises, as in :func:`run_tasks`.
    """
    with tempfile.TemporaryDirectory(prefix="sanderling-") as meeting:
        return run_tasks([Task(function, (rank, size, Path(meeting), *arguments)) for rank in range(size)], size, poll)


@contextmanager
def _ended_with_us() -> Iterator[None]:
    """Without this, the pool would wait for the ends of tasks that nobody waits for any more."""
    try:
        yield
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A worker begun in here never sees Ctrl-C, which a terminal sends to all: it is ended by its parent, without traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In a worker: one thread for tensors, and an end when the parent is gone."""
    end_with_parent()
    for library in ("OMP", "MKL"):  # read when tensors are first used: tasks that need none do not wait for the import
        os.environ[f"{library}_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    warnings.formatwarning = lambda message, *where, **line: f"warning: {message}\n"
