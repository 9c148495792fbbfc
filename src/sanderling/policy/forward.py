"""Forwards of a transformers model over slots: the ragged prefill and the decode step, shared prefixes computed once.

Branches that have gone the same way so far (a group's rollouts of one question, until their draws part) are computed as one:
each has a slot of its own, and what is computed for the first of them is stored for all. Which these are is known by their
*lane*, never by comparing histories: two branches that said the same under different weights are not alike.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
    """The layers of all slots. Memory is slots x longest session: wasteful for a mix of short and very long ones."""

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


_LEAST_FILL = 0.5  # A row joins a prefill forward when it fills at least this share of its width
_SLACK = 1.25  # rows a decode step may compute for each row that is wanted, before slots are moved together
_ROW_COST = 200
"""Beside its keys, what attending to a row by itself takes on a CPU, in keys (12 µs and 60 ns: 20 and 64 rows of 325)."""


@dataclass(eq=False)
class Branch:
    """What one session has heard and said, and how much of it is in the cache."""

    ids: list[int] = field(default_factory=list)
    cached: int = 0  # leading ids whose keys and values stand in the slot
    version: int = 0  # policy version that the cache was begun under
    slot: int | None = None
    lane: object | None = None  # shared with branches whose slots hold the same keys and values, as far as both are cached

    def truncate(self, size: int) -> None:
        """Forget everything after ``size`` tokens."""
        del self.ids[size:]
        self.cached = min(self.cached, size)


def alike(branches: Sequence[Branch]) -> list[list[int]]:
    """Branches (by index) that can be computed as one: of a lane, or all new, with the same ids still to be computed."""
    found: dict[tuple[object, ...], list[int]] = {}
    for index, branch in enumerate(branches):
        lane = (branch.lane or index) if branch.cached else None  # what is cached in no lane is like nobody's
        found.setdefault((lane, branch.cached, *branch.ids[branch.cached :]), []).append(index)
    return list(found.values())


def computed(group: Sequence[Branch], cached: int) -> None:
    """These were computed as one up to there, and nobody else with them."""
    lane = object() if len(group) > 1 else None
    for branch in group:
        branch.lane, branch.cached = lane, cached


@dataclass(frozen=True)
class Slice:
    """Tokens ``start`` to ``stop`` of request number ``index``."""

    index: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


def plan_prefill(spans: Sequence[tuple[int, int]], budget: int) -> list[list[Slice]]:
    """Arrange the new tokens ``(start, stop)`` of some requests in forwards of at most ``budget`` tokens, padding included."""
    forwards: list[list[Slice]] = []
    finals: list[Slice] = []
    for index, (start, stop) in enumerate(spans):
        while stop - start > budget:  # parts come in order, in forwards of their own until the last
            forwards.append([Slice(index, start, start + budget)])
            start += budget
        finals.append(Slice(index, start, stop))
    finals.sort(key=lambda part: -part.size)
    width = 0
    for part in finals:
        joins = part.size >= _LEAST_FILL * width and forwards and (len(forwards[-1]) + 1) * width <= budget
        if width and joins:
            forwards[-1].append(part)
        else:
            forwards.append([part])
            width = part.size
    return forwards


@contextmanager
def borrowed(model: Any) -> Iterator[None]:
    """Put a module in evaluation mode with the grouped attention, and back."""
    training, attention = model.training, model.config._attn_implementation
    if training:
        model.eval()
    model.config._attn_implementation = ATTENTION
    try:
        with torch.inference_mode():
            yield
    finally:
        model.config._attn_implementation = attention
        if training:
            model.train()


class SlotForward:
    """A model, its slot cache, and who owns which slot. To be called inside :func:`borrowed`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._cache = SlotCache(model.config.num_hidden_layers)
        self._owners: list[Branch | None] = []

    def compute(self, parts: Sequence[Slice], groups: Sequence[Sequence[Branch]], *, row_by_row: bool = False) -> torch.Tensor:
        """Compute the parts' tokens, each for its group of branches that are alike; returns logits, (M, V).

        ``row_by_row``, for parts of one token: each row attends to its own keys only.
        """
        # Padded on the left, so that every row's last token stands last.
        width, length = max(part.size for part in parts), max(part.stop for part in parts)
        ids = np.zeros((len(parts), width), dtype=np.int64)
        positions = np.zeros_like(ids)
        valid = np.zeros(ids.shape, dtype=np.bool_)
        for number, (part, group) in enumerate(zip(parts, groups, strict=True)):
            ids[number, width - part.size :] = group[0].ids[part.start : part.stop]
            positions[number, width - part.size :] = np.arange(part.start, part.stop)
            valid[number, width - part.size :] = True
        slots = [[self._slot_of(branch) for branch in group] for group in groups]
        self._cache.reserve(len(self._owners), length)
        # Each row's tokens go to the slots of all its branches.
        row = np.array([number for number, own in enumerate(slots) for _ in own])
        copy, column = valid[row].nonzero()
        self._cache.place(
            Placement(
                slots=self._tensor(np.concatenate(slots)[copy]),
                positions=self._tensor(positions[row[copy], column]),
                source=self._tensor(row[copy] * width + column),
                read=None if row_by_row else self._tensor(np.array([own[0] for own in slots], dtype=np.int64)),
                length=length,
            )
        )
        places = self._tensor(positions)
        if row_by_row:
            seen = tuple((own[0], part.stop) for own, part in zip(slots, parts, strict=True))
            logits = self._logits(self._tensor(ids), places, seen=seen)
        else:
            logits = self._logits(self._tensor(ids), places, attention_mask=self._mask(places, length))
        for part, group in zip(parts, groups, strict=True):
            computed(group, part.stop)
        return logits

    def decode(self, branches: Sequence[Branch]) -> torch.Tensor:
        """Compute the last id of each branch, the only one not yet cached. Returns the logits after it, (B, V)."""
        groups = alike(branches)
        together = [[branches[index] for index in group] for group in groups]
        if self._pays_row_by_row([group[0] for group in together], branches):
            parts = [Slice(at, one[0].cached, one[0].cached + 1) for at, one in enumerate(together)]
            logits = self.compute(parts, together, row_by_row=True)
            row = {index: number for number, group in enumerate(groups) for index in group}
            return logits if len(groups) == len(branches) else logits[[row[index] for index in range(len(branches))]]
        logits = self._decode_side_by_side(branches)
        for group in together:
            computed(group, group[0].cached + 1)
        return logits

    def _pays_row_by_row(self, first: Sequence[Branch], branches: Sequence[Branch]) -> bool:
        """Whether attending row by row costs less; ``first``: one branch of each group that is alike."""
        if self._model.device.type != "cpu":
            return False
        threads, heads = torch.get_num_threads(), self._model.config.num_key_value_heads
        # By itself a row is shared out over its heads only.
        own = sum(branch.cached + 1 for branch in first) / min(threads, heads) + _ROW_COST * len(first)
        return own < len(branches) * (max(branch.cached for branch in branches) + 1) / threads

    def _decode_side_by_side(self, branches: Sequence[Branch]) -> torch.Tensor:
        """A row for each of the leading slots, all read as they lie, up to the longest; those that are alike are not shared."""
        self._gather_slots(branches)
        slots = [self._slot_of(branch) for branch in branches]
        rows = max(slots) + 1
        ids = np.zeros((rows, 1), dtype=np.int64)
        # A row nobody asked for writes where its branch will write next, which is never read before.
        positions = np.array([[owner.cached if owner else 0] for owner in self._owners[:rows]], dtype=np.int64)
        for slot, branch in zip(slots, branches, strict=True):
            ids[slot, 0] = branch.ids[-1]
        self._cache.reserve(len(self._owners), int(positions.max()) + 1)
        length = max(branch.cached for branch in branches) + 1
        places = self._tensor(positions)
        every_row = torch.arange(rows, device=self._model.device)
        self._cache.place(Placement(slots=every_row, positions=places[:, 0], source=None, read=rows, length=length))
        logits = self._logits(self._tensor(ids), places, attention_mask=self._mask(places, length))
        return logits if slots == list(range(rows)) else logits[self._tensor(np.array(slots))]

    def adopt(self, branch: Branch) -> None:
        """Copy the keys and values of an open branch that begins with this one's ids, all but the last, if there is one."""
        size = len(branch.ids) - 1
        prompt = branch.ids[:size]
        for slot, owner in enumerate(self._owners):
            if not size or owner is None or owner.cached < size or owner.version != branch.version:
                continue
            if owner.ids[:size] == prompt:
                self._cache.reserve(len(self._owners) + 1, size)
                self._cache.copy(slot, self._slot_of(branch), size)
                branch.cached = size
                return

    def free(self, branch: Branch) -> None:
        if branch.slot is not None:
            self._owners[branch.slot] = None
            branch.slot = None
        branch.cached, branch.lane = 0, None

    def _logits(self, ids: torch.Tensor, positions: torch.Tensor, **attention: Any) -> torch.Tensor:
        """Logits after each row's last token. ``ids`` and ``positions`` (M, Q)."""
        cache = {"past_key_values": self._cache, "use_cache": True}
        return self._model(input_ids=ids, position_ids=positions, logits_to_keep=1, **cache, **attention).logits[:, -1]

    def _mask(self, positions: torch.Tensor, length: int) -> torch.Tensor:
        """Additive (M, 1, Q, length): keys up to each query's position are seen."""
        hidden = torch.arange(length, device=self._model.device) > positions[:, None, :, None]
        mask = torch.zeros(hidden.shape, dtype=self._model.dtype, device=self._model.device)
        return mask.masked_fill_(hidden, float("-inf"))

    def _slot_of(self, branch: Branch) -> int:
        if branch.slot is None:
            if None not in self._owners:
                self._owners.append(None)
            branch.slot = self._owners.index(None)
            self._owners[branch.slot] = branch
        return branch.slot

    def _gather_slots(self, branches: Sequence[Branch]) -> None:
        """For reading side by side: move branches to the first slots when too many others stand between them."""
        slots = {self._slot_of(branch) for branch in branches}
        if max(slots) + 1 <= _SLACK * len(slots) + 1:
            return
        holes = [slot for slot in range(len(slots)) if slot not in slots]
        for hole, slot in zip(holes, sorted(slots, reverse=True), strict=False):
            there, here = self._owners[hole], self._owners[slot]
            self._cache.swap(hole, slot, max(owner.cached if owner else 0 for owner in (there, here)))
            self._owners[hole], self._owners[slot] = here, there
            for owner, place in ((here, hole), (there, slot)):
                if owner is not None:
                    owner.slot = place

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._model.device)
