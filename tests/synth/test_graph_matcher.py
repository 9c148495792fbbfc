"""The matcher: exactly the answers that trying everything gives, for trees, circles and loose pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanderling.synth.graph.contract import Entity, Fact, FactGraph
from sanderling.synth.graph.matcher import FactIndex, answers
from sanderling.synth.graph.query import ANSWER, Atom, Node, Query, Term, Variable

THINGS = tuple(f"t{number}" for number in range(5))
VALUES = ("1900", "t1")
RELATIONS = ("likes", "made")

facts = st.lists(
    st.one_of(
        st.builds(Fact, st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(THINGS)),
        st.builds(Fact, st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(VALUES), st.just(True)),
    ),
    max_size=14,
)
terms: st.SearchStrategy[Term] = st.one_of(
    st.builds(Variable, st.integers(0, 3)),
    st.builds(Node, st.sampled_from(THINGS)),
    st.builds(Node, st.sampled_from(VALUES), st.just(True)),
)
atoms = st.lists(st.builds(Atom, st.sampled_from(RELATIONS), terms, terms), min_size=1, max_size=4).filter(
    lambda found: any(ANSWER in atom[1:] for atom in found)
)


def graph_of(facts: list[Fact]) -> FactGraph:
    return FactGraph({id: Entity(id, id) for id in THINGS}, tuple(facts))


def brute_force(graph: FactGraph, query: Query) -> set[Node]:
    """Every way of setting the variables, tried; shares no code with the matcher."""
    universe = [Node(id) for id in THINGS] + [Node(value, True) for value in VALUES]
    true = {(fact.relation, (fact.subject, False), (fact.object, fact.is_literal)) for fact in graph.facts}
    variables = sorted({term for atom in query.atoms for term in atom[1:] if isinstance(term, Variable)})
    found = set()
    for values in itertools.product(universe, repeat=len(variables)):
        known = dict(zip(variables, values, strict=True))
        said = [(atom.relation, *(tuple(known.get(term, term)) for term in atom[1:])) for atom in query.atoms]  # type: ignore[call-overload]
        if all(one in true for one in said):
            found.add(known[ANSWER])
    return found


@given(facts, atoms)
def test_the_answers_are_those_of_trying_everything(found: list[Fact], wanted: list[Atom]) -> None:
    graph = graph_of(found)
    query = Query(tuple(wanted))
    assert answers(FactIndex.of(graph), query) == brute_force(graph, query)


def test_a_circle_and_a_loose_piece() -> None:
    a, b, c = (Node(id) for id in THINGS[:3])
    index = FactIndex.of(graph_of([Fact("t0", "likes", "t1"), Fact("t1", "likes", "t0"), Fact("t2", "made", "t2")]))
    x, y = Variable(0), Variable(1)
    assert answers(index, Query((Atom("likes", x, y), Atom("likes", y, x)))) == {a, b}
    assert answers(index, Query((Atom("likes", x, b), Atom("made", y, y)))) == {a}
    assert answers(index, Query((Atom("likes", x, b), Atom("made", y, a)))) == set()
    assert answers(index, Query((Atom("made", x, x),))) == {c}


def test_a_value_is_not_the_thing_of_the_same_name() -> None:
    index = FactIndex.of(graph_of([Fact("t0", "likes", "t1", True)]))
    assert answers(index, Query((Atom("likes", ANSWER, Node("t1")),))) == set()
    assert answers(index, Query((Atom("likes", ANSWER, Node("t1", True)),))) == {Node("t0")}


def test_a_query_without_its_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="answer"):
        Query((Atom("likes", Variable(1), Node("t0")),))
