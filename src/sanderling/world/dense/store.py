"""Vectors on disk, beside the pages: two plain arrays that grow, and a small manifest that says how far they are whole.

`vectors.bin` has one row for each passage, `owners.bin` the page number of each row, rising. A batch is brought to the disk
before the manifest names it, so that a killed writer loses at most that batch: what lies beyond the manifest is cut off by the
next. Readers map the files into memory. Knows no embedder.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file, sync
from sanderling.world.contract import Page
from sanderling.world.dense.chunks import Chunking
from sanderling.world.dense.embedder import Prefixes, Vectors

DIRECTORY = "dense"
"""Within the directory of a world."""
MANIFEST, _VECTORS, _OWNERS = "dense.json", "vectors.bin", "owners.bin"
_FORMAT = 1
Precision = Literal["float16", "float32"]


class DenseSettings(BaseModel):
    """What makes the vectors what they are; an index with other settings is another index."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    dimension: int
    prefixes: Prefixes = Prefixes()
    chunking: Chunking = Chunking()
    precision: Precision = "float16"

    @property
    def identity(self) -> str:
        """A short name of all of them."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class DenseInfo(BaseModel):
    """The manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = _FORMAT
    settings: DenseSettings
    embedder: str
    """How the embedder was named on the command line, so that search can open it again."""
    pages: int = 0
    """Pages that are embedded, from the first on."""
    rows: int = 0
    digest: str = ""
    """SHA-256 over what was embedded of these pages, in order."""
    world: str = ""
    """Fingerprint of the world's pages, when all of them were embedded; empty before."""


class PagesDigest:
    """A running SHA-256 over the titles and texts of pages."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, page: Page) -> None:
        """Take in the next page."""
        self._hash.update(json.dumps([page.title, page.text], ensure_ascii=False).encode("utf-8") + b"\n")

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


def read_info(place: Path) -> DenseInfo | None:
    """The manifest of a dense index, or None when there is none. Raises UserError when it cannot be used."""
    try:
        data: Any = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"The dense index {place} cannot be read ({error}): remove it and embed again.") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise UserError(f"The dense index {place} is of another format: remove it and embed again.")
    try:
        return DenseInfo.model_validate(data)
    except ValidationError as error:
        raise UserError(f"The manifest of {place} is damaged: remove the dense index and embed again.") from error


class DenseWriter:
    """Appends batches. One writer at a time."""

    def __init__(self, place: Path, info: DenseInfo) -> None:
        """Open for appending after what ``info`` says is whole. Raises OSError."""
        place.mkdir(parents=True, exist_ok=True)
        self._place = place
        self.info = info
        width = info.settings.dimension * np.dtype(info.settings.precision).itemsize
        self._vectors = _cut(place / _VECTORS, info.rows * width)
        self._owners = _cut(place / _OWNERS, info.rows * 4)

    def append(self, owners: list[int], vectors: Vectors, pages: int, digest: str) -> None:
        """Store rows and say that ``pages`` pages are whole now. Raises OSError."""
        self._vectors.write(vectors.astype(self.info.settings.precision).tobytes())
        self._owners.write(np.asarray(owners, np.uint32).tobytes())
        for file in (self._vectors, self._owners):
            file.flush()
            os.fsync(file.fileno())
        rows = self.info.rows + len(owners)
        self.note(self.info.model_copy(update={"pages": pages, "rows": rows, "digest": digest, "world": ""}))

    def note(self, info: DenseInfo) -> None:
        """Replace the manifest. Raises OSError."""
        self.info = info
        replace_file(self._place / MANIFEST, info.model_dump_json(indent=2) + "\n", durable=True)

    def close(self) -> None:
        """Close the files."""
        self._vectors.close()
        self._owners.close()
        sync(self._place)


def _cut(path: Path, size: int):
    """A file open for appending, cut to what is whole."""
    file = path.open("ab")
    if file.tell() < size:
        file.close()
        raise UserError(f"{path} is torn: remove {path.parent} and embed again.")
    file.truncate(size)
    return file


def read_arrays(place: Path, info: DenseInfo) -> tuple[NDArray[np.floating], NDArray[np.uint32]]:
    """Vectors and owners, mapped into memory. Raises UserError when they are missing or torn."""
    settings = info.settings
    if not info.rows:
        return np.zeros((0, settings.dimension), settings.precision), np.zeros(0, np.uint32)
    try:
        vectors = np.memmap(place / _VECTORS, settings.precision, "r", shape=(info.rows, settings.dimension))
        owners = np.memmap(place / _OWNERS, np.uint32, "r", shape=(info.rows,))
    except (OSError, ValueError) as error:
        raise UserError(f"The vectors of {place} are missing or torn ({error}): remove it and embed again.") from error
    return vectors, owners
