"""Attention over packed rows: each row attends causally to itself, and to what it branches off from, and to nothing else.

A packed line of tokens is cut into stretches. A stretch sees its own tokens causally and, where it continues parts of the same
line (a probe after a boundary of a trajectory, a branch after the turns that it shares), those parts as well. One plain SDPA
kernel runs per stretch, so no mask over the line exists and no padding is computed: the counterpart of a GPU's variable-length
kernels with the means of every device. The model is switched for the length of a ``with`` block only, since the same module may
be generating elsewhere with its ordinary attention.

Where no gradient is wanted, short stretches that continue other parts (the probes of a trajectory) are computed together, over
their keys where they lie, by *rectangles*. Probes after the boundaries c_1 <= c_2 <= … see a staircase of keys, which is cut
into rectangles in which every query sees every key: all probes see the keys before c_1, the second half also those from c_1 to
the half's first boundary, and so on within each half. Each rectangle is one unmasked call of an ordinary kernel over a *view*
of the keys, query heads that share a key head folded into one longer query; what a probe sees of itself is one causal call for
all probes of a length. Partial results meet by their log-sum-exp, in float32. Nothing is masked, padded or computed twice, the
keys that are continued are not copied, and nothing is as large as queries times keys; sums, and the stretches' own keys for
each query head, are as large as the stretches. So a long stretch (the rest of a rollout behind what it shares with another) has
a copy of the keys that it continues instead, as every one has where gradients are wanted.
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
from sanderling.train.parallel.context import Context

Span = tuple[int, int]
"""First place and the place after the last one."""
Partial = tuple[Tensor, Tensor]
"""Outputs [B, H, Q, D], and log-sum-exps [B, H, Q] of the scores behind them."""
_NAME = "sanderling_packed"
_MASK_ROWS = 1024
"""Queries that share one mask."""
_MERGING = ("cpu", "cuda")
"""Devices whose kernels tell their log-sum-exp, so that partial results can be merged."""
_SHORT = 256
"""Most tokens of a stretch that is computed together with others. Probes and answers have a few dozen, which are not worth a
copy of all keys before them. What :func:`attend` holds beside (sums in float32, keys and values once for each query head) is as
long as the stretches are together; for the rest of a rollout that would be as much as for the line itself, several times."""


@dataclass(frozen=True)
class Continuing:
    """Consecutive tokens of a packed line that see spans of it, and themselves causally."""

    first: int
    """Place of the first token."""
    length: int
    prefix: tuple[Span, ...]

    @property
    def end(self) -> int:
        """The place after the last token."""
        return self.first + self.length


@dataclass(frozen=True)
class Rectangle:
    """Queries of which each sees each of the keys: places in the line."""

    queries: Span
    keys: Span


def rectangles(stretches: Sequence[Continuing]) -> list[Rectangle]:
    """What stretches see of their prefixes: each pair of query and key in exactly one rectangle.

    Fewest where neighbours' spans begin at the same place and have ascending ends: as many as there are different ends.
    """
    columns: dict[int, list[Rectangle]] = {}
    for one in stretches:
        for start, end in one.prefix:
            columns.setdefault(start, []).append(Rectangle((one.first, one.end), (start, end)))
    return [part for column in columns.values() for steps in _staircases(column) for part in _cut(steps, steps[0].keys[0])]


def attend(query: Tensor, key: Tensor, value: Tensor, stretches: Sequence[Continuing], scale: float | None) -> Tensor:
    """What stretches with prefixes attend to: their prefixes, and causally themselves.

    The line's queries [1, H, T, D], keys and values [1, H_kv, T, D]; returns the stretches' tokens in their order [1, H, Q, D].
    """
    places = places_of(stretches, query.device)
    row = dict(zip((one.first for one in stretches), accumulate((one.length for one in stretches), initial=0), strict=False))
    own = query.index_select(2, places)
    exact = torch.promote_types(query.dtype, torch.float32)
    total, weight = own.new_zeros(own.shape, dtype=exact), own.new_full(own.shape[:3], -torch.inf, dtype=exact)
    for one in rectangles(stretches):
        first, keys = row[one.queries[0]], slice(*one.keys)
        rows = slice(first, first + one.queries[1] - one.queries[0])
        _merge(total[:, :, rows], weight[:, :, rows], _seen(own[:, :, rows], key[:, :, keys], value[:, :, keys], scale))
    groups = query.shape[1] // key.shape[1]
    for length, rows in _by_length([one.length for one in stretches], query.device):
        at = places.index_select(0, rows)
        # n stretches [n, H, L, D]
        q, k, v = (x.index_select(2, at)[0].unflatten(1, (-1, length)).transpose(0, 1) for x in (query, key, value))
        k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
        out, lse = (x.transpose(0, 1).flatten(1, 2)[None] for x in partial_attention(q, k, v, causal=True, scale=scale))
        these = total.index_select(2, rows)
        _merge(these, weight.index_select(2, rows), (out, lse))
        total.index_copy_(2, rows, these)
    return total.to(query.dtype)


def places_of(stretches: Sequence[Continuing], device: torch.device) -> Tensor:
    """Where in the line the stretches' tokens stand, in their order."""
    return torch.cat([torch.arange(one.first, one.end, device=device) for one in stretches])


def partial_attention(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None) -> Partial:
    """Attention over some of the keys, and how much they weigh, by the kernel that the device has; equal numbers of heads.

    ``causal``: as many keys as queries, and none sees what comes after it.
    """
    aten = torch.ops.aten
    if query.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal, scale=scale)
        return out, lse
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, scale=scale)[:2]
    if query.is_cuda:
        out, lse, *_ = aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, causal, scale=scale)
        return out, lse.narrow(2, 0, query.shape[2])  # padded to a multiple of 32
    raise ValueError(f"no kernel on {query.device.type} tells how much what it has seen weighs")


def _seen(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Partial:
    """Queries [1, H, Q, D] that all see all keys [1, H_kv, K, D]: heads that share a key head stand behind each other."""
    _, heads, count, size = query.shape
    out, lse = partial_attention(query.reshape(1, key.shape[1], -1, size), key, value, causal=False, scale=scale)
    return out.reshape(1, heads, count, size), lse.reshape(1, heads, count)


def _merge(total: Tensor, weight: Tensor, part: Partial) -> None:
    """Add a partial result to what was seen before, in place."""
    out, lse = part
    both = torch.logaddexp(weight, lse.to(weight.dtype))
    both = both.clamp_min(torch.finfo(both.dtype).min)  # where nothing was seen yet, exp(-inf - -inf) is no number
    total.mul_(torch.exp(weight - both)[..., None]).add_(out.to(total.dtype) * torch.exp(lse - both)[..., None])
    weight.copy_(both)


def _staircases(column: Sequence[Rectangle]) -> Iterator[list[Rectangle]]:
    """Neighbouring queries that see further and further; those that see equally far are one step."""
    steps: list[Rectangle] = []
    for one in column:
        if steps and (steps[-1].queries[1] != one.queries[0] or one.keys[1] < steps[-1].keys[1]):
            yield steps
            steps = []
        same = steps and steps[-1].keys == one.keys
        first = steps.pop().queries[0] if same else one.queries[0]
        steps.append(Rectangle((first, one.queries[1]), one.keys))
    yield steps


def _cut(steps: Sequence[Rectangle], floor: int) -> Iterator[Rectangle]:
    """A staircase from ``floor`` on: what all its steps see, then each half by itself."""
    height = steps[0].keys[1]
    if height > floor:
        yield Rectangle((steps[0].queries[0], steps[-1].queries[1]), (floor, height))
    if len(steps) > 1:
        half = len(steps) // 2
        yield from _cut(steps[:half], height)
        yield from _cut(steps[half:], height)


def _by_length(lengths: Sequence[int], device: torch.device) -> Iterator[tuple[int, Tensor]]:
    """Each length, and the rows of the stretches that have it, one behind the other; rows count the stretches' tokens."""
    starts = list(accumulate(lengths, initial=0))
    for length in sorted(set(lengths)):
        of_these = torch.tensor([start for start, own in zip(starts, lengths, strict=False) if own == length], device=device)
        yield length, (of_these[:, None] + torch.arange(length, device=device)).flatten()


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
    context: Context | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Queries [1, H, T, D], keys and values [1, H_kv, T, D] to [1, T, H, D]; in a context T are this rank's tokens."""
    if kwargs.get("sliding_window") is not None:
        raise UserError(
            "This model attends through a sliding window, which packed rows do not have: set trainer.packing=padded."
        )
    if stretches is None or attention_mask is not None:
        raise ValueError("packed attention takes stretches and no mask")
    if torch.is_autocast_enabled(query.device.type):
        # As SDPA would by itself: rotary positions leave queries and keys in float32. Ranks then trade half the bytes, and
        # kernels for 16 bits are chosen.
        narrow = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x.to(narrow) for x in (query, key, value))
    if context is not None:
        query, key, value = (context.gather_tokens(x) for x in (query, key, value))
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        whole = _with_gradients(query, key, value, stretches, dropout, scaling)
    else:
        whole = _without_gradients(query, key, value, stretches, scaling)
    if context is not None:
        whole = context.scatter_tokens(whole)
    return whole.transpose(1, 2).contiguous(), None


def _with_gradients(
    query: Tensor, key: Tensor, value: Tensor, stretches: Sequence[Stretch], dropout: float, scaling: float | None
) -> Tensor:
    """One kernel for each stretch, over a copy of the keys that it continues."""
    lengths = [stretch.length for stretch in stretches]
    starts = list(accumulate(lengths, initial=0))
    # Parts of parts: the gradient of a slice is as large as what it was cut from, and a split has one for all its parts.
    queries, keys, values = (x.split(lengths, 2) for x in (query, key, value))
    parts: list[Tensor] = []
    for at, stretch in enumerate(stretches):
        pieces = [piece for span in stretch.prefix for piece in _pieces(span, starts)]
        k, v = (torch.cat([*(x[n][:, :, i:j] for n, i, j in pieces), x[at]], 2) if pieces else x[at] for x in (keys, values))
        parts += _causal(queries[at], k, v, dropout, scaling)
    return torch.cat(parts, 2)


def _pieces(span: Span, starts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """A span of the line as parts of its stretches, which begin at ``starts``: number of the stretch, first place, end."""
    first, end = span
    while first < end:
        number = bisect_right(starts, first) - 1
        until = min(end, starts[number + 1])
        yield number, first - starts[number], until - starts[number]
        first = until


def _without_gradients(
    query: Tensor, key: Tensor, value: Tensor, stretches: Sequence[Stretch], scaling: float | None
) -> Tensor:
    """Rows and long continuations one by one; all short ones together, over the keys where they lie."""
    whole, start = torch.empty_like(query), 0
    short: list[Continuing] = []
    for stretch in stretches:
        first, end = start, start + stretch.length
        if stretch.prefix and 0 < stretch.length <= _SHORT and query.device.type in _MERGING:
            short.append(Continuing(first, stretch.length, stretch.prefix))
        elif stretch.length:
            seen = (*stretch.prefix, (first, end))
            k, v = (
                torch.cat([x[:, :, i:j] for i, j in seen], 2) if len(seen) > 1 else x[:, :, first:end] for x in (key, value)
            )
            for part in _causal(query[:, :, first:end], k, v, 0.0, scaling):
                whole[:, :, start : start + part.shape[2]] = part
                start += part.shape[2]
        start = end
    if short:
        whole[:, :, places_of(short, query.device)] = attend(query, key, value, short, scaling)
    return whole


def _causal(query: Tensor, key: Tensor, value: Tensor, dropout: float, scaling: float | None) -> Iterator[Tensor]:
    """Attention of the last tokens of ``key`` to themselves and all before them, in parts along the queries.

    Kernels with 16 bits on CUDA know this form. Elsewhere a mask says it, in blocks, so that the one of a long branch behind a
    long prefix is never held whole.
    """
    if query.is_cuda and query.dtype == torch.float32 and query.shape[1] != key.shape[1]:
        # Of CUDA's kernels for float32 none reads grouped heads but the one that holds all pairs of tokens.
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scaling, "enable_gqa": query.shape[1] != key.shape[1]}
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
    """The last ``rows`` of ``seen`` tokens, as torch's kernels are told it.

    Torch's own constructor asks the host for room for every pair, eight bytes each, which nobody ever reads: 275 GB for half of
    262,144 tokens. So the size is told to one that was made small.
    """
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
