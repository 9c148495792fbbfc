"""Requests of the scorer as lines of tokens: what they share once, behind it every boundary's continuation as a stretch.

The branches of a trajectory, and of several where they are laid out together, are one tree. A continuation goes on from its
boundary, at positions to match, and sees nothing else; what stands behind the answer cannot change it and is left out. What is
asked twice at a place of the tree stands there once, and answers that differ share what they begin with, the probe. Rows of the
same trajectories, whose own log-probabilities are wanted from the same pass, are laid out with the branches and add only what
no boundary sees.

Together stand the requests of a *family*, as far as a line may be long: rollouts of one question begin alike, and some are the
same token for token; together they cost what is distinct in them. That is counted request by request, so that nothing is laid
out but the lines themselves.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sanderling.train.contract import FloatArray, IntArray, Row, ScoreRequest
from sanderling.train.packed.attention import Span, Stretch
from sanderling.train.packed.packing import MicroBatch, common, evened, joined, neighbours, spans, trees
from sanderling.train.row_source import grouped

Ids = tuple[int, ...]
Key = tuple[int, int]
"""Number of the request in its line, and of the boundary in it."""


@dataclass(frozen=True)
class Asked:
    """A request, and rows of its trajectory: what has to be laid out."""

    request: ScoreRequest
    rows: Sequence[Row]
    on: Sequence[int]
    """Each boundary's branch."""
    branches: tuple[IntArray, ...]
    """Each branch up to its last boundary."""

    @property
    def longest(self) -> int:
        """Tokens that it takes at least."""
        return max(map(len, self.lines))

    @property
    def lines(self) -> tuple[IntArray, ...]:
        """What is laid out but for continuations: branches, then rows."""
        return (*self.branches, *(row.ids for row in self.rows))


@dataclass(frozen=True)
class Part:
    """How many of a line's scored tokens belong to each boundary of a request, and then to each of its rows."""

    answers: tuple[int, ...]
    owned: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """All of them."""
        return sum(self.answers) + sum(self.owned)

    def split(self, values: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
        """Something for each of them, by boundary and by row."""
        parts = np.split(values, np.cumsum((*self.answers, *self.owned)))
        return parts[: len(self.answers)], parts[len(self.answers) : -1]


@dataclass(frozen=True)
class Line:
    """Requests laid out together. N is the number of scored tokens."""

    ids: IntArray
    positions: IntArray
    stretches: tuple[Stretch, ...]
    source: IntArray
    """[N] where each token is predicted: request by request, those of boundaries, then those of rows."""
    target: IntArray
    """[N]"""
    parts: tuple[Part, ...]
    """Of each request."""
    temperature: float | None = None
    """Of the boundaries' tokens; None: the scorer's."""

    def split(self, values: FloatArray) -> list[FloatArray]:
        """Something [N] by request."""
        return np.split(values, np.cumsum([part.size for part in self.parts]))[:-1]


def asked(request: ScoreRequest, rows: Sequence[Row] = ()) -> Asked:
    """Raises ValueError for cuts, spans or branches out of range, and for rows whose first token is trained."""
    branches = [np.asarray(ids, dtype=np.int64) for ids in (request.ids, *request.others)]
    on = [0] * len(request.cuts) if request.on is None else request.on
    _check(request, on, branches)
    for row in rows:
        if row.loss_mask[:1].any():
            raise ValueError(f"row {row.trajectory or '?'}: its first token cannot be scored, nothing precedes it")
    seen = [0] * len(branches)
    for cut, branch in zip(request.cuts, on, strict=True):
        seen[branch] = max(seen[branch], cut)
    return Asked(request, rows, on, tuple(ids[:end] for ids, end in zip(branches, seen, strict=True)))


def lay_out_requests(several: Sequence[Asked]) -> Line:
    """Requests of one temperature in one line, nothing that they share at their beginning twice."""
    lines = [ids for one in several for ids in one.lines]
    tree = trees(lines, [range(len(lines))])
    where = iter(tree.where)
    boundaries: dict[int, _Boundary] = {}
    owned: list[list[IntArray]] = []
    for number, one in enumerate(several):
        branches = [next(where) for _ in one.branches]
        prefixes = [spans(places) for places in branches]
        owned.append([next(where) for _ in one.rows])
        for index, (branch, cut) in enumerate(zip(one.on, one.request.cuts, strict=True)):
            place = int(branches[branch][cut - 1])
            if place not in boundaries:
                boundaries[place] = _Boundary(place, cut, _beginning(prefixes[branch], cut))
            boundaries[place].asked[number, index] = one.request.continuations[index], one.request.answer_spans[index]
    probes = _Probes(len(tree.ids))
    # Neighbours that see further and further are attended to together.
    for boundary in sorted(boundaries.values(), key=lambda one: one.prefix):
        probes.add(boundary)
    sources, targets, parts = _scored(several, owned, probes)
    return Line(
        ids=np.concatenate((tree.ids, *probes.ids)),
        positions=np.concatenate((tree.positions, *probes.positions)),
        stretches=(*tree.stretches, *probes.stretches),
        source=joined(sources),
        target=joined(targets),
        parts=tuple(parts),
        temperature=several[0].request.temperature,
    )


def read_tokens(unlike: Collection[Ids]) -> int:
    """How many tokens different continuations take that are read behind one boundary: what all begin with stands there once."""
    return sum(map(len, unlike)) - _shared(list(unlike)) * (len(unlike) - 1)


def one_pass(lines: Sequence[Line], temperature: float, device: torch.device | str) -> MicroBatch:
    """Lines behind each other, for one forward; its scored tokens are those of the lines in their order."""
    starts = np.cumsum([0, *(len(line.ids) for line in lines)])
    # Each token its own only where they differ: it is a division of all logits.
    mixed = any(line.temperature not in (None, temperature) for line in lines)
    heat = [
        np.repeat([line.temperature or temperature, temperature], [sum(part.answers), sum(part.owned)])
        for line in lines
        for part in line.parts
    ]

    def tensor(parts: Sequence[IntArray]) -> torch.Tensor:
        return torch.from_numpy(joined(parts)).to(device)

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
    parts=(Part((1,)),),
)
"""What a rank computes because others need its part of the model."""


@dataclass
class _Boundary:
    """A place in a line, and what is teacher-forced there."""

    place: int
    """Of the last token before it."""
    cut: int
    """Tokens of its context."""
    prefix: tuple[Span, ...]
    """Where in the line they stand."""
    asked: dict[Key, tuple[Sequence[int], Span]] = field(default_factory=dict)
    """Continuations and their answers' spans."""


class _Probes:
    """Continuations, laid out one behind the other."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.ids: list[IntArray] = []
        self.positions: list[IntArray] = []
        self.stretches: list[Stretch] = []
        self.source: dict[Key, IntArray] = {}
        self.target: dict[Key, IntArray] = {}

    def add(self, boundary: _Boundary) -> None:
        """What is teacher-forced at one boundary: the same once, and what all of it begins with once."""
        # The last answer token is predicted, never read.
        reads = {key: tuple(ids[: end - 1]) for key, (ids, (_, end)) in boundary.asked.items()}
        unlike = dict.fromkeys(reads.values())
        shared = _shared(list(unlike))
        trunk = self._stretch(next(iter(unlike))[:shared], boundary.cut, boundary.prefix)
        behind = (*boundary.prefix, (self.start - shared, self.start)) if shared else boundary.prefix
        before: dict[Ids, IntArray] = {}
        for ids in unlike:
            own = self._stretch(ids[shared:], boundary.cut + shared, behind)
            before[ids] = np.concatenate((np.array([boundary.place]), trunk, own))
        for key, (ids, (first, end)) in boundary.asked.items():
            self.source[key] = before[reads[key]][first:end]
            self.target[key] = np.asarray(ids[first:end], dtype=np.int64)

    def _stretch(self, ids: Sequence[int], position: int, prefix: tuple[Span, ...]) -> IntArray:
        """Ids at the end of the line; where they stand."""
        if ids:
            self.stretches.append(Stretch(len(ids), prefix))
            self.ids.append(np.array(ids, dtype=np.int64))
            self.positions.append(np.arange(position, position + len(ids)))
        self.start += len(ids)
        return np.arange(self.start - len(ids), self.start)


def _scored(
    several: Sequence[Asked], owned: Sequence[Sequence[IntArray]], probes: _Probes
) -> tuple[list[IntArray], list[IntArray], list[Part]]:
    """Where each scored token is predicted, the tokens, and what belongs to whom. ``owned``: where rows stand."""
    sources: list[IntArray] = []
    targets: list[IntArray] = []
    parts: list[Part] = []
    for number, one in enumerate(several):
        keys = [(number, index) for index in range(len(one.request.cuts))]
        trained = [np.flatnonzero(row.loss_mask) for row in one.rows]
        sources += [probes.source[key] for key in keys]
        sources += [places[at - 1] for places, at in zip(owned[number], trained, strict=True)]
        targets += [probes.target[key] for key in keys]
        targets += [row.ids[at] for row, at in zip(one.rows, trained, strict=True)]
        parts.append(Part(tuple(len(probes.target[key]) for key in keys), tuple(at.size for at in trained)))
    return sources, targets, parts


def _check(request: ScoreRequest, on: Sequence[int], branches: Sequence[IntArray]) -> None:
    parts = zip(request.cuts, on, request.continuations, request.answer_spans, strict=True)
    for cut, branch, continuation, (first, end) in parts:
        if not 0 <= branch < len(branches):
            raise ValueError(f"boundary on branch {branch} of {len(branches)}")
        if not 1 <= cut <= len(branches[branch]):
            raise ValueError(f"cut {cut} is not within 1 and {len(branches[branch])}")
        if not 0 <= first < end <= len(continuation):
            raise ValueError(f"answer span {first}:{end} is not within a continuation of {len(continuation)} tokens")


def _shared(reads: Sequence[Ids]) -> int:
    """How many tokens all of several begin with; 0 for a single one, which shares nothing."""
    if len(reads) < 2:
        return 0
    first = np.array(reads[0], dtype=np.int64)
    return min(common(first, np.array(other, dtype=np.int64)) for other in reads[1:])


def _beginning(whole: Sequence[Span], count: int) -> tuple[Span, ...]:
    """The spans of the first ``count`` places."""
    ends = np.cumsum([end - first for first, end in whole])
    last = bisect_left(ends, count)
    first, _ = whole[last]
    return (*whole[:last], (first, first + count - int(ends[last - 1] if last else 0)))


def _shift(stretch: Stretch, by: int) -> Stretch:
    return Stretch(stretch.length, tuple((first + by, end + by) for first, end in stretch.prefix))


def lines_of(several: Sequence[Asked], budget: int, hands: int = 1) -> list[tuple[list[int], Line]]:
    """Requests (by index) that stand in one line, and the line; deterministic.

    Only those of one family and temperature are put together, and only while their line takes at most ``budget`` tokens and
    ``hands`` that share out lines have about equal work. A longer request is alone, but for those that add nothing to it.
    Requests that ask for nothing are in none.
    """
    asking = [index for index, one in enumerate(several) if one.request.cuts or any(row.loss_mask.any() for row in one.rows)]
    kinds = [(several[index].request.family, several[index].request.temperature) for index in asking]
    together = grouped([f"{temperature} {family}" if family else "" for family, temperature in kinds])
    families = [_Family(several, [asking[place] for place in members]) for members in together]

    def cut(tokens: int) -> list[tuple[list[int], int]]:
        return [part for family in families for part in family.cut(tokens)]

    longest = max((several[index].longest for index in asking), default=0)
    parts = evened(cut, lambda part: part[1], budget, longest, hands)
    return [(members, lay_out_requests([several[index] for index in members])) for members, _ in parts]


class _Family:
    """Requests that may stand in one line, in the order in which neighbours share most."""

    def __init__(self, several: Sequence[Asked], members: Sequence[int]) -> None:
        self._several = several
        self._order = neighbours([one.branches[0] for one in several], members)
        every = [ids for index in self._order for ids in several[index].lines]
        ranked = neighbours(every, range(len(every)))
        self._lines = [every[place] for place in ranked]
        """What is laid out of all of them; by rank in the order of a dictionary."""
        ranks = iter(sorted(range(len(every)), key=ranked.__getitem__))
        self._ranks = [[next(ranks) for _ in several[index].lines] for index in self._order]

    def cut(self, budget: int) -> Iterator[tuple[list[int], int]]:
        """Neighbours (by index) that take at most ``budget`` tokens in one line, and the tokens."""
        held: list[int] = []
        count = _Count(self._lines)
        for index, ranks in zip(self._order, self._ranks, strict=True):
            before = count.tokens
            count.add(self._several[index], ranks)
            if held and before < count.tokens > budget:
                yield held, before
                held, count = [], _Count(self._lines)
                count.add(self._several[index], ranks)
            held.append(index)
        yield held, count.tokens


class _Count:
    """How many tokens requests take in one line, as they come."""

    def __init__(self, lines: Sequence[IntArray]) -> None:
        self.tokens = 0
        self._lines = lines
        self._held: list[int] = []
        """Ranks of the lines that came, ascending: none shares more with a new one than those that it stands between."""
        self._origin: dict[int, tuple[int, int]] = {}
        """Of each how many tokens it shared when it came, and with which."""
        self._reads: dict[tuple[int, int], dict[Ids, None]] = {}
        """What is read behind each boundary, by its place in the tree."""

    def add(self, one: Asked, ranks: Sequence[int]) -> None:
        """One more, with the ranks of its lines."""
        for rank in ranks:
            if rank not in self._origin:
                self._add(rank)
        request = one.request
        parts = zip(one.on, request.cuts, request.continuations, request.answer_spans, strict=True)
        for branch, cut, ids, (_, end) in parts:
            reads, read = self._reads.setdefault(self._place(ranks[branch], cut), {}), tuple(ids[: end - 1])
            if read not in reads:
                before = read_tokens(reads)
                reads[read] = None
                self.tokens += read_tokens(reads) - before

    def _add(self, rank: int) -> None:
        ids, at = self._lines[rank], bisect_left(self._held, rank)
        beside = self._held[max(0, at - 1) : at + 1]
        self._origin[rank] = max(((common(self._lines[other], ids), other) for other in beside), default=(0, rank))
        self._held.insert(at, rank)
        self.tokens += len(ids) - self._origin[rank][0]

    def _place(self, rank: int, depth: int) -> tuple[int, int]:
        """A token of a line, said the same way for all lines that begin with it."""
        while depth <= self._origin[rank][0]:
            rank = self._origin[rank][1]
        return rank, depth
