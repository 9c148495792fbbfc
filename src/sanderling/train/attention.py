"""Attention over packed rows: each row attends causally to itself, and to what it branches off from, and to nothing else.

A packed line of tokens is cut into stretches. A stretch sees its own tokens causally and, where it continues a part of the same
line (a probe after a boundary of a trajectory), that part as well. One plain SDPA kernel runs per stretch, so no mask over the
line exists and no padding is computed: the counterpart of a GPU's variable-length kernels with the means of every device.
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

_NAME = "sanderling_packed"


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a packed line; stretches cover the line in order.

    Example: a trajectory of 9 tokens and a probe of 2 after its first 4: ``Stretch(9)``, ``Stretch(2, prefix=(0, 4))``.
    """

    length: int
    prefix: tuple[int, int] | None = None
    """Half-open span of the line that it continues; None: it begins a row."""


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
    if stretches is None or attention_mask is not None or kwargs.get("sliding_window") is not None:
        raise ValueError("packed attention takes stretches, no masks or sliding windows: use padded rows for this model")
    grouped = query.shape[1] != key.shape[1]
    parts, start = [], 0
    for stretch in stretches:
        end = start + stretch.length
        q, k, v = query[:, :, start:end], key[:, :, start:end], value[:, :, start:end]
        mask = None
        if stretch.prefix is not None:
            first, last = stretch.prefix
            k = torch.cat((key[:, :, first:last], k), 2)
            v = torch.cat((value[:, :, first:last], v), 2)
            mask = torch.ones(stretch.length, k.shape[2], dtype=torch.bool, device=k.device).tril(last - first)
        parts.append(
            scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=mask is None, scale=scaling, enable_gqa=grouped
            )
        )
        start = end
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


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
