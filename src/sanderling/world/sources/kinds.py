"""Every kind of source by name, how a path tells its kind, and several sources as one stream of pages.

A source of your own is a class as `base.Source`, made from what stands behind its name, a base URL and limits:
``mine.py:Notes:some/place``.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import sanderling
from sanderling.core.errors import UserError
from sanderling.core.plugins import is_outside, load_outside
from sanderling.runs.files import PACKED, in_processes
from sanderling.world.addresses import canonical_url
from sanderling.world.contract import Page
from sanderling.world.disk.building import Feed
from sanderling.world.disk.store import FILE_NAME, SourceAccount, WorldInfo, open_world, read_manifest
from sanderling.world.encyclopedia import check_size, generate_pages
from sanderling.world.recorded import read_built_from, write_built_from
from sanderling.world.sources.archives import WarcSource, ZimSource
from sanderling.world.sources.base import DocumentSource, Limits, Skipped, Source, base_of, stamp_of
from sanderling.world.sources.documents import ENDINGS, FolderSource
from sanderling.world.sources.records import JsonlSource, ParquetSource
from sanderling.world.text import clean


class EncyclopediaSource(Source):
    """Pages of invented people, places, organisations, works and events."""

    def __init__(self, words: str, base_url: str = "", limits: Limits | None = None) -> None:
        """From ``2000``, ``2000/7`` or ``2000/7/registers``. Raises UserError for anything else, and for an impossible size."""
        size, _, rest = words.partition("/")
        seed, _, more = rest.partition("/")
        self.registers = more == "registers"
        try:
            self.size, self.seed = int(size), int(seed or "0")
            if more and not self.registers:
                raise ValueError
        except ValueError:
            raise UserError(f"{words!r} is no size and seed of an encyclopedia: write for example 2000/7.") from None
        check_size(self.size)

    @property
    def name(self) -> str:
        return f"encyclopedia-{self.size}-{self.seed}{'-registers' if self.registers else ''}"

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        return islice(generate_pages(self.size, self.seed, registers=self.registers), skip, None)

    def stamp(self) -> str:
        return stamp_of("encyclopedia", self.size, self.seed, sanderling.__version__)


class WorldSource(Source):
    """The pages of a world that was built before, by number, as they are stored."""

    def __init__(self, path: str | Path, base_url: str = "", limits: Limits | None = None) -> None:
        """Raises UserError when there is no world."""
        self.path = Path(path)
        self._manifest = read_manifest(self.path)

    @property
    def name(self) -> str:
        return self._manifest.name

    def bases(self) -> dict[str, str]:
        return bases_of(self._manifest)

    def items(self, skip: int = 0) -> Iterator[Page | Skipped]:
        return open_world(self.path).all_pages(skip)

    def stamp(self) -> str:
        return stamp_of("world", self._manifest.fingerprint)


SOURCES: dict[str, Callable[[str, str, Limits], Source]] = {
    "folder": FolderSource,
    "jsonl": JsonlSource,
    "parquet": ParquetSource,
    "warc": WarcSource,
    "zim": ZimSource,
    "encyclopedia": EncyclopediaSource,
    "world": WorldSource,
}
"""Makes a source from what stands behind its kind (mostly a path), a base URL (empty: the kind's own) and limits."""

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".warc": "warc", ".wet": "warc", ".zim": "zim", ".parquet": "parquet"}
_OF_A_WORLD = {"format", "fingerprint", "package"}


def open_source(spec: str | Path, kind: str = "", base_url: str = "", limits: Limits | None = None) -> Source:
    """The source that ``KIND:REST`` or a path names. Raises UserError when it is none."""
    if kind and kind not in SOURCES and not is_outside(kind):
        raise UserError(f"There is no kind of source {kind!r}: use one of {', '.join(SOURCES)}.")
    named, rest = _parts(spec)
    chosen = named or kind or kind_of(Path(rest))
    make = SOURCES[chosen] if chosen in SOURCES else load_outside(chosen)
    return make(rest, base_url, limits or Limits())


def open_sources(specs: Sequence[str | Path], base_url: str = "", limits: Limits | None = None) -> list[Source]:
    """Several sources; folders of equal names get addresses below the folder that they share. Raises UserError."""
    if base_url and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://\S+", base_url):
        raise UserError(f"--base-url {base_url!r} is no address: write it as https://docs.example/.")
    places = [Path(_parts(spec)[1]).resolve() for spec in specs]
    folders = {place for place in places if place.is_dir()}
    names = Counter(folder.name.casefold() for folder in folders)
    sources = []
    for spec, place in zip(specs, places, strict=True):
        base = base_url
        if not base and place in folders and names[place.name.casefold()] > 1:
            base = base_of("", os.fsencode(os.path.relpath(place, os.path.commonpath(folders))))
        sources.append(open_source(spec, base_url=base, limits=limits))
    given = canonical_url(base_url)
    below = [(one.name, place) for one in sources for base, place in one.bases().items() if canonical_url(base) == given]
    if base_url and len({place for _, place in below}) > 1:
        raise UserError(
            f"{' and '.join(name for name, _ in below)} would share the addresses below {base_url}: "
            "build with one of them, and give each other one a --base-url of its own with `sanderling world add`."
        )
    return sources


def bases_of(info: WorldInfo) -> dict[str, str]:
    """The addresses below which a world's sources put their pages; see `Source.bases`."""
    return {canonical_url(base): place for account in info.accounts for base, place in account.bases.items()}


def refuse_collisions(directory: Path, sources: Sequence[Source]) -> None:
    """Raise UserError where a source would put a page at an address at which the world has another, from another place.

    A folder that is added again brings what is new in it.
    """
    world, taken = open_world(directory), bases_of(read_manifest(directory))
    for source in sources:
        contested = [base for base, place in source.bases().items() if taken.get(canonical_url(base), place) != place]
        for page in (item for item in source.items() if isinstance(item, Page)) if contested else ():
            held = world.page(page.url)
            if held is not None and held.text != clean(page.text):
                raise UserError(
                    f"{source.name} would put a page at {page.url}, where {directory} has another: "
                    f"give these pages a place of their own, such as --base-url {contested[0].rstrip('/')}-2/."
                )


def _parts(spec: str | Path) -> tuple[str, str]:
    """Kind (empty: not said) and the rest."""
    if isinstance(spec, str):
        kind, colon, rest = spec.partition(":")
        if colon and kind in SOURCES:
            return kind, rest
        outside, colon, rest = spec.rpartition(":")
        if colon and is_outside(outside):
            return outside, rest
    return "", str(spec)


def kind_of(path: Path) -> str:
    """The kind of a path, by its name. Raises UserError when it does not tell."""
    if path.is_dir():
        try:
            manifest = json.loads((path / FILE_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return "folder"
        return "world" if isinstance(manifest, dict) and manifest.keys() >= _OF_A_WORLD else "folder"  # others have such files
    if not path.is_file():
        kinds = ", ".join(SOURCES)
        raise UserError(f"There is no source {path}: give a folder or file that exists, or KIND:REST with a kind of {kinds}.")
    endings = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in PACKED]
    if endings and endings[-1] in _ENDINGS:
        return _ENDINGS[endings[-1]]
    if path.suffix.lower() in ENDINGS:
        return "folder"
    raise UserError(f"What {path} holds cannot be told from its name: say so as in warc:{path}.")


def remember_sources(directory: Path, sources: Sequence[Source]) -> None:
    """Add to a world's memory which recorded trajectories its sources bring, so that none is later taken for held out."""
    brought = [read_built_from(source.path) for source in sources if isinstance(source, WorldSource)]
    if any(brought):
        memories = [memory for memory in (read_built_from(directory), *brought) if memory is not None]
        write_built_from(directory, memories)


# -- several sources as one stream ---------------------------------------------------------------------------------------

_BATCH = 16  # documents that a process is handed together
_MOST_EXAMPLES, _LONGEST_EXAMPLE = 5, 500


class Gathering(Feed):
    """The pages of several sources, in their order, counted as they pass."""

    def __init__(self, sources: Sequence[Source], workers: int = 1) -> None:
        """``workers``: processes that read the documents of one source, where it has any to read."""
        super().__init__()
        self._sources = sources
        self._workers = workers
        self._accounts: list[SourceAccount] = []
        self.stamp = stamp_of(sanderling.__version__, *(f"{source.name!a} {source.stamp()}" for source in sources))

    def pages(self, mark: str = "") -> Iterator[Page]:
        self._accounts = list(self.accounts(mark))
        self.read = sum(account.documents for account in self._accounts)
        for number, source in enumerate(self._sources):
            if number < len(self._accounts) - 1:
                continue  # it was read to its end, since the next was begun
            if number == len(self._accounts):
                self._accounts.append(SourceAccount(name=clean(source.name), bases=source.bases()))
            account = self._accounts[number]
            if self._workers > 1 and isinstance(source, DocumentSource):
                items = parallel_items(source, self._workers, account.documents)
            else:
                items = source.items(account.documents)
            for item in items:
                account.documents += 1
                self.read += 1
                if isinstance(item, Page):
                    account.pages += 1
                    yield item
                    continue
                reason = item.reason.value
                account.skipped[reason] = account.skipped.get(reason, 0) + 1
                examples = account.examples.setdefault(reason, [])
                if len(examples) < _MOST_EXAMPLES:
                    examples.append(clean(item.where[:_LONGEST_EXAMPLE]))

    def mark(self) -> str:
        return json.dumps([account.model_dump() for account in self._accounts])

    def accounts(self, mark: str) -> tuple[SourceAccount, ...]:
        return tuple(SourceAccount.model_validate(account) for account in json.loads(mark or "[]"))


def parallel_items(source: DocumentSource[Any], workers: int, skip: int = 0) -> Iterator[Page | Skipped]:
    """The items of a source in their order, read by ``workers`` processes. Raises UserError when a process was killed."""
    documents = islice(source.documents(), skip, None)
    batches = iter(lambda: list(islice(documents, _BATCH)), [])
    killed = (
        "A process that reads documents was killed (often for want of memory): "
        "run the same command again, with fewer --workers; it goes on from here."
    )
    for items in in_processes(_read, batches, workers, prepare=partial(_prepare, source), killed=killed):
        yield from items


_readers: list[DocumentSource[Any]] = []  # in a process that reads: its source


def _prepare(source: DocumentSource[Any]) -> None:
    _readers[:] = [source]


def _read(batch: list[Any]) -> list[Page | Skipped]:
    return [document if isinstance(document, Skipped) else _readers[0].read(document) for document in batch]
