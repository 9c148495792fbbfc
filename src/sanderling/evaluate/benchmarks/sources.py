"""Which files of a folder are meant, and what they hash to. Knows no format and no benchmark."""

import hashlib
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from sanderling.core.errors import UserError

_DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
_PACKED = (".gz", ".bz2", ".zst")
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\D.*)")
_SHOWN = 6


def find_files(path: Path, patterns: Sequence[str] = ()) -> list[Path]:
    """The file itself; of a folder the one file that is meant, or the parts of one in order.

    ``patterns``: of paths below the folder, the likeliest first. Raises UserError when there is none, when there are several
    to choose from, or when a part is missing.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        if path.exists():
            raise UserError(f"{path} is neither a file nor a folder: copy it to a file first.")
        raise UserError(f"There is no file or folder {path}: check the path.")
    below = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if _is_data(file, path)}
    if not below:
        raise UserError(f"{path} holds no CSV, TSV, JSON, Parquet or xlsx file: give the benchmark's file.")
    matching = [{name: file for name, file in below.items() if fnmatch(name, pattern)} for pattern in patterns]
    chosen = next((found for found in matching if found), below)
    return list(chosen.values()) if len(chosen) == 1 else _parts(path, chosen, patterns if chosen is below else ())


def sha256_of(files: Sequence[Path]) -> str:
    """Of the bytes of the files, one after the other. Raises UserError when one cannot be read."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except OSError as error:
            raise UserError(f"Cannot read {path} ({error.strerror}): check the path.") from error
    return digest.hexdigest()


def _is_data(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-2:-1] if suffixes and suffixes[-1] in _PACKED else suffixes[-1:]
    return not hidden and bool(last) and last[0] in _DATA and file.is_file()


def _parts(folder: Path, files: dict[str, Path], lacking: Sequence[str]) -> list[Path]:
    """The shards of one table, in order. ``lacking``: what was looked for and is not there."""
    found = {name: _SHARD.fullmatch(name) for name in files}
    kinds = {(match[1], match[3], match[4]) for match in found.values() if match}
    if len(kinds) != 1 or not all(found.values()):
        shown = ", ".join(list(files)[:_SHOWN]) + (f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else "")
        which = f"no {' or '.join(lacking)}, but other files" if lacking else "several files"
        raise UserError(f"{folder} holds {which} ({shown}): give the one that is meant.")
    stem, count, suffix = next(iter(kinds))
    wanted = [f"{stem}-{number:05}-of-{count}{suffix}" for number in range(int(count))]
    missing = [name for name in wanted if name not in files]
    if missing:
        raise UserError(f"{folder} lacks {missing[0]} ({len(missing)} of {int(count)} parts are missing): download it too.")
    return [files[name] for name in wanted]
