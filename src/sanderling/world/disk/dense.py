"""Dense and hybrid search: a world's passages as vectors on disk, pages by their nearest passage, two rankings fused into one.

Beside the pages, `vectors.bin` has one row for each passage, `owners.bin` the page number of each row, rising. A batch is
brought to the disk before the manifest names it, so that a killed writer loses at most that batch. Pages that came to the world
since are embedded alone, after it is made sure that the earlier ones are what they were.

Blocks of passages are compared by matrix products, which may differ in their last digits from machine to machine and with the
number of queries. They only choose candidates, with a margin wider than that error; candidates are scored anew in float64, one
by one, rounded, and ordered by score and page number. So a batch, a single query and another machine give the same list.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.runs.files import locked, replace_file
from sanderling.world.contract import Page
from sanderling.world.disk.embedders import Embedder, Kind, Prefixes, Vectors, embed_units, open_embedder, opens_socket
from sanderling.world.disk.index import Ranked, Ranker, SearchMode
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

    most: int = Field(default=4, ge=1)  # passages of a page that are embedded
    chars: int = Field(default=1_200, ge=100)  # longest passage


class DenseSettings(Frozen):
    """What makes the vectors what they are; an index with other settings is another index."""

    model: str
    dimension: int
    prefixes: Prefixes = Prefixes()  # text put before queries and before passages
    chunking: Chunking = Chunking()
    precision: Literal["float16", "float32"] = "float16"  # number format of stored vectors

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


# -- ranking -------------------------------------------------------------------------------------------------------------

_MARGIN = 1e-4
_DIGITS = 6
_BLOCK_VALUES = 4_000_000  # 16 MB as float32
_KEPT_BYTES = 512_000_000
"""Up to here vectors are kept as float32 in memory: converting float16 costs ten times what comparing does."""
_NONE = np.float32(-2.0)  # below every cosine
RRF_K = 60
DEPTH = 100


class DenseIndex(Ranker):
    """Ranks by nearness: ``vectors`` of unit length, as ``embedder`` made them, and their pages, rising."""

    def __init__(
        self, settings: DenseSettings, vectors: NDArray[np.floating], owners: NDArray[np.uint32], embedder: Embedder
    ) -> None:
        self.identity = f"dense-{settings.identity}"
        self._settings = settings
        self._vectors = vectors
        self._wide = np.asarray(vectors, np.float32) if vectors.size * 4 <= _KEPT_BYTES else vectors
        self._embedder = embedder
        self._pages, self._starts = np.unique(owners.astype(np.int64), return_index=True)
        self._ends = np.append(self._starts[1:], len(owners))
        rows = max(_BLOCK_VALUES // settings.dimension, 1)
        cuts = np.searchsorted(self._starts, np.arange(0, len(owners), rows))
        self._cuts = np.unique(np.append(cuts, len(self._pages))).tolist()
        """Numbers of pages at which blocks of about so many rows begin and end."""

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        """The nearest pages, none for a query without a word; queries are embedded in one call, and the passages read once."""
        asked = [number for number, query in enumerate(queries) if query.strip()]
        found: list[Ranked] = [[] for _ in queries]
        if limit < 1 or not asked or not len(self._pages):
            return found
        vectors = embed_units(self._embedder, [queries[number] for number in asked], Kind.QUERY, self._settings.prefixes)
        scores = np.empty((len(self._pages), len(asked)), np.float32)
        for first, last in pairwise(self._cuts):
            rows = slice(int(self._starts[first]), int(self._ends[last - 1]))
            near = np.asarray(self._wide[rows], np.float32) @ vectors.T
            scores[first:last] = np.maximum.reduceat(near, self._starts[first:last] - rows.start, axis=0)
        if hidden:
            scores[np.isin(self._pages, list(hidden))] = _NONE
        for number, vector, column in zip(asked, vectors, scores.T, strict=True):
            cut = np.partition(column, -limit)[-limit] - _MARGIN if limit < len(column) else _NONE
            if vector.any():
                found[number] = self._exact(vector, np.flatnonzero((column >= cut) & (column > _NONE)), limit)
        return found

    def _exact(self, vector: Vectors, places: NDArray[np.int64], limit: int) -> Ranked:
        """The best of some places, each row scored by itself: neither the order nor the number of rows matters to a score."""
        wide = vector.astype(np.float64)
        scored: Ranked = []
        for place in places.tolist():
            rows = self._vectors[self._starts[place] : self._ends[place]].astype(np.float64)
            scored.append((int(self._pages[place]), round(float((rows * wide).sum(axis=1).max()), _DIGITS)))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]


class HybridRanker(Ranker):
    """Several rankings as one, by reciprocal rank fusion (Cormack et al., SIGIR 2009): each adds 1 / (60 + rank) to its pages.

    The first 100 of each are fused, or as many as are asked for. Equal scores are ordered by page number.
    """

    def __init__(self, rankers: Sequence[Ranker]) -> None:
        self._rankers = tuple(rankers)
        self.identity = f"rrf-{RRF_K}-{DEPTH}:" + "+".join(ranker.identity or "lexical" for ranker in rankers)

    def rank_many(self, queries: Sequence[str], limit: int, hidden: Collection[int] = ()) -> list[Ranked]:
        lists = [ranker.rank_many(queries, max(DEPTH, limit), hidden) for ranker in self._rankers]
        found: list[Ranked] = []
        for ranked in zip(*lists, strict=True):
            scores: dict[int, float] = {}
            for each in ranked:
                for rank, (number, _) in enumerate(each, start=1):
                    scores[number] = scores.get(number, 0.0) + 1.0 / (RRF_K + rank)
            rounded = [(number, round(score, 9)) for number, score in scores.items()]
            found.append(sorted(rounded, key=lambda pair: (-pair[1], pair[0]))[: max(limit, 0)])
        return found


def open_for_queries(directory: Path, fingerprint: str, pages: int) -> tuple[DenseInfo, Embedder]:
    """A world's dense manifest and the embedder of its queries. Raises UserError unless both fit these pages as they are."""
    info = read_info(directory / DIRECTORY)
    if info is None:
        raise UserError(
            f"{directory} has no dense index: make one with `sanderling world embed {directory} --embedder hashed`."
        )
    if info.world != fingerprint or info.pages != pages:
        raise UserError(
            f"The dense index of {directory} holds {info.pages:,} pages and is not of the world as it is ({pages:,} pages): "
            f"run `sanderling world embed {directory}` again."
        )
    settings = info.settings
    embedder = open_embedder(info.embedder, settings.dimension)
    if embedder.model != settings.model or embedder.dimension != settings.dimension:
        raise UserError(
            f"The dense index was made by {settings.model} with {settings.dimension} dimensions, and {embedder.model} has "
            f"{embedder.dimension}: use the same embedder, or embed the world again."
        )
    return info, embedder


def ranked_world(directory: Path, world: LocalWorld, mode: SearchMode) -> LocalWorld:
    """The world with the ranker that was asked for. Raises UserError when its dense index is missing or does not fit."""
    if mode is SearchMode.LEXICAL:
        return world
    info, embedder = open_for_queries(directory, world.pages_fingerprint, world.page_count)
    dense = DenseIndex(info.settings, *read_arrays(directory / DIRECTORY, info), embedder)
    ranker = dense if mode is SearchMode.DENSE else HybridRanker([world.lexical, dense])
    return world.with_ranker(ranker, waits=opens_socket(info.embedder))
