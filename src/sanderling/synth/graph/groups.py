"""Groups of things that share a fact: what lists and counts are asked about.

"Every person whose home town is TOWN", where TOWN is told by a chain that fits it alone. Only relations of which all facts are
known make groups: those of a complete graph, or those whose words say that a maker finds them all. Knows no wording.
"""

import random
from dataclasses import dataclass

from sanderling.synth.graph.capabilities.aggregation import described
from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.draft import Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import is_followable, needed, until_unique
from sanderling.synth.graph.matcher import answers
from sanderling.synth.graph.query import Node, Query, object_of, subject_of
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.tree import Clause, Spot, to_query
from sanderling.synth.graph.ways import steps, way_from

_LONGEST_WAY = 3
_TRIED = 6
"""Facts from anywhere that are tried beside the part's, where few relations are wholly known."""


@dataclass(frozen=True)
class Group:
    """All things that one clause fits, and the facts that say so."""

    root: Spot
    """The clause as a tree; its own thing is one of the group."""
    members: tuple[Node, ...]
    facts: tuple[Fact, ...]
    """Of each member, then those that tell what they share."""
    query: Query

    @property
    def hops(self) -> int:
        """The facts that tell what the members share, and the one that joins a member to it."""
        return sum(1 for _ in self.root.facts())

    @property
    def kind_of(self) -> Node:
        """A member, for the word that says what they are."""
        return self.members[0]


def draw_group(ground: Ground, part: Subgraph, hops: Range, sizes: Range, rng: random.Random) -> Group | Dropped:
    """A group of so many members from the part's facts; their common thing is told in at most ``hops.most - 1`` facts."""
    edges = [fact for fact in part.facts if _is_known(ground, fact.relation)]
    rng.shuffle(edges)
    known = [relation for relation in ground.relations if _is_known(ground, relation)]
    if known and not ground.graph.complete:
        edges = _anywhere(ground, rng.choice(known), rng)
    for fact in edges:
        member, shared = subject_of(fact), object_of(fact)
        kind = ground.kind(member)
        members = of_kind(ground, ground.index.subjects[(fact.relation, shared)], kind)
        if not kind or not sizes.least <= len(members) <= sizes.most or not _is_whole(ground, fact, members):
            continue
        if shared.is_literal:
            spot = Spot(shared, is_named=True)
        elif ground.graph.complete or hops.most < 2:
            spot = _told(ground, part, shared, member, hops, rng)
        else:
            spot = _way_to(ground, shared, members, hops, rng)
        if spot is None:
            continue
        root = Spot(member, (Clause(fact, spot),))
        query = to_query(root)
        if of_kind(ground, answers(ground.index, query), kind) != members:
            continue
        ordered = tuple(sorted(members, key=lambda node: (ground.answers(node)[0], node.id)))
        facts = tuple(_stated(ground, node, fact.relation, shared) for node in ordered)
        return Group(root, ordered, (*facts, *spot.facts()), query)
    return Dropped.NO_SHAPE


def _anywhere(ground: Ground, relation: str, rng: random.Random) -> list[Fact]:
    """A few facts of a relation, each of them about another thing that members share: large groups would else come up alone."""
    shared: dict[Node, list[Fact]] = {}
    for fact in ground.facts_of[relation]:
        shared.setdefault(object_of(fact), []).append(fact)
    return [rng.choice(shared[node]) for node in rng.sample(sorted(shared), min(len(shared), _TRIED))]


def _is_whole(ground: Ground, fact: Fact, members: frozenset[Node]) -> bool:
    """Whether each of them is stated to share what a fact's subject does, and none may have been taken for another kind."""
    relation, shared = fact.relation, object_of(fact)
    all_kinds = ground.index.subjects[(relation, shared)]
    if not ground.graph.complete and ground.words.of(relation).is_of_one_kind and all_kinds != members:
        return False
    return all(ground.pages.get((node, relation, shared)) for node in members)


def of_kind(ground: Ground, nodes: frozenset[Node], kind: str) -> frozenset[Node]:
    """Those of a kind."""
    return frozenset(node for node in nodes if ground.kind(node) == kind)


def _told(ground: Ground, part: Subgraph, shared: Node, member: Node, hops: Range, rng: random.Random) -> Spot | None:
    rest = Subgraph(
        tuple(node for node in part.nodes if node != member),
        tuple(fact for fact in part.facts if member not in (subject_of(fact), object_of(fact))),
    )
    return described(ground, rest, shared, hops.most - 1, rng)


def _way_to(ground: Ground, shared: Node, members: frozenset[Node], hops: Range, rng: random.Random) -> Spot | None:
    """What the members share, told by a way that leads past them; named, where that is enough of a question."""
    for _ in range(_TRIED):
        way = way_from(ground, shared, rng.randint(1, min(hops.most - 1, _LONGEST_WAY)), rng, tuple(members))
        unique = until_unique(ground, way, rng) if way is not None else None
        if unique is None or any(spot.node in members for spot in unique.spots()):
            continue
        tight = needed(ground, unique)
        if is_followable(ground, tight) and steps(ground, tuple(tight.facts())):
            return tight
    return Spot(shared, is_named=True) if hops.least < 2 and ground.name(shared) is not None else None


def _is_known(ground: Ground, relation: str) -> bool:
    return ground.graph.complete or ground.words.of(relation).is_exhaustive


def _stated(ground: Ground, subject: Node, relation: str, object: Node) -> Fact:
    return next(fact for fact in ground.graph.outgoing[subject.id] if fact.relation == relation and object_of(fact) == object)
