"""A graph of facts, as questions are made from it: entities, statements about them, and indexes over both.

The generated encyclopedia gives such a graph, and so does a language model that reads pages. Every fact names the page and the
words that state it.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sanderling.synth.graph.relations import RelationBook, is_claim, split_claim

MOST_ALIKE = 6
"""Of an entity's facts of one relation and direction, so many are looked at; of more, as many are drawn. Hubs would otherwise
hide everything else."""


class Uniqueness(StrEnum):
    """How sure it is that a question has no second answer in its world."""

    PROVEN = "proven"
    """Over all facts of the graph one answer alone satisfies every constraint, and the graph is all that the world holds."""
    SUPPORTED = "supported"
    """Searches of the world found no other answer."""
    UNCHECKED = "unchecked"


class Node(NamedTuple):
    """What facts speak of: an entity by its id, or a literal by its text."""

    id: str
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that pages are about."""

    id: str
    name: str
    """As people call it: the form of an answer."""
    kind: str = ""
    """In one or two words: "town", "person"; empty: unknown. How a question refers to it without its name."""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement.

    Example: ``Fact("orlo", "mayor", "brandt", url="https://w.example/orlo", quote="The mayor of Orlo is Asta Brandt.")``
    """

    subject: str
    """An entity's id."""
    relation: str
    object: str
    """An entity's id, or a literal's text."""
    is_literal: bool = False
    url: str = ""
    """The page that states it."""
    quote: str = ""
    """The words there, verbatim."""

    @property
    def head(self) -> Node:
        """The subject."""
        return Node(self.subject)

    @property
    def tail(self) -> Node:
        """The object."""
        return Node(self.object, self.is_literal)


class FactGraph:
    """All entities and facts of a world, or of a part of it; two pages that state one fact give two `Fact`s.

    ``complete``: whether the world holds no fact of these relations beyond these, which is when uniqueness can be proven.
    """

    def __init__(
        self,
        entities: Mapping[str, Entity],
        facts: Iterable[Fact],
        words: RelationBook | None = None,
        *,
        complete: bool = False,
    ) -> None:
        self.entities, self.facts, self.complete = entities, tuple(facts), complete
        self.words = words or RelationBook()
        self.outgoing: dict[str, list[Fact]] = {id: [] for id in entities}
        """Entity id to the facts of which it is the subject."""
        self.incoming: dict[str, list[Fact]] = {id: [] for id in entities}
        """Entity id to the facts of which it is the object."""
        self.facts_of: dict[str, list[Fact]] = {}
        """Relation to its facts, in the order of the facts; claims of other sites are no relations."""
        heads: dict[tuple[str, Node], set[Node]] = {}
        tails: dict[tuple[str, Node], set[Node]] = {}
        pages: dict[tuple[Node, str, Node], set[str]] = {}
        for fact in self.facts:
            head, tail = fact.head, fact.tail
            self.outgoing[fact.subject].append(fact)
            if not fact.is_literal:
                self.incoming[fact.object].append(fact)
            if not is_claim(fact.relation):
                self.facts_of.setdefault(fact.relation, []).append(fact)
            heads.setdefault((fact.relation, tail), set()).add(head)
            tails.setdefault((fact.relation, head), set()).add(tail)
            pages.setdefault((head, fact.relation, tail), set()).add(fact.url)
        self.heads = {key: frozenset(nodes) for key, nodes in heads.items()}
        """(relation, object) to its subjects."""
        self.tails = {key: frozenset(nodes) for key, nodes in tails.items()}
        """(relation, subject) to its objects."""
        self._pages = {key: frozenset(urls) for key, urls in pages.items()}
        self._names = _unique_names(entities)
        self.contradicted = [fact for fact in self.facts if self._is_contradicted(fact)]
        """What other sites claim, and the entity's own page contradicts."""

    @property
    def uniqueness(self) -> Uniqueness:
        """What one answer over all facts of this graph means."""
        return Uniqueness.PROVEN if self.complete else Uniqueness.UNCHECKED

    def name(self, node: Node) -> str | None:
        """What a question calls something; None when no name is its alone."""
        return node.id if node.is_literal else self._names.get(node.id)

    def kind(self, node: Node) -> str:
        """The kind of an entity; empty when unknown, and for literals."""
        return "" if node.is_literal else self.entities[node.id].kind

    def answers(self, node: Node) -> tuple[str, ...]:
        """What is right as an answer: the name first, then the other names."""
        if node.is_literal:
            return (node.id,)
        entity = self.entities[node.id]
        return tuple(dict.fromkeys((entity.name, *entity.aliases)))

    def pages_with(self, fact: Fact) -> frozenset[str]:
        """All pages that state a fact."""
        return self._pages[(fact.head, fact.relation, fact.tail)]

    def around(self, node: Node, rng: random.Random) -> list[tuple[Fact, Node]]:
        """The facts of an entity, each with its other end; a literal leads nowhere."""
        if node.is_literal:
            return []
        alike: dict[tuple[str, bool], list[tuple[Fact, Node]]] = {}
        for fact in self.outgoing[node.id]:
            alike.setdefault((fact.relation, True), []).append((fact, fact.tail))
        for fact in self.incoming[node.id]:
            alike.setdefault((fact.relation, False), []).append((fact, fact.head))
        return [
            (fact, other)
            for (relation, _), found in alike.items()
            if not is_claim(relation)
            for fact, other in (found if len(found) <= MOST_ALIKE else rng.sample(found, MOST_ALIKE))
            if other != node
        ]

    def _is_contradicted(self, claim: Fact) -> bool:
        if not is_claim(claim.relation):
            return False
        truth = self.tails.get((split_claim(claim.relation)[0], claim.head), frozenset())
        return bool(truth) and claim.object not in {node.id for node in truth}


def _unique_names(entities: Mapping[str, Entity]) -> dict[str, str]:
    """A name of each entity that no other has; one that begins with an article first, as it is made to be spoken."""

    def key(name: str) -> str:
        return name.casefold().removesuffix("()")

    names = {id: (entity.name, *entity.aliases) for id, entity in entities.items()}
    holders = Counter(each for own in names.values() for each in {key(name) for name in own})
    found: dict[str, str] = {}
    for id, candidates in names.items():
        own = [name for name in candidates if holders[key(name)] == 1]
        if own:
            found[id] = next((name for name in own if name.startswith("the ")), own[0])
    return found
