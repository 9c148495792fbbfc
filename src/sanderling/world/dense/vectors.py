"""The vectors of a world on disk, beside its pages: cut into passages, and embedded in batches.

`vectors.bin` has one row for each passage, `owners.bin` the page number of each row, rising. A batch is brought to the disk
before the manifest names it, so that a killed writer loses at most that batch: what lies beyond the manifest is cut off by the
next, and the same call goes on from there. Readers map the files into memory. Pages that came to the world since are embedded
alone, after it is made sure that the earlier ones are what they were.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file, sync
from sanderling.world.contract import Page
from sanderling.world.dense.embedders import Embedder, Kind, Prefixes, Vectors, embed_units
from sanderling.world.local import LocalWorld
from sanderling.world.text import plain

DIRECTORY = "dense"
"""Within the directory of a world."""
MANIFEST, _VECTORS, _OWNERS = "dense.json", "vectors.bin", "owners.bin"
_FORMAT = 1
BATCH_PAGES = 64


class Chunking(Frozen):
    """How pages are cut; a page's score is that of its best passage."""

    most: int = Field(default=4, ge=1)
    """Passages of a page; what comes after them is not embedded. 1: the leading text alone."""
    chars: int = Field(default=1_200, ge=100)


class DenseSettings(Frozen):
    """What makes the vectors what they are; an index with other settings is another index."""

    model: str
    dimension: int
    prefixes: Prefixes = Prefixes()
    chunking: Chunking = Chunking()
    precision: Literal["float16", "float32"] = "float16"

    @property
    def identity(self) -> str:
        """A short name of all settings."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def settings_for(embedder: Embedder, **chosen: object) -> DenseSettings:
    """The settings of an index made by an embedder, the rest by default."""
    return DenseSettings.model_validate({"model": embedder.model, "dimension": embedder.dimension, **chosen})


class DenseInfo(Frozen):
    """The manifest."""

    format: int = _FORMAT
    settings: DenseSettings
    embedder: str
    """How the embedder was named on the command line."""
    pages: int = 0
    """Pages that are embedded, from the first on."""
    rows: int = 0
    digest: str = ""
    """SHA-256 over what was embedded of these pages, in order."""
    world: str = ""
    """Fingerprint of the world's pages, when all of them were embedded; empty before."""

    @property
    def vector_bytes(self) -> int:
        """Of the vectors."""
        return self.rows * self.settings.dimension * np.dtype(self.settings.precision).itemsize


# Passages

_EARLIEST = 0.6
"""A passage ends at the last good place behind this share of its length."""
_ENDS = ("\n\n", "\n", ". ", "。", " ")


def passages(page: Page, chunking: Chunking) -> list[str]:
    """The texts to embed for a page: its title before each, its text cut at ends of paragraphs, sentences or words."""
    text = plain(page.text[: 2 * chunking.most * chunking.chars]).strip()
    found: list[str] = []
    while text and len(found) < chunking.most:
        cut = _end(text, chunking.chars)
        found.append(text[:cut].strip())
        text = text[cut:].strip()
    title = page.title.strip()
    if not found:
        return [title] if title else []
    return [f"{title}\n{passage}" if title else passage for passage in found]


def _end(text: str, most: int) -> int:
    """Where a passage of at most ``most`` characters ends best."""
    if len(text) <= most:
        return len(text)
    for mark in _ENDS:
        at = text.rfind(mark, int(most * _EARLIEST), most)
        if at >= 0:
            return at + len(mark)
    return most


# Files


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


class DenseWriter:
    """Appends batches. One writer at a time."""

    def __init__(self, place: Path, info: DenseInfo) -> None:
        """Open for appending after what ``info`` says is whole. Raises OSError."""
        place.mkdir(parents=True, exist_ok=True)
        self._place = place
        self.info = info
        self._vectors = _cut(place / _VECTORS, info.vector_bytes)
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
        self._vectors.close()
        self._owners.close()
        sync(self._place)


def _cut(path: Path, size: int) -> IO[bytes]:
    """A file open for appending, cut to what is whole."""
    file = path.open("ab")
    if file.tell() < size:
        file.close()
        raise UserError(f"{path} is torn: remove {path.parent} and embed again.")
    file.truncate(size)
    return file


# Embedding a world


def embed_world(
    directory: Path,
    world: LocalWorld,
    embedder: Embedder,
    settings: DenseSettings,
    *,
    spec: str,
    progress: Callable[[int], None] | None = None,
) -> DenseInfo:
    """Embed what is not embedded yet of a world; one process at a time, in memory that does not grow with the world.

    ``spec`` names the embedder for later searches; ``progress`` is called with the number of pages that are embedded or found
    to be. Raises UserError when there is an index with other settings or of other pages, or when the place cannot be written.
    """
    place = directory / DIRECTORY
    try:
        with _alone(place):
            return _embed(place, world, embedder, settings, spec, progress or (lambda _: None))
    except OSError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"Cannot write {place} ({error}): free some space or choose another place.") from error


def _embed(
    place: Path, world: LocalWorld, embedder: Embedder, settings: DenseSettings, spec: str, progress: Callable[[int], None]
) -> DenseInfo:
    info = read_info(place) or DenseInfo(settings=settings, embedder=spec)
    if info.settings != settings:
        raise UserError(
            f"{place} was made by {info.settings.model} with {info.settings.dimension} dimensions and its own settings: "
            "give the same ones, or remove it to embed again."
        )
    pages, digest = iter(world.all_pages()), hashlib.sha256()
    for number, page in enumerate(islice(pages, info.pages), start=1):
        digest.update(_fact(page))
        progress(number)
    if info.pages and digest.hexdigest() != info.digest:
        raise UserError(f"The first {info.pages:,} pages of the world are not those that {place} was made of: remove it.")
    writer = DenseWriter(place, info)
    try:
        done = info.pages
        while batch := list(islice(pages, BATCH_PAGES)):
            for page in batch:
                digest.update(_fact(page))
            owners, vectors = _vectors_of(batch, done, embedder, settings)
            done += len(batch)
            writer.append(owners, vectors, done, digest.hexdigest())
            progress(done)
        writer.note(writer.info.model_copy(update={"world": world.pages_fingerprint, "embedder": spec}))
    finally:
        writer.close()
    return writer.info


def _fact(page: Page) -> bytes:
    """What is hashed of a page."""
    return json.dumps([page.title, page.text], ensure_ascii=False).encode("utf-8") + b"\n"


def _vectors_of(batch: Iterable[Page], first: int, embedder: Embedder, settings: DenseSettings) -> tuple[list[int], Vectors]:
    """The page of each row, and the rows; ``first``: the number of the first page. Passages that say nothing have none."""
    found = [(number, text) for number, page in enumerate(batch, start=first) for text in passages(page, settings.chunking)]
    vectors = embed_units(embedder, [text for _, text in found], Kind.DOCUMENT, settings.prefixes)
    told = np.asarray(vectors.any(axis=1))
    return [owner for (owner, _), some in zip(found, told, strict=True) if some], vectors[told]


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Nobody else writes this index meanwhile."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"Another process is embedding into {place}: wait for it.") from None
        yield
