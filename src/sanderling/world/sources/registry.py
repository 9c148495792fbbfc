"""Every kind of source, by name, and how a path tells its kind. A literal table: nothing registers itself."""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from sanderling.errors import UserError
from sanderling.world.sources.contract import Limits, Source
from sanderling.world.sources.folder import READERS, FolderSource
from sanderling.world.sources.jsonl import JsonlSource
from sanderling.world.sources.links import address
from sanderling.world.sources.warc import WarcSource
from sanderling.world.sources.wikipedia import WikipediaSource
from sanderling.world.sources.zim import ZimSource

SOURCES: dict[str, Callable[[Path, str, Limits], Source]] = {
    "folder": FolderSource,
    "jsonl": lambda path, _base, limits: JsonlSource(path, limits),
    "warc": lambda path, _base, limits: WarcSource(path, limits),
    "wikipedia": WikipediaSource,
    "zim": ZimSource,
}
"""Makes a source from a path, a base URL (empty: the kind's own) and limits."""

_ENDINGS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".warc": "warc", ".wet": "warc", ".zim": "zim"}
_PACKED = {".gz", ".bz2"}
_HEAD = 4096


def open_source(path: Path, kind: str = "", base_url: str = "", limits: Limits | None = None) -> Source:
    """The source at a path, of the kind that is given or that the path tells. Raises UserError when it is none."""
    if kind and kind not in SOURCES:
        raise UserError(f"There is no kind of source {kind!r}: use one of {', '.join(SOURCES)}.")
    return SOURCES[kind or kind_of(path)](path, base_url, limits or Limits())


def open_sources(paths: Sequence[Path], kind: str = "", base_url: str = "", limits: Limits | None = None) -> list[Source]:
    """Several sources; those of equal names get addresses below their parents' names, so that their pages stay apart."""
    names = Counter(path.absolute().name for path in paths)
    opened: list[Source] = []
    for path in paths:
        place = path.absolute()
        apart = address("local://", os.fsencode(f"{place.parent.name}/{place.name}/"))
        shared = names[place.name] > 1 and path.is_dir()
        opened.append(open_source(path, kind, base_url or (apart if shared else ""), limits))
    return opened


def kind_of(path: Path) -> str:
    """The kind of a path, by its name, else by its first bytes. Raises UserError when neither tells."""
    if path.is_dir():
        return "folder"
    if not path.is_file():
        raise UserError(f"There is no source {path}: give a folder or file that exists.")
    endings = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    ending = endings[-1] if endings else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if path.suffix.lower() in READERS:
        return "folder"
    head = _head(path).lstrip()
    for start, kind in ((b"WARC/", "warc"), (b"ZIM\x04", "zim"), (b"%PDF", "folder"), (b"{", "jsonl")):
        if head.startswith(start):
            return kind
    if b"<mediawiki" in head or (ending == ".xml" and "pages-" in path.name) or head.startswith(b"BZh"):
        return "wikipedia"
    raise UserError(f"What {path} holds cannot be told from its name or first bytes: say so with --kind.")


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
