"""Random drawing from a graph: connected parts of it, and paths and trees through it from an answer to something with a name.

In a graph that is wholly known, a part is drawn first and a tree is laid through it. A part takes in whatever has most edges to
what is there, ties broken by chance (arXiv 2604.17931). A graph that was read from pages has most of its facts in a few
relations, and a part of it hardly ever holds a path worth asking for. There a path is laid step by step through the whole
graph: first the relation is drawn, among those that say something new, then the fact.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sanderling.synth.graph.graph import Fact, FactGraph, Node
from sanderling.synth.graph.tree import Constraint, QueryNode, chain_of

FEWEST_FACTS = 2
"""Of a question from a graph that was read."""
_MOST_VALUES = 2
"""Values (years, products) in one part."""
_TRIED = 8
"""Starts that are tried for one draw of a path."""
_MOST_ANSWERS = 6
"""Answers that may fit a path, so that further facts may tell one from the others."""
_TOLD, _TWICE, _GOES_ON = 0.5, 0.5, 0.3
"""Share of branches whose end is not named; of joins that may have one relation twice; of paths that go on past a possible
end."""


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
            if at == answer and fact.tail == answer:
                continue  # a subject has one object: this would tell the answer alone, and all other branches were needless
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


def sample_path(graph: FactGraph, hops: int, rng: random.Random) -> QueryNode | None:
    """A path of ``hops`` facts at most through a graph that was read, laid from a drawn name on; None where none was found."""
    for _ in range(_TRIED):
        path = _path_on(graph, _sample_fact(graph, rng), hops, rng)
        if path is not None:
            return path
    return None


def _path_on(graph: FactGraph, start: Fact, hops: int, rng: random.Random) -> QueryNode | None:
    """From one end of a fact, by its name, over the other end to an answer; each thing follows from the one before alone."""
    nodes, facts = [start.head, start.tail], [start]
    rng.shuffle(nodes)
    if graph.name(nodes[0]) is None or len(graph.matches(start, nodes[0])) > 1:
        return None
    pages = graph.pages_with(start)
    while len(facts) < hops and (len(facts) < FEWEST_FACTS or pages or rng.random() < _GOES_ON):
        most = _MOST_ANSWERS if len(facts) + 1 == hops else 1
        near = [
            (fact, other)
            for fact, other in graph.around(nodes[-1], rng)
            if other not in nodes
            and fact.relation not in {each.relation for each in facts}
            and len(graph.matches(fact, nodes[-1])) <= most
        ]
        if not near:
            break
        fact, other = _sample_edge(near, rng)
        facts.append(fact)
        nodes.append(other)
        pages &= graph.pages_with(fact)
        if other.is_literal:
            break
    # one page that states all of it would answer it alone
    return None if len(facts) < FEWEST_FACTS or pages else chain_of(nodes[::-1], facts[::-1])


def sample_join(graph: FactGraph, hops: int, rng: random.Random) -> QueryNode | None:
    """An answer in a graph that was read that two paths lead to, neither to it alone; None where none was found."""
    for _ in range(_TRIED):
        fact = _sample_fact(graph, rng)
        answer = rng.choice((fact.head, fact.tail))
        first = None if answer.is_literal else _branch(graph, answer, None, hops - 1, rng)
        for _ in range(_TRIED if first else 0):
            second = _branch(graph, answer, first, hops - sum(1 for _ in first.other.facts()) - 1, rng) if first else None
            if first is None or second is None:
                continue
            both = (graph.matches(constraint.fact, constraint.other.node) for constraint in (first, second))
            if frozenset.intersection(*both) == {answer}:
                return QueryNode(answer, (first, second))
    return None


def _branch(graph: FactGraph, answer: Node, before: Constraint | None, hops: int, rng: random.Random) -> Constraint | None:
    """One path to an answer that other things fit as well.

    It has no relation of the branch before, but for one that joins two things to the answer.
    """
    facts = [] if before is None else [before.fact, *before.other.facts()]
    inside = [answer, *(query.node for query in before.other.nodes())] if before else [answer]
    may_be_twice = before is not None and not before.describes_subject and rng.random() < _TWICE
    twice = before.fact.relation if before and may_be_twice else None
    others = [fact for fact in facts if fact.relation != twice]
    near = [
        (fact, other)
        for fact, other in _new_facts(graph, answer, others, rng)
        if other not in inside and (fact.relation != twice or fact.tail == answer) and len(graph.matches(fact, other)) > 1
    ]
    if not near or hops < 1:
        return None
    fact, other = _sample_edge(near, rng)
    below: QueryNode | None = QueryNode(other, is_named=True)
    if graph.name(other) is None or (not other.is_literal and hops > 1 and rng.random() < _TOLD):
        below = _path_from(graph, other, min(hops - 1, 2), rng, inside, (*facts, fact))
    return Constraint(fact, below) if below is not None else None


def _path_from(
    graph: FactGraph, start: Node, hops: int, rng: random.Random, avoid: Sequence[Node], before: Sequence[Fact]
) -> QueryNode | None:
    """A path of ``hops`` facts at most from a thing, past some things and facts; None where it leads to no name."""
    nodes, facts = [start], list[Fact]()
    while len(facts) < hops:
        near = [
            (fact, other)
            for fact, other in _new_facts(graph, nodes[-1], (*before, *facts), rng)
            if other not in nodes
            and other not in avoid
            and len(graph.matches(fact, other)) <= (_MOST_ANSWERS if len(nodes) == 1 else 1)
            and (len(facts) + 1 < hops or graph.name(other) is not None)
        ]
        if not near:
            break
        fact, other = _sample_edge(near, rng)
        nodes.append(other)
        facts.append(fact)
        if other.is_literal:
            break
        if graph.name(other) is not None and len(facts) >= FEWEST_FACTS and rng.random() > _GOES_ON:
            break
    while facts and graph.name(nodes[-1]) is None:
        nodes.pop()
        facts.pop()
    return chain_of(nodes, facts) if facts else None


def _new_facts(graph: FactGraph, node: Node, before: Sequence[Fact], rng: random.Random) -> list[tuple[Fact, Node]]:
    """The facts of a thing, each with its other end, of relations that are not among those before."""
    if node.is_literal:
        found = [(fact, fact.head) for fact in graph.facts_with(node)]
        near = rng.sample(found, min(len(found), 3))
    else:
        near = graph.around(node, rng)
    relations = {fact.relation for fact in before}
    return [(fact, other) for fact, other in near if fact.relation not in relations]


def _sample_fact(graph: FactGraph, rng: random.Random) -> Fact:
    """A fact; one of a relation with a hundred times the facts is drawn ten times as often."""
    weights = [len(facts) ** 0.5 for facts in graph.facts_of.values()]
    return rng.choice(graph.facts_of[rng.choices(list(graph.facts_of), weights)[0]])


def _sample_edge(near: Sequence[tuple[Fact, Node]], rng: random.Random) -> tuple[Fact, Node]:
    """One of some facts, each relation and direction as likely as another."""
    kinds = sorted({(fact.relation, fact.tail == other) for fact, other in near})
    kind = rng.choice(kinds)
    return rng.choice([(fact, other) for fact, other in near if (fact.relation, fact.tail == other) == kind])
