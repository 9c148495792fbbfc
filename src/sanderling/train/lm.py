"""Plain language modelling on a stream of token ids: the same trainer with the loss on every token."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sanderling.errors import UserError
from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import IntArray, Row
from sanderling.train.supervised import OnProgress, RunResult, run_supervised


class BlockSource:
    """A stream cut into blocks. ``ids`` may be a memory map of any integer type; the rest that fills no block is left out."""

    def __init__(self, ids: NDArray[np.integer], block: int) -> None:
        if block < 2 or len(ids) < block:
            raise UserError(
                f"A token stream of {len(ids)} tokens has no block of {block}: give more text or a block of 2 or more."
            )
        self._ids = ids
        self._block = block
        self._lengths = np.full(len(ids) // block, block, dtype=np.int64)

    @property
    def lengths(self) -> IntArray:
        return self._lengths

    def __getitem__(self, index: int) -> Row:
        start = index * self._block
        mask = np.ones(self._block, dtype=np.bool_)
        mask[0] = False
        ids = np.asarray(self._ids[start : start + self._block], dtype=np.int64)
        return Row(ids=ids, loss_mask=mask, trajectory=f"block {index}")


def run_lm(
    config: SupervisedConfig,
    ids: NDArray[np.integer],
    block: int,
    model_dir: Path,
    out_dir: Path,
    progress: OnProgress | None = None,
) -> RunResult:
    """Train on blocks of a token stream; see :func:`sanderling.train.supervised.run_supervised` for the rest."""
    return run_supervised(config, BlockSource(ids, block), model_dir, out_dir, progress)
