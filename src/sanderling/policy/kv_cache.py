"""Keys and values of many open sessions in one place, as a transformers `Cache`.

One tensor a layer, ``[slots, kv_heads, capacity, head_dim]``, both sizes growing by doubling; a slot is a session's. Memory is
slots x longest session: wasteful for a mix of short and very long ones (that is vLLM's work).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.modeling_utils import AttentionInterface

ATTENTION = "sanderling_grouped"


@dataclass(frozen=True)
class Placement:
    """Where one forward's new tokens go, and what its queries read. B input rows of Q tokens hold T new tokens in all."""

    slots: torch.Tensor  # (T,) slot of each new token
    positions: torch.Tensor  # (T,) its position in the session
    source: torch.Tensor | None
    """(T,) its index in the flattened (B * Q) input, where a token may be stored several times; None: all of it, in order."""
    read: int | torch.Tensor | None
    """Slots the B rows read: the first so many, or (B,) indices; None: attention is told each row's own (``seen``)."""
    length: int  # positions read


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.placement: Placement | None = None
        self.shape: tuple[int, int] = (8, 256)  # slots and capacity

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for heads like these. Zeros, not garbage: a masked NaN is still a NaN."""
        slots, capacity = self.shape
        self.keys = key_states.new_zeros(slots, key_states.shape[1], capacity, key_states.shape[3])
        self.values = value_states.new_zeros(slots, value_states.shape[1], capacity, value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new (B, kv_heads, Q, head_dim) states; return what the B rows read, (B, kv_heads, length, head_dim)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        place = self.placement
        assert place is not None and self.keys is not None and self.values is not None

        def stored(kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            flat = new.transpose(1, 2).reshape(-1, new.shape[1], new.shape[3])
            kept[place.slots, :, place.positions] = flat if place.source is None else flat[place.source]
            if place.read is None:
                return kept
            if isinstance(place.read, int):
                return kept[: place.read, :, : place.length]
            return kept[:, :, : place.length].index_select(0, place.read)

        return stored(self.keys, key_states), stored(self.values, value_states)

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

    def reserve(self, slots: int, capacity: int) -> None:
        """Make room for so many slots and positions, doubling; where memory runs out amid the layers, the rest grow later."""
        for layer in self.slot_layers:
            # Powers of two, as the first ones are.
            wanted = (max(layer.shape[0], 1 << (slots - 1).bit_length()), max(layer.shape[1], 1 << (capacity - 1).bit_length()))
            if layer.shape != wanted:
                if layer.keys is not None and layer.values is not None:
                    layer.keys, layer.values = _grown(layer.keys, *wanted), _grown(layer.values, *wanted)
                layer.shape = wanted

    def place(self, placement: Placement) -> None:
        for layer in self.slot_layers:
            layer.placement = placement

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy one slot's first ``length`` positions to another."""
        for states in self._states():
            states[target, :, :length] = states[source, :, :length]

    def swap(self, one: int, other: int, length: int) -> None:
        """Exchange two slots' first ``length`` positions."""
        for states in self._states():
            states[[one, other], :, :length] = states[[other, one], :, :length]

    def _states(self) -> list[torch.Tensor]:
        return [states for layer in self.slot_layers for states in (layer.keys, layer.values) if states is not None]


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    seen: Sequence[tuple[int, int]] | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention that folds query heads that share a key head into the query axis: keys and values are read once.

    ``query`` (B, heads, Q, D), ``key`` and ``value`` (B, kv_heads, L, D), mask additive (B, 1, Q, L). Returns (B, Q, heads, D).
    ``seen``: for each row a slot and how many of its positions it sees; ``key`` and ``value`` are those of all slots, Q is 1.
    """
    rows, heads, queries, size = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(rows, key.shape[1], groups * queries, size)
    if seen is not None:
        parts = [
            scaled_dot_product_attention(row, key[None, slot, :, :end], value[None, slot, :, :end], scale=scaling)
            for row, (slot, end) in zip(folded.split(1), seen, strict=True)
        ]
        return torch.cat(parts).reshape(rows, 1, heads, value.shape[3]), None
    mask = attention_mask if queries == 1 or attention_mask is None else attention_mask.repeat(1, 1, groups, 1)
    mixed = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return mixed.reshape(rows, heads, queries, value.shape[3]).transpose(1, 2), None


AttentionInterface.register(ATTENTION, grouped_attention)


def _grown(states: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    grown = states.new_zeros(slots, states.shape[1], capacity, states.shape[3])
    grown[: states.shape[0], :, : states.shape[2]] = states
    return grown
