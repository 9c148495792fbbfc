"""A question's constraints as a tree, and the exact search for everything that satisfies them.

The answer is at the root, each edge is a fact, and the leaves are named things or given values. What lies between is spoken of
vaguely, by its kind and its own edges, so it is a variable of a query. A tree of constraints is answered from its leaves to its
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
"""How many things may fit what is said of one between name and answer, where all facts are known; elsewhere it is one."""
_MOST_ALIKE = 2
"""Facts of one relation in a question from a graph that was read; more of them tell little."""
_MOST_EXTRA = 2
"""Constraints beyond the drawn ones."""
_TRIED = 12
"""Further facts that are tried as constraints."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One fact about a spot, and the spot at its other end."""

    fact: Fact
    other: "Spot"

    @property
    def describes_subject(self) -> bool:
        """Whether the spot that has this clause is the fact's subject."""
        return self.fact.tail == self.other.node


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing in a question: a named one is a leaf, any other has clauses.

    Example: ``Spot(town, (Clause(birthplace, Spot(person, is_named=True)),))`` is the town where a named person was born.
    """

    node: Node
    clauses: tuple[Clause, ...] = ()
    is_named: bool = False

    def spots(self) -> Iterator["Spot"]:
        """Itself and all below it, outermost first."""
        yield self
        for clause in self.clauses:
            yield from clause.other.spots()

    def facts(self) -> Iterator[Fact]:
        """The facts of all edges, outermost first."""
        for clause in self.clauses:
            yield clause.fact
            yield from clause.other.facts()

    def way(self) -> tuple[Node, ...]:
        """The things on the longest way down from here, this one first."""
        return (self.node, *max((clause.other.way() for clause in self.clauses), key=len, default=()))

    def depth(self) -> int:
        """The most edges from here to a leaf."""
        return max((1 + clause.other.depth() for clause in self.clauses), default=0)


def chain_of(nodes: Sequence[Node], facts: Sequence[Fact]) -> Spot:
    """A tree without branches: ``facts[i]`` joins ``nodes[i]`` (nearer the answer) and ``nodes[i + 1]``; the last is named."""
    spot = Spot(nodes[-1], is_named=True)
    for node, fact in zip(reversed(nodes[:-1]), reversed(facts), strict=True):
        spot = Spot(node, (Clause(fact, spot),))
    return spot


def constraints(root: Spot) -> tuple[tuple[object, ...], ...]:
    """A tree as a conjunction of (relation, subject, object), variables numbered from 0, the answer: equal for equal questions.

    Two trees that put the same constraints in another order, with the same numbers, are equal.
    """
    atoms: list[tuple[object, ...]] = []
    count = 0

    def walk(spot: Spot, term: int | Node) -> None:
        nonlocal count
        for clause in spot.clauses:
            other: int | Node = clause.other.node
            if not clause.other.is_named:
                count += 1
                other = count
            atoms.append((clause.fact.relation, *((term, other) if clause.describes_subject else (other, term))))
            walk(clause.other, other)

    walk(root, 0)
    return tuple(sorted(atoms, key=repr))


def answers(graph: FactGraph, spot: Spot) -> frozenset[Node]:
    """Everything that a spot can be so that all facts below it hold, over the whole graph."""
    result: frozenset[Node] | None = None
    for clause in spot.clauses:
        table = graph.heads if clause.describes_subject else graph.tails
        ends = (clause.other.node,) if clause.other.is_named else answers(graph, clause.other)
        found = [table.get((clause.fact.relation, end), frozenset()) for end in ends]
        side = found[0] if len(found) == 1 else frozenset().union(*found)
        result = side if result is None else result & side
    if result is None:
        raise ValueError("a spot that is not named has a clause")
    return result


def is_unique(graph: FactGraph, root: Spot) -> bool:
    """Whether the root's own thing is the one answer."""
    return answers(graph, root) == {root.node}


def until_unique(graph: FactGraph, root: Spot, rng: random.Random) -> Spot | None:
    """The tree with as few further constraints as leave one answer, the strongest first; None when those at hand do not."""
    for _ in range(_MOST_EXTRA):
        left = len(answers(graph, root))
        if left == 1:
            return root
        best = root
        for node, clause in _further(graph, root, rng):
            grown = _with_clause(root, node, clause)
            count = len(answers(graph, grown))
            if count < left:
                left, best = count, grown
            if left == 1:
                return best
        if best is root:
            return None
        root = best
    return root if is_unique(graph, root) else None


def _further(graph: FactGraph, root: Spot, rng: random.Random) -> list[tuple[Node, Clause]]:
    """Unused facts about the unnamed things of a tree whose other ends have names; values first."""
    used = set(root.facts())
    inside = {spot.node for spot in root.spots()}
    found = [
        (spot.node, Clause(fact, Spot(other, is_named=True)))
        for spot in root.spots()
        if not spot.is_named
        for fact, other in graph.around(spot.node, rng)
        if fact not in used and other not in inside and graph.name(other) is not None
    ]
    rng.shuffle(found)
    found.sort(key=lambda pair: not pair[1].other.node.is_literal)
    return found[:_TRIED]


def _with_clause(root: Spot, node: Node, clause: Clause) -> Spot:
    """The tree with one more clause on the first unnamed spot of a thing; the same tree when there is none."""
    if root.node == node and not root.is_named:
        return replace(root, clauses=(*root.clauses, clause))
    for number, each in enumerate(root.clauses):
        grown = _with_clause(each.other, node, clause)
        if grown is not each.other:
            return _replaced(root, number, grown)
    return root


def _replaced(root: Spot, number: int, below: Spot) -> Spot:
    """The tree with another subtree at the end of one clause."""
    clauses = list(root.clauses)
    clauses[number] = Clause(clauses[number].fact, below)
    return replace(root, clauses=tuple(clauses))


def _without_one(root: Spot) -> Iterator[Spot]:
    """The trees that lack one clause, and all below it; a thing keeps its last clause."""
    for number, clause in enumerate(root.clauses):
        rest = (*root.clauses[:number], *root.clauses[number + 1 :])
        if rest:
            yield replace(root, clauses=rest)
        for below in _without_one(clause.other):
            yield _replaced(root, number, below)


def needed(graph: FactGraph, root: Spot) -> Spot:
    """The tree without whatever its answer does not need: no clause is left that could go and leave one answer all the same."""
    while (smaller := next((tree for tree in _without_one(root) if is_unique(graph, tree)), None)) is not None:
        root = smaller
    return root


def is_decorated(graph: FactGraph, root: Spot) -> bool:
    """Whether a reader who goes by the kind of thing that is asked for could do without some clause."""
    kind = graph.kind(root.node)
    fitting = ({node for node in answers(graph, tree) if graph.kind(node) == kind} for tree in _without_one(root))
    return any(found == {root.node} for found in fitting)


def is_followable(graph: FactGraph, root: Spot) -> bool:
    """Whether a reader can go from what is named to the answer.

    Few other things fit what is said of one between, and no given name has in it the name of something hidden, as "the Orlo
    Fair" has that of Orlo.
    """
    if not graph.complete and not _is_varied(root):
        return False
    given = [(graph.name(spot.node) or "").casefold() for spot in root.spots() if spot.is_named]
    hidden = [graph.answers(spot.node)[0].casefold() for spot in root.spots() if not spot.is_named]
    if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", each) for name in hidden for each in given):
        return False
    most = _MOST_BETWEEN if graph.complete else 1
    between = (spot for spot in root.spots() if spot is not root and spot.clauses)
    return all(len(answers(graph, spot)) <= most for spot in between)


def _is_varied(root: Spot) -> bool:
    """Whether all facts say different things; one relation may join the answer to two things."""
    anywhere = Counter(fact.relation for fact in root.facts())
    at_root = Counter(clause.fact.relation for clause in root.clauses)
    return all(count == at_root[relation] <= _MOST_ALIKE for relation, count in anywhere.items() if count > 1)
