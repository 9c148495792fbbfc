"""The vectors of a world on disk, beside its pages: cut into passages, and embedded in batches.

`vectors.bin` has one row for each passage, `owners.bin` the page number of each row, rising. A batch is brought to the disk
before the manifest names it, so that a killed writer loses at most that batch. Pages that came to the world since are embedded
alone, after it is made sure that the earlier ones are what they were.
"""

import hashlib
import json
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file
from sanderling.runs.locks import locked
from sanderling.world.contract import Page
from sanderling.world.dense.embedders import Embedder, Kind, Prefixes, embed_units
from sanderling.world.disk.pages import writable
from sanderling.world.local import LocalWorld
from sanderling.world.text import plain

DIRECTORY = "dense"  # within the directory of a world
MANIFEST, _VECTORS, _OWNERS = "dense.json", "vectors.bin", "owners.bin"
BATCH_PAGES = 64
_EARLIEST = 0.6  # a passage ends at the last good place behind this share of its length
_ENDS = ("\n\n", "\n", ". ", "。", " ")


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


def settings_for(embedder: Embedder) -> DenseSettings:
    """The settings of an index made by an embedder, the rest by default."""
    return DenseSettings(model=embedder.model, dimension=embedder.dimension)


class DenseInfo(Frozen):
    """The manifest."""

    format: Literal[1] = 1
    settings: DenseSettings
    embedder: str  # how the embedder was named on the command line
    pages: int = 0  # pages that are embedded, from the first on
    rows: int = 0
    digest: str = ""  # SHA-256 over what was embedded of these pages, in order
    world: str = ""  # fingerprint of the world's pages, when all of them were embedded; empty before

    @property
    def vector_bytes(self) -> int:
        return self.rows * self.settings.dimension * np.dtype(self.settings.precision).itemsize


def passages(page: Page, chunking: Chunking) -> list[str]:
    """The texts to embed for a page: its title before each, its text cut at ends of paragraphs, sentences or words."""
    text, most = plain(page.text[: 2 * chunking.most * chunking.chars]).strip(), chunking.chars
    found: list[str] = []
    while text and len(found) < chunking.most:
        cut = most
        if len(text) > most:
            places = ((text.rfind(mark, int(most * _EARLIEST), most), mark) for mark in _ENDS)
            cut = next((at + len(mark) for at, mark in places if at >= 0), most)
        found.append(text[:cut].strip())
        text = text[cut:].strip()
    title = page.title.strip()
    if not found:
        return [title] if title else []
    return [f"{title}\n{passage}" if title else passage for passage in found]


def read_info(place: Path) -> DenseInfo | None:
    """The manifest of a dense index, or None when there is none. Raises UserError when it cannot be used."""
    try:
        return DenseInfo.model_validate_json((place / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({error})" if isinstance(error, OSError) else "is damaged or of another format"
        raise UserError(f"The dense index {place} {reason}: remove it and embed again.") from error


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


def embed_world(
    directory: Path,
    world: LocalWorld,
    embedder: Embedder,
    settings: DenseSettings,
    *,
    spec: str,
    progress: Callable[[int], None] = lambda _: None,
) -> DenseInfo:
    """Embed what is not embedded yet of a world; one process at a time, in memory that does not grow with the world.

    ``spec`` names the embedder for later searches; ``progress`` is called with the number of pages that are embedded. Raises
    UserError when there is an index with other settings or of other pages, or when the place cannot be written.
    """
    place = directory / DIRECTORY
    with writable(place), locked(place):
        return _embed(place, world, embedder, settings, spec, progress)


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
    with (place / _VECTORS).open("ab") as vectors_file, (place / _OWNERS).open("ab") as owners_file:
        for file, size in ((vectors_file, info.vector_bytes), (owners_file, info.rows * 4)):
            if file.tell() < size:
                raise UserError(f"{file.name} is torn: remove {place} and embed again.")
            file.truncate(size)
        while batch := list(islice(pages, BATCH_PAGES)):
            texts: list[str] = []
            owners: list[int] = []
            for number, page in enumerate(batch, start=info.pages):
                digest.update(_fact(page))
                found = passages(page, settings.chunking)
                texts += found
                owners += [number] * len(found)
            vectors = embed_units(embedder, texts, Kind.DOCUMENT, settings.prefixes)
            kept = np.asarray(vectors.any(axis=1))  # passages that say nothing have no row
            vectors_file.write(vectors[kept].astype(settings.precision).tobytes())
            owners_file.write(np.asarray(owners, np.uint32)[kept].tobytes())
            for file in (vectors_file, owners_file):
                file.flush()
                os.fsync(file.fileno())
            whole = {"pages": info.pages + len(batch), "rows": info.rows + int(kept.sum()), "digest": digest.hexdigest()}
            info = info.model_copy(update={**whole, "world": ""})
            replace_file(place / MANIFEST, info.model_dump_json(indent=2) + "\n", durable=True)
            progress(info.pages)
    info = info.model_copy(update={"world": world.pages_fingerprint, "embedder": spec})
    replace_file(place / MANIFEST, info.model_dump_json(indent=2) + "\n", durable=True)
    return info


def _fact(page: Page) -> bytes:
    """What is hashed of a page."""
    return json.dumps([page.title, page.text], ensure_ascii=False).encode("utf-8") + b"\n"
