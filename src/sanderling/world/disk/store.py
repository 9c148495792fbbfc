"""Worlds on disk: one directory with a manifest, files of pages, and an index that can be filled anew from them.

A world is built in a directory beside its place and renamed at the end, so that it is whole or absent; pages are added to it as
further files. ``manifest.json``, written last, read first and replaced in one step, names the files that count; they never
change once it names them, so a reader has the world as it was before or as it is after. Whatever interrupts a build or an
addition, the same command goes on (`building`).
"""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

import sanderling
from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file, sync
from sanderling.world.contract import Page
from sanderling.world.disk.building import (
    Feed,
    LinkCounts,
    Progress,
    SourceAccount,
    Stage,
    State,
    building_place,
    ignore,
    read_in,
    unmark,
    work_through,
    writable,
)
from sanderling.world.disk.duplicates import THRESHOLD, file_name, save_groups, signed_groups
from sanderling.world.disk.index import is_whole, link_index, linked, sound_index
from sanderling.world.disk.pages import NO_PAGES, PageFile, SqlitePages, WorldCounts, discard
from sanderling.world.local import LocalWorld

FORMAT_VERSION = 2
FILE_NAME = "manifest.json"


class PagePart(Frozen):
    """One file of pages, numbered on from the part before."""

    file: str
    pages: int
    bytes: int
    """Size of the file, so that a torn copy is noticed."""


class WorldInfo(Frozen):
    """The manifest of a world."""

    format: int = FORMAT_VERSION
    name: str
    source: str
    """The builder, and what it was given; what was added later follows."""
    seed: int | None = None
    package: str
    """Version of sanderling that wrote it last."""
    counts: WorldCounts
    links: LinkCounts
    """Each page's as they led when it came in; `sanderling world links` counts anew."""
    accounts: tuple[SourceAccount, ...] = ()
    """Of each source that was read document by document."""
    generation: int = 0
    """How often pages were added since the build."""
    parts: tuple[PagePart, ...]
    index: str
    fingerprint: str
    """SHA-256 over the pages in order, chained: see `pages.Intake`."""

    @property
    def page_count(self) -> int:
        return sum(part.pages for part in self.parts)


def write_manifest(directory: Path, info: WorldInfo) -> None:
    """Write the manifest of a world in place of the one before; it is on the disk when this returns."""
    text = json.dumps(info.model_dump(), ensure_ascii=False, indent=2)
    replace_file(directory / FILE_NAME, text + "\n", durable=True)


def read_manifest(directory: Path) -> WorldInfo:
    """Read the manifest of a world. Raises UserError when there is none, or none of this format."""
    if not directory.is_dir():
        raise UserError(f"There is no world at {directory}: build one with `sanderling world build`.")
    try:
        data = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{directory} is not a world (it has no {FILE_NAME}): build one with `sanderling world build`."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"The manifest of {directory} cannot be read ({error}): build the world again.") from error
    version = data.get("format") if isinstance(data, dict) else None
    if version != FORMAT_VERSION:
        raise UserError(
            f"The world {directory} has format {version}, and this version reads {FORMAT_VERSION}: build the world again."
        )
    try:
        return WorldInfo.model_validate(data)
    except ValidationError as error:
        raise UserError(
            f"The manifest of {directory} is damaged ({error.error_count()} fields): build the world again."
        ) from error


# Building and adding

_ADDING = "adding"
_MOST_REASONS = 3


def build_world(
    directory: Path,
    pages: Feed | Iterable[Page],
    *,
    name: str,
    source: str,
    seed: int | None = None,
    progress: Progress = ignore,
    finish: Callable[[Path], None] | None = None,
    fresh: bool = False,
) -> WorldInfo:
    """Build a world, or go on with a build of the same feed that was interrupted.

    Args:
        directory: where the world will be; must not exist, or be empty.
        pages: read once, in their order, streaming.
        name: short name for records.
        source: the builder and what it was given.
        seed: of a generated world.
        progress: see `building.Progress`.
        finish: writes further files into the world's directory, which is handed to it, before the world is in its place.
        fresh: remove what an interrupted build left.

    Raises UserError when the place is taken or cannot be written, when another process or the remains of another build are in
    the way, or when no page is left to hold.

    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    _require_free(directory)
    with building_place(directory.with_name(f".{directory.name}.building"), feed.stamp, fresh=fresh) as place:
        file, index = place.path / _pages_name(0), place.path / _index_name(0)
        with writable(directory):
            index.mkdir(exist_ok=True)
        state, count = _write(file, index, feed, progress, NO_PAGES)
        accounts = feed.accounts(state.mark)
        if not count:
            place.finished = True
            raise UserError(f"The world {name!r} would hold no page{_why_none(accounts)}.")
        info = WorldInfo(
            name=name,
            source=source,
            seed=seed,
            package=sanderling.__version__,
            counts=WorldCounts(**state.tally),
            links=state.links,
            accounts=accounts,
            parts=(_part(file, count),),
            index=index.name,
            fingerprint=state.fingerprint,
        )
        with writable(directory):
            progress(Stage.COMPARING, 0, None)
            compare_pages(place.path, info)
            if finish is not None:
                finish(place.path)
            write_manifest(place.path, info)
            _sync_tree(place.path)  # whole on the disk before it has its name
            _require_free(directory)
            place.path.rename(directory)
            unmark(directory)
            sync(directory.parent)
    return info


def add_to_world(
    directory: Path, pages: Feed | Iterable[Page], *, source: str, progress: Progress = ignore, fresh: bool = False
) -> tuple[WorldInfo, WorldCounts]:
    """Add pages to a world, or go on with an addition of the same feed that was interrupted.

    Pages whose address the world has are left out and counted; nothing that it holds changes. A reader has the world as it was
    when it was opened, or as it is when this returns.

    Returns the world's new manifest, and what became of the pages that were given.

    Raises UserError when there is no world, another process or the remains of another addition are in the way, or the disk
    does not take it.
    """
    directory, feed = directory.absolute(), pages if isinstance(pages, Feed) else Feed(pages)
    before = read_manifest(directory)
    is_done = (directory / _ADDING / _pages_name(before.generation)).exists()  # killed after its last step
    with building_place(directory / _ADDING, feed.stamp, fresh=fresh or is_done) as place:
        before = read_manifest(directory)  # another process may have added meanwhile
        generation = before.generation + 1
        file, index = place.path / _pages_name(generation), place.path / _index_name(generation)
        earlier = open_pages(directory, before)
        with writable(directory):
            if not index.is_dir():
                sound_index(directory / before.index, earlier, before.page_count)
                link_index(directory / before.index, index)
        state, count = _write(file, index, feed, progress, before.fingerprint, earlier)
        counts = WorldCounts(**state.tally)
        if not count:
            place.finished = True
            return before, counts
        after = before.model_copy(
            update={
                "source": f"{before.source} + {source}",
                "package": sanderling.__version__,
                "counts": before.counts + counts,
                "links": before.links + state.links,
                "accounts": (*before.accounts, *feed.accounts(state.mark)),
                "generation": generation,
                "parts": _grown(directory, before, file, count),
                "index": index.name,
                "fingerprint": state.fingerprint,
            }
        )
        with writable(directory):
            (directory / file.name).unlink(missing_ok=True)  # what a killed addition left there
            linked(file, directory / file.name)
            link_index(index, directory / index.name)
            progress(Stage.COMPARING, 0, None)
            compare_pages(directory, after)
            _sync_tree(directory / index.name)
            sync(directory / file.name)
            write_manifest(directory, after)
        place.finished = True
    del earlier
    _discard_unnamed(directory, before, after)
    return after, counts


def _why_none(accounts: Sequence[SourceAccount]) -> str:
    reasons = [f"{account.examples[why][0]} is {why}" for account in accounts for why in account.examples]
    told = "; ".join(reasons[:_MOST_REASONS]) + ("; …" if len(reasons) > _MOST_REASONS else "")
    return f" ({told})" if told else ": give pages that have a URL and text"


def _write(
    pages: Path, index: Path, feed: Feed, progress: Progress, fingerprint: str, earlier: SqlitePages | None = None
) -> tuple[State, int]:
    """Both passes over what the feed gives; the state at the end, and the number of new pages."""
    first = earlier.count() if earlier else 0
    file = PageFile(pages, first, earlier)
    try:
        state = read_in(file, feed, fingerprint, progress)
        if state.tally["kept"]:
            state = work_through(file, index, state, progress)
        file.finish()
    finally:
        file.close()
    return state, state.tally["kept"]


def _grown(directory: Path, before: WorldInfo, new: Path, count: int) -> tuple[PagePart, ...]:
    """A world's parts with a further one, which takes over the last ones while they are not much larger.

    So the number of parts grows with the logarithm of the number of pages, however often pages are added.
    """
    parts, first = list(before.parts), before.page_count
    file = PageFile(new, first)
    try:
        while parts and parts[-1].pages < 2 * count:
            part = parts.pop()
            first -= part.pages
            count += part.pages
            file.absorb(directory / part.file, first)
        file.finish()
    finally:
        file.close()
    return (*parts, _part(new, count))


def _pages_name(generation: int) -> str:
    return f"pages-{generation}.sqlite"


def _index_name(generation: int) -> str:
    return f"index-{generation}"


def _part(path: Path, pages: int) -> PagePart:
    return PagePart(file=path.name, pages=pages, bytes=path.stat().st_size)


def compare_pages(directory: Path, info: WorldInfo, threshold: float = THRESHOLD) -> tuple[list[list[str]], Path]:
    """Find the near-duplicates of a world by its stored signatures, and write them down for masks to reach.

    Returns the groups by URL, and the file. Raises UserError when it cannot be written, OSError when the pages cannot be read.
    """
    pages = SqlitePages([(directory / part.file, part.pages) for part in info.parts])
    groups = [[pages.get(number).page.url for number in group] for group in signed_groups(pages.signatures(), threshold)]
    return groups, save_groups(directory, info.fingerprint, groups, threshold)


def _discard_unnamed(directory: Path, before: WorldInfo, after: WorldInfo) -> None:
    """Remove files that are of neither state of the world and that nobody reads; the state before may just be opened."""
    named = {part.file for info in (before, after) for part in info.parts} | {before.index, after.index}
    named |= {file_name(before.fingerprint), file_name(after.fingerprint)}
    for path in directory.iterdir():
        if path.name in named:
            continue
        if path.match("pages-*.sqlite"):
            discard(path)
        elif path.match("index-*"):
            shutil.rmtree(path, ignore_errors=True)
        elif path.match("duplicates-*.json"):
            path.unlink(missing_ok=True)


# Opening


def open_world(directory: Path) -> LocalWorld:
    """Open a world for reading. Raises UserError when there is none, when it is of another format, or torn."""
    info = read_manifest(directory)
    while True:
        try:
            return _open(directory, info)
        except UserError:
            again = read_manifest(directory)
            if again.generation == info.generation:
                raise
            info = again  # pages were added, and files went, while it was being opened


def _open(directory: Path, info: WorldInfo) -> LocalWorld:
    try:
        pages, index = open_pages(directory, info), directory / info.index
        if not is_whole(index, info.page_count) and read_manifest(directory).generation != info.generation:
            raise UserError(f"{directory} was added to while it was being opened: open it again.")
        index = sound_index(index, pages, info.page_count)
    except OSError as error:
        raise UserError(f"The world {directory} cannot be read ({error}): copy it again, or build it again.") from error
    return LocalWorld(info.name, info.fingerprint, pages, index)


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


def _require_free(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"{directory} is already there: choose another place, or remove it first.")


def _sync_tree(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        sync(path)
