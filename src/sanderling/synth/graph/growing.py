"""Trees of constraints from a part of a graph: chains, spanning trees, and further constraints until one answer is left.

A leaf that is an entity is named, so it needs a name of its own; a constraint is added only where it makes answers fewer,
the one that makes them fewest first. Knows no wording.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.matcher import answers
from sanderling.synth.graph.query import Node, object_of
from sanderling.synth.graph.sampling import Subgraph, around
from sanderling.synth.graph.tree import Clause, Spot, chain_of, to_query, with_clause
from sanderling.synth.graph.ways import can_be_told, family

_MOST_BETWEEN = 5
"""Things that may fit what is said of one on the way, where all facts are known; elsewhere it is one."""
_MOST_ALIKE = 2
"""Facts of one relation in a question from documents: more of them tell little."""
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
        touches_answer = len(nodes) == 1 and (nodes[0].is_literal or other.is_literal)
        if other in nodes or (touches_answer and not ground.words.of(fact.relation).is_answer):
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
            words = ground.words.of(fact.relation)
            if at == answer and other.is_literal and not words.is_answer:
                continue
            if not ground.graph.complete and not can_be_told(ground, fact, other):
                continue
            if at == answer and object_of(fact) == answer and words.is_functional:
                continue  # it would tell the answer alone, and every other branch would be needless
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


def until_unique(ground: Ground, root: Spot, rng: random.Random, *, is_answer: bool = True) -> Spot | None:
    """The tree with as few further constraints as leave one thing for its root; None when those at hand do not.

    ``is_answer``: whether the root is what is asked for; something else may be told by its own description.
    """
    for _ in range(_MOST_EXTRA):
        left = len(answers(ground.index, to_query(root)))
        if left == 1:
            return root
        best = root
        for at, clause in _further(ground, root, rng, is_answer):
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


def _further(ground: Ground, root: Spot, rng: random.Random, is_answer: bool) -> list[tuple[Node, Clause]]:
    """Facts about the unnamed things of a tree that it does not use, with ends that have names; values first."""
    used = set(root.facts())
    inside = {spot.node for spot in root.spots()}
    found: list[tuple[Node, Clause]] = []
    for spot in root.spots():
        if spot.is_named or spot.node.is_literal:
            continue
        for fact, other in around(ground.graph, spot.node, rng):
            if spot is root and is_answer and other.is_literal and not ground.words.of(fact.relation).is_answer:
                continue  # the answer's own description, quoted, would be all that a search needs
            if not ground.graph.complete and not can_be_told(ground, fact, other):
                continue
            if fact not in used and other not in inside and ground.name(other) is not None:
                found.append((spot.node, Clause(fact, Spot(other, is_named=True))))
    rng.shuffle(found)
    found.sort(key=lambda pair: not pair[1].other.node.is_literal)
    return found[:_TRIED]


def needed(ground: Ground, root: Spot) -> Spot:
    """The tree without whatever its answer does not need: no clause is left without which one answer alone would fit."""
    while True:
        smaller = next((tree for tree in _without_one(root) if is_unique(ground, tree)), None)
        if smaller is None:
            return root
        root = smaller


def _without_one(root: Spot) -> Iterator[Spot]:
    """The trees that lack one clause, and all below it; a thing keeps its last clause."""
    for number, clause in enumerate(root.clauses):
        rest = (*root.clauses[:number], *root.clauses[number + 1 :])
        if rest:
            yield replace(root, clauses=rest)
        for inner in _without_one(clause.other):
            yield replace(root, clauses=(*root.clauses[:number], Clause(clause.fact, inner), *root.clauses[number + 1 :]))


def _tells_what_it_hides(ground: Ground, root: Spot) -> bool:
    """Whether a given name has in it the name of something that is not named, as "os.fork()" has that of its module."""
    given = [(ground.name(spot.node) or "").casefold() for spot in root.spots() if spot.is_named]
    hidden = [ground.answers(spot.node)[0].casefold() for spot in root.spots() if not spot.is_named]
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", each) for name in hidden for each in given)


def is_decorated(ground: Ground, root: Spot) -> bool:
    """Whether a reader who goes by what kind of thing is asked for could do without some clause."""
    kind = ground.kind(root.node)
    for tree in _without_one(root):
        found = answers(ground.index, to_query(tree))
        if {node for node in found if ground.kind(node) == kind} == {root.node}:
            return True
    return False


def _is_varied(ground: Ground, root: Spot) -> bool:
    """Whether all facts say different things, but for one relation that joins the answer to two things, and a firm one."""
    families = Counter(family(ground, fact) for fact in root.facts())
    at_root = Counter(family(ground, clause.fact) for clause in root.clauses)
    weak = {family(ground, fact) for fact in root.facts() if ground.words.of(fact.relation).is_weak}
    twice = {family for family, count in families.items() if count > 1}
    return all(families[each] == at_root[each] <= _MOST_ALIKE and each not in weak for each in twice)


def _is_firm(ground: Ground, spot: Spot) -> bool:
    """Whether one clause at least says more of a thing than what very many, or things unknown to the graph, share."""
    return any(not clause.describes_subject or not ground.words.of(clause.fact.relation).is_weak for clause in spot.clauses)


def is_followable(ground: Ground, root: Spot) -> bool:
    """Whether a reader can go from what is named to the answer: each thing is told by something firm, and few others fit it."""
    if not ground.graph.complete and not all(_is_firm(ground, spot) for spot in root.spots() if spot.clauses):
        return False
    if not ground.graph.complete and not _is_varied(ground, root):
        return False
    if _tells_what_it_hides(ground, root):
        return False
    most = _MOST_BETWEEN if ground.graph.complete else 1
    between = (spot for spot in root.spots() if spot is not root and spot.clauses)
    return all(len(answers(ground.index, to_query(spot))) <= most for spot in between)
