"""A folder of documents as a world in the user's cache: built once, and anew when a file has come, gone or changed."""

import hashlib
import os
import shutil
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.runs.files import user_cache
from sanderling.world.disk.building import Progress, build_world, ignore
from sanderling.world.sources.kinds import Gathering, open_sources


def documents_world(folder: Path, *, cache: Path | None = None, progress: Progress = ignore) -> Path:
    """The directory of the folder's world. Raises UserError for a folder that is not there, or holds nothing to read."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {str(folder)!r}: give the folder that holds your documents.")
    place = folder.resolve()
    gathered = Gathering(open_sources([place]))
    states = (cache or user_cache() / "documents") / hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    world = states / gathered.stamp
    if not world.is_dir():
        states.mkdir(parents=True, exist_ok=True)
        build_world(world, gathered, name=place.name, source=f"folder:{place.name}", progress=progress)
        for other in states.iterdir():
            if other.is_dir() and not other.name.startswith(".") and other != world:
                shutil.rmtree(other, ignore_errors=True)
    return world
