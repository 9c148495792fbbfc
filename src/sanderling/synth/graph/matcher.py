"""Every answer to a query over a graph, exhaustively: semi-joins along trees, and a search where atoms form a circle.

A query whose atoms form a tree is answered from its leaves to its answer, one set at a time, which is exact there (Yannakakis
1981). Otherwise each thing that the answer could be is tried, by setting one variable after another. Knows no wording.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sanderling.synth.graph.contract import FactGraph
from sanderling.synth.graph.query import ANSWER, Atom, Node, Query, Term, Variable, object_of, subject_of

Nodes = frozenset[Node]
_NONE: Nodes = frozenset()
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class FactIndex:
    """A graph's facts by relation and either end; a fact that several pages state is one."""

    objects: Mapping[tuple[str, Node], Nodes]
    """(relation, subject) to its objects."""
    subjects: Mapping[tuple[str, Node], Nodes]
    """(relation, object) to its subjects."""
    all_subjects: Mapping[str, Nodes]
    all_objects: Mapping[str, Nodes]

    @classmethod
    def of(cls, graph: FactGraph) -> "FactIndex":
        """Index a graph."""
        objects: dict[tuple[str, Node], set[Node]] = {}
        subjects: dict[tuple[str, Node], set[Node]] = {}
        first: dict[str, set[Node]] = {}
        second: dict[str, set[Node]] = {}
        for fact in graph.facts:
            subject, object = subject_of(fact), object_of(fact)
            objects.setdefault((fact.relation, subject), set()).add(object)
            subjects.setdefault((fact.relation, object), set()).add(subject)
            first.setdefault(fact.relation, set()).add(subject)
            second.setdefault(fact.relation, set()).add(object)
        return cls(_frozen(objects), _frozen(subjects), _frozen(first), _frozen(second))

    def holds(self, relation: str, subject: Node, object: Node) -> bool:
        """Whether this is a fact."""
        return object in self.objects.get((relation, subject), _NONE)

    def across(self, atom: Atom, known: Term, values: Nodes | None) -> Nodes:
        """What the other end of an atom can be, when the end ``known`` is one of ``values`` (None: anything)."""
        forward = known == atom.subject
        if values is None:
            return (self.all_objects if forward else self.all_subjects).get(atom.relation, _NONE)
        table = self.objects if forward else self.subjects
        found = [table.get((atom.relation, value), _NONE) for value in values]
        return found[0] if len(found) == 1 else frozenset().union(*found)


def answers(index: FactIndex, query: Query) -> Nodes:
    """Everything that answers a query."""
    found = _along(index, query.atoms, ANSWER, frozenset())
    if found is not None:
        return found
    return frozenset(node for node in _possible(index, query.atoms) if _holds(index, query.atoms, {ANSWER: node}))


def _along(index: FactIndex, atoms: Sequence[Atom], at: Variable, used: frozenset[int]) -> Nodes | None:
    """What a variable can be by the atoms that hang on it, those ``used`` left out; None when the query is no tree."""
    visited: set[Variable] = set()
    taken: set[int] = set(used)

    def values(at: Variable) -> Nodes | None:
        visited.add(at)
        result: Nodes | None = None
        for number, atom in enumerate(atoms):
            if number in taken or at not in (atom.subject, atom.object):
                continue
            taken.add(number)
            other = atom.object if atom.subject == at else atom.subject
            if isinstance(other, Node):
                inner: Nodes | None = frozenset((other,))
            elif other in visited:
                raise _CircleError
            else:
                inner = values(other)
            side = index.across(atom, other, inner)
            result = side if result is None else result & side
        return result

    try:
        found = values(at)
    except _CircleError:
        return None
    rest = [atom for number, atom in enumerate(atoms) if number not in taken]
    if rest and not _holds(index, rest, {}):  # what hangs together with nothing else must hold all the same
        return _NONE
    return _NONE if found is None else found


class _CircleError(Exception):
    """Atoms lead back to a variable."""


def _possible(index: FactIndex, atoms: Sequence[Atom]) -> Nodes:
    """What the answer could be by the atoms that touch it, each alone."""
    result: Nodes | None = None
    for atom in atoms:
        for end, other in ((atom.subject, atom.object), (atom.object, atom.subject)):
            if end == ANSWER:
                side = index.across(atom, other, frozenset((other,)) if isinstance(other, Node) else None)
                result = side if result is None else result & side
    return result or _NONE


def _holds(index: FactIndex, atoms: Sequence[Atom], bound: Mapping[Variable, Node]) -> bool:
    """Whether the atoms can hold together, with some variables set."""
    if not atoms:
        return True
    atom = max(atoms, key=lambda one: sum(isinstance(_set(term, bound), Node) for term in one[1:]))
    rest = [one for one in atoms if one is not atom]
    subject, object = _set(atom.subject, bound), _set(atom.object, bound)
    if isinstance(subject, Node) and isinstance(object, Node):
        return index.holds(atom.relation, subject, object) and _holds(index, rest, bound)
    if isinstance(subject, Node) and isinstance(object, Variable):
        found = index.objects.get((atom.relation, subject), _NONE)
        return any(_holds(index, rest, {**bound, object: node}) for node in found)
    if isinstance(object, Node) and isinstance(subject, Variable):
        found = index.subjects.get((atom.relation, object), _NONE)
        return any(_holds(index, rest, {**bound, subject: node}) for node in found)
    if isinstance(subject, Variable):
        tries = index.all_subjects.get(atom.relation, _NONE)
        return any(_holds(index, atoms, {**bound, subject: node}) for node in tries)
    raise TypeError(f"an atom holds nodes and variables, not {subject!r}")


def _set(term: Term, bound: Mapping[Variable, Node]) -> Term:
    return bound.get(term, term) if isinstance(term, Variable) else term


def _frozen(sets: Mapping[_Key, set[Node]]) -> dict[_Key, Nodes]:
    return {key: frozenset(values) for key, values in sets.items()}
