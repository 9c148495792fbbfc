"""How the processes of a run find each other: started by torchrun, or by one of them on this machine.

Under torchrun each reads its place from the environment (``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``). On CUDA every process has a
device of its own and tensors travel over NCCL; on a CPU over gloo. Importable without torch.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sanderling.core.errors import UserError
from sanderling.train.config import ParallelConfig, ParallelKind

if TYPE_CHECKING:
    import torch

    from sanderling.train.parallel.team import Team


@dataclass(frozen=True)
class Place:
    """One process among those of a run."""

    rank: int = 0
    size: int = 1
    local: int = 0
    """Which process of its machine."""
    local_size: int = 1


def torchrun_place() -> Place | None:
    """What torchrun says in the environment; None without it. Raises UserError when it says it in part."""
    if "WORLD_SIZE" not in os.environ:
        return None
    try:
        rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        return Place(rank, size, local, int(os.environ.get("LOCAL_WORLD_SIZE", size)))
    except (KeyError, ValueError) as error:
        raise UserError(
            "WORLD_SIZE is set, but not RANK and LOCAL_RANK: start the command with torchrun, or unset it."
        ) from error


def speaks() -> bool:
    """Whether this process may print: it is alone, or the first of torchrun's."""
    place = torchrun_place()
    return place is None or place.rank == 0


def check_parallel(parallel: ParallelConfig, size: int) -> None:
    """Raises UserError when several processes were started and nothing says what they do, or they cannot share rows so."""
    if size > 1 and parallel.kind is ParallelKind.NONE:
        raise UserError(f"{size} processes, but parallel.kind is none: set it to fsdp or replicate, or start one process.")
    if size % parallel.context:
        raise UserError(
            f"{parallel.context} processes share each row (parallel.context), but there are {size}: start a multiple of them."
        )


@contextmanager
def opened_team(
    parallel: ParallelConfig, place: Place, meeting: Path | None, *, bfloat16: bool
) -> "Iterator[tuple[Team, torch.device]]":
    """The team of a run and this process' device. ``meeting``: see `team.join_team`; None: torchrun.

    One process in bfloat16 is a mesh of one: what layers hand on is then 16 bits wide; automatic mixed precision keeps 32.

    Raises UserError when there are fewer GPUs than processes, and as ``join_team`` does.
    """
    import torch
    from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]
    from torch.distributed.rendezvous import rendezvous

    from sanderling.train.parallel.sharding import Sharded
    from sanderling.train.parallel.team import join_team, loopback, member

    check_parallel(parallel, place.size)
    kind, context = parallel.kind, parallel.context
    device = torch.device("cpu")
    if torch.cuda.is_available():
        # Asked by all alike: those that have a GPU would wait minutes for those that have none.
        if place.local_size > torch.cuda.device_count():
            raise UserError(f"There are {torch.cuda.device_count()} GPUs for {place.local_size} processes: start one for each.")
        device = torch.device("cuda", place.local)
        torch.cuda.set_device(device)
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    alone_in_shards = place.size == 1 and kind is ParallelKind.FSDP and bfloat16
    if alone_in_shards:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
        joining = member(HashStore(), 0, 1, backend)
    elif meeting is not None or place.size == 1:
        joining = join_team(place.rank, place.size, meeting or Path(), backend, context)
    else:
        if place.local_size == place.size:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
        store, _, _ = next(iter(rendezvous("env://")))
        joining = member(store, place.rank, place.size, backend, context)
    with joining as team:
        sharded = kind is ParallelKind.FSDP and (team.size > 1 or alone_in_shards)
        yield Sharded(team, bfloat16=bfloat16, device=device) if sharded else team, device
