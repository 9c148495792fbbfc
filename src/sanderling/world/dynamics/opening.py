"""A world from its directory as an agent is to meet it: masks complete, then the dynamics that were asked for."""

from pathlib import Path

from sanderling.world.contract import World
from sanderling.world.dynamics.profile import get_dynamics
from sanderling.world.dynamics.world import DynamicWorld
from sanderling.world.masking import masked_world
from sanderling.world.store import open_world


def open_as_met(directory: Path, dynamics: str | None = None, world_seed: int = 0) -> World:
    """Open a world with its ``duplicates.json`` and ``blocklist.txt``, and with a named profile or TOML file of dynamics.

    Raises UserError when the world, one of these files or the profile cannot be used.
    """
    world = masked_world(open_world(directory), directory)
    return world if dynamics is None else DynamicWorld(world, get_dynamics(dynamics), world_seed)
