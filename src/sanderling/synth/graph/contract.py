"""The graph that questions are made from: entities, and facts about them that pages state.

Every maker of graphs (a generated encyclopedia, links and tables of documents, a language model) gives this one form, and every
maker of questions takes it. A fact names the page and the words that state it. Knows no maker, no wording and no agent.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Uniqueness(StrEnum):
    """How sure it is that a question has no second answer in its world."""

    PROVEN = "proven"
    """Over all facts of the graph one answer alone satisfies every constraint, and the graph is all that the world holds."""
    SUPPORTED = "supported"
    """Searches of the world found no other answer."""
    UNCHECKED = "unchecked"


class Capability(StrEnum):
    """What a question asks of an agent (the five of LiteResearcher, arXiv 2604.17931, section on data)."""

    DIRECT = "direct"
    """Find one stated fact, however many hops away."""
    AGGREGATION = "aggregation"
    """Bring facts of several pages together: a sum, a comparison, a common property."""
    ENUMERATION = "enumeration"
    """Name all that satisfy a condition."""
    CROSS_VERIFICATION = "cross-verification"
    """Sources differ or vary in wording: establish what holds."""
    STATISTICS = "statistics"
    """Count, rank or compute over values of many pages."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that pages speak of."""

    id: str
    name: str
    """As people call it: the form of an answer."""
    kind: str = ""
    """In one or two words: "function", "person"; empty: unknown. The first resort of a vague reference."""
    aliases: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    """Addresses of the pages about it, the main one first; these are what masking hides."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement: subject, relation, object."""

    subject: str
    """An entity's id."""
    relation: str
    """A name of the relation, the same wherever it is the same."""
    object: str
    """An entity's id, or a literal's text."""
    is_literal: bool = False
    url: str = ""
    """The page that states it."""
    quote: str = ""
    """The words there, verbatim; empty where a structure (a link, a heading) says it."""


@dataclass(frozen=True)
class FactGraph:
    """All entities and facts of a world, or of a part of it."""

    entities: dict[str, Entity]
    facts: tuple[Fact, ...]
    complete: bool = False
    """Whether the world holds no fact of these relations beyond these: only then can uniqueness be proven."""
    outgoing: dict[str, list[Fact]] = field(init=False, repr=False, compare=False)
    """Entity id -> facts of which it is the subject."""
    incoming: dict[str, list[Fact]] = field(init=False, repr=False, compare=False)
    """Entity id -> facts of which it is the object; literals are not here."""

    def __post_init__(self) -> None:
        outgoing: dict[str, list[Fact]] = {id: [] for id in self.entities}
        incoming: dict[str, list[Fact]] = {id: [] for id in self.entities}
        for fact in self.facts:
            outgoing[fact.subject].append(fact)
            if not fact.is_literal:
                incoming[fact.object].append(fact)
        object.__setattr__(self, "outgoing", outgoing)
        object.__setattr__(self, "incoming", incoming)
