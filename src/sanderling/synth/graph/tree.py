"""A question's constraints as a tree: the answer at its root, each edge a fact, its leaves named or known values.

A `Spot` is one place of the tree. A named one is given in the question; one that is not is spoken of vaguely, by its kind
and its own edges. Turns into a query, whose variables are the spots that are not named. Knows no wording and no graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.query import Atom, Node, Query, Term, Variable, object_of, subject_of


@dataclass(frozen=True, slots=True)
class Clause:
    """One fact about a spot, and the spot at its other end."""

    fact: Fact
    other: "Spot"

    @property
    def describes_subject(self) -> bool:
        """Whether the spot that has this clause is the fact's subject."""
        return object_of(self.fact) == self.other.node

    @property
    def described(self) -> Node:
        """The thing that has this clause."""
        return subject_of(self.fact) if self.describes_subject else object_of(self.fact)


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing in a question."""

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
        below = max((clause.other.way() for clause in self.clauses), key=len, default=())
        return (self.node, *below)

    def depth(self) -> int:
        """The most edges from here to a leaf."""
        return max((1 + clause.other.depth() for clause in self.clauses), default=0)


def to_query(root: Spot) -> Query:
    """The query of a tree; the root is its answer, named or not."""
    atoms: list[Atom] = []
    count = 0

    def walk(spot: Spot, term: Term) -> None:
        nonlocal count
        for clause in spot.clauses:
            other: Term = clause.other.node
            if not clause.other.is_named:
                count += 1
                other = Variable(count)
            ends = (term, other) if clause.describes_subject else (other, term)
            atoms.append(Atom(clause.fact.relation, *ends))
            walk(clause.other, other)

    walk(root, Variable(0))
    return Query(tuple(atoms))


def chain_of(nodes: list[Node], facts: list[Fact]) -> Spot:
    """A tree without branches: ``facts[i]`` joins ``nodes[i]`` (nearer the answer) and ``nodes[i + 1]``; the last is named."""
    spot = Spot(nodes[-1], is_named=True)
    for node, fact in zip(reversed(nodes[:-1]), reversed(facts), strict=True):
        spot = Spot(node, (Clause(fact, spot),))
    return spot


def with_clause(root: Spot, at: Node, clause: Clause) -> Spot:
    """The tree with one more clause on the first unnamed spot of a thing; the same tree when there is none."""
    if root.node == at and not root.is_named:
        return replace(root, clauses=(*root.clauses, clause))
    for number, each in enumerate(root.clauses):
        grown = with_clause(each.other, at, clause)
        if grown is not each.other:
            clauses = (*root.clauses[:number], Clause(each.fact, grown), *root.clauses[number + 1 :])
            return replace(root, clauses=clauses)
    return root
