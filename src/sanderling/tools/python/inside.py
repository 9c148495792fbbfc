"""What a program in a sandbox of this machine's own Python sees: the same for every program that makes such sandboxes."""

import os
import platform
import secrets
import sys
from functools import cache
from pathlib import Path

import sanderling
from sanderling.tools.python import runner, start

SCRATCH = "/scratch"
ENVIRONMENT = {
    "HOME": SCRATCH, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "USER": "sandbox", "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg", "MPLCONFIGDIR": f"{SCRATCH}/.matplotlib", "MALLOC_ARENA_MAX": "2",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")
ABOUT = (
    f"It is Python {'.'.join(platform.python_version_tuple()[:2])} with the packages installed here; files are kept below the "
    "current directory."
)
OWN = Path(sanderling.__file__).parent
START, COMPILED = Path(start.__file__), runner  # imported here, it is compiled for those that cannot write it down
OPTIONS = ("-P", "-s", "-S", "-B")  # nothing of a person's, nothing that packages put into the start
_INSIDE = Path("/opt/sanderling")  # where folders of a person's are seen, whose names are nobody's business
_NETWORK = ("resolv.conf", "hosts", "nsswitch.conf", "ssl", "ca-certificates")


def interpreter() -> Path:
    """The Python that runs here, not a virtual environment's link to it."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


def packages() -> list[Path]:
    """Where this Python's installed packages lie."""
    found = (Path(place) for place in sys.path if place.endswith(("site-packages", "dist-packages")))
    return [place for place in dict.fromkeys(found) if place.is_dir()]


def packages_inside() -> list[str]:
    """Where programs see them."""
    return [str(_INSIDE / f"packages-{number}") for number, _ in enumerate(packages(), start=1)]


READER_INSIDE = [str(_INSIDE)]


@cache
def places(network: bool) -> dict[Path, Path]:
    """What programs see of this machine, and cannot write: where it lies, and where they see it."""
    python = interpreter().parent.parent
    found = {Path("/usr"): Path("/usr")} | ({} if python.is_relative_to("/usr") else {python: python})
    found |= {place: Path(seen) for place, seen in zip(packages(), packages_inside(), strict=True)}
    found |= {OWN: _INSIDE / OWN.name}
    beside = (Path("/") / name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))
    found |= {one: one for one in beside if one.is_dir() and not one.is_symlink()}
    etc = (Path("/etc") / name for name in ("ld.so.cache", "fonts", *(_NETWORK if network else ())))
    return found | {one: one for one in etc if one.exists()}


@cache
def links() -> dict[str, str]:
    """Symbolic links that programs see: name, and where it leads. Whatever is temporary, or shared memory, is scratch."""
    beside = (Path("/") / name for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"))
    found = {str(one): str(one.readlink()) for one in beside if one.is_symlink()} | {"/dev/shm": SCRATCH}
    taken = any(seen.is_relative_to("/tmp") for seen in places(network=False).values())
    return found if taken else found | {"/tmp": SCRATCH}


def command() -> list[str]:
    """The runner, but for whom it becomes."""
    return [str(interpreter()), *OPTIONS, str(_INSIDE / START.relative_to(OWN.parent))]


def somebody() -> str:
    """Whom programs of a box are run as, where root makes it: a number that nobody has. Otherwise empty: whom they are."""
    return str(0x70000000 | secrets.randbits(24)) if os.geteuid() == 0 else ""
