"""Every kind of source, by name, and how a path tells its kind. A literal table: nothing registers itself."""

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.world.addresses import canonical_url
from sanderling.world.sources.contract import DocumentSource, Limits, Source
from sanderling.world.sources.encyclopedia import EncyclopediaSource
from sanderling.world.sources.folder import READERS, FolderSource
from sanderling.world.sources.jsonl import JsonlSource
from sanderling.world.sources.links import address
from sanderling.world.sources.parallel import ParallelSource
from sanderling.world.sources.parquet import ParquetSource
from sanderling.world.sources.recorded import RecordedSource
from sanderling.world.sources.warc import WarcSource
from sanderling.world.sources.wikipedia import WikipediaSource
from sanderling.world.sources.world import WorldSource
from sanderling.world.sources.zim import ZimSource
from sanderling.world.store import FILE_NAME

SOURCES: dict[str, Callable[[str, str, Limits], Source]] = {
    "folder": lambda rest, base, limits: FolderSource(Path(rest), base, limits),
    "jsonl": lambda rest, _base, limits: JsonlSource(Path(rest), limits),
    "parquet": lambda rest, _base, limits: ParquetSource(Path(rest), limits),
    "warc": lambda rest, _base, limits: WarcSource(Path(rest), limits),
    "wikipedia": lambda rest, base, limits: WikipediaSource(Path(rest), base, limits),
    "zim": lambda rest, base, limits: ZimSource(Path(rest), base, limits),
    "recorded": lambda rest, _base, _limits: RecordedSource(Path(rest)),
    "encyclopedia": lambda rest, _base, _limits: EncyclopediaSource.parse(rest),
    "world": lambda rest, _base, _limits: WorldSource(Path(rest)),
}
"""Makes a source from what stands behind its kind (mostly a path), a base URL (empty: the kind's own) and limits."""

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".warc": "warc", ".wet": "warc", ".zim": "zim", ".parquet": "parquet"}
_PACKED = {".gz", ".bz2", ".zst"}
_HEAD = 4096
_OF_A_WORLD = {"format", "fingerprint", "package"}


def open_source(spec: str | Path, kind: str = "", base_url: str = "", limits: Limits | None = None) -> Source:
    """The source that ``KIND:REST`` or a path names; of a path, the kind that is given or that it tells.

    Raises UserError when it is none. A file whose name begins like a kind is written ``./warc:odd-name``.
    """
    if kind and kind not in SOURCES:
        raise UserError(f"There is no kind of source {kind!r}: use one of {', '.join(SOURCES)}.")
    told, rest = _parts(spec)
    return SOURCES[told or kind or kind_of(Path(rest))](rest, base_url, limits or Limits())


def open_sources(
    specs: Sequence[str | Path], kind: str = "", base_url: str = "", limits: Limits | None = None, *, workers: int = 1
) -> list[Source]:
    """Several sources; folders of equal names get addresses below the names of those they lie in, so that pages stay apart.

    ``workers``: processes that read the documents of one source, where it has any to read.
    """
    places = [Path(_parts(spec)[1]).resolve() for spec in specs]
    bases = _apart([place for place in places if place.is_dir()])
    opened: list[Source] = []
    for spec, place in zip(specs, places, strict=True):
        source = open_source(spec, kind, base_url or bases.get(place, ""), limits)
        opened.append(ParallelSource(source, workers) if workers > 1 and isinstance(source, DocumentSource) else source)
    return opened


def _apart(folders: Sequence[Path]) -> dict[Path, str]:
    """Bases for the folders whose names are one address: with as many of the names above them as tell them apart."""
    bases: dict[Path, str] = {}
    waiting, names = set(folders), 1
    while waiting:
        found = {
            folder: address("local://", os.fsencode("/".join(folder.parts[-names:]).lstrip("/") + "/")) for folder in waiting
        }
        shared = Counter(map(canonical_url, found.values()))
        apart = {folder for folder in waiting if shared[canonical_url(found[folder])] == 1 or names >= len(folder.parts)}
        if names > 1:
            bases.update((folder, found[folder]) for folder in apart)
        waiting, names = waiting - apart, names + 1
    return bases


def _parts(spec: str | Path) -> tuple[str, str]:
    """Kind (empty: not said) and the rest."""
    kind, colon, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    return (kind, rest) if colon and kind in SOURCES else ("", str(spec))


def _is_world(path: Path) -> bool:
    """Whether a directory's manifest is a world's; others' folders may hold a file of that name too."""
    try:
        manifest = json.loads((path / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.keys() >= _OF_A_WORLD


def kind_of(path: Path) -> str:
    """The kind of a path, by its name, else by its first bytes. Raises UserError when neither tells."""
    if path.is_dir():
        return "world" if _is_world(path) else "folder"
    if not path.is_file():
        kinds = ", ".join(SOURCES)
        raise UserError(f"There is no source {path}: give a folder or file that exists, or KIND:REST with a kind of {kinds}.")
    endings = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    ending = endings[-1] if endings else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if path.suffix.lower() in READERS:
        return "folder"
    head = _head(path).lstrip()
    for start, kind in ((b"WARC/", "warc"), (b"ZIM\x04", "zim"), (b"%PDF", "folder"), (b"PAR1", "parquet"), (b"{", "jsonl")):
        if head.startswith(start):
            return kind
    if b"<mediawiki" in head or (ending == ".xml" and "pages-" in path.name) or head.startswith(b"BZh"):
        return "wikipedia"
    raise UserError(f"What {path} holds cannot be told from its name or first bytes: say so with --kind, or as in warc:{path}.")


def _head(path: Path) -> bytes:
    """The first bytes, unpacked where gzip packed them."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): get it again, or leave it out.") from error
    return head
