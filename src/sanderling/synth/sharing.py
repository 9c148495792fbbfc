"""Gives candidates out to parts that want so many each, a candidate to one part only: whenever that can be done, it is done.

Parts take in their order, the first candidates first. One that then falls short takes over from another part what that one can
replace, along as many parts as it needs (augmenting paths). Candidates that the same parts take are alike, so that a path is
found over kinds, not over candidates. Pure and deterministic; knows no question.
"""

from collections import deque
from collections.abc import Sequence

Takers = frozenset[int]
"""The parts that take a candidate."""


def give_out(candidates: Sequence[Takers], wanted: Sequence[int]) -> list[list[int]] | None:
    """The places of the candidates of each part, in order; None where the parts cannot all have what they want."""
    table = _Table(candidates, wanted)
    for part, number in enumerate(wanted):
        while table.count(part) < number:
            if not table.take_over(part):
                return None
    return [table.of_part(part) for part in range(len(wanted))]


class _Table:
    """Who has what; begun by letting each part in turn take the first of what is left."""

    def __init__(self, candidates: Sequence[Takers], wanted: Sequence[int]) -> None:
        self._kinds = tuple(dict.fromkeys(candidates))
        self._free: dict[Takers, deque[int]] = {kind: deque() for kind in self._kinds}
        self._held: dict[tuple[int, Takers], list[int]] = {(part, kind): [] for kind in self._kinds for part in kind}
        missing = list(wanted)
        owners: dict[int, int] = {}
        for part in range(len(wanted)):
            for place, kind in enumerate(candidates):
                if not missing[part]:
                    break
                if part in kind and place not in owners:
                    owners[place] = part
                    missing[part] -= 1
        for place, kind in enumerate(candidates):
            (self._held[(owners[place], kind)] if place in owners else self._free[kind]).append(place)

    def count(self, part: int) -> int:
        """How many a part has."""
        return sum(len(self._held[(part, kind)]) for kind in self._kinds if part in kind)

    def of_part(self, part: int) -> list[int]:
        """What a part has, in order."""
        return sorted(place for kind in self._kinds if part in kind for place in self._held[(part, kind)])

    def take_over(self, part: int) -> bool:
        """Give a part one more, while no other has less; False when that cannot be."""
        came: dict[int, tuple[int, Takers] | None] = {part: None}
        queue = [part]
        for at in queue:
            for kind in self._kinds:
                if at not in kind:
                    continue
                if self._free[kind]:
                    self._shift(at, kind, came)
                    return True
                for other in sorted(kind):
                    if other not in came and self._held[(other, kind)]:
                        came[other] = (at, kind)
                        queue.append(other)
        return False

    def _shift(self, at: int, kind: Takers, came: dict[int, tuple[int, Takers] | None]) -> None:
        """One free candidate to the part at the end of a way, and one from each part there to the one before it."""
        self._held[(at, kind)].append(self._free[kind].popleft())
        while (step := came[at]) is not None:
            before, given = step
            self._held[(before, given)].append(self._held[(at, given)].pop())
            at = before
