"""An inverted-file index over the passages, for more of them than can all be compared. Brings `faiss` (the extra ``[dense]``).

It only proposes candidates; `index.DenseIndex` scores those exactly, so scores and ties are those of the exact ranking, and
what can be missing is a page whose passages lie in cells that were not looked into. Trained and asked by one thread and
with a fixed seed: the same vectors give the same index, the same query the same candidates. Written whole or not at all.
Knows no embedder.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from sanderling.core.errors import UserError
from sanderling.runs.files import replace_file, sync
from sanderling.world.dense.embedder import Vectors
from sanderling.world.dense.store import DenseInfo

_FILE, _NOTE = "cells.faiss", "cells.json"
_PROBES = 32
"""Cells looked into."""
_TRAINED_ON = 40
"""Rows for each cell that training sees."""
_BLOCK_ROWS = 50_000


class _Note(BaseModel):
    """What the index was made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    digest: str
    cells: int


class Cells:
    """The passages in cells, to be asked for candidates. May be used from many threads."""

    def __init__(self, index: Any, note: _Note) -> None:
        self._index = index
        self.identity = f"cells-{note.cells}-{_PROBES}"

    def nearest(self, vector: Vectors, count: int) -> NDArray[np.int64]:
        """The rows that seem nearest, at most ``count``."""
        _, rows = self._index.search(vector[None, :], count)
        return rows[0][rows[0] >= 0]


def build_cells(place: Path, info: DenseInfo, vectors: NDArray[np.floating], progress: Callable[[int], None]) -> None:
    """Train on a sample of the rows, and sort all of them into cells. Raises UserError when there are too few."""
    faiss = _library()
    cells = max(int(4 * math.sqrt(info.rows)), 1)
    if info.rows < _TRAINED_ON:
        raise UserError(f"{info.rows} passages are too few for an approximate index: search them exactly.")
    cells = min(cells, info.rows // _TRAINED_ON) or 1
    faiss.omp_set_num_threads(1)
    settings = info.settings
    index = faiss.index_factory(settings.dimension, f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = 1234
    picked = np.sort(np.random.default_rng(0).permutation(info.rows)[: cells * _TRAINED_ON])
    index.train(np.asarray(vectors[picked], np.float32))
    for start in range(0, info.rows, _BLOCK_ROWS):
        index.add(np.asarray(vectors[start : start + _BLOCK_ROWS], np.float32))
        progress(min(start + _BLOCK_ROWS, info.rows))
    partial = place / f"{_FILE}.partial"
    (place / _NOTE).unlink(missing_ok=True)
    try:
        faiss.write_index(index, str(partial))
        sync(partial)
        partial.replace(place / _FILE)
        note = _Note(rows=info.rows, digest=info.digest, cells=cells)
        replace_file(place / _NOTE, note.model_dump_json() + "\n", durable=True)
    except (OSError, RuntimeError) as error:
        raise UserError(f"Cannot write {place / _FILE} ({error}): free some space or choose another place.") from error


def has_cells(place: Path) -> bool:
    """Whether an approximate index was made here, fitting or not."""
    return (place / _NOTE).exists()


def open_cells(place: Path, info: DenseInfo) -> Cells | None:
    """The approximate index, or None when none was made. Raises UserError when it is not of these passages."""
    if not has_cells(place):
        return None
    try:
        note = _Note.model_validate(json.loads((place / _NOTE).read_text(encoding="utf-8")))
        if (note.rows, note.digest) != (info.rows, info.digest):
            raise UserError(f"The approximate index in {place} is of other passages: run `sanderling world embed` again.")
        faiss = _library()
        index = faiss.read_index(str(place / _FILE), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    except (OSError, ValueError, RuntimeError, ValidationError) as error:
        raise UserError(f"The approximate index in {place} cannot be read ({error}): remove {_NOTE} there.") from error
    index.nprobe = _PROBES
    return Cells(index, note)


def _library() -> Any:
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise UserError(
            f"An approximate index needs {error.name}: run pip install '.[dense]' in sanderling's own folder."
        ) from error
    return faiss
