"""What a generator hands back: a question with its evidence, or the reason why there is none. Knows no generator."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from sanderling.synth.graph.contract import Capability, Fact
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import Node, Query
from sanderling.synth.graph.sampling import Subgraph


class Dropped(StrEnum):
    """Why a draw became no question."""

    NO_SHAPE = "no-shape"
    """The part of the graph holds nothing of the form that the generator makes."""
    NOT_UNIQUE = "not-unique"
    """Another answer fits, and no further constraint was at hand."""
    NAMES_ANSWER = "names-answer"
    ONE_PAGE = "one-page"
    """One page states every fact of a question of several hops."""
    TANGLED = "tangled"
    """It cannot be told without leaving open what belongs to what, or names something that has no name of its own."""
    TOO_LONG = "too-long"
    NOT_FOLLOWABLE = "not-followable"
    """Something on the way is told so that many things fit it."""
    DECORATED = "decorated"
    """A constraint is not needed by a reader who knows what kind of thing is asked for."""
    TOO_FEW_HOPS = "too-few-hops"
    """Without the constraints that its answer does not need."""
    TOO_MANY_HOPS = "too-many-hops"
    """With the constraints that it took to leave one answer."""
    REPEATED = "repeated"
    """The same constraints were asked before."""
    ANSWER_AGAIN = "answer-again"
    """Enough questions have the same answer."""
    LONG_ANSWER = "long-answer"
    TOO_PLAIN = "too-plain"
    """Its facts are hardly more than one step: the others quote words, or lead from "os.fork()" to "os"."""
    TOO_OFTEN = "too-often"
    """Enough questions have this form, this last step, or one of these facts or names."""


@dataclass(frozen=True)
class Draft:
    """A question before it is checked and numbered."""

    capability: Capability
    text: str
    answers: tuple[str, ...]
    facts: tuple[Fact, ...]
    """All that it rests on, from the answer outwards."""
    hops: int
    """How many facts have to be put together; those of a group's further members do not count."""
    queries: tuple[Query, ...]
    """What was solved to make sure of the answer."""
    is_unique: bool
    form: str
    """What the generator made: "chain", "tree", "count"."""
    named: tuple[str, ...] = ()
    """The names and values that the question gives."""
    depth: int = 1
    """The longest way from a name in the question to the answer."""
    touching: tuple[Fact, ...] = ()
    """Of its facts, those about the answer itself; empty where the answer is computed."""
    between: tuple[tuple[Node, tuple[Fact, ...]], ...] = ()
    """Of a list or count: the things on the way that are not named, each with the facts that tell it."""
    path: tuple[str, ...] = ()
    """The things on that way, the named one first."""
    hidden: tuple[str, ...] = ()
    """Pages that the question must not see: short cuts that its answer does not need."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further things worth keeping: the items of a list, the numbers behind a sum."""


@dataclass(frozen=True, slots=True)
class Range:
    """From a least number to a greatest, both in it."""

    least: int
    most: int


class Generator(Protocol):
    """Makes questions of one capability from parts of a graph."""

    def __call__(self, ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
        """One question of so many hops, or the reason why not. May raise `wording.TangledError`."""
        ...
