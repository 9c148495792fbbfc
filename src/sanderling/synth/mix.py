"""Stages of a curriculum: which questions, and how many of each kind, as shares. Pure and deterministic.

A stage names what it takes by fields of the questions (how they were made, capability, hops, length band) and the share of each
part. Where a part runs short the stage is made smaller, never filled up with something else: shares are kept. What several
parts take goes to whichever needs it (`sharing`), so a part runs short only where no way of giving questions out would do. A
question is in one stage only, the first that draws it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from pydantic import BaseModel, ConfigDict, Field

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.data.questions import require_distinct
from sanderling.synth.difficulty import META
from sanderling.synth.sharing import Takers, give_out

_SLACK = 1e-9
"""Sums of shares may fall short of whole numbers by rounding."""


class Part(BaseModel):
    """Some kind of questions, and their share of a stage. An empty tuple takes any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    share: float = Field(gt=0)
    maker: tuple[str, ...] = ()
    """As ``meta.maker`` says: "facts", "graph"."""
    capability: tuple[str, ...] = ()
    hops: tuple[int, ...] = ()
    length: tuple[str, ...] = ()
    """Length bands, such as "lt16k" (`difficulty.length_band`)."""

    def takes(self, question: Question) -> bool:
        """Whether a question is of this kind."""
        meta = question.meta
        told = meta.get(META)
        length = told.get("length", "") if isinstance(told, Mapping) else ""
        pairs = (
            (self.maker, meta.get("maker")),
            (self.capability, meta.get("capability")),
            (self.hops, question.hops),
            (self.length, length),
        )
        return all(not wanted or found in wanted for wanted, found in pairs)


class Stage(BaseModel):
    """One stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[\w][\w.-]*$")
    """Also of its file."""
    count: int = Field(ge=1)
    parts: tuple[Part, ...] = Field(default=(Part(share=1.0),), min_length=1)


class Mix(BaseModel):
    """The stages, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stages: tuple[Stage, ...] = Field(min_length=1)
    seed: int = 0


@dataclass(frozen=True)
class Mixed:
    """A stage's questions, in the order in which a trainer takes them."""

    stage: Stage
    questions: tuple[Question, ...]
    by_part: tuple[int, ...]
    short: str = ""
    """Which part ran short, in one sentence; empty: none."""


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
        taken = _stage(stage, left)
        gone = {question.id for question in taken.questions}
        left = [question for question in left if question.id not in gone]
        found.append(taken)
    return found


def _stage(stage: Stage, left: Sequence[Question]) -> Mixed:
    """Draw a stage, as large as its parts' shares allow."""
    takers = [Takers(place for place, part in enumerate(stage.parts) if part.takes(question)) for question in left]
    found = frozenset().union(*takers)
    for place, part in enumerate(stage.parts):
        if place not in found:
            raise UserError(f"Stage {stage.name!r} finds no question for its part {_told(part)}: leave it out or make some.")
    drawn = [[left[place] for place in places] for places in _given_out(stage, takers)]
    size = sum(map(len, drawn))
    if not size:
        raise UserError(
            f"Stage {stage.name!r} has too few questions for its parts, which take the same ones: leave a part out."
        )
    order = sorted(
        (question for pool in drawn for question in pool), key=lambda question: (_place(0, f"order:{question.id}"), question.id)
    )
    short = "" if size == stage.count else f"{size} of {stage.count}: a part ran short"
    return Mixed(stage, tuple(order), tuple(map(len, drawn)), short)


def _given_out(stage: Stage, takers: Sequence[Takers]) -> list[list[int]]:
    """The places of each part's questions: the whole stage's where they can be had; none where no size can.

    Else the size is the largest of which every part can have its share rounded up.
    """
    total = sum(part.share for part in stage.parts)
    shares = [part.share / total for part in stage.parts]
    fits, breaks = 0, stage.count
    found = give_out(takers, _shared_out(stage.count, shares))
    while found is None and breaks - fits > 1:
        size = (fits + breaks) // 2
        if give_out(takers, [ceil(size * share - _SLACK) for share in shares]) is None:
            breaks = size
        else:
            fits = size
    return found or give_out(takers, _shared_out(fits, shares)) or []


def _shared_out(size: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to ``size``, as near to the shares as can be (largest remainders)."""
    exact = [size * share for share in shares]
    counts = [int(number + _SLACK) for number in exact]
    missing = size - sum(counts)
    for place in sorted(range(len(exact)), key=lambda one: counts[one] - exact[one])[:missing]:
        counts[place] += 1
    return counts


def _told(part: Part) -> str:
    given = part.model_dump(exclude_defaults=True)
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _place(seed: int, id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{id}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
