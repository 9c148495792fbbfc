"""Attention of many short stretches to what they continue, without gradients: rectangles of queries and keys, and no mask.

Probes after the boundaries c_1 <= c_2 <= … of a trajectory see a staircase of its keys. A staircase is cut into rectangles in
which every query sees every key: all probes see the keys before c_1, the second half also those from c_1 to the half's first
boundary, and so on within each half. Each rectangle is one unmasked call of an ordinary kernel over a *view* of the keys, query
heads that share a key head folded into one longer query; what a probe sees of itself is one causal call for all probes of a
length. Partial results meet by their log-sum-exp, in float32. Nothing is masked, padded or computed twice, the keys that are
continued are not copied, and nothing is as large as queries times keys; sums, and the stretches' own keys for each query head,
are as large as the stretches, so it is no way for long ones. Knows no model and no trajectory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

Span = tuple[int, int]
"""First place and the place after the last one."""
Partial = tuple[Tensor, Tensor]
"""Outputs [B, H, Q, D], and log-sum-exps [B, H, Q] of the scores behind them."""
_BLOCK = 1024
"""Keys at a time where no kernel tells its log-sum-exp."""


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
    return blockwise(query, key, value, causal=causal, scale=scale)


def blockwise(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None) -> Partial:
    """As :func:`partial_attention`, in plain operations, some keys at a time: for devices without such a kernel."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    total = query.new_zeros(query.shape, dtype=torch.float32)
    weight = query.new_full(query.shape[:3], -torch.inf, dtype=torch.float32)
    for start in range(0, key.shape[2], _BLOCK):
        k, v = key[:, :, start : start + _BLOCK].float(), value[:, :, start : start + _BLOCK].float()
        scores = (query.float() * factor) @ k.transpose(-1, -2)
        if causal:
            # Queries before the block see none of it.
            rows, columns = (torch.arange(n, device=query.device) for n in (query.shape[2], k.shape[2]))
            scores = scores.masked_fill(columns + start > rows[:, None], -torch.inf)
        lse = scores.logsumexp(-1)
        shares = torch.exp(scores - lse.clamp_min(torch.finfo(lse.dtype).min)[..., None])
        _merge(total, weight, (shares @ v, lse))
    return total.to(query.dtype), weight


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
