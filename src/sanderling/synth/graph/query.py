"""What a question asks of a graph, in logic: atoms over variables and known things, and one variable that is the answer.

An answer is whatever the answer's variable can be so that every atom is a fact. Two variables may be the same thing: that only
makes answers more, so what is unique here is unique for a reader who takes "another" for granted. Knows no graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sanderling.synth.graph.contract import Fact


class Node(NamedTuple):
    """Something that facts speak of: an entity by its id, or a literal by its text."""

    id: str
    is_literal: bool = False


class Variable(NamedTuple):
    """Something that is not named; 0 is the answer."""

    number: int


Term = Node | Variable
ANSWER = Variable(0)


class Atom(NamedTuple):
    """One fact that must hold."""

    relation: str
    subject: Term
    object: Term


@dataclass(frozen=True, slots=True)
class Query:
    """Atoms that must hold together; `ANSWER` is in one of them at least."""

    atoms: tuple[Atom, ...]

    def __post_init__(self) -> None:
        if not any(ANSWER in (atom.subject, atom.object) for atom in self.atoms):
            raise ValueError("a query has its answer in one of its atoms")

    def variables(self) -> frozenset[Variable]:
        """All that are not named."""
        return frozenset(term for atom in self.atoms for term in atom[1:] if isinstance(term, Variable))


def subject_of(fact: Fact) -> Node:
    """The subject of a fact."""
    return Node(fact.subject)


def object_of(fact: Fact) -> Node:
    """The object of a fact."""
    return Node(fact.object, fact.is_literal)


def ends_of(facts: tuple[Fact, ...]) -> Iterator[Node]:
    """Subjects and objects of facts, each as often as it comes."""
    for fact in facts:
        yield subject_of(fact)
        yield object_of(fact)
