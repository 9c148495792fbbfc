"""Where a number comes from: this machine in words, the command line, peak memory. No host, user, path or key."""

import os
import platform
import re
import resource
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path


def machine() -> str:
    """The machine in words: usable cores, architecture, processor, memory, system and Python versions."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    parts = [f"{cores} core{'s' * (cores != 1)} {platform.machine()}", _processor(), f"{gigabytes:.0f} GB"]
    parts += [platform.system(), f"Python {platform.python_version()}"]
    return ", ".join(part for part in parts if part)


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command as a person would type it again: the program by its name, arguments quoted.

    A canary is left out (``--canary …``, ``canary=…``): it decrypts its benchmark, and commands stand in what is published.
    """
    program, *rest = sys.argv if arguments is None else arguments
    told = [shlex.quote(Path(program).name)]
    for before, word in pairwise(["", *rest]):
        name = re.match(r"(--canary|(--set=)?canary)=", word)
        told.append("…" if before == "--canary" else f"{name[0]}…" if name else shlex.quote(word))
    return " ".join(told)


def peak_memory_mb(children: int = 1) -> float:
    """Upper bound of the resident memory used at any moment so far, in megabytes (10**6 bytes).

    This process at its largest and, where it had children, ``children`` of them at once, each as large as the largest of the
    finished ones ever was; what they share is counted for each.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    own, largest = (resource.getrusage(kind).ru_maxrss for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own + children * largest) * unit / 1e6


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return platform.processor()
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
