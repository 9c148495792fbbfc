"""Random parts of a graph, and chains and trees through them, from an answer to something with a name.

A part takes in whatever has most edges to what is there, ties broken by chance (arXiv 2604.17931).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sanderling.synth.graph.graph import Fact, FactGraph, Node
from sanderling.synth.graph.tree import Constraint, QueryNode, chain_of

_MOST_VALUES = 2
"""Values (years, products) in one part."""


@dataclass(frozen=True)
class Subgraph:
    """Things, in the order in which they came in, and the facts that join them."""

    nodes: tuple[Node, ...]
    facts: tuple[Fact, ...]

    def touching(self, node: Node) -> Iterator[tuple[Fact, Node]]:
        """The facts of one thing, each with its other end."""
        for fact in self.facts:
            head, tail = fact.head, fact.tail
            if head == node:
                yield fact, tail
            elif tail == node:
                yield fact, head

    def without(self, node: Node) -> "Subgraph":
        """The part without a thing and its facts."""
        facts = (fact for fact in self.facts if node not in (fact.head, fact.tail))
        return Subgraph(tuple(each for each in self.nodes if each != node), tuple(facts))


def sample_subgraph(graph: FactGraph, size: int, rng: random.Random) -> Subgraph:
    """A connected part of ``size`` things; smaller where the surroundings of its first thing are."""
    start = rng.choice(graph.facts_of[rng.choice(list(graph.facts_of))])
    at = Node(start.subject if start.is_literal or rng.random() < 0.5 else start.object)
    inside: dict[Node, None] = {at: None}
    facts: dict[Fact, None] = {}
    rim: dict[Node, list[Fact]] = {}
    values = 0
    while True:
        for fact, other in graph.around(at, rng):
            if other in inside:
                facts[fact] = None
            elif not other.is_literal or values < _MOST_VALUES:
                rim.setdefault(other, []).append(fact)
        if len(inside) == size or not rim:
            return Subgraph(tuple(inside), tuple(facts))
        at = max(rim, key=lambda node: len(rim[node]) + rng.random() / 2)  # chance breaks ties alone
        facts.update(dict.fromkeys(rim.pop(at)))
        inside[at] = None
        values += at.is_literal
        if values == _MOST_VALUES:
            rim = {node: edges for node, edges in rim.items() if not node.is_literal}


def sample_walk(graph: FactGraph, start: Node, size: int, rng: random.Random) -> Subgraph:
    """A part of things in a row, each joined to the one before; fewer where it ends. Other parts rarely have long rows."""
    nodes, facts = [start], list[Fact]()
    while len(nodes) < size:
        near = [(fact, other) for fact, other in graph.around(nodes[-1], rng) if other not in nodes]
        near = [(fact, other) for fact, other in near if not other.is_literal or len(nodes) == size - 1]
        if not near:
            break
        fact, other = rng.choice(near)
        nodes.append(other)
        facts.append(fact)
    return Subgraph(tuple(nodes), tuple(facts))


def chain_in(graph: FactGraph, part: Subgraph, hops: int, rng: random.Random, start: Node | None = None) -> QueryNode | None:
    """A path of so many edges through the part, from an answer to something that has a name; None when there is none."""
    starts = [start] if start is not None else list(part.nodes)
    rng.shuffle(starts)

    def walk(nodes: list[Node], facts: list[Fact]) -> bool:
        """Go on from the last node, depth first; only the ends of a path may be values."""
        if len(facts) == hops:
            return graph.name(nodes[-1]) is not None and not (hops == 1 and nodes[-1].is_literal)
        if nodes[-1].is_literal and len(nodes) > 1:
            return False
        edges = list(part.touching(nodes[-1]))
        rng.shuffle(edges)
        for fact, other in edges:
            if other in nodes:
                continue
            nodes.append(other)
            facts.append(fact)
            if walk(nodes, facts):
                return True
            nodes.pop()
            facts.pop()
        return False

    for answer in starts:
        nodes, facts = [answer], list[Fact]()
        if walk(nodes, facts):
            return chain_of(nodes, facts)
    return None


def spanning_tree(graph: FactGraph, part: Subgraph, answer: Node, most: int, rng: random.Random) -> QueryNode | None:
    """The part as a tree below an answer, of ``most`` edges at most, breadth first; None when a leaf has no name."""
    edges: dict[Node, list[tuple[Fact, Node]]] = {answer: []}
    queue, count = [answer], 0
    while queue and count < most:
        at = queue.pop(0)
        near = list(part.touching(at))
        rng.shuffle(near)
        for fact, other in near:
            if other in edges or count == most:
                continue
            if at == answer and fact.tail == answer and len(graph.tails[(fact.relation, fact.head)]) == 1:
                continue  # it would single out the answer by itself, and all other branches were needless
            edges[at].append((fact, other))
            edges[other] = []
            count += 1
            if not other.is_literal:
                queue.append(other)

    def build(node: Node) -> QueryNode:
        below = edges[node]
        return QueryNode(node, tuple(Constraint(fact, build(other)) for fact, other in below), is_named=not below)

    root = build(answer)
    if answer.is_literal or any(graph.name(query.node) is None for query in root.nodes() if query.is_named):
        return None
    return root
