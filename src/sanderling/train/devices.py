"""The devices of a run: those that are here, or ones that a person describes. Imports torch only to look."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PEAKS = {
    "B200": 2250e12, "GH200": 989e12, "H200": 989e12, "H100": 989e12, "H20": 148e12, "A100": 312e12, "L40S": 362e12,
    "L40": 181e12, "A6000": 155e12, "RTX 6000 Ada": 364e12, "4090": 165e12, "3090": 71e12, "A10": 125e12, "L4": 121e12,
    "T4": 65e12,
}  # fmt: skip
"""Dense bfloat16 FLOPs a second (float32 sums) by a part of the device's name, as their makers publish them."""
OVERHEAD = 2**30
"""Bytes of a GPU that no plan counts: CUDA's context, libraries' workspaces, fragments. About; it differs by GPU and driver."""


@dataclass(frozen=True)
class Devices:
    """What a run will have: alike devices, one for each process."""

    name: str
    count: int
    bytes: int
    """Memory of each; of a processor the machine's, for all processes together."""
    peak_flops: float | None
    """A second, of each; None: not known."""
    gpus: bool = True
    host: int | None = None
    """Memory of the machine that GPUs are in; None: not known."""

    @property
    def room(self) -> int:
        """What a plan may fill of each."""
        return max(0, self.bytes - OVERHEAD) if self.gpus else self.bytes


def devices_here(*, measured: bool = True) -> Devices:
    """The GPUs of this machine, or its processor, whose speed is measured for a moment where it is wanted.

    Of unlike GPUs the smallest stands for all. What other programs hold of them is not looked at: to ask CUDA would take about
    half a GB of each for as long as the asking process lives.
    """
    import torch

    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = min((physical, *container_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))))
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        found = min((torch.cuda.get_device_properties(i) for i in range(count)), key=lambda one: one.total_memory)
        return Devices(found.name, count, found.total_memory, peak_of(found.name), host=memory)
    return Devices("processor", 1, memory, _measured_flops() if measured else None, gpus=False)


def container_limits(told: Path, root: Path) -> Iterator[int]:
    """Bytes that a container may have: of this process' control groups and of those around it (cgroup v1 and v2)."""
    try:
        lines = told.read_text(encoding="utf-8").splitlines()
    except OSError:  # another system than Linux
        return
    for _, controllers, group in (line.split(":", 2) for line in lines):
        if controllers and "memory" not in controllers.split(","):
            continue
        top, name = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        inner = top / group.lstrip("/")
        for directory in (inner, *inner.parents):  # in a container its own group is the root, whatever the path says
            limit = directory / name
            if directory.is_relative_to(top) and limit.is_file() and (value := limit.read_text().strip()).isdigit():
                yield int(value)


def described(name: str, gibibytes: float, count: int) -> Devices:
    """Devices that are not here, in a person's words."""
    return Devices(name, count, int(gibibytes * 2**30), peak_of(name))


def peak_of(name: str) -> float | None:
    """The published speed of a device whose name says which it is."""
    return next((flops for part, flops in PEAKS.items() if part.lower() in name.lower()), None)


def _measured_flops() -> float:
    """FLOPs a second of one matrix product after another, over a fifth of a second."""
    import torch

    one, product = torch.rand(512, 512), torch.empty(512, 512)
    torch.mm(one, one, out=product)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < 0.2:
        torch.mm(one, one, out=product)
        done += 1
    return done * 2 * 512**3 / (time.perf_counter() - began)
