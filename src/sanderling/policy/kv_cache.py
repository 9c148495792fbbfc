"""Keys and values of many open sessions in one place, as a transformers `Cache`.

One tensor a layer, ``[slots, kv_heads, capacity, head_dim]``; a slot is a session's. Slots and capacity grow by doubling.
Before each forward the engine says where the step's new tokens go and which slots are read (:class:`Placement`); the model then
calls :meth:`SlotCache.update` as it would any cache's. The decode step reads a leading range of slots as a view, or each row
its own slot, so nothing is copied; the prefill step gathers the few slots it serves. Memory is slots x longest session: right
for small models and for batches of similar sessions, wasteful for a mix of short and very long ones (that is paged attention's
work, and vLLM's).

:func:`grouped_attention` replaces transformers' own attention: query heads that share a key head are folded into the query
axis, so keys and values are read once and never repeated: 8 times faster on a CPU at 128 sessions of 600 tokens, where reading
them is most of a decode step. Keys stored transposed made that step 10% faster and prefill slower by as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.modeling_utils import AttentionInterface

ATTENTION = "sanderling_grouped"
_FIRST_SLOTS = 8
_FIRST_CAPACITY = 256


@dataclass(frozen=True)
class Placement:
    """Where one forward's new tokens go, and what its queries read. B input rows of Q tokens hold T new tokens in all."""

    slots: torch.Tensor
    """(T,) slot of each new token."""
    positions: torch.Tensor
    """(T,) its position in the session."""
    source: torch.Tensor | None
    """(T,) its index in the flattened (B * Q) input, where a token may be stored several times; None: all of it, in order."""
    read: int | torch.Tensor | None
    """Slots the B rows read: the first so many, or (B,) indices; None: attention is told each row's own (``seen``)."""
    length: int
    """Positions read."""


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.placement: Placement | None = None
        self.shape = (_FIRST_SLOTS, _FIRST_CAPACITY)

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for heads like these. Zeros, not garbage: a masked NaN is still a NaN."""
        slots, capacity = self.shape
        self.keys = key_states.new_zeros(slots, key_states.shape[1], capacity, key_states.shape[3])
        self.values = value_states.new_zeros(slots, value_states.shape[1], capacity, value_states.shape[3])
        self.is_initialized = True

    def resize(self, slots: int, capacity: int) -> None:
        """Grow to so many slots and positions, keeping what is there; after a failure it is as it was."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = _grown(self.keys, slots, capacity), _grown(self.values, slots, capacity)
        self.shape = (slots, capacity)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new (B, kv_heads, Q, head_dim) states; return what the B rows read, (B, kv_heads, length, head_dim)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        place = self.placement
        if place is None or self.keys is None or self.values is None:
            raise RuntimeError("A slot cache needs a placement before each forward.")
        self.keys[place.slots, :, place.positions] = _new_tokens(key_states, place)
        self.values[place.slots, :, place.positions] = _new_tokens(value_states, place)
        return _read(self.keys, place), _read(self.values, place)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy one slot's first ``length`` positions to another."""
        for states in (self.keys, self.values):
            if states is not None:
                states[target, :, :length] = states[source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange two slots' first ``length`` positions."""
        for states in (self.keys, self.values):
            if states is not None:
                kept = states[one, :, :length].clone()
                states[one, :, :length] = states[other, :, :length]
                states[other, :, :length] = kept

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return (self.placement.length if self.placement else query_length), 0

    def get_seq_length(self) -> int:
        """0: sessions have lengths of their own, and positions are always handed in."""
        return 0

    def get_max_length(self) -> int:
        return -1


class SlotCache(Cache):
    """The layers of all slots."""

    def __init__(self, layers: int) -> None:
        self.slot_layers = [SlotLayer() for _ in range(layers)]
        super().__init__(layers=list(self.slot_layers))
        self._slots, self._capacity = self.slot_layers[0].shape

    def reserve(self, slots: int, capacity: int) -> None:
        """Make room for so many slots and positions, doubling."""
        wanted = (_doubled(self._slots, slots), _doubled(self._capacity, capacity))
        if wanted != (self._slots, self._capacity):
            for layer in self.slot_layers:
                if layer.shape != wanted:  # some have grown where memory ran out amid them
                    layer.resize(*wanted)
            self._slots, self._capacity = wanted

    def place(self, placement: Placement) -> None:
        """Say where the next forward's tokens go."""
        for layer in self.slot_layers:
            layer.placement = placement

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy one slot's first ``length`` positions to another in every layer."""
        for layer in self.slot_layers:
            layer.copy(source, target, length)

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange two slots' first ``length`` positions in every layer."""
        for layer in self.slot_layers:
            layer.swap(one, other, length)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    seen: Sequence[tuple[int, int]] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention that never repeats key heads.

    ``query`` (B, heads, Q, D), ``key`` and ``value`` (B, kv_heads, L, D), mask additive (B, 1, Q, L). Returns (B, Q, heads, D).
    ``seen``: for each row a slot and how many of its positions it sees; ``key`` and ``value`` are those of all slots, Q is 1.
    """
    rows, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(rows, key.shape[1], groups * queries, size)
    if seen is not None:
        pairs = zip(folded.split(1), seen, strict=True)
        parts = [_attended(row, key[slot, :, :end], value[slot, :, :end], scaling) for row, (slot, end) in pairs]
        return torch.cat(parts).reshape(rows, 1, heads, value.shape[3]), None
    mask = attention_mask if queries == 1 or attention_mask is None else attention_mask.repeat(1, 1, groups, 1)
    mixed = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return mixed.reshape(rows, heads, queries, value.shape[3]).transpose(1, 2), None


AttentionInterface.register(ATTENTION, grouped_attention)


def _attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None) -> torch.Tensor:
    """One row's queries (1, kv_heads, groups, D) over all of the keys (kv_heads, L, D)."""
    return torch.nn.functional.scaled_dot_product_attention(query, key[None], value[None], scale=scaling)


def _grown(states: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    grown = states.new_zeros(slots, states.shape[1], capacity, states.shape[3])
    grown[: states.shape[0], :, : states.shape[2]] = states
    return grown


def _doubled(have: int, wanted: int) -> int:
    while have < wanted:
        have *= 2
    return have


def _new_tokens(states: torch.Tensor, place: Placement) -> torch.Tensor:
    flat = states.transpose(1, 2).reshape(-1, states.shape[1], states.shape[3])
    return flat if place.source is None else flat[place.source]


def _read(states: torch.Tensor, place: Placement) -> torch.Tensor:
    if place.read is None:
        return states
    if isinstance(place.read, int):
        return states[: place.read, :, : place.length]
    return states[:, :, : place.length].index_select(0, place.read)
