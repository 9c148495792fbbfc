"""What every maker of questions stands on: a graph, its index, how its things are named, and the words of its relations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sanderling.synth.graph.contract import Entity, Fact, FactGraph
from sanderling.synth.graph.matcher import FactIndex
from sanderling.synth.graph.query import Node, object_of, subject_of
from sanderling.synth.graph.words.contract import Words, claimed, is_claim

FactKey = tuple[Node, str, Node]


@dataclass(frozen=True)
class Ground:
    """A graph made ready to ask about."""

    graph: FactGraph
    index: FactIndex
    words: Words
    designations: Mapping[str, str]
    """Entity id to what a question calls it; absent: no name that is its alone."""
    pages: Mapping[FactKey, frozenset[str]]
    """A fact to all pages that state it."""
    relations: tuple[str, ...]
    """In the graph's order; without what sites claim."""
    facts_of: Mapping[str, Sequence[Fact]]
    """The facts of each of them."""
    of_value: Mapping[str, Sequence[Fact]]
    """A literal to the facts that have it for an object."""
    claims: Sequence[Fact]
    """What sites claim, and the thing's own page contradicts."""

    @classmethod
    def of(cls, graph: FactGraph, words: Words) -> "Ground":
        """Make a graph ready."""
        pages: dict[FactKey, set[str]] = {}
        for fact in graph.facts:
            pages.setdefault((subject_of(fact), fact.relation, object_of(fact)), set()).add(fact.url)
        facts_of: dict[str, list[Fact]] = {}
        of_value: dict[str, list[Fact]] = {}
        for fact in graph.facts:
            if fact.is_literal:
                of_value.setdefault(fact.object, []).append(fact)
            if not is_claim(fact.relation):
                facts_of.setdefault(fact.relation, []).append(fact)
        return cls(
            graph,
            FactIndex.of(graph),
            words,
            designations(graph.entities),
            {key: frozenset(urls) for key, urls in pages.items()},
            tuple(facts_of),
            facts_of,
            of_value,
            tuple(fact for fact in graph.facts if is_claim(fact.relation) and _is_contradicted(graph, fact)),
        )

    def facts_with(self, value: Node) -> Sequence[Fact]:
        """The facts of which a literal is the object."""
        return self.of_value.get(value.id, ())

    def name(self, node: Node) -> str | None:
        """What a question calls something; None when no name is its alone."""
        return node.id if node.is_literal else self.designations.get(node.id)

    def kind(self, node: Node) -> str:
        """The kind of an entity; empty when unknown, and for literals."""
        return "" if node.is_literal else self.graph.entities[node.id].kind

    def answers(self, node: Node) -> tuple[str, ...]:
        """What is right as an answer: the name first, then the other names."""
        if node.is_literal:
            return (node.id,)
        entity = self.graph.entities[node.id]
        return tuple(dict.fromkeys((entity.name, *entity.aliases)))


def _is_contradicted(graph: FactGraph, claim: Fact) -> bool:
    relation = claimed(claim.relation)[0]
    held = {fact.object for fact in graph.outgoing[claim.subject] if fact.relation == relation}
    return bool(held) and claim.object not in held


def designations(entities: Mapping[str, Entity]) -> dict[str, str]:
    """The name of each entity that nothing else has: one that begins with an article first, as it is made to be spoken."""
    holders = Counter(name for entity in entities.values() for name in {_key(word) for word in _names(entity)})
    found: dict[str, str] = {}
    for id, entity in entities.items():
        own = [name for name in _names(entity) if holders[_key(name)] == 1]
        if own:
            found[id] = next((name for name in own if name.startswith("the ")), own[0])
    return found


def _key(name: str) -> str:
    return name.casefold().removesuffix("()")


def _names(entity: Entity) -> tuple[str, ...]:
    return (entity.name, *entity.aliases)
