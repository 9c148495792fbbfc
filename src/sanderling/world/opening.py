"""A world from its directory as an agent is to meet it: ranked as asked, masks complete, then the faults asked for."""

from pathlib import Path

from sanderling.world.contract import World
from sanderling.world.dense.index import SearchMode, ranked_world
from sanderling.world.disk.store import open_world
from sanderling.world.filters import GuardedWorld, masked_world
from sanderling.world.guard import Guard
from sanderling.world.milvus.world import MilvusWorld, is_pointer


def open_as_met(
    directory: Path,
    faults: str | None = None,
    world_seed: int = 0,
    search: SearchMode = SearchMode.LEXICAL,
    injected: float = 0.0,
    guard: Guard | None = None,
) -> World:
    """Open a world with its near-duplicates and ``blocklist.txt``, and with a profile of faults, by name or TOML file.

    ``injected``: the share of pages that hold an instruction to whoever reads them by machine, whatever the profile says.
    Raises UserError when the world, one of these files, its dense index or the profile cannot be used.
    """
    here = not is_pointer(directory)
    local = ranked_world(directory, open_world(directory), search) if here else MilvusWorld(directory, search)
    world: World = masked_world(local, directory, local.pages_fingerprint)
    if guard is not None:
        world = GuardedWorld(world, guard)
    if faults is None and not injected:
        return world
    from sanderling.world.faults.profiles import FaultProfile, get_faults, with_injections
    from sanderling.world.faults.world import FaultyWorld

    profile = FaultProfile(name="still") if faults is None else get_faults(faults)
    return FaultyWorld(world, with_injections(profile, injected) if injected else profile, world_seed)
