"""Rows to micro-batches: which rows share a forward pass, how they lie in its line, and its tensors.

Rows that begin alike are laid out once, as a tree of stretches (AgentRL's prefix merging): what two of them share (system
prompt, question, the first searches of two rollouts, the turns before a history reset) stands in the line once, and every row
continues it, so its keys, values and hidden states are computed once. A causal model cannot tell: each token sees exactly the
tokens before it in its own row, at the same positions. Rows are compared with those of their group; rows that name no group,
with those of their trajectory. Others hardly share more than a system prompt.

A micro-batch holds the ids laid out for the model and, apart from them, flat arrays over the *trained* tokens only (N), so that
the head and the losses never touch a position that is not trained.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from sanderling.train.config import Packing
from sanderling.train.contract import IntArray, Row
from sanderling.train.packed.attention import Span, Stretch
from sanderling.train.parallel.context import Context
from sanderling.train.row_source import grouped

T = TypeVar("T")
_EVEN = 1.1
"""Hands of which none has more than this times the mean are not evened out further."""
_FINER = 0.85
"""By how much each attempt at smaller parts is smaller."""
COPIES = 4
"""How many budgets of tokens the rows of one line are long together, at most. With gradients a stretch keeps a copy of the keys
and values that it continues, so that without a bound memory would grow with what rows share. Keys and values of four times the
tokens are, where key heads are fewer than query heads, a small part of what a layer keeps of the tokens themselves."""


# -- lines -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Rows in one line of T tokens."""

    ids: IntArray
    """[T]"""
    positions: IntArray
    """[T] the place of each token in its row."""
    stretches: tuple[Stretch, ...]
    where: tuple[IntArray, ...]
    """For each row, where in the line each of its tokens stands."""


def families(rows: Sequence[Row]) -> list[list[int]]:
    """Rows (by index) that are looked through for what they share, in the order of first appearance.

    Those of one group; without a group, of one trajectory; a row without either name is alone.
    """
    return grouped([f"group {row.group}" if row.group else row.trajectory and f"trajectory {row.trajectory}" for row in rows])


def lay_out(rows: Sequence[Row]) -> Layout:
    """All rows in one line, nothing that rows of one family share at their beginning twice."""
    return trees([row.ids for row in rows], families(rows))


def trees(rows: Sequence[IntArray], together: Sequence[Sequence[int]]) -> Layout:
    """Rows in one line, each part of them (by index, every one in one part) as a tree of what its rows begin with."""
    where: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(rows)
    stretches: list[Stretch] = []
    parts: list[tuple[IntArray, int]] = []
    start = 0
    for members in together:
        last, kept = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for index in neighbours(rows, members):
            shared = common(last, rows[index])
            last, kept = rows[index], kept[:shared]
            new = len(last) - shared
            if new:
                stretches.append(Stretch(new, spans(kept)))
                parts.append((last[shared:], shared))
                kept = np.concatenate((kept, np.arange(start, start + new)))
            where[index] = kept
            start += new
    return Layout(
        ids=joined([ids for ids, _ in parts]),
        positions=joined([np.arange(first, first + len(ids)) for ids, first in parts]),
        stretches=tuple(stretches),
        where=tuple(where),
    )


@dataclass(frozen=True)
class Bundle:
    """Rows that stand in one line together."""

    rows: tuple[int, ...]
    """By index."""
    tokens: int
    """That they take in the line."""
    copied: int
    """Lengths of the rows that add tokens to it: keys and values that their stretches hold with gradients, and their own."""

    @property
    def room(self) -> int:
        """What it takes of a budget."""
        return max(self.tokens, -(-self.copied // COPIES))


class Bundling:
    """Rows in the order in which neighbours share most, compared once and cut for any budget; deterministic.

    ``together``: parts of rows (by index) that are looked through for what they share; None: :func:`families`.
    """

    def __init__(self, rows: Sequence[Row], together: Sequence[Sequence[int]] | None = None) -> None:
        every = [row.ids for row in rows]
        self._lengths = [len(ids) for ids in every]
        self._orders: list[list[tuple[int, int]]] = []
        """Of each part its rows, and what each shares with the one before it."""
        for members in families(rows) if together is None else together:
            order = neighbours(every, members)
            shares = [common(every[before], every[index]) for before, index in pairwise(order)]
            self._orders.append(list(zip(order, [0, *shares], strict=True)))

    @property
    def longest(self) -> int:
        """Tokens of the longest row."""
        return max(self._lengths, default=0)

    def cut(self, budget: int) -> list[Bundle]:
        """Neighbours of a part together, as far as they take no more room than ``budget``.

        A longer row is alone, but for rows that are the same or its beginning: they add nothing to a line.
        """
        return [bundle for order in self._orders for bundle in self._cut(order, budget)]

    def _cut(self, order: Sequence[tuple[int, int]], budget: int) -> Iterator[Bundle]:
        found = Bundle((), 0, 0)
        for index, shared in order:
            length = self._lengths[index]
            new = length - shared if found.rows else length
            more = Bundle((*found.rows, index), found.tokens + new, found.copied + (length if new else 0))
            if found.rows and new and more.room > budget:
                yield found
                more = Bundle((index,), length, length)
            found = more
        yield found


def neighbours(rows: Sequence[IntArray], members: Sequence[int]) -> list[int]:
    """Some rows (by index) in an order in which none before shares more with a row than the one right before it.

    It is a dictionary's, backwards, so that a row stands behind those that go on from it; equal ones stay in their order.
    """
    if len(members) == 1:
        return list(members)
    # Bytes with the highest first are in the order of the numbers, and are compared as fast as memory is read.
    return sorted(members, key=lambda index: rows[index].astype(">i8").tobytes(), reverse=True)


def common(one: IntArray, other: IntArray) -> int:
    """How many tokens two rows begin with alike."""
    size = min(len(one), len(other))
    unlike = np.flatnonzero(one[:size] != other[:size])
    return int(unlike[0]) if unlike.size else size


def spans(places: IntArray) -> tuple[Span, ...]:
    """Ascending places as spans without gaps."""
    if not places.size:
        return ()
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    return tuple((int(part[0]), int(part[-1]) + 1) for part in np.split(places, cuts))


def joined(parts: Sequence[IntArray]) -> IntArray:
    """Parts behind each other; there may be none."""
    return np.concatenate((np.zeros(0, dtype=np.int64), *parts))


# -- micro-batches -----------------------------------------------------------------------------------------------------------


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
    picked: Tensor | None = None
    """[N] which of all trained tokens these are, where ranks share the line; None: all."""
    context: Context | None = None
    """The ranks that share the line; ``ids``, ``positions`` and what is [N] are this rank's part then."""
    temperatures: Tensor | None = None
    """[N] what each token's logits are divided by; None: all by what the caller says."""


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


def evened(cut: Callable[[int], list[T]], size: Callable[[T], int], most: int, least: int, hands: int) -> list[T]:
    """Parts of something that is ``cut`` by the tokens that a part may take, such that :func:`deal` keeps all hands busy.

    Large parts share most but cannot be dealt evenly; small ones share less, so that there is more to do. Parts of at most
    ``most`` tokens come first, then smaller ones, down to ``least``, until hands are about even: those with which the fullest
    hand has least, the largest of equals; deterministic.
    """

    def fullest(parts: Sequence[T]) -> int:
        sizes = [size(part) for part in parts]
        return max(sum(sizes[at] for at in hand) for hand in deal(sizes, hands))

    best = cut(most)
    if hands == 1 or not best:
        return best
    load, even = fullest(best), _EVEN * sum(map(size, best)) / hands
    tokens = min(most, max(map(size, best)))
    while load > even and tokens > least:
        tokens = max(least, int(tokens * _FINER))
        parts = cut(tokens)
        if (found := fullest(parts)) < load:
            best, load = parts, found
    return best


def bundled(rows: Sequence[Row], budget: int, packing: Packing, *, groups: bool = True, hands: int = 1) -> list[Bundle]:
    """What :func:`plan` and :func:`deal` place as one. Padded rows share nothing.

    ``groups``: rows of a group are placed together, as far as ``hands`` then have about equal work; otherwise only those of a
    trajectory, however many hands there are.
    """
    if packing is Packing.PADDED:
        return [Bundle((index,), len(row.ids), len(row.ids)) for index, row in enumerate(rows)]
    if not groups:
        return Bundling(rows, grouped([row.trajectory for row in rows])).cut(budget)
    bundling = Bundling(rows)
    return evened(bundling.cut, lambda bundle: bundle.tokens, budget, bundling.longest, hands)


def collate(rows: Sequence[Row], packing: Packing, device: torch.device | str = "cpu") -> MicroBatch:
    """Lay rows out for one forward pass.

    Raises ValueError when a row's first token is marked as trained: nothing precedes it.
    """
    for index, row in enumerate(rows):
        if row.loss_mask[:1].any():
            raise ValueError(f"row {row.trajectory or index}: its first token cannot be trained, nothing precedes it")
    trained = [np.flatnonzero(row.loss_mask) for row in rows]

    def tensor(parts: Sequence[NDArray[np.int64]]) -> Tensor:
        return torch.from_numpy(np.concatenate(parts)).to(device)

    if packing is Packing.VARLEN:
        line = lay_out(rows)
        ids, positions, stretches = tensor([line.ids])[None], tensor([line.positions])[None], line.stretches
        source = [places[at - 1] for places, at in zip(line.where, trained, strict=True)]
    else:
        width = max(len(row.ids) for row in rows)
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            padded[index, : len(row.ids)] = row.ids
        ids = torch.from_numpy(padded).to(device)
        positions, stretches = torch.arange(width, device=device).expand(len(rows), width), None
        source = [index * width + at - 1 for index, at in enumerate(trained)]
    return MicroBatch(
        rows=tuple(rows),
        ids=ids,
        positions=positions,
        stretches=stretches,
        source=tensor(source),
        target=tensor([row.ids[at] for row, at in zip(rows, trained, strict=True)]),
        row_index=tensor([np.full(at.size, index, dtype=np.int64) for index, at in enumerate(trained)]),
    )


def portion(batch: MicroBatch, context: Context | None) -> MicroBatch:
    """A rank's part of a packed line: equal parts, the last filled up with a row of zeros that nothing looks at."""
    if context is None:
        return batch
    if batch.stretches is None:
        raise ValueError("only packed lines are shared by ranks")
    length = batch.ids.shape[1]
    own = -(-length // context.size)
    more = own * context.size - length
    first = context.rank * own
    ids, positions = (pad(x, (0, more))[:, first : first + own] for x in (batch.ids, batch.positions))
    picked = torch.nonzero((batch.source >= first) & (batch.source < first + own)).flatten()
    return replace(
        batch,
        ids=ids,
        positions=positions,
        stretches=(*batch.stretches, Stretch(more)) if more else batch.stretches,
        source=batch.source[picked] - first,
        target=batch.target[picked],
        row_index=batch.row_index[picked],
        picked=picked,
        context=context,
        temperatures=None if batch.temperatures is None else batch.temperatures[picked],
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
    found = torch.from_numpy(np.concatenate(flat).astype(np.float32)).to(batch.ids.device)
    return found if batch.picked is None else found[batch.picked]
