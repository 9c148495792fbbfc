"""An OCI runtime (crun, runc, gVisor's runsc): the same file system and runner as with bubblewrap, as a bundle."""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from sanderling.core.errors import UserError
from sanderling.tools.python import inside
from sanderling.tools.python.limits import SandboxLimits
from sanderling.tools.python.process import Launch, Runners

RUNTIMES = ("runc", "crun", "runsc")
_ALSO = {"crun": ["--cgroup-manager", "disabled"], "runsc": ["--network", "none", "--ignore-cgroups", "--platform", "ptrace"]}
_MASKED = (
    "/proc/sys",
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/acpi",
    "/proc/scsi",
    "/proc/irq",
)
"""Of /proc, which runtimes insist on; bubblewrap does without."""


def runtimes() -> list[str]:
    """The runtimes that are there. Raises UserError where none is."""
    found = [path for path in map(shutil.which, RUNTIMES) if path]
    if not found:
        raise UserError(f"There is no OCI runtime: install one of {', '.join(RUNTIMES)}, such as with apt-get install crun.")
    return found


def oci(limits: SandboxLimits, runtime: str, *, warm: int = 1) -> Runners:
    """The sandbox of a runtime."""

    def launch() -> Launch:
        folder, name = Path(tempfile.mkdtemp(prefix="sanderling-")), f"sanderling-{secrets.token_hex(6)}"
        root = folder / "rootfs"
        root.mkdir(mode=0o755)
        folder.chmod(0o755)
        for link, target in inside.links().items():
            (root / link[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / link[1:]).symlink_to(target)
        (folder / "config.json").write_text(json.dumps(bundle(limits, inside.somebody())), encoding="utf-8")
        own = [runtime, "--root", str(folder / "state")]
        own += _ALSO.get(Path(runtime).name, [])

        def end() -> None:
            subprocess.run([*own, "delete", "--force", name], capture_output=True, check=False, timeout=30)
            shutil.rmtree(folder, ignore_errors=True)

        path = inside.packages_inside()
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        threads = 256 if Path(runtime).name == "runsc" else 0  # it is a kernel of its own
        command = [*own, "run", "--bundle", str(folder), name]
        return Launch(command, env, path=path, reader=inside.READER_INSIDE, threads=threads, end=end)

    return Runners(Path(runtime).name, inside.ABOUT, limits, launch, warm=warm)


def bundle(limits: SandboxLimits, uid: str) -> dict[str, Any]:
    """The configuration of one container, as the OCI's runtime specification has it."""
    mounts = [
        {"destination": str(seen), "source": str(place), "type": "bind", "options": ["bind", "ro", "nosuid"]}
        for place, seen in inside.places(limits.network).items()
    ]
    devices = [
        {"destination": f"/dev/{name}", "source": f"/dev/{name}", "type": "bind", "options": ["bind", "rw", "nosuid"]}
        for name in inside.DEVICES
    ]
    options = [f"size={limits.files_mb * 2**20}", "mode=1777", "nosuid", "nodev"]
    scratch = {"destination": inside.SCRATCH, "source": "tmpfs", "type": "tmpfs", "options": options}
    proc = {"destination": "/proc", "source": "proc", "type": "proc", "options": ["nosuid", "noexec", "nodev", "ro"]}
    spaces = ["pid", "ipc", "uts", "mount", *([] if limits.network else ["network"]), *([] if uid else ["user"])]
    linux: dict[str, Any] = {"namespaces": [{"type": one} for one in spaces], "maskedPaths": list(_MASKED)}
    if not uid:
        linux["uidMappings"] = [{"containerID": 65534, "hostID": os.geteuid(), "size": 1}]
        linux["gidMappings"] = [{"containerID": 65534, "hostID": os.getegid(), "size": 1}]
    whom = {"uid": 0, "gid": 0} if uid else {"uid": 65534, "gid": 65534}
    needed = ["CAP_SETUID", "CAP_SETGID"] if uid else []  # until the runner has become somebody else
    process = {
        "terminal": False,
        "user": whom,
        "args": [*inside.command(), uid],
        "env": [f"{name}={value}" for name, value in inside.ENVIRONMENT.items()],
        "cwd": inside.SCRATCH,
        "noNewPrivileges": True,
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), needed),
    }
    return {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "sandbox",
        "mounts": [proc, *mounts, *devices, scratch],
        "linux": linux,
    }
