"""Worlds on disk: one directory with a manifest, files of pages, and an index that can be filled anew from them.

A world is built beside its place and renamed at the end; pages are added to it as further files. ``manifest.json``, written
last, read first and replaced in one step, names the files that count; they never change once it names them, so a reader has the
world as it was before or as it is after. Whatever interrupts a build or an addition, the same command goes on (`building`).
"""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

import sanderling
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file, sync
from sanderling.world.contract import Page, World
from sanderling.world.disk.building import (
    STAMP,
    Feed,
    Progress,
    SourceAccount,
    Stage,
    State,
    building_place,
    fill,
    ignore,
)
from sanderling.world.disk.duplicates import file_name, load_groups, near_duplicates, save_groups
from sanderling.world.disk.index import SearchMode, link_index, linked, sound_index
from sanderling.world.disk.pages import SqlitePages, WorldCounts, absorb, writable
from sanderling.world.filters import BLOCKLIST_FILE, filtered, read_blocklist
from sanderling.world.local import LocalWorld

if TYPE_CHECKING:
    from sanderling.world.guard import Guard

FORMAT_VERSION = 2
FILE_NAME = "manifest.json"
POINTER = "milvus.json"  # of a directory that stands for a world on Milvus
_ADDING = "adding"


class PagePart(Frozen):
    """One file of pages, numbered on from the part before; its size tells a torn copy."""

    file: str
    pages: int
    bytes: int


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
    replace_file(directory / FILE_NAME, info.model_dump_json(indent=2) + "\n", durable=True)


def read_manifest(directory: Path) -> WorldInfo:
    """Read the manifest of a world. Raises UserError when there is none, or none of this format."""
    if not directory.is_dir():
        raise UserError(f"There is no world at {directory}: build one with `sanderling world build`.")
    try:
        text = (directory / FILE_NAME).read_text(encoding="utf-8")
        version = data.get("format") if isinstance(data := json.loads(text), dict) else None
        if version == FORMAT_VERSION:
            data.pop("links", None)  # which earlier versions counted
            return WorldInfo.model_validate(data)
    except FileNotFoundError:
        reason = f"is not a world (it has no {FILE_NAME}): build one with `sanderling world build`"
        raise UserError(f"{directory} {reason}.") from None
    except (OSError, ValueError, RecursionError) as error:  # of which ValidationError is one
        why = (
            f"is damaged ({error.error_count()} fields)" if isinstance(error, ValidationError) else f"cannot be read ({error})"
        )
        raise UserError(f"The manifest of {directory} {why}: build the world again.") from error
    raise UserError(
        f"The world {directory} has format {version}, and this version reads {FORMAT_VERSION}: build the world again."
    )


def build_world(
    directory: Path,
    pages: Feed | Iterable[Page],
    *,
    name: str,
    source: str,
    seed: int | None = None,
    progress: Progress = ignore,
    finish: Callable[[Path], None] | None = None,
) -> WorldInfo:
    """Build a world in a directory that does not exist or is empty, or go on with a build of the same feed.

    ``finish`` writes further files into the directory that is handed to it, before the world is in its place. Raises UserError
    when something is in the way, or when no page is left to hold.
    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    place = directory.with_name(f".{directory.name}.building")
    with building_place(place, feed.stamp):
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UserError(f"{directory} is already there: choose another place, or remove it first.")
        with writable(directory):
            (place / "index-0").mkdir(exist_ok=True)
        none = {"counts": WorldCounts(), "parts": (), "index": "", "fingerprint": State().fingerprint}
        nothing = WorldInfo(name=name, source=source, seed=seed, generation=-1, **none)
        info, counts = _extended(nothing, place, feed, progress)
        if not counts.kept:
            (place / STAMP).unlink()
            reasons = [f"{account.examples[why][0]} is {why}" for account in info.accounts for why in account.examples]
            told = f" ({'; '.join(reasons[:3])}{'; …' if len(reasons) > 3 else ''})"
            raise UserError(
                f"The world {name!r} would hold no page{told if reasons else ': give pages that have a URL and text'}."
            )
        with writable(directory):
            progress(Stage.COMPARING, 0, None)
            compare_pages(place, info)
            if finish is not None:
                finish(place)
            write_manifest(place, info)
            (place / STAMP).unlink()
            for path in [*place.rglob("*"), place]:  # whole on the disk before it has its name
                sync(path)
            place.rename(directory)
            sync(directory.parent)
    return info


def add_to_world(
    directory: Path, pages: Feed | Iterable[Page], *, source: str, progress: Progress = ignore
) -> tuple[WorldInfo, WorldCounts]:
    """Add pages to a world, or go on with an addition of the same feed; its new manifest, and what became of the pages.

    Pages whose address the world has are left out and counted. Raises UserError when there is no world, or something is in the
    way.
    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    place = directory / _ADDING
    was_done = (place / f"pages-{read_manifest(directory).generation}.sqlite").exists()  # killed after its last step
    with building_place(place, feed.stamp, fresh=was_done):
        before = read_manifest(directory)  # another process may have added meanwhile
        earlier, index = open_pages(directory, before), place / f"index-{before.generation + 1}"
        with writable(directory):
            if not index.is_dir():
                sound_index(directory / before.index, earlier, before.page_count)
                link_index(directory / before.index, index)
        renamed = before.model_copy(update={"source": f"{before.source} + {source}"})
        after, counts = _extended(renamed, place, feed, progress, earlier)
        if not counts.kept:
            (place / STAMP).unlink()
            return before, counts
        with writable(directory):
            pages_file, new_index = directory / after.parts[-1].file, directory / after.index
            pages_file.unlink(missing_ok=True)  # what a killed addition left there
            linked(place / pages_file.name, pages_file)
            link_index(index, new_index)
            progress(Stage.COMPARING, 0, None)
            compare_pages(directory, after)
            for path in [*new_index.rglob("*"), new_index, pages_file]:
                sync(path)
            write_manifest(directory, after)
            (place / STAMP).unlink()
    # What neither state names goes; the state before may just be opened. Whoever has a file of pages open goes on reading it.
    named = {part.file for info in (before, after) for part in info.parts} | {before.index, after.index}
    named |= {file_name(before.fingerprint), file_name(after.fingerprint)}
    for pattern in ("pages-*.sqlite", "index-*", "duplicates-*.json"):
        for path in (path for path in directory.glob(pattern) if path.name not in named):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return after, counts


def _extended(
    before: WorldInfo, place: Path, feed: Feed, progress: Progress, earlier: SqlitePages | None = None
) -> tuple[WorldInfo, WorldCounts]:
    """A world's manifest with the pages of a feed, whose file and index lie in ``place`` now, and what became of them."""
    generation = before.generation + 1
    file, index = place / f"pages-{generation}.sqlite", place / f"index-{generation}"
    state = fill(file, index, feed, State(fingerprint=before.fingerprint), progress, earlier)
    counts = WorldCounts(**state.tally)
    parts, taken, count = list(before.parts), list[Path](), counts.kept
    # the new file takes over the last ones while they are not much larger: there are about as many as the pages' logarithm
    while parts and parts[-1].pages < 2 * count:
        count += parts[-1].pages
        taken.append(place.parent / parts.pop().file)
    absorb(file, taken)
    update = {
        "package": sanderling.__version__,
        "counts": before.counts + counts,
        "accounts": (*before.accounts, *feed.accounts(state.mark)),
        "generation": generation,
        "parts": (*parts, PagePart(file=file.name, pages=count, bytes=file.stat().st_size)),
        "index": index.name,
        "fingerprint": state.fingerprint,
    }
    return before.model_copy(update=update), counts


def compare_pages(directory: Path, info: WorldInfo) -> tuple[list[list[str]], Path]:
    """Find a world's near-duplicates and write them down for masks to reach: the groups by URL, and the file."""
    pages = open_pages(directory, info)
    groups = [[pages.get(number).url for number in group] for group in near_duplicates(pages.signatures())]
    return groups, save_groups(directory, info.fingerprint, groups)


def open_world(directory: Path) -> LocalWorld:
    """Open a world for reading. Raises UserError when there is none, when it is of another format, or torn."""
    while True:
        info = read_manifest(directory)
        try:
            pages = open_pages(directory, info)
            return LocalWorld(info.name, info.fingerprint, pages, sound_index(directory / info.index, pages, info.page_count))
        except (OSError, UserError) as error:
            if read_manifest(directory).generation != info.generation:
                continue  # pages were added, and files went, while it was being opened
            if isinstance(error, UserError):
                raise
            raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error


def open_pages(directory: Path, info: WorldInfo) -> SqlitePages:
    """The pages of a world. Raises UserError when a file is missing or torn."""
    for part in info.parts:
        file = directory / part.file
        if not file.is_file() or file.stat().st_size != part.bytes:
            raise UserError(f"The pages of {directory} are missing or torn: copy the world again, or build it again.")
    try:
        return SqlitePages([(directory / part.file, part.pages) for part in info.parts])
    except OSError as error:
        raise UserError(f"The pages of {directory} cannot be read ({error}): copy it again, or build it again.") from error


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
