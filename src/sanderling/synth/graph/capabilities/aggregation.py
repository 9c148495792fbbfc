"""Aggregation: facts of several pages put together: one thing that fits them all, or two values set against each other."""

import random
import re

from sanderling.synth.graph.capabilities.drafting import draft_of, names_in, path_of
from sanderling.synth.graph.contract import Capability, Fact
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import draw_chain, is_decorated, is_followable, needed, spanning_tree, until_unique
from sanderling.synth.graph.query import Node, subject_of
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.tree import Spot, to_query
from sanderling.synth.graph.ways import draw_join
from sanderling.synth.graph.wording import Speaker, TangledError, is_lifted

_COMPARED = 0.3
"""Share of draws that set two values against each other, where a part has them."""


def aggregation(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """See `draft.Generator`."""
    if rng.random() < _COMPARED:
        compared = difference(ground, part, hops, rng)
        if compared is not Dropped.NO_SHAPE:
            return compared
    return common(ground, part, hops, rng)


def common(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """The one thing that all edges of the part come together in."""
    wanted = rng.randint(hops.least, hops.most)
    if not ground.graph.complete:
        return _joined(ground, wanted, rng)
    for answer in rng.sample(part.nodes, len(part.nodes)):
        root = spanning_tree(ground, part, answer, wanted, rng)
        if root is None or len(root.clauses) < 2:
            continue
        told = _told(ground, root, rng)
        if told is not Dropped.NO_SHAPE:
            return told
    return Dropped.NO_SHAPE


def _joined(ground: Ground, wanted: int, rng: random.Random) -> Draft | Dropped:
    """The one thing that two drawn ways come together in."""
    root = draw_join(ground, wanted, rng)
    return _told(ground, root, rng) if root is not None else Dropped.NO_SHAPE


def _told(ground: Ground, root: Spot, rng: random.Random) -> Draft | Dropped:
    """The question of a tree whose answer needs two clauses at least."""
    unique = until_unique(ground, root, rng)
    if unique is None:
        return Dropped.NOT_UNIQUE
    tight = needed(ground, unique)
    if len(tight.clauses) < 2:
        return Dropped.NO_SHAPE
    if not is_followable(ground, tight):
        return Dropped.NOT_FOLLOWABLE
    if is_decorated(ground, tight):
        return Dropped.DECORATED
    return draft_of(ground, tight, Capability.AGGREGATION, "tree", rng)


def difference(ground: Ground, part: Subgraph, hops: Range, rng: random.Random) -> Draft | Dropped:
    """How far two numbers are apart: each the value of a thing that is told vaguely where the hops allow it."""
    things = [node for node in part.nodes if not node.is_literal]
    stated = [fact for node in things for fact in ground.graph.outgoing[node.id]]
    numbers = [fact for fact in stated if fact.is_literal and ground.words.of(fact.relation).is_numeric]
    pairs = [(a, b) for a in numbers for b in numbers if a.relation <= b.relation and a is not b and _differ(a, b)]
    if not pairs or hops.most < 2:
        return Dropped.NO_SHAPE
    first, second = rng.choice(pairs)
    each = max(0, (hops.most - 2) // 2)
    spots = [described(ground, part, subject_of(fact), each, rng) for fact in (first, second)]
    one, other = spots[0], spots[1]
    if one is None or other is None:
        return Dropped.NOT_UNIQUE
    speaker = Speaker(ground, rng)
    one_value, other_value = (_value(ground, fact) for fact in (first, second))
    phrases = [speaker.lift(spot) if is_lifted(spot) else speaker.phrase(spot) for spot in (one, other)]
    if phrases[0] == phrases[1] and first.relation == second.relation:
        raise TangledError
    ends = [f"{value} {phrase}" for value, phrase in zip((one_value, other_value), phrases, strict=True)]
    text = f"how many years lie between {ends[0]} and {ends[1]}?"
    told = speaker.tell(text)
    if any(re.search(rf"(?<!\w){re.escape(fact.object)}(?!\w)", told) for fact in (first, second)):
        return Dropped.NAMES_ANSWER  # both numbers in the question are all that it takes
    facts = (first, *one.facts(), second, *other.facts())
    return Draft(
        capability=Capability.AGGREGATION,
        text=told,
        answers=(str(abs(int(first.object) - int(second.object))),),
        facts=facts,
        hops=len(facts),
        queries=tuple(to_query(spot) for spot in (one, other) if not spot.is_named),
        is_unique=True,
        form="difference",
        named=names_in(ground, one, other),
        depth=1 + max(one.depth(), other.depth()),
        path=path_of(ground, max(one, other, key=Spot.depth)),
        extra={"values": [first.object, second.object]},
    )


def described(ground: Ground, part: Subgraph, node: Node, most: int, rng: random.Random) -> Spot | None:
    """A thing told by a chain of ``most`` facts at most that fits it alone, or by its name."""
    for hops in range(min(most, 2), 0, -1):
        chain = draw_chain(ground, part, hops, rng, start=node)
        unique = until_unique(ground, chain, rng) if chain is not None else None
        if unique is not None and is_followable(ground, tight := needed(ground, unique)):
            return tight
    return Spot(node, is_named=True) if ground.name(node) is not None else None


def _differ(first: Fact, second: Fact) -> bool:
    return first.subject != second.subject and first.object != second.object


def _value(ground: Ground, fact: Fact) -> str:
    """What a numeric relation gives, as a phrase without its thing: "the first year of"."""
    return ground.words.of(fact.relation).noun[0].format(s="").strip()
