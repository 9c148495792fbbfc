"""Stages of a curriculum: which questions, and how many of each kind, as shares. Pure and deterministic.

A stage names what it takes by fields of the questions (how they were made, capability, hops, length band) and the share of each
part. Where a part runs short the stage is made smaller, never filled up with something else: shares are kept. What several
parts take goes to whichever needs it, so a part runs short only where no way of giving questions out would do. A question is in
one stage only, the first that draws it.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from pydantic import Field

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import require_distinct
from sanderling.rl.curriculum import META

_SLACK = 1e-9
"""Sums of shares may fall short of whole numbers by rounding."""


class Part(Frozen):
    """Some kind of questions, and their share of a stage. An empty tuple takes any."""

    share: float = Field(gt=0)
    maker: tuple[str, ...] = ()
    """As ``meta.maker`` says: "facts", "graph", "reading"."""
    capability: tuple[str, ...] = ()
    hops: tuple[int, ...] = ()
    length: tuple[str, ...] = ()
    """Length bands, such as "lt16k" (`difficulty.length_band`)."""

    def takes(self, question: Question) -> bool:
        """Whether a question is of this kind."""
        measured = question.meta.get(META)
        length = measured.get("length", "") if isinstance(measured, Mapping) else ""
        pairs = (
            (self.maker, question.meta.get("maker")),
            (self.capability, question.meta.get("capability")),
            (self.hops, question.hops),
            (self.length, length),
        )
        return all(not wanted or found in wanted for wanted, found in pairs)


class Stage(Frozen):
    """One stage."""

    name: str = Field(pattern=r"^[\w][\w.-]*$")
    """Also of its file."""
    count: int = Field(ge=1)
    parts: tuple[Part, ...] = Field(default=(Part(share=1.0),), min_length=1)


class Mix(Frozen):
    """The stages, in their order."""

    stages: tuple[Stage, ...] = Field(min_length=1)
    seed: int = 0


@dataclass(frozen=True)
class Mixed:
    """A stage's questions, in the order in which a trainer takes them."""

    stage: Stage
    questions: tuple[Question, ...]
    by_part: tuple[int, ...]
    short: str = ""
    """That a part ran short, in one sentence; empty: none did."""


def mix(questions: Iterable[Question], plan: Mix) -> list[Mixed]:
    """The stages' questions. Raises UserError for stages of one name, questions of one id, or a part without questions."""
    for name, count in Counter(stage.name for stage in plan.stages).items():
        if count > 1:
            raise UserError(f"{count} stages are named {name!r}: give each its own name.")
    questions = list(questions)
    require_distinct(questions)
    left = sorted(questions, key=lambda question: (_place(plan.seed, question.id), question.id))
    found: list[Mixed] = []
    for stage in plan.stages:
        found.append(_draw_stage(stage, left))
        gone = {question.id for question in found[-1].questions}
        left = [question for question in left if question.id not in gone]
    return found


def _draw_stage(stage: Stage, left: Sequence[Question]) -> Mixed:
    """Draw a stage, as large as its parts' shares allow."""
    takers = [frozenset(place for place, part in enumerate(stage.parts) if part.takes(question)) for question in left]
    found = frozenset().union(*takers)
    for place, part in enumerate(stage.parts):
        if place not in found:
            given = ", ".join(f"{name}={value}" for name, value in part.model_dump(exclude_defaults=True).items())
            raise UserError(f"Stage {stage.name!r} finds no question for its part {given}: leave it out or make some.")
    places = _largest(stage, takers)
    size = sum(map(len, places))
    if not size:
        raise UserError(
            f"Stage {stage.name!r} has too few questions for its parts, which take the same ones: leave a part out."
        )
    drawn = (left[place] for part in places for place in part)
    order = sorted(drawn, key=lambda question: (_place(0, f"order:{question.id}"), question.id))
    short = "" if size == stage.count else f"{size} of {stage.count}: a part ran short"
    return Mixed(stage, tuple(order), tuple(map(len, places)), short)


def _largest(stage: Stage, takers: Sequence[frozenset[int]]) -> list[list[int]]:
    """The places of each part's questions: the whole stage's where they can be had; none where no size can.

    Otherwise the size is the largest of which every part can have its share rounded up.
    """
    total = sum(part.share for part in stage.parts)
    shares = [part.share / total for part in stage.parts]
    fits, breaks = 0, stage.count
    found = _give_out(takers, shared_out(stage.count, shares))
    while found is None and breaks - fits > 1:
        size = (fits + breaks) // 2
        if _give_out(takers, [ceil(size * share - _SLACK) for share in shares]) is None:
            breaks = size
        else:
            fits = size
    return found or _give_out(takers, shared_out(fits, shares)) or []


def shared_out(size: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to ``size``, as near to the shares as can be (largest remainders).

    Example: ``shared_out(10, [0.75, 0.25]) == [8, 2]``
    """
    exact = [size * share for share in shares]
    counts = [int(number + _SLACK) for number in exact]
    missing = size - sum(counts)
    for place in sorted(range(len(exact)), key=lambda one: counts[one] - exact[one])[:missing]:
        counts[place] += 1
    return counts


def _give_out(candidates: Sequence[frozenset[int]], wanted: Sequence[int]) -> list[list[int]] | None:
    """The places of each part's candidates, in order; None where the parts cannot all have so many as they want.

    A candidate is the set of the parts that take it, and goes to one of them. Parts take in their order, the first candidates
    first. One that then falls short takes over from another part what that one can replace, along as many parts as it needs
    (augmenting paths). Candidates that the same parts take are alike, so that a path is found over kinds, not candidates.
    """
    free: dict[frozenset[int], deque[int]] = {kind: deque() for kind in candidates}
    held: dict[tuple[int, frozenset[int]], list[int]] = {(part, kind): [] for kind in free for part in kind}
    owners: dict[int, int] = {}
    for part, number in enumerate(wanted):
        mine = [place for place, kind in enumerate(candidates) if part in kind and place not in owners]
        owners.update(dict.fromkeys(mine[:number], part))
    for place, kind in enumerate(candidates):
        (held[(owners[place], kind)] if place in owners else free[kind]).append(place)

    def take_over(part: int) -> bool:
        """Give a part one more, while no other has less; False when that cannot be."""
        came: dict[int, tuple[int, frozenset[int]] | None] = {part: None}
        queue = [part]
        for at in queue:
            for kind in (kind for kind in free if at in kind):
                if free[kind]:
                    held[(at, kind)].append(free[kind].popleft())
                    while (step := came[at]) is not None:
                        before, given = step
                        held[(before, given)].append(held[(at, given)].pop())
                        at = before
                    return True
                for other in sorted(kind):
                    if other not in came and held[(other, kind)]:
                        came[other] = (at, kind)
                        queue.append(other)
        return False

    for part, number in enumerate(wanted):
        while sum(len(places) for (owner, _), places in held.items() if owner == part) < number:
            if not take_over(part):
                return None
    return [
        sorted(place for (owner, _), places in held.items() if owner == part for place in places) for part in range(len(wanted))
    ]


def _place(seed: int, id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{id}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
