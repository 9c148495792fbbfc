"""Which files an import reads, and what the ids in each begin with. Opens no file.

A name is the file's folder and its name without the suffix, so it is the same wherever the folder lies. Where two files of one
import would share it, they are named by their whole path below the source; where that is still shared, by a number. Bytes of a
name that are not UTF-8 are U+FFFD in ids, which every format has to hold.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.core.lenient import without_surrogates
from sanderling.data.importers.agenttoleap import REPEATED

_PACKED = (".gz", ".bz2", ".zst")
_TEXT = (".json", ".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Place:
    """One file of an import."""

    path: Path
    name: str
    label: str
    """How a person finds it: its path below the source."""


@dataclass(frozen=True)
class Places:
    """The files of an import, in the order in which they are read."""

    files: tuple[Place, ...]
    repeated: tuple[str, ...]
    """Files left out because another one beside them holds the same conversation."""


def importable(path: Path) -> bool:
    """Whether a file's name says that it could be imported."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    return bool(last) and (last[0] in _TEXT or (last[0] in PARQUET and not packed))


def find_places(sources: Sequence[Path], names: Sequence[str | None] = ()) -> Places:
    """The files of sources: each a file, whatever its name, or a directory, of which every importable file is taken.

    ``names``: for each source that is a file, what its ids begin with. Raises UserError for a source that is not there.
    """
    found: list[tuple[Path, str, str | None]] = []
    for index, source in enumerate(sources):
        if source.is_dir():
            below = sorted(path for path in source.rglob("*") if importable(path) and path.is_file())
            found += [(path, path.relative_to(source).as_posix(), None) for path in below]
        elif source.exists():
            found.append((source, source.name, names[index] if index < len(names) else None))
        else:
            raise UserError(f"There is no file or directory {source}: check the path.")
    results = {path.parent for path, _, _ in found if path.name == "result.json"}
    repeated = [label for path, label, _ in found if path.name in REPEATED and path.parent in results]
    seen: set[Path] = set()
    taken: list[tuple[Path, str, str | None]] = []
    for path, label, name in found:
        if not (path.name in REPEATED and path.parent in results) and path.resolve() not in seen:
            seen.add(path.resolve())
            taken.append((path, label, name))
    return Places(_named(taken), tuple(repeated))


def _named(files: Sequence[tuple[Path, str, str | None]]) -> tuple[Place, ...]:
    short = Counter(_short(path) for path, _, _ in files)
    used: Counter[str] = Counter()
    places: list[Place] = []
    for path, label, given in files:
        name = without_surrogates(given or (_short(path) if short[_short(path)] == 1 else label))
        used[name] += 1
        places.append(Place(path, name if used[name] == 1 else f"{name}~{used[name]}", without_surrogates(label)))
    return tuple(places)


def _short(path: Path) -> str:
    stem = path.name
    for suffix in (*_PACKED, *_TEXT, *PARQUET):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
    return f"{path.resolve().parent.name}/{stem}"
