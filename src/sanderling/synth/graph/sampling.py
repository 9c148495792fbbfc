"""A small connected part of a graph, drawn by seed: from a random fact of a random relation on.

What has most edges to what is there is always taken in next. Ties fall by chance: each candidate's edges count with up to
half an edge more (arXiv 2604.17931). Values are taken in as things are, though nothing is reached through them, and no more
than a few of them; claims of other sites are no edges. Knows no question.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sanderling.synth.graph.contract import Fact, FactGraph
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import Node, object_of, subject_of
from sanderling.synth.graph.words.contract import is_claim

MOST_ALIKE = 6
"""Facts of one thing, of one relation and direction, that are looked at; of more, as many are drawn: hubs would else hide
the rest."""
MOST_VALUES = 2
"""Values (years, versions) in one part."""
_CHANCE = 0.5


@dataclass(frozen=True)
class Subgraph:
    """Things, in the order in which they came in, and the facts that join them."""

    nodes: tuple[Node, ...]
    facts: tuple[Fact, ...]

    def touching(self, node: Node) -> Iterator[tuple[Fact, Node]]:
        """The facts of one thing, each with its other end."""
        for fact in self.facts:
            subject, object = subject_of(fact), object_of(fact)
            if subject == node:
                yield fact, object
            elif object == node:
                yield fact, subject


def sample(ground: Ground, size: int, rng: random.Random) -> Subgraph:
    """Draw a part of ``size`` things; smaller where the root's surroundings are."""
    start = rng.choice(ground.facts_of[rng.choice(ground.relations)])
    root = Node(start.subject if start.is_literal or rng.random() < _CHANCE else start.object)
    inside: dict[Node, None] = {root: None}
    facts: dict[Fact, None] = {}
    rim: dict[Node, list[Fact]] = {}
    at, values = root, 0
    while True:
        for fact, other in around(ground.graph, at, rng):
            if other in inside:
                facts[fact] = None
            elif not other.is_literal or values < MOST_VALUES:
                rim.setdefault(other, []).append(fact)
        if len(inside) == size or not rim:
            return Subgraph(tuple(inside), tuple(facts))
        at = max(rim, key=lambda node: len(rim[node]) + rng.random() * _CHANCE)
        facts.update(dict.fromkeys(rim.pop(at)))
        inside[at] = None
        values += at.is_literal
        if values == MOST_VALUES:
            rim = {node: edges for node, edges in rim.items() if not node.is_literal}


def walk(ground: Ground, start: Node, size: int, rng: random.Random) -> Subgraph:
    """Things in a row, each joined to the one before; fewer where the way ends. Long chains are rare in other parts."""
    nodes, facts = [start], list[Fact]()
    while len(nodes) < size:
        near = [(fact, other) for fact, other in around(ground.graph, nodes[-1], rng) if other not in nodes]
        near = [(fact, other) for fact, other in near if not other.is_literal or len(nodes) == size - 1]
        if not near:
            break
        fact, other = rng.choice(near)
        nodes.append(other)
        facts.append(fact)
    return Subgraph(tuple(nodes), tuple(facts))


def around(graph: FactGraph, node: Node, rng: random.Random) -> list[tuple[Fact, Node]]:
    """The facts of an entity, each with its other end; a literal leads nowhere."""
    if node.is_literal:
        return []
    alike: dict[tuple[str, bool], list[tuple[Fact, Node]]] = {}
    for fact in graph.outgoing[node.id]:
        alike.setdefault((fact.relation, True), []).append((fact, object_of(fact)))
    for fact in graph.incoming[node.id]:
        alike.setdefault((fact.relation, False), []).append((fact, subject_of(fact)))
    return [
        (fact, other)
        for (relation, _), found in alike.items()
        if not is_claim(relation)
        for fact, other in (found if len(found) <= MOST_ALIKE else rng.sample(found, MOST_ALIKE))
        if other != node
    ]
