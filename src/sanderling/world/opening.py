"""A world from its directory as an agent is to meet it: ranked as asked, masks complete, then the faults asked for."""

from collections.abc import Sequence
from pathlib import Path

from sanderling.world.contract import World
from sanderling.world.disk.duplicates import load_groups
from sanderling.world.disk.index import SearchMode
from sanderling.world.disk.store import POINTER, open_world
from sanderling.world.filters import BLOCKLIST_FILE, filtered, read_blocklist
from sanderling.world.guard import Guard


def open_as_met(
    directory: Path,
    faults: str | None = None,
    world_seed: int = 0,
    search: SearchMode = SearchMode.LEXICAL,
    injected: float = 0.0,
    guard: Guard | None = None,
    filters: Sequence[str] = (),
) -> World:
    """Open a world with its near-duplicates and ``blocklist.txt``, and with a profile of faults, by name or TOML file.

    ``injected``: the share of pages that hold an instruction to whoever reads them by machine. Raises UserError when any of
    these cannot be used.
    """
    if (directory / POINTER).is_file():
        from sanderling.world.milvus import MilvusWorld

        local = MilvusWorld(directory, search)
    elif search is SearchMode.LEXICAL:
        local = open_world(directory)
    else:
        from sanderling.world.disk.dense import ranked_world

        local = ranked_world(directory, open_world(directory), search)
    groups, blocklist = load_groups(directory, local.pages_fingerprint), read_blocklist(directory / BLOCKLIST_FILE)
    world = filtered(local, blocklist, guard, groups=groups, filters=filters)
    if faults is None and not injected:
        return world
    from sanderling.world.faults import FaultProfile, FaultyWorld, get_faults, with_injections

    profile = FaultProfile(name="still") if faults is None else get_faults(faults)
    return FaultyWorld(world, with_injections(profile, injected) if injected else profile, world_seed)
