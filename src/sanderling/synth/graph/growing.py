"""Trees of constraints from a part of a graph: chains, spanning trees, and further constraints until one answer is left.

A leaf that is an entity is named, so it needs a name of its own; a constraint is added only where it makes answers fewer,
the one that makes them fewest first. Knows no wording.
"""

import random
from dataclasses import replace

from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.matcher import answers
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.sampling import Subgraph, around
from sanderling.synth.graph.tree import Clause, Spot, chain_of, to_query, with_clause

_MOST_EXTRA = 2
"""Constraints beyond the drawn ones."""
_TRIED = 12
"""Further facts that are tried as constraints."""


def draw_chain(ground: Ground, part: Subgraph, hops: int, rng: random.Random, start: Node | None = None) -> Spot | None:
    """A way of so many edges through the part, from an answer to something that has a name; None when there is none."""
    starts = [start] if start is not None else list(part.nodes)
    rng.shuffle(starts)
    for answer in starts:
        nodes, facts = [answer], list[Fact]()
        if _walk(ground, part, hops, rng, nodes, facts):
            return chain_of(nodes, facts)
    return None


def _walk(ground: Ground, part: Subgraph, hops: int, rng: random.Random, nodes: list[Node], facts: list[Fact]) -> bool:
    """Go on from the last node, depth first; only the ends of a way may be values."""
    if len(facts) == hops:
        return ground.name(nodes[-1]) is not None and not (hops == 1 and nodes[-1].is_literal)
    if nodes[-1].is_literal and len(nodes) > 1:
        return False
    edges = list(part.touching(nodes[-1]))
    rng.shuffle(edges)
    for fact, other in edges:
        if other in nodes:
            continue
        nodes.append(other)
        facts.append(fact)
        if _walk(ground, part, hops, rng, nodes, facts):
            return True
        nodes.pop()
        facts.pop()
    return False


def spanning_tree(ground: Ground, part: Subgraph, answer: Node, most: int, rng: random.Random) -> Spot | None:
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
            edges[at].append((fact, other))
            edges[other] = []
            count += 1
            if not other.is_literal:
                queue.append(other)

    def build(node: Node) -> Spot:
        below = edges[node]
        return Spot(node, tuple(Clause(fact, build(other)) for fact, other in below), is_named=not below)

    root = build(answer)
    leaves = [spot for spot in root.spots() if spot.is_named]
    if answer.is_literal or any(ground.name(leaf.node) is None for leaf in leaves):
        return None
    return root


def is_unique(ground: Ground, root: Spot) -> bool:
    """Whether the root's own thing is the one answer, over all facts."""
    return answers(ground.index, to_query(root)) == {root.node}


def until_unique(ground: Ground, root: Spot, rng: random.Random) -> Spot | None:
    """The tree with as few further constraints as leave one answer; None when those at hand do not."""
    for _ in range(_MOST_EXTRA):
        left = len(answers(ground.index, to_query(root)))
        if left == 1:
            return root
        best = root
        for at, clause in _further(ground, root, rng):
            grown = with_clause(root, at, clause)
            count = len(answers(ground.index, to_query(grown)))
            if count < left:
                left, best = count, grown
            if left == 1:
                return best
        if best is root:
            return None
        root = best
    return root if is_unique(ground, root) else None


def _further(ground: Ground, root: Spot, rng: random.Random) -> list[tuple[Node, Clause]]:
    """Facts about the unnamed things of a tree that it does not use, with ends that have names; values first."""
    used = set(root.facts())
    inside = {spot.node for spot in root.spots()}
    found: list[tuple[Node, Clause]] = []
    for spot in root.spots():
        if spot.is_named or spot.node.is_literal:
            continue
        for fact, other in around(ground.graph, spot.node, rng):
            if fact not in used and other not in inside and ground.name(other) is not None:
                found.append((spot.node, Clause(fact, Spot(other, is_named=True))))
    rng.shuffle(found)
    found.sort(key=lambda pair: not pair[1].other.node.is_literal)
    return found[:_TRIED]


def pruned(ground: Ground, root: Spot, least: int) -> Spot:
    """The tree without leaves that its answer does not need, down to ``least`` edges and two branches."""
    for number in range(len(root.clauses) - 1, -1, -1):
        if sum(1 for _ in root.facts()) <= least or len(root.clauses) == 2:
            break
        if root.clauses[number].other.clauses:
            continue
        smaller = replace(root, clauses=root.clauses[:number] + root.clauses[number + 1 :])
        if is_unique(ground, smaller):
            root = smaller
    return root
