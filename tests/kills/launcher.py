"""Functions in processes of their own; the command line in one that counts its changes of files, and dies at one."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


def begun(function: Callable[..., object], *arguments: object) -> BaseProcess:
    """The function in a process that is forked from one that has imported what takes seconds, and has done nothing else."""
    process = multiprocessing.get_context("forkserver").Process(target=function, args=arguments)
    process.start()
    return process


def ended(function: Callable[..., object], *arguments: object) -> int | None:
    """How the function ends there: 0, or less the number of the signal that killed it."""
    process = begun(function, *arguments)
    process.join(240)
    return process.exitcode


def die() -> None:
    """As the kernel ends a process for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def launch(arguments: list[str], home: dict[str, str], said: Path, count: Path, root: str, die_at: int) -> None:
    """Call the command and have what it says in a file.

    A change is a file opened to be written, a rename, a removal or a new directory below ``root``. At number ``die_at`` (0:
    never) the process kills itself as the kernel would; when it ends by itself, how many there were stands in ``count``.
    """
    os.setsid()
    told, seen = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 0
    for stream in (1, 2):
        os.dup2(told, stream)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            if not (isinstance(arguments[0], str) and isinstance(arguments[2], int) and arguments[2] & _WRITING):
                return
        elif event not in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "sqlite3.connect"):
            return
        if root in str(arguments[0]):
            seen += 1
            if seen == die_at:
                os.killpg(0, signal.SIGKILL)

    import torch

    from sanderling.cli.main import main

    torch.set_num_threads(1)
    os.environ |= home
    sys.argv = ["sanderling", *arguments]
    sys.addaudithook(hook)
    try:
        main()
    finally:
        count.write_text(str(seen))
