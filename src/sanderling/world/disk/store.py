"""Worlds on disk: one directory with a manifest, files of pages, and an index that can be filled anew from them.

``manifest.json``, written last, read first and replaced in one step, names the files that count; they never change once it
names them, so a reader has the world as it was before or as it is after pages are added (`building`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

import sanderling
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.world.contract import World
from sanderling.world.disk.index import SearchMode, is_whole, sound_index
from sanderling.world.disk.pages import DamageError, SqlitePages, WorldCounts, seal, unseal
from sanderling.world.filters import BLOCKLIST_FILE, filtered, read_blocklist
from sanderling.world.local import LocalWorld

if TYPE_CHECKING:
    from sanderling.world.guard import Guard

FORMAT_VERSION = 3
GROUPS_FORMAT = 3
FILE_NAME = "manifest.json"
POINTER = "milvus.json"  # of a directory that stands for a world on Milvus


class PagePart(Frozen):
    """One file of pages, numbered on from the part before; its size tells a torn copy."""

    file: str
    pages: int
    bytes: int


class SourceAccount(BaseModel):
    """What became of the documents of one source, by reason (`sources.base.Reason`), and where the first few of each are.

    ``bases``: see `sources.base.Source.bases`.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    documents: int = 0
    pages: int = 0
    bases: dict[str, str] = {}
    skipped: dict[str, int] = {}
    examples: dict[str, list[str]] = {}


class WorldInfo(Frozen):
    """The manifest of a world.

    ``source``: the builder, what it was given, and what was added later; ``package``: the version of sanderling that wrote it;
    ``accounts``: of each source that was read document by document;
    ``generation``: how often pages were added since the build; ``fingerprint``: see `pages.Intake`.
    """

    format: int = FORMAT_VERSION
    name: str
    source: str
    seed: int | None = None
    package: str = sanderling.__version__
    counts: WorldCounts
    accounts: tuple[SourceAccount, ...] = ()
    generation: int = 0
    parts: tuple[PagePart, ...]
    index: str
    fingerprint: str

    @property
    def page_count(self) -> int:
        return sum(part.pages for part in self.parts)


def write_manifest(directory: Path, info: WorldInfo) -> None:
    """Write the manifest of a world in place of the one before; it is on the disk when this returns."""
    replace_file(directory / FILE_NAME, json.dumps(seal(info.model_dump(mode="json")), indent=2) + "\n", durable=True)


def read_manifest(directory: Path) -> WorldInfo:
    """Read the manifest of a world. Raises UserError when there is none, or none of this format."""
    if not directory.is_dir():
        raise UserError(f"There is no world at {directory}: build one with `sanderling world build`.")
    try:
        text = (directory / FILE_NAME).read_text(encoding="utf-8")
        version = data.get("format") if isinstance(data := json.loads(text), dict) else None
        if version == FORMAT_VERSION:
            return WorldInfo.model_validate(unseal(data))
    except FileNotFoundError:
        reason = f"is not a world (it has no {FILE_NAME}): build one with `sanderling world build`"
        raise UserError(f"{directory} {reason}.") from None
    except (OSError, ValueError, RecursionError) as error:  # of which ValidationError is one
        raise DamageError(directory / FILE_NAME, error) from error
    raise UserError(
        f"The world {directory} has format {version}, and this version reads {FORMAT_VERSION}: build the world again."
    )


def open_world(directory: Path) -> LocalWorld:
    """Open a world for reading. Raises UserError when there is none, when it is of another format, or torn."""
    while True:
        info = read_manifest(directory)
        try:
            pages, index = open_pages(directory, info), directory / info.index
            if is_whole(index, info.page_count) or read_manifest(directory).generation == info.generation:
                return LocalWorld(info.name, info.fingerprint, pages, sound_index(index, pages, info.page_count))
        except (OSError, UserError) as error:
            if read_manifest(directory).generation != info.generation:
                continue  # pages were added, and files went, while it was being opened
            if isinstance(error, UserError):
                raise
            raise DamageError(directory, error) from error


def open_pages(directory: Path, info: WorldInfo) -> SqlitePages:
    """The pages of a world. Raises UserError when a file is missing or torn."""
    for part in info.parts:
        file = directory / part.file
        if not file.is_file() or file.stat().st_size != part.bytes:
            raise DamageError(file, "it is missing or torn")
    return SqlitePages([(directory / part.file, part.pages) for part in info.parts])


def groups_file(fingerprint: str) -> str:
    """The file of a world's groups: each state of a world has its own, so that a reader never gets another's."""
    return f"duplicates-{fingerprint[:12]}.json"


def load_groups(directory: Path, fingerprint: str) -> list[list[str]]:
    """The groups of a world. Raises UserError when they are missing, damaged or of other pages: a mask would leak silently."""
    path = directory / groups_file(fingerprint)
    try:
        record = unseal(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise DamageError(path, error) from error
    if record.get("fingerprint") != fingerprint or record.get("format") != GROUPS_FORMAT:
        raise DamageError(path, "it was made for other pages than the world now holds")
    return [[str(url) for url in group] for group in record["groups"]]


def open_as_met(
    directory: Path,
    faults: str | None = None,
    world_seed: int = 0,
    search: SearchMode = SearchMode.LEXICAL,
    injected: float = 0.0,
    guard: "Guard | None" = None,
    filters: Sequence[str] = (),
) -> World:
    """A world as an agent is to meet it: ranked as asked, with masks and ``blocklist.txt``, then with the faults asked for.

    ``faults``: a profile by name or TOML file; ``injected``: the share of pages that hold an instruction to whoever reads them
    by machine. Raises UserError when any of these cannot be used.
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
