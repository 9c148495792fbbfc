"""Which requests of the scorer stand in one line: those of a family, as far as a line may be long.

Rollouts of one question begin alike, and some are the same token for token; together they cost what is distinct in them. That
is counted request by request, so that nothing is laid out but the lines themselves. Knows no model.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from sanderling.train.contract import IntArray
from sanderling.train.packing import evened
from sanderling.train.prefixes import common, neighbours
from sanderling.train.row_source import grouped
from sanderling.train.scorer_layout import Asked, Ids, Line, lay_out_requests, read_tokens


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
