"""Supervised fine-tuning on rows that hold whole trajectories, loss on the assistant's tokens. Rows are made in `rows`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sanderling.train.config import SupervisedConfig
from sanderling.train.contract import IntArray, Row
from sanderling.train.prefixes import families
from sanderling.train.supervised import OnProgress, RunResult, run_supervised


class ListSource:
    """Rows held in memory, those of one trajectory together; rows with nothing to train are left out."""

    def __init__(self, rows: Sequence[Row]) -> None:
        trained = [row for row in rows if row.loss_mask.any()]
        self._rows = [[trained[index] for index in family] for family in families(trained)]
        self._lengths = np.array([sum(len(row.ids) for row in family) for family in self._rows], dtype=np.int64)

    @property
    def lengths(self) -> IntArray:
        return self._lengths

    def __getitem__(self, index: int) -> Sequence[Row]:
        return self._rows[index]


def run_sft(
    config: SupervisedConfig, rows: Sequence[Row], model_dir: Path, out_dir: Path, progress: OnProgress | None = None
) -> RunResult:
    """Train on rows; see :func:`sanderling.train.supervised.run_supervised` for files, resuming and errors."""
    return run_supervised(config, ListSource(rows), model_dir, out_dir, progress)
