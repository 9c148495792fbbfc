"""What stands before a server's command: a sandbox, or the image that it runs in.

In the sandbox (bubblewrap) a server reads the system's programs, this Python, the folder in which it runs and ``readable``,
writes to ``writable`` and a /tmp of its own alone, has processes of its own, and the network only where it is allowed. An image
is run by docker or podman. Both end with all that they started.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import sanderling
from sanderling.core.errors import UserError
from sanderling.serve.dock.config import PoolConfig
from sanderling.tools.python.rungs import BESIDE, bwrap

_RUNNERS = ("docker", "podman")
_ANSWERS_S = 10.0
_ETC = (
    "alternatives", "ca-certificates", "fonts", "group", "hosts", "ld.so.cache", "localtime", "mime.types", "nsswitch.conf",
    "passwd", "pki", "resolv.conf", "ssl",
)  # fmt: skip


def boxed(config: PoolConfig) -> PoolConfig:
    """The pool with the command that is really started. Raises UserError where what runs it is missing."""
    if config.sandbox:
        return config.model_copy(update={"command": (*_sandbox(config), *config.command)})
    if config.image:
        return config.model_copy(update={"command": (*_container(config), *config.command), "memory_mb": None})
    return config


def _sandbox(config: PoolConfig) -> tuple[str, ...]:
    said = [*bwrap(network=config.network), "--unshare-user-try", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for place in _read(config):
        said += ["--ro-bind-try", str(place), str(place)]
    for folder in config.writable:
        said += ["--bind", str(folder.resolve()), str(folder.resolve())]
    said += ["--remount-ro", "/"]
    if config.directory is not None:
        said += ["--chdir", str(config.directory.resolve())]
    return (*said, "--")


def _read(config: PoolConfig) -> Iterator[Path]:
    """What a sandbox reads of this machine; what is not there is left out."""
    yield from (Path("/") / name for name in ("usr", *BESIDE))
    yield from (Path("/etc") / name for name in _ETC)
    for python in dict.fromkeys((Path(sys.base_prefix), Path(sys.base_prefix).resolve())):
        yield from (python / name for name in ("bin", "lib", "lib64"))  # alone: it may be a home
    yield Path(sys.prefix)
    yield Path(sanderling.__file__).parent
    yield (config.directory or Path.cwd()).resolve()
    yield from (folder.resolve() for folder in config.readable)


def _works(program: str) -> bool:
    """Whether a runner answers: docker's client may be there without its daemon."""
    try:
        return subprocess.run([program, "ps"], capture_output=True, timeout=_ANSWERS_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _container(config: PoolConfig) -> tuple[str, ...]:
    found = [program for program in map(shutil.which, _RUNNERS) if program]
    program = next(filter(_works, found), None)
    if program is None:
        way = f"see that {' or '.join(found)} works (ps fails)" if found else "install one of them, or give a command"
        raise UserError(f"The image {config.image} needs {' or '.join(_RUNNERS)}: {way}.")
    said = [program, "run", "--interactive", "--rm", "--init"]
    said += [] if config.network else ["--network", "none"]
    said += [] if config.memory_mb is None else ["--memory", f"{config.memory_mb}m"]
    for folder in config.readable:
        said += ["--volume", f"{folder.resolve()}:{folder.resolve()}:ro"]
    for folder in config.writable:
        said += ["--volume", f"{folder.resolve()}:{folder.resolve()}"]
    for name in (*config.env, *config.secrets):
        said += ["--env", name]  # its value is in the runner's environment, and on no command line
    return (*said, config.image)
