"""A control group for one sandbox, where this process may make one: memory and processes of all of it together, exactly."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Self

_ROOT = Path("/sys/fs/cgroup")


class Cgroup:
    """One group, in either version of the kernel's interface."""

    def __init__(self, folders: list[Path], killed: Path) -> None:
        self._folders, self._killed = folders, killed

    @classmethod
    def made(cls, memory_mb: int, processes: int) -> Self | None:
        """A new group; None: this process may not make one."""
        name, bytes_ = f"sanderling-{os.getpid()}-{secrets.token_hex(4)}", str(memory_mb * 2**20)
        if (_ROOT / "memory").is_dir():
            memory, pids = _ROOT / "memory" / name, _ROOT / "pids" / name
            settings = {memory / "memory.limit_in_bytes": bytes_, pids / "pids.max": str(processes)}
            group = cls([memory, pids], memory / "memory.oom_control")
        else:
            folder = _ROOT / name
            settings = {folder / "memory.max": bytes_, folder / "pids.max": str(processes)}
            group = cls([folder], folder / "memory.events")
        try:
            for folder in group._folders:
                _sweep(folder.parent)
                folder.mkdir()
            for file, value in settings.items():
                if not file.exists():
                    raise FileNotFoundError(file)
                file.write_text(value)
            for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):  # not everywhere
                with contextlib.suppress(OSError):
                    if (file := group._folders[0] / swap).exists():
                        file.write_text("0" if swap == "memory.swap.max" else bytes_)
        except OSError:
            for folder in group._folders:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            return None
        return group

    def take(self, pids: Iterable[int]) -> None:
        """Put processes into it; what they start is in it, too."""
        for pid in pids:
            for folder in self._folders:
                with contextlib.suppress(OSError):  # it has just ended
                    (folder / "cgroup.procs").write_text(str(pid))

    def has_killed(self) -> bool:
        """Whether the kernel has killed for its memory."""
        with contextlib.suppress(OSError, ValueError):
            facts = dict(line.split() for line in self._killed.read_text().splitlines())
            return int(facts.get("oom_kill", 0)) > 0
        return False

    async def drop(self) -> None:
        """Remove it, once all in it have ended."""
        for folder in self._folders:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    await asyncio.sleep(0.01)


def _sweep(parent: Path) -> None:
    """Remove the groups of processes that were killed before they could."""
    for folder in parent.glob("sanderling-*-*"):
        with contextlib.suppress(OSError, ValueError):
            if not Path("/proc", str(int(folder.name.split("-")[1]))).exists():
                folder.rmdir()  # which fails where anything is in it
