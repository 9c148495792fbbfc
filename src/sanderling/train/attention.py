"""Attention over packed rows: each row attends causally to itself, and to nothing else.

A plain SDPA kernel run once per row, so no mask exists and no padding is computed; the counterpart of a GPU's variable-length
kernels with the means of every device. The model is switched for the length of a ``with`` block only, since the same module may
be generating text elsewhere with its ordinary attention. Source: measured against mask-based packing and right padding (see
`packing`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

_NAME = "sanderling_packed"


def _per_row(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    row_lengths: Sequence[int] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Queries [1, H, T, D], keys and values [1, H_kv, T, D] to [1, T, H, D]; without ``row_lengths``, one row."""
    if kwargs.get("sliding_window") is not None or attention_mask is not None:
        raise ValueError("packed attention takes neither masks nor sliding windows: use padded rows for this model")
    grouped = query.shape[1] != key.shape[1]
    sizes = [query.shape[2]] if row_lengths is None else list(row_lengths)
    parts = [
        scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scaling, enable_gqa=grouped)
        for q, k, v in zip(query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True)
    ]
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


# transformers looks attention up by name; a name without a mask function means that no mask is built.
AttentionInterface.register(_NAME, _per_row)


@contextmanager
def packed_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let the model attend row by row inside the block (forward and backward), then give it its own attention back."""
    before = model.config._attn_implementation
    model.config._attn_implementation = _NAME
    try:
        yield
    finally:
        model.config._attn_implementation = before
