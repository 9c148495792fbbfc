"""Requests of the scorer as lines of tokens: what branches share once, behind them every boundary's continuation as a stretch.

A continuation goes on from its boundary, at positions to match, and sees nothing else; what stands behind the answer cannot
change it and is left out. Several answers at a boundary share what they begin with, the probe. Rows of the same trajectory,
whose own log-probabilities are wanted from the same pass, are laid out with its branches and add only what no boundary sees.
Knows no model.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from sanderling.train.attention import Span, Stretch
from sanderling.train.contract import FloatArray, IntArray, Row, ScoreRequest
from sanderling.train.packing import MicroBatch
from sanderling.train.prefixes import common, lay_out, spans


@dataclass(frozen=True)
class Line:
    """One request, and rows of its trajectory, laid out. N is the number of scored tokens."""

    ids: IntArray
    positions: IntArray
    stretches: tuple[Stretch, ...]
    source: IntArray
    """[N] where each token is predicted: those of boundaries, in the request's order, then those of rows."""
    target: IntArray
    """[N]"""
    answers: tuple[int, ...]
    """How many of them belong to each boundary: these come first."""
    owned: tuple[int, ...] = ()
    """How many belong to each row."""
    temperature: float | None = None
    """Of the boundaries' tokens; None: the scorer's."""

    def split(self, values: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
        """Something [N] by boundary, and by row."""
        parts = np.split(values, np.cumsum((*self.answers, *self.owned)))
        return parts[: len(self.answers)], parts[len(self.answers) : -1]


def lay_out_request(request: ScoreRequest, rows: Sequence[Row] = ()) -> Line:
    """Raises ValueError for cuts, spans or branches out of range, and for rows whose first token is trained."""
    branches = [np.asarray(ids, dtype=np.int64) for ids in (request.ids, *request.others)]
    on = [0] * len(request.cuts) if request.on is None else request.on
    _check(request, on, branches)
    seen = [max((cut for cut, at in zip(request.cuts, on, strict=True) if at == n), default=0) for n in range(len(branches))]
    whole = [replace(row, trajectory="t") for row in rows]
    tree = lay_out([*whole, *(_unscored(ids[:end]) for ids, end in zip(branches, seen, strict=True))])
    where = tree.where[len(rows) :]
    probes = _Probes(len(tree.ids), where)
    boundaries: dict[tuple[int, int], list[int]] = {}
    for index, place in enumerate(zip(on, request.cuts, strict=True)):
        boundaries.setdefault(place, []).append(index)
    # Neighbours that see further and further are attended to together.
    for (branch, cut), indices in sorted(boundaries.items()):
        probes.add(branch, cut, {i: (request.continuations[i], request.answer_spans[i]) for i in indices})
    sources, targets = [probes.source[b] for b in range(len(on))], [probes.target[b] for b in range(len(on))]
    for row, places in zip(rows, tree.where, strict=False):
        trained = np.flatnonzero(row.loss_mask)
        if trained.size and trained[0] == 0:
            raise ValueError(f"row {row.trajectory or '?'}: its first token cannot be scored, nothing precedes it")
        sources.append(places[trained - 1])
        targets.append(row.ids[trained])
    return Line(
        ids=np.concatenate((tree.ids, *probes.ids)),
        positions=np.concatenate((tree.positions, *probes.positions)),
        stretches=(*tree.stretches, *probes.stretches),
        source=_joined(sources),
        target=_joined(targets),
        answers=tuple(len(one) for one in targets[: len(on)]),
        owned=tuple(len(one) for one in targets[len(on) :]),
        temperature=request.temperature,
    )


def one_pass(lines: Sequence[Line], temperature: float, device: torch.device | str) -> MicroBatch:
    """Lines behind each other, for one forward; its scored tokens are those of the lines in their order."""
    starts = np.cumsum([0, *(len(line.ids) for line in lines)])
    # Each token its own only where they differ: it is a division of all logits.
    mixed = any(line.temperature not in (None, temperature) for line in lines)
    heat = [np.repeat([line.temperature or temperature, temperature], [sum(line.answers), sum(line.owned)]) for line in lines]

    def tensor(parts: Sequence[IntArray]) -> torch.Tensor:
        return torch.from_numpy(_joined(parts)).to(device)

    return MicroBatch(
        rows=(),
        ids=tensor([line.ids for line in lines])[None],
        positions=tensor([line.positions for line in lines])[None],
        stretches=tuple(_shift(one, int(by)) for line, by in zip(lines, starts, strict=False) for one in line.stretches),
        source=tensor([line.source + by for line, by in zip(lines, starts, strict=False)]),
        target=tensor([line.target for line in lines]),
        row_index=tensor([np.full(len(line.target), index, dtype=np.int64) for index, line in enumerate(lines)]),
        temperatures=torch.from_numpy(np.concatenate(heat)).float().to(device) if mixed else None,
    )


IDLE = Line(
    ids=np.zeros(2, dtype=np.int64),
    positions=np.arange(2),
    stretches=(Stretch(2),),
    source=np.zeros(1, dtype=np.int64),
    target=np.zeros(1, dtype=np.int64),
    answers=(1,),
)
"""What a rank computes because others need its part of the model."""


class _Probes:
    """Continuations, laid out one behind the other."""

    def __init__(self, start: int, where: Sequence[IntArray]) -> None:
        self.start = start
        self.where = where
        self._spans = [spans(places) for places in where]
        self.ids: list[IntArray] = []
        self.positions: list[IntArray] = []
        self.stretches: list[Stretch] = []
        self.source: dict[int, IntArray] = {}
        self.target: dict[int, IntArray] = {}

    def add(self, branch: int, cut: int, asked: Mapping[int, tuple[Sequence[int], Span]]) -> None:
        """What is teacher-forced at one boundary, by index; what all of it begins with is laid out once."""
        prefix = _beginning(self._spans[branch], cut)
        # The last answer token is predicted, never read.
        reads = {index: np.asarray(ids[: end - 1], dtype=np.int64) for index, (ids, (_, end)) in asked.items()}
        shared = _shared(list(reads.values()))
        trunk = self._stretch(next(iter(reads.values()))[:shared], cut, prefix)
        behind = (*prefix, (self.start - shared, self.start)) if shared else prefix
        for index, (ids, (first, end)) in asked.items():
            own = self._stretch(reads[index][shared:], cut + shared, behind)
            before = np.concatenate((self.where[branch][cut - 1 : cut], trunk, own))
            self.source[index], self.target[index] = before[first:end], np.asarray(ids[first:end], dtype=np.int64)

    def _stretch(self, ids: IntArray, position: int, prefix: tuple[Span, ...]) -> IntArray:
        """Ids at the end of the line; where they stand."""
        if len(ids):
            self.stretches.append(Stretch(len(ids), prefix))
        self.ids.append(ids)
        self.positions.append(np.arange(position, position + len(ids)))
        self.start += len(ids)
        return np.arange(self.start - len(ids), self.start)


def _check(request: ScoreRequest, on: Sequence[int], branches: Sequence[IntArray]) -> None:
    parts = zip(request.cuts, on, request.continuations, request.answer_spans, strict=True)
    for cut, branch, continuation, (first, end) in parts:
        if not 0 <= branch < len(branches):
            raise ValueError(f"boundary on branch {branch} of {len(branches)}")
        if not 1 <= cut <= len(branches[branch]):
            raise ValueError(f"cut {cut} is not within 1 and {len(branches[branch])}")
        if not 0 <= first < end <= len(continuation):
            raise ValueError(f"answer span {first}:{end} is not within a continuation of {len(continuation)} tokens")


def _shared(reads: Sequence[IntArray]) -> int:
    """How many tokens all of several begin with; 0 for a single one, which shares nothing."""
    return min(common(reads[0], other) for other in reads[1:]) if len(reads) > 1 else 0


def _unscored(ids: IntArray) -> Row:
    return Row(ids, np.zeros(len(ids), dtype=np.bool_), trajectory="t")


def _beginning(whole: Sequence[Span], count: int) -> tuple[Span, ...]:
    """The spans of the first ``count`` places."""
    ends = np.cumsum([end - first for first, end in whole])
    last = bisect_left(ends, count)
    first, _ = whole[last]
    return (*whole[:last], (first, first + count - int(ends[last - 1] if last else 0)))


def _shift(stretch: Stretch, by: int) -> Stretch:
    return Stretch(stretch.length, tuple((first + by, end + by) for first, end in stretch.prefix))


def _joined(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate((np.zeros(0, dtype=np.int64), *parts))
