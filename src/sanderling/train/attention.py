"""Attention over packed rows: each row attends causally to itself, and to what it branches off from, and to nothing else.

A packed line of tokens is cut into stretches. A stretch sees its own tokens causally and, where it continues parts of the same
line (a probe after a boundary of a trajectory, a branch after the turns that it shares), those parts as well. One plain SDPA
kernel runs per stretch, over a copy of the keys that it continues: no mask over the line, no padding. Where no gradient is
wanted, a short one (a probe) attends to the keys where they lie, part by part, and partial results meet by their log-sum-exp,
in float32. The model is switched for the length of a ``with`` block only, since the same module may be generating elsewhere.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.bias import CausalBias, causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from sanderling.core.errors import UserError
from sanderling.train.team import Context

Span = tuple[int, int]
_NAME = "sanderling_packed"
_MASK_ROWS = 1024
_MERGING = ("cpu", "cuda")
"""Devices whose kernels tell their log-sum-exp, so that partial results can be merged."""
_SHORT = 256
"""Most tokens of a stretch for which the keys that it continues are not copied."""


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
    scaling: float | None = None,
    stretches: Sequence[Stretch] | None = None,
    context: Context | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Queries [1, H, T, D], keys and values [1, H_kv, T, D] to [1, T, H, D]; in a context T are this rank's tokens."""
    if kwargs.get("sliding_window") is not None:
        raise UserError(
            "This model attends through a sliding window, which packed rows do not have: choose one with full attention."
        )
    assert stretches is not None and attention_mask is None
    if torch.is_autocast_enabled(query.device.type):
        # As SDPA would by itself: rotary positions leave queries and keys in float32. Ranks then trade half the bytes, and
        # kernels for 16 bits are chosen.
        narrow = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x.to(narrow) for x in (query, key, value))
    if context is not None:
        query, key, value = (context.gather_tokens(x) for x in (query, key, value))
    whole = attend(query, key, value, stretches, scaling)
    if context is not None:
        whole = context.scatter_tokens(whole)
    return whole.transpose(1, 2).contiguous(), None


def attend(query: Tensor, key: Tensor, value: Tensor, stretches: Sequence[Stretch], scale: float | None) -> Tensor:
    """Of a line's queries [1, H, T, D], keys and values [1, H_kv, T, D]."""
    gradients = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    lengths = [stretch.length for stretch in stretches]
    starts = list(accumulate(lengths, initial=0))
    # Parts of parts: the gradient of a slice is as large as what it was cut from, and a split has one for all its parts.
    queries, keys, values = (x.split(lengths, 2) for x in (query, key, value))
    parts: list[Tensor] = []
    for at, stretch in enumerate(stretches):
        if not gradients and stretch.prefix and 0 < stretch.length <= _SHORT and query.device.type in _MERGING:
            seen = [(key[:, :, i:j], value[:, :, i:j]) for i, j in stretch.prefix]
            parts.append(_merged(queries[at], keys[at], values[at], seen, scale))
            continue
        pieces = [piece for span in stretch.prefix for piece in _pieces(span, starts)]
        k, v = (torch.cat([*(x[n][:, :, i:j] for n, i, j in pieces), x[at]], 2) if pieces else x[at] for x in (keys, values))
        parts += _causal(queries[at], k, v, scale)
    return torch.cat(parts, 2)


def _pieces(span: Span, starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """A span of the line as parts of its stretches, which begin at ``starts``: number of the stretch, first place, end."""
    first, end = span
    while first < end:
        number = bisect_right(starts, first) - 1
        until = min(end, starts[number + 1])
        yield number, first - starts[number], until - starts[number]
        first = until


def _merged(query: Tensor, key: Tensor, value: Tensor, seen: Sequence[tuple[Tensor, Tensor]], scale: float | None) -> Tensor:
    """Attention to the own keys, causally, and to all of others where they lie."""
    _, heads, count, size = query.shape
    groups = heads // key.shape[1]
    own = [x.repeat_interleave(groups, 1) for x in (key, value)]
    out, weight = partial_attention(query, *own, causal=True, scale=scale)
    exact = torch.promote_types(query.dtype, torch.float32)
    total, weight = out.to(exact), weight.to(exact)
    for k, v in seen:  # heads that share a key head stand behind each other
        out, lse = partial_attention(query.reshape(1, k.shape[1], -1, size), k, v, causal=False, scale=scale)
        out, lse = out.reshape(query.shape).to(exact), lse.reshape(1, heads, count).to(exact)
        both = torch.logaddexp(weight, lse)
        total = total * torch.exp(weight - both)[..., None] + out * torch.exp(lse - both)[..., None]
        weight = both
    return total.to(query.dtype)


def partial_attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """Attention over some of the keys [B, H, Q, D], and the log-sum-exps of the scores behind it [B, H, Q]."""
    aten = torch.ops.aten
    if query.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, scale=scale)
        return out, lse
    if query.dtype in (torch.bfloat16, torch.float16):
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)[:2]
    out, lse, *_ = aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, causal, scale=scale)
    return out, lse.narrow(2, 0, query.shape[2])  # padded to a multiple of 32


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Iterator[Tensor]:
    """Attention of the last tokens of ``key`` to themselves and all before them, in parts along the queries.

    Kernels with 16 bits on CUDA know this form. Elsewhere a mask says it, in blocks, so that it is never held whole.
    """
    if query.is_cuda and query.dtype == torch.float32 and query.shape[1] != key.shape[1]:
        # Of CUDA's kernels for float32 none reads grouped heads but the one that holds all pairs of tokens.
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    options: dict[str, Any] = {"scale": scaling, "enable_gqa": query.shape[1] != key.shape[1]}
    rows, before = query.shape[2], key.shape[2] - query.shape[2]
    if before == 0:
        yield scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    elif query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        yield scaled_dot_product_attention(query, key, value, attn_mask=_lower_right(rows, before + rows), **options)
    else:
        for first in range(0, rows, _MASK_ROWS):
            block = query[:, :, first : first + _MASK_ROWS]
            seen = before + first + block.shape[2]
            mask = torch.ones(block.shape[2], seen, dtype=torch.bool, device=query.device).tril(before + first)
            yield scaled_dot_product_attention(block, key[:, :, :seen], value[:, :, :seen], attn_mask=mask, **options)


def _lower_right(rows: int, seen: int) -> CausalBias:
    """The last ``rows`` of ``seen`` tokens; torch's constructor allocates eight bytes for every pair, which nobody reads."""
    bias = causal_lower_right(1, 1)
    bias.seq_len_q, bias.seq_len_kv = rows, seen
    return bias


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
