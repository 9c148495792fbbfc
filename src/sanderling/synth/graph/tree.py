"""A question's constraints as a tree, and the exact search for everything that satisfies them.

The answer is at the root, each edge is a fact, and the leaves are named things or given values. What lies between is described
by its kind and its own edges only, so it is a variable of a query. A tree of constraints is answered from its leaves to its
root, one set at a time, which is exact (Yannakakis 1981). Two variables may be the same thing: that only makes answers more, so
what is unique here is unique for a reader who takes "another" for granted.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sanderling.synth.graph.graph import Fact, FactGraph, Node

_MOST_BETWEEN = 5
"""How many things may fit the constraints of one between name and answer, where all facts are known; elsewhere one."""
_MOST_ALIKE = 2
"""Facts of one relation in a question from a graph that was read; more of them say little."""
_MOST_EXTRA = 2
"""Constraints beyond the drawn ones."""
_TRIED = 12
"""Further facts that are tried as constraints."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One fact about a node of the tree, and the node at its other end."""

    fact: Fact
    other: "QueryNode"

    @property
    def describes_subject(self) -> bool:
        """Whether the node that has this constraint is the fact's subject."""
        return self.fact.tail == self.other.node


@dataclass(frozen=True, slots=True)
class QueryNode:
    """One thing in a question: a named one is a leaf, any other has constraints.

    Example: the town where a person was born who is named is
    ``QueryNode(town, (Constraint(birthplace, QueryNode(person, is_named=True)),))``.
    """

    node: Node
    constraints: tuple[Constraint, ...] = ()
    is_named: bool = False

    def nodes(self) -> Iterator["QueryNode"]:
        """Itself and all below it, outermost first."""
        yield self
        for constraint in self.constraints:
            yield from constraint.other.nodes()

    def facts(self) -> Iterator[Fact]:
        """The facts of all edges, outermost first."""
        for constraint in self.constraints:
            yield constraint.fact
            yield from constraint.other.facts()

    def longest_path(self) -> tuple[Node, ...]:
        """The things on the longest path down from here, this one first."""
        return (self.node, *max((constraint.other.longest_path() for constraint in self.constraints), key=len, default=()))

    def depth(self) -> int:
        """The most edges from here to a leaf."""
        return max((1 + constraint.other.depth() for constraint in self.constraints), default=0)


def chain_of(nodes: Sequence[Node], facts: Sequence[Fact]) -> QueryNode:
    """A tree without branches: ``facts[i]`` joins ``nodes[i]`` (nearer the answer) and ``nodes[i + 1]``; the last is named."""
    query = QueryNode(nodes[-1], is_named=True)
    for node, fact in zip(reversed(nodes[:-1]), reversed(facts), strict=True):
        query = QueryNode(node, (Constraint(fact, query),))
    return query


def canonical(root: QueryNode) -> tuple[tuple[object, ...], ...]:
    """A tree as a conjunction of (relation, subject, object), variables numbered from 0, the answer: equal for equal questions.

    Two trees that put the same constraints in another order, with the same numbers, are equal.
    """
    atoms: list[tuple[object, ...]] = []
    count = 0

    def walk(query: QueryNode, term: int | Node) -> None:
        nonlocal count
        for constraint in query.constraints:
            other: int | Node = constraint.other.node
            if not constraint.other.is_named:
                count += 1
                other = count
            atoms.append((constraint.fact.relation, *((term, other) if constraint.describes_subject else (other, term))))
            walk(constraint.other, other)

    walk(root, 0)
    return tuple(sorted(atoms, key=repr))


def answers(graph: FactGraph, query: QueryNode) -> frozenset[Node]:
    """Everything that a node of a query can be so that all facts below it hold, over the whole graph."""
    result: frozenset[Node] | None = None
    for constraint in query.constraints:
        table = graph.heads if constraint.describes_subject else graph.tails
        ends = (constraint.other.node,) if constraint.other.is_named else answers(graph, constraint.other)
        found = [table.get((constraint.fact.relation, end), frozenset()) for end in ends]
        side = found[0] if len(found) == 1 else frozenset().union(*found)
        result = side if result is None else result & side
    if result is None:
        raise ValueError("a node that is not named has a constraint")
    return result


def is_unique(graph: FactGraph, root: QueryNode) -> bool:
    """Whether the root's own thing is the one answer."""
    return answers(graph, root) == {root.node}


def until_unique(graph: FactGraph, root: QueryNode, rng: random.Random) -> QueryNode | None:
    """The tree with as few further constraints as leave one answer, the strongest first; None when those at hand do not."""
    for _ in range(_MOST_EXTRA):
        left = len(answers(graph, root))
        if left == 1:
            return root
        best = root
        for node, constraint in _further(graph, root, rng):
            grown = _with_constraint(root, node, constraint)
            count = len(answers(graph, grown))
            if count < left:
                left, best = count, grown
            if left == 1:
                return best
        if best is root:
            return None
        root = best
    return root if is_unique(graph, root) else None


def _further(graph: FactGraph, root: QueryNode, rng: random.Random) -> list[tuple[Node, Constraint]]:
    """Unused facts about the unnamed things of a tree whose other ends have names; values first."""
    used = set(root.facts())
    inside = {query.node for query in root.nodes()}
    found = [
        (query.node, Constraint(fact, QueryNode(other, is_named=True)))
        for query in root.nodes()
        if not query.is_named
        for fact, other in graph.around(query.node, rng)
        if fact not in used and other not in inside and graph.name(other) is not None
    ]
    rng.shuffle(found)
    found.sort(key=lambda pair: not pair[1].other.node.is_literal)
    return found[:_TRIED]


def _with_constraint(root: QueryNode, node: Node, constraint: Constraint) -> QueryNode:
    """The tree with one more constraint on the first unnamed node of a thing; the same tree when there is none."""
    if root.node == node and not root.is_named:
        return replace(root, constraints=(*root.constraints, constraint))
    for number, each in enumerate(root.constraints):
        grown = _with_constraint(each.other, node, constraint)
        if grown is not each.other:
            return _replaced(root, number, grown)
    return root


def _replaced(root: QueryNode, number: int, below: QueryNode) -> QueryNode:
    """The tree with another subtree at the end of one constraint."""
    clauses = list(root.constraints)
    clauses[number] = Constraint(clauses[number].fact, below)
    return replace(root, constraints=tuple(clauses))


def _without_one(root: QueryNode) -> Iterator[QueryNode]:
    """The trees that lack one constraint, and all below it; a thing keeps its last one."""
    for number, constraint in enumerate(root.constraints):
        rest = (*root.constraints[:number], *root.constraints[number + 1 :])
        if rest:
            yield replace(root, constraints=rest)
        for below in _without_one(constraint.other):
            yield _replaced(root, number, below)


def needed(graph: FactGraph, root: QueryNode) -> QueryNode:
    """The tree without whatever its answer does not need: without any of its constraints, more things would fit."""
    while (smaller := next((tree for tree in _without_one(root) if is_unique(graph, tree)), None)) is not None:
        root = smaller
    return root


def is_decorated(graph: FactGraph, root: QueryNode) -> bool:
    """Whether a reader who goes by the kind of thing that is asked for could do without some constraint."""
    kind = graph.kind(root.node)
    fitting = ({node for node in answers(graph, tree) if graph.kind(node) == kind} for tree in _without_one(root))
    return any(found == {root.node} for found in fitting)


def is_followable(graph: FactGraph, root: QueryNode) -> bool:
    """Whether a reader can go from what is named to the answer.

    Few other things fit what is said of one between, and no given name has in it the name of something hidden, as "the Orlo
    Fair" has that of Orlo.
    """
    if not graph.complete and not _is_varied(root):
        return False
    given = [(graph.name(query.node) or "").casefold() for query in root.nodes() if query.is_named]
    hidden = [graph.answers(query.node)[0].casefold() for query in root.nodes() if not query.is_named]
    if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", each) for name in hidden for each in given):
        return False
    most = _MOST_BETWEEN if graph.complete else 1
    between = (query for query in root.nodes() if query is not root and query.constraints)
    return all(len(answers(graph, query)) <= most for query in between)


def _is_varied(root: QueryNode) -> bool:
    """Whether all facts say different things; one relation may join the answer to two things."""
    anywhere = Counter(fact.relation for fact in root.facts())
    at_root = Counter(constraint.fact.relation for constraint in root.constraints)
    return all(count == at_root[relation] <= _MOST_ALIKE for relation, count in anywhere.items() if count > 1)
