"""Embedding a world: its pages in order, in batches, into a dense index beside it.

Memory does not grow with the world. Killed at any moment, the same call goes on after the last whole batch. Pages that came to
the world since are embedded alone, after it is made sure that the earlier ones are what they were. One process at a time.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

from sanderling.core.errors import UserError
from sanderling.world.contract import Page
from sanderling.world.dense.chunks import passages
from sanderling.world.dense.embedder import Embedder, Kind, embed_units
from sanderling.world.dense.store import DIRECTORY, DenseInfo, DenseSettings, DenseWriter, PagesDigest, read_info
from sanderling.world.local import LocalWorld

BATCH_PAGES = 64


def embed_world(
    directory: Path,
    world: LocalWorld,
    embedder: Embedder,
    settings: DenseSettings,
    *,
    spec: str,
    progress: Callable[[int], None] | None = None,
) -> DenseInfo:
    """Embed what is not embedded yet.

    Args:
        directory: of the world.
        world: opened from it.
        embedder: makes the vectors.
        settings: how; those of an index that is there already must be the same.
        spec: names the embedder for later searches.
        progress: called with the number of pages that are embedded or found to be.

    Raises UserError when there is an index with other settings or of other pages, or when the place cannot be written.

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
    pages, digest = iter(world.all_pages()), PagesDigest()
    for number, page in enumerate(islice(pages, info.pages), start=1):
        digest.add(page)
        progress(number)
    if info.pages and digest.value != info.digest:
        raise UserError(f"The first {info.pages:,} pages of the world are not those that {place} was made of: remove it.")
    writer = DenseWriter(place, info)
    try:
        done = info.pages
        while batch := list(islice(pages, BATCH_PAGES)):
            _append(writer, batch, done, embedder, digest)
            done += len(batch)
            progress(done)
        writer.note(writer.info.model_copy(update={"world": world.pages_fingerprint, "embedder": spec}))
    finally:
        writer.close()
    return writer.info


def _append(writer: DenseWriter, batch: Iterable[Page], first: int, embedder: Embedder, digest: PagesDigest) -> None:
    settings = writer.info.settings
    owners: list[int] = []
    texts: list[str] = []
    number = first
    for number, page in enumerate(batch, start=first):
        digest.add(page)
        found = passages(page, settings.chunking)
        owners += [number] * len(found)
        texts += found
    vectors = embed_units(embedder, texts, Kind.DOCUMENT, settings.prefixes)
    said = np.asarray(vectors.any(axis=1))
    writer.append([owner for owner, some in zip(owners, said, strict=True) if some], vectors[said], number + 1, digest.value)


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


def settings_for(embedder: Embedder, **chosen: object) -> DenseSettings:
    """The settings of an index made by an embedder."""
    return DenseSettings.model_validate({"model": embedder.model, "dimension": embedder.dimension, **chosen})


def rows_of(info: DenseInfo) -> int:
    """Bytes of the vectors."""
    return info.rows * info.settings.dimension * np.dtype(info.settings.precision).itemsize
