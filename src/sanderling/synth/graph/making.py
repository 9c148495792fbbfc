"""Makes questions from a graph: draws parts, hands them to generators in turn, checks what comes back, and keeps count.

The capability with the fewest questions has the next draw, so that each gets its share as far as the graph has questions of it;
one that finds nothing for long is given up. The same graph, settings and seed give the same questions. Opens no file.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sanderling.synth.graph.capabilities.registry import GENERATORS
from sanderling.synth.graph.checks import fault
from sanderling.synth.graph.contract import Capability, Uniqueness
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import Atom, Query
from sanderling.synth.graph.quotas import Quotas
from sanderling.synth.graph.sampling import sample
from sanderling.synth.graph.wording import TangledError

_SIZES, _HOPS = Range(5, 7), Range(2, 5)
_SINGLE = frozenset({"chain", "tree"})
_LEAST_OF_ANSWER, _ANSWERS = 2, 50
"""An answer is asked for twice, or by a fiftieth of all questions: hubs would else answer too many."""
_PATIENCE = 1_000
"""Draws in a row without a question after which a capability is given up."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Wish:
    """What is wanted."""

    count: int
    sizes: Range = _SIZES
    """Things in a part of the graph."""
    hops: Range = _HOPS
    """Facts that have to be put together; groups have one for each member besides."""
    capabilities: tuple[Capability, ...] = tuple(Capability)
    seed: int = 0


@dataclass
class Made:
    """The questions, and what became of every draw."""

    drafts: list[tuple[Draft, Uniqueness]] = field(default_factory=list)
    drawn: Counter[Capability] = field(default_factory=Counter)
    kept: Counter[Capability] = field(default_factory=Counter)
    dropped: dict[Capability, Counter[Dropped]] = field(default_factory=dict)


def make(ground: Ground, wish: Wish, progress: Progress = lambda _: None) -> Made:
    """As many different questions as are wished for, or as there are to be found."""
    made = Made()
    sure = Uniqueness.PROVEN if ground.graph.complete else Uniqueness.UNCHECKED
    seen: set[tuple[object, ...]] = set()
    asked: Counter[tuple[str, ...]] = Counter()
    misses: Counter[Capability] = Counter()
    open_to: list[Capability] = list(wish.capabilities)
    quotas = Quotas(ground, wish.count)
    held: set[Capability] = set()  # of which there were more, but for the quotas
    rng = random.Random(f"graph questions:{wish.seed}")
    while len(made.drafts) < wish.count and open_to and ground.relations:
        capability = min(open_to, key=lambda one: made.kept[one])
        outcome = _one(ground, wish, capability, rng, seen, asked, quotas)
        made.drawn[capability] += 1
        if isinstance(outcome, Dropped):
            made.dropped.setdefault(capability, Counter())[outcome] += 1
            misses[capability] += 1
            if outcome is Dropped.TOO_OFTEN:
                held.add(capability)
            if misses[capability] >= _PATIENCE:
                open_to.remove(capability)
            if not open_to and held and quotas.loosen():
                open_to = [one for one in wish.capabilities if one in held]
                held.clear()
                misses.clear()
            continue
        misses[capability] = 0
        made.kept[capability] += 1
        made.drafts.append((outcome, sure))
        progress(len(made.drafts))
    return made


def _one(
    ground: Ground,
    wish: Wish,
    capability: Capability,
    rng: random.Random,
    seen: set[tuple[object, ...]],
    asked: Counter[tuple[str, ...]],
    quotas: Quotas,
) -> Draft | Dropped:
    part = sample(ground, rng.randint(wish.sizes.least, wish.sizes.most), rng)
    try:
        draft = GENERATORS[capability](ground, part, wish.hops, rng)
    except TangledError:
        return Dropped.TANGLED
    if isinstance(draft, Dropped):
        return draft
    if reason := fault(ground, draft, wish.hops):
        return reason
    is_limited = draft.form in _SINGLE or not ground.graph.complete
    if is_limited and asked[_told(draft)] >= max(_LEAST_OF_ANSWER, wish.count // _ANSWERS):
        return Dropped.ANSWER_AGAIN
    key = _asked(draft)
    if key in seen:
        return Dropped.REPEATED
    if not quotas.has_room(draft):
        return Dropped.TOO_OFTEN
    seen.add(key)
    asked[_told(draft)] += 1
    quotas.take(draft)
    return draft


def _asked(draft: Draft) -> tuple[object, ...]:
    """Equal for drafts that ask the same: their constraints, and of two values that are set against each other the facts."""
    compared = draft.facts if draft.form == "difference" else ()
    return tuple(sorted((*(_in_order(query) for query in draft.queries), *compared), key=repr))


def _told(draft: Draft) -> tuple[str, ...]:
    """What a draft is about: its answer, or the things that it counts."""
    items = draft.extra.get("items")
    return tuple(names[0] for names in items) if items else draft.answers


def _in_order(query: Query) -> Query:
    atoms: Sequence[Atom] = sorted(query.atoms, key=repr)
    return Query(tuple(atoms))
