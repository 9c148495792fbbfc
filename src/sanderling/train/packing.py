"""Rows to micro-batches: which rows share a forward pass, how they lie in its line, and log-probabilities of their tokens.

Rows that begin alike are laid out once, as a tree of stretches (AgentRL's prefix merging): what two of them share (system
prompt, question, the first searches of two rollouts, the turns before a history reset) stands in the line once, and every row
continues it. Each token sees exactly the tokens before it in its own row, at the same positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from sanderling.train.attention import Span, Stretch, packed_attention
from sanderling.train.config import LOGIT_CHUNK, Precision, TrainerConfig
from sanderling.train.rows import FloatArray, IntArray, Row, grouped
from sanderling.train.team import Context, Team

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
    """Rows (by index) that are compared: those of one group; without a group, of one trajectory; without either name, alone."""
    return grouped([f"group {row.group}" if row.group else row.trajectory and f"trajectory {row.trajectory}" for row in rows])


def lay_out(rows: Sequence[IntArray], together: Sequence[Sequence[int]]) -> Layout:
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


def neighbours(rows: Sequence[IntArray], members: Sequence[int]) -> list[int]:
    """Some rows (by index) in a dictionary's order, backwards: none before shares more with a row than the one before it."""
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


@dataclass(frozen=True)
class Bundle:
    """Rows (by index) that stand in one line together, and the tokens that they take in it."""

    rows: tuple[int, ...]
    tokens: int


def bundled(rows: Sequence[Row], budget: int, *, groups: bool = True) -> list[Bundle]:
    """Rows that begin alike together, as far as they take no more than ``budget`` tokens: what is packed and dealt as one.

    A longer row is alone, but for rows that are the same or its beginning. ``groups``: rows of a group are placed together;
    otherwise only those of a trajectory.
    """
    bundles: list[Bundle] = []
    for members in families(rows) if groups else grouped([row.trajectory for row in rows]):
        held, last = Bundle((), 0), np.zeros(0, dtype=np.int64)
        for index in neighbours([row.ids for row in rows], members):
            ids = rows[index].ids
            more = Bundle((*held.rows, index), held.tokens + len(ids) - common(last, ids))
            if held.rows and held.tokens < more.tokens > budget:
                bundles.append(held)
                more = Bundle((index,), len(ids))
            held, last = more, ids
        bundles.append(held)
    return bundles


def pack(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group lines (by index) into micro-batches of at most ``budget`` tokens, a longer one alone: first fit, longest first."""
    groups: list[list[int]] = []
    room: list[int] = []
    for i in _longest_first(lengths):
        at = next((g for g, left in enumerate(room) if left >= lengths[i]), None)
        if at is None:
            groups.append([i])
            room.append(budget - lengths[i])
        else:
            groups[at].append(i)
            room[at] -= lengths[i]
    return groups


def deal(lengths: Sequence[int], hands: int) -> list[list[int]]:
    """Lines (by index, ascending) in parts of about equal tokens: the longest first, to whom has least."""
    found: list[list[int]] = [[] for _ in range(hands)]
    tokens = [0] * hands
    for i in _longest_first(lengths):
        least = tokens.index(min(tokens))
        found[least].append(i)
        tokens[least] += lengths[i]
    return [sorted(hand) for hand in found]


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))


@dataclass(frozen=True)
class MicroBatch:
    """One forward pass over a line of T tokens, N of them trained."""

    rows: tuple[Row, ...]
    ids: Tensor
    positions: Tensor
    """[1, T], as ``ids``."""
    stretches: tuple[Stretch, ...]
    source: Tensor
    """[N] where in the line each trained token is predicted."""
    target: Tensor
    row_index: Tensor
    picked: Tensor | None = None
    """[N] which of all trained tokens these are, where ranks share the line; None: all."""
    context: Context | None = None
    """The ranks that share the line; ``ids``, ``positions`` and what is [N] are this rank's part then."""


def collate(rows: Sequence[Row], device: torch.device | str = "cpu") -> MicroBatch:
    """Lay rows out for one forward pass. Raises ValueError for a row whose first token is trained: nothing precedes it."""
    for index, row in enumerate(rows):
        if row.loss_mask[:1].any():
            raise ValueError(f"row {row.trajectory or index}: its first token cannot be trained, nothing precedes it")
    trained = [np.flatnonzero(row.loss_mask) for row in rows]
    line = lay_out([row.ids for row in rows], families(rows))
    source = [places[at - 1] for places, at in zip(line.where, trained, strict=True)]
    target = [row.ids[at] for row, at in zip(rows, trained, strict=True)]
    return micro_batch([line.ids], [line.positions], line.stretches, source, target, device, tuple(rows))


def micro_batch(
    ids: Sequence[IntArray],
    positions: Sequence[IntArray],
    stretches: tuple[Stretch, ...],
    source: Sequence[IntArray],
    target: Sequence[IntArray],
    device: torch.device | str,
    rows: tuple[Row, ...] = (),
) -> MicroBatch:
    """A line of parts; ``source`` and ``target`` are those of each row."""

    def tensor(parts: Sequence[IntArray]) -> Tensor:
        return torch.from_numpy(joined(parts)).to(device)

    index = [np.full(len(part), number, dtype=np.int64) for number, part in enumerate(source)]
    return MicroBatch(
        rows, tensor(ids)[None], tensor(positions)[None], stretches, tensor(source), tensor(target), tensor(index)
    )


def portion(batch: MicroBatch, context: Context | None) -> MicroBatch:
    """A rank's part of a line: equal parts, the last filled up with a row of zeros that nothing looks at."""
    if context is None:
        return batch
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
    )


def per_token(batch: MicroBatch, field: str) -> Tensor | None:
    """A row array (``advantages``, …) at the trained tokens, float32 [N]; None when no row has it. ValueError if some do."""
    values = [getattr(row, field) for row in batch.rows]
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        raise ValueError(f"some rows of a batch have {field}, others have not")
    flat = [value[row.loss_mask] for value, row in zip(values, batch.rows, strict=True)]
    found = torch.from_numpy(np.concatenate(flat).astype(np.float32)).to(batch.ids.device)
    return found if batch.picked is None else found[batch.picked]


class TokenScores(NamedTuple):
    """What the model says about N given tokens; float32 [N] each."""

    logprobs: Tensor
    entropy: Tensor | None
    """Of the whole next-token distribution at each token's place, without gradient; None when not asked for."""


class TokenLogprobs(nn.Module):
    """A causal language model whose forward pass ends in log-probabilities: the one entrance that hooks of sharding watch.

    Head and embedding are used inside it, so a sharded model has them whole when they are needed.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, batch: MicroBatch, temperature: float = 1.0, entropy: bool = False, logit_chunk: int = LOGIT_CHUNK
    ) -> TokenScores:
        """Scores of a micro-batch's trained tokens, in its order; to be called inside `attention.packed_attention`.

        ``logit_chunk`` bounds the number of logits alive at once; beyond it chunks are recomputed in the backward pass.
        """
        line = {"stretches": batch.stretches, "context": batch.context}
        output = self.model.base_model(input_ids=batch.ids, position_ids=batch.positions, use_cache=False, **line)
        hidden = output.last_hidden_state.flatten(0, 1)[batch.source]  # in a context, of this rank's part of the line
        return head_logprobs(
            self.model, hidden, batch.target, temperature=temperature, entropy=entropy, logit_chunk=logit_chunk
        )


def head_logprobs(
    model: PreTrainedModel, hidden: Tensor, target: Tensor, *, temperature: float, entropy: bool, logit_chunk: int
) -> TokenScores:
    """Log-probabilities of ``target`` [N] given the hidden states [N, H] that predict it."""
    weight = cast(nn.Linear, model.get_output_embeddings()).weight
    size = max(1, logit_chunk // weight.shape[0])
    if hidden.shape[0] <= size:
        return _scores(hidden, weight, target, temperature, entropy)
    # Each chunk adds to the weight's gradient: in bfloat16, hundreds of small additions to a large sum are lost by rounding.
    weight = weight.float() if weight.requires_grad and torch.is_grad_enabled() else weight
    chunks = zip(hidden.split(size), target.split(size), strict=True)
    pairs = [checkpoint(_scores, h, weight, t, temperature, entropy, use_reentrant=False) for h, t in chunks]
    return TokenScores(torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs]) if entropy else None)


def _scores(hidden: Tensor, weight: Tensor, target: Tensor, temperature: float, entropy: bool) -> TokenScores:
    kind = hidden.device.type
    # Cast by hand: a cast that autocast keeps is one for all chunks, whose gradients would be summed in it.
    narrow = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    logits = torch.nn.functional.linear(hidden, weight.to(narrow)).float()
    if temperature != 1.0:
        logits = logits / temperature
    logprobs = -torch.nn.functional.cross_entropy(logits, target, reduction="none")
    if not entropy:
        return TokenScores(logprobs, None)
    with torch.no_grad():
        distribution = logits.log_softmax(-1)
        return TokenScores(logprobs, -(distribution.exp() * distribution).sum(-1))


def scored_tokens(
    scored: TokenLogprobs, batch: MicroBatch, config: TrainerConfig, team: Team, *, entropy: bool = False
) -> TokenScores:
    """A rank's part of a line in one pass, in the precision that the settings name."""
    mixed = config.precision is Precision.BFLOAT16 and not team.sharded
    with torch.autocast(batch.ids.device.type, torch.bfloat16, enabled=mixed):
        return scored(batch, config.temperature, entropy, config.logit_chunk)


def with_idle(own: list[list[int]], team: Team) -> list[list[int]]:
    """A rank's passes, with the idle ones, of nothing, that it makes because others need them."""
    return own + [[]] * (team.passes(len(own)) - len(own))


def logprobs_of(
    scored: TokenLogprobs,
    sizes: Sequence[int],
    passes: Sequence[Sequence[int]],
    line: Callable[[Sequence[int]], MicroBatch],
    config: TrainerConfig,
    team: Team,
) -> list[FloatArray]:
    """Collective: log-probabilities of items (rows, requests) of so many trained tokens each, whole on every rank.

    ``passes``: the items that this rank computes together each time. ``line`` lays them out; of none, what counts nothing.
    """
    found: dict[int, FloatArray] = {}
    scored.eval()
    with torch.no_grad(), packed_attention(scored.model):
        for items in passes:
            batch = line(items)
            own = portion(batch, team.context)
            values = np.zeros(batch.target.numel())
            places = slice(None) if own.picked is None else own.picked.cpu().numpy()
            values[places] = scored_tokens(scored, own, config, team).logprobs.double().cpu().numpy()
            found |= dict(zip(items, np.split(values, np.cumsum([sizes[item] for item in items])), strict=False))
    whole = [np.zeros(size) for size in sizes]
    for part in team.gather(found):  # ranks that share a line have zeros at each other's tokens
        for item, values in part.items():
            whole[item] += values
    return whole
