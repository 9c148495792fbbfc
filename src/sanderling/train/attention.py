"""Attention over packed rows: each row attends causally to itself, and to what it branches off from, and to nothing else.

A packed line of tokens is cut into stretches. A stretch sees its own tokens causally and, where it continues parts of the same
line (a probe after a boundary of a trajectory, a branch after the turns that it shares), those parts as well. One plain SDPA
kernel runs per stretch, so no mask over the line exists and no padding is computed: the counterpart of a GPU's variable-length
kernels with the means of every device.
The model is switched for the length of a ``with`` block only, since the same module may be generating elsewhere with its
ordinary attention.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from sanderling.errors import UserError

_NAME = "sanderling_packed"
_MASK_ROWS = 1024
"""Queries that share one mask."""


Span = tuple[int, int]
"""First place and the place after the last one."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a packed line; stretches cover the line in order.

    Example: a trajectory of 9 tokens and a probe of 2 after its first 4: ``Stretch(9)``, ``Stretch(2, prefix=((0, 4),))``.
    """

    length: int
    prefix: tuple[Span, ...] = ()
    """The spans of the line that it continues, one behind the other; empty: it begins a row."""


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    stretches: Sequence[Stretch] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Queries [1, H, T, D], keys and values [1, H_kv, T, D] to [1, T, H, D]."""
    if kwargs.get("sliding_window") is not None:
        raise UserError(
            "This model attends through a sliding window, which packed rows do not have: set trainer.packing=padded."
        )
    if stretches is None or attention_mask is not None:
        raise ValueError("packed attention takes stretches and no mask")
    grouped = query.shape[1] != key.shape[1]
    parts, start = [], 0
    for stretch in stretches:
        end = start + stretch.length
        spans = (*stretch.prefix, (start, end))
        k, v = (torch.cat([x[:, :, a:b] for a, b in spans], 2) if stretch.prefix else x[:, :, start:end] for x in (key, value))
        for q, mask in _masked(query[:, :, start:end], k.shape[2] - stretch.length):
            seen = k.shape[2] if mask is None else mask.shape[1]
            parts.append(
                scaled_dot_product_attention(
                    q, k[:, :, :seen], v[:, :, :seen],
                    attn_mask=mask, dropout_p=dropout, is_causal=mask is None, scale=scaling, enable_gqa=grouped,
                )
            )  # fmt: skip
        start = end
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def _masked(query: Tensor, before: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """A stretch's queries, and which keys each sees when ``before`` keys precede its own; None: causal as it stands.

    In blocks, so that the mask of a long branch behind a long prefix is never held whole.
    """
    if before == 0:
        yield query, None
        return
    for first in range(0, query.shape[2], _MASK_ROWS):
        block = query[:, :, first : first + _MASK_ROWS]
        rows, seen = block.shape[2], before + first + block.shape[2]
        yield block, torch.ones(rows, seen, dtype=torch.bool, device=query.device).tril(before + first)


# transformers looks attention up by name; a name without a mask function means that no mask is built.
AttentionInterface.register(_NAME, _attend)


@contextmanager
def packed_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model take ``stretches`` inside the block (forward and backward), then give it its own attention back."""
    before = model.config._attn_implementation
    model.config._attn_implementation = _NAME
    try:
        yield
    finally:
        model.config._attn_implementation = before
