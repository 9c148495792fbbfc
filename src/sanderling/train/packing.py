"""Rows to micro-batches: which rows share a forward pass, and the tensors of one such pass.

A micro-batch holds the ids laid out for the model and, apart from them, flat arrays over the *trained* tokens only (N), so that
the head and the losses never touch a position that is not trained. Knows no model and no loss.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sanderling.train.attention import Stretch
from sanderling.train.config import Packing
from sanderling.train.contract import Row


@dataclass(frozen=True)
class MicroBatch:
    """One forward pass. B rows, T tokens a line, N trained tokens."""

    rows: tuple[Row, ...]
    ids: Tensor
    """[1, T] packed, or [B, T] padded on the right with 0."""
    positions: Tensor
    """Position ids, as ``ids``."""
    stretches: tuple[Stretch, ...] | None
    """Packed: what attends to what. Padded: None."""
    source: Tensor
    """[N] where in the flattened hidden states each trained token is predicted."""
    target: Tensor
    """[N] the trained token ids."""
    row_index: Tensor
    """[N] which row each belongs to."""


def plan(lengths: Sequence[int], budget: int, packing: Packing) -> list[list[int]]:
    """Group rows (by index) into micro-batches of at most ``budget`` tokens, padding counted; deterministic.

    A row longer than the budget is alone. Packed: first fit, longest first. Padded: neighbours in length.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    groups: list[list[int]] = []
    if packing is Packing.PADDED:
        for i in order:
            if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= budget:
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups
    room: list[int] = []
    for i in order:
        at = next((g for g, left in enumerate(room) if left >= lengths[i]), None)
        if at is None:
            groups.append([i])
            room.append(budget - lengths[i])
        else:
            groups[at].append(i)
            room[at] -= lengths[i]
    return groups


def deal(lengths: Sequence[int], hands: int) -> list[list[int]]:
    """Rows (by index, ascending) in parts of about equal tokens: the longest first, to whom has least; deterministic."""
    found: list[list[int]] = [[] for _ in range(hands)]
    tokens = [0] * hands
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        least = tokens.index(min(tokens))
        found[least].append(i)
        tokens[least] += lengths[i]
    return [sorted(hand) for hand in found]


def collate(rows: Sequence[Row], packing: Packing, device: torch.device | str = "cpu") -> MicroBatch:
    """Lay rows out for one forward pass.

    Raises ValueError when a row's first token is marked as trained: nothing precedes it.
    """
    lengths = [len(row.ids) for row in rows]
    width = max(lengths)
    source, target, row_index = [], [], []
    start = 0
    for index, row in enumerate(rows):
        trained = np.flatnonzero(row.loss_mask)
        if trained.size and trained[0] == 0:
            raise ValueError(f"row {row.trajectory or index}: its first token cannot be trained, nothing precedes it")
        source.append(trained - 1 + (start if packing is Packing.VARLEN else index * width))
        target.append(row.ids[trained])
        row_index.append(np.full(trained.size, index, dtype=np.int64))
        start += lengths[index]

    def tensor(parts: Sequence[NDArray[np.int64]]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(device)

    if packing is Packing.VARLEN:
        ids = tensor([row.ids for row in rows])[None]
        positions = tensor([np.arange(n, dtype=np.int64) for n in lengths])[None]
    else:
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            padded[index, : lengths[index]] = row.ids
        ids = torch.from_numpy(padded).to(device)
        positions = torch.arange(width, device=device).expand(len(rows), width)
    return MicroBatch(
        rows=tuple(rows),
        ids=ids,
        positions=positions,
        stretches=tuple(Stretch(n) for n in lengths) if packing is Packing.VARLEN else None,
        source=tensor(source),
        target=tensor(target),
        row_index=tensor(row_index),
    )


def per_token(batch: MicroBatch, field: str) -> Tensor | None:
    """A row array (``advantages``, ``sampler_logprobs``, …) at the trained tokens, float32 [N]; None when no row has it.

    Raises ValueError when only some rows have it.
    """
    values = [getattr(row, field) for row in batch.rows]
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        raise ValueError(f"some rows of a batch have {field}, others have not")
    flat = [value[row.loss_mask] for value, row in zip(values, batch.rows, strict=True)]
    return torch.from_numpy(np.concatenate(flat).astype(np.float32)).to(batch.ids.device)
