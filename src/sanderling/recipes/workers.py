"""Work in several processes of one thread each: for tiny models that is faster than one process of several threads.

Each task is a module-level function with picklable arguments. A worker ends with its parent, however that ended, so a run that
was killed never has two writers in one directory. Knows no task's content.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

_PARENT_CHECK_S = 0.5


@dataclass(frozen=True)
class Task:
    """A function to be called in a worker."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def run_tasks(tasks: Sequence[Task], workers: int, poll: Callable[[], None], every_s: float = 0.5) -> list[Any]:
    """Run all tasks, at most ``workers`` at a time; returns their results in order. ``poll`` is called now and then meanwhile.

    The first exception of a task is raised, when the tasks that run have ended.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),)) as pool:
        futures: list[Future[Any]] = [pool.submit(task.function, *task.arguments) for task in tasks]
        open_futures = set(futures)
        while open_futures:
            done, open_futures = wait(open_futures, timeout=every_s, return_when=FIRST_COMPLETED)
            poll()
            for future in done:
                if future.exception() is not None:
                    pool.shutdown(wait=False, cancel_futures=True)
        return [future.result() for future in futures]


def _begin(parent: int) -> None:
    """In a worker: one thread for tensors, and an end when the parent is gone."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(1)
