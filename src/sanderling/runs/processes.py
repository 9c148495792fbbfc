"""What every worker process of ours does at its beginning. Knows no task."""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Called in a worker: it ends as soon as its parent has ended, however that came about (``kill -9`` included).

    Raises RuntimeError in a process that is no worker.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("this is no worker")

    def wait() -> None:
        parent.join()  # a pipe that the parent alone holds open: it closes when the parent ends, even by a signal
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
