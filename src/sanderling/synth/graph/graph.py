"""A graph of facts, as questions are made from it: entities, statements about them, and indexes over both.

Every fact names the page and the words that state it.
"""

import random
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sanderling.core.config import Frozen

_MOST_ALIKE = 6
"""Of an entity's facts of one relation and direction, at most so many are drawn: hubs would otherwise hide everything else."""


class DroppedError(Exception):
    """A draw becomes no question, and why."""


class Node(NamedTuple):
    """What facts speak of: an entity by its id, or a literal by its text."""

    id: str
    is_literal: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that pages are about. ``kind`` ("town") is how a question refers to it without its name; empty: unknown."""

    id: str
    name: str
    kind: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement about an entity; its object is an entity's id, or a literal's text.

    Example: ``Fact("orlo", "mayor", "brandt", url="https://w.example/orlo", quote="The mayor of Orlo is Asta Brandt.")``
    """

    subject: str
    relation: str
    object: str
    is_literal: bool = False
    url: str = ""
    quote: str = ""

    @property
    def head(self) -> Node:
        return Node(self.subject)

    @property
    def tail(self) -> Node:
        return Node(self.object, self.is_literal)


class FactGraph:
    """All entities and facts of a world, or of a part of it; two pages that state one fact give two `Fact`s.

    ``complete``: whether the world holds no fact of these relations beyond these, which is when uniqueness can be proven.
    """

    def __init__(
        self,
        entities: Mapping[str, Entity],
        facts: Iterable[Fact],
        words: "RelationBook | None" = None,
        *,
        complete: bool = False,
    ) -> None:
        self.entities, self.facts, self.complete = entities, tuple(facts), complete
        self.words = words or RelationBook()
        self.outgoing: dict[str, list[Fact]] = {id: [] for id in entities}
        self.incoming: dict[str, list[Fact]] = {id: [] for id in entities}
        self.facts_of: dict[str, list[Fact]] = {}
        """Relation to its facts; claims of other sites are no relations."""
        heads, tails, pages = defaultdict[tuple[str, Node], set[Node]](set), defaultdict[tuple[str, Node], set[Node]](set), {}
        for fact in self.facts:
            head, tail = fact.head, fact.tail
            self.outgoing[fact.subject].append(fact)
            if not fact.is_literal:
                self.incoming[fact.object].append(fact)
            if not is_claim(fact.relation):
                self.facts_of.setdefault(fact.relation, []).append(fact)
            heads[fact.relation, tail].add(head)
            tails[fact.relation, head].add(tail)
            pages.setdefault((head, fact.relation, tail), set()).add(fact.url)
        self.heads = {key: frozenset(nodes) for key, nodes in heads.items()}
        """(relation, object) to its subjects."""
        self.tails = {key: frozenset(nodes) for key, nodes in tails.items()}
        """(relation, subject) to its objects."""
        self._pages: dict[tuple[Node, str, Node], set[str]] = pages
        self._names = _unique_names(entities)
        self.contradicted = [fact for fact in self.facts if self._is_contradicted(fact)]
        """What other sites claim, and the entity's own page contradicts."""

    def name(self, node: Node) -> str | None:
        return node.id if node.is_literal else self._names.get(node.id)

    def kind(self, node: Node) -> str:
        return "" if node.is_literal else self.entities[node.id].kind

    def answers(self, node: Node) -> tuple[str, ...]:
        """What is right as an answer: the name first, then the other names."""
        if node.is_literal:
            return (node.id,)
        entity = self.entities[node.id]
        return tuple(dict.fromkeys((entity.name, *entity.aliases)))

    def pages_with(self, fact: Fact) -> set[str]:
        return self._pages[fact.head, fact.relation, fact.tail]

    def around(self, node: Node, rng: random.Random) -> list[tuple[Fact, Node]]:
        """The facts of an entity, each with its other end; a literal leads nowhere."""
        if node.is_literal:
            return []
        alike = defaultdict[tuple[str, bool], list[tuple[Fact, Node]]](list)
        for fact in self.outgoing[node.id]:
            alike[fact.relation, True].append((fact, fact.tail))
        for fact in self.incoming[node.id]:
            alike[fact.relation, False].append((fact, fact.head))
        return [
            (fact, other)
            for (relation, _), found in alike.items()
            if not is_claim(relation)
            for fact, other in (found if len(found) <= _MOST_ALIKE else rng.sample(found, _MOST_ALIKE))
            if other != node
        ]

    def _is_contradicted(self, claim: Fact) -> bool:
        truth = self.tails.get((split_claim(claim.relation)[0], claim.head)) if is_claim(claim.relation) else None
        return bool(truth) and claim.object not in {node.id for node in truth}


def _unique_names(entities: Mapping[str, Entity]) -> dict[str, str]:
    """A name of each entity that no other has; one that begins with an article first, as it is made to be spoken."""
    names = {id: (entity.name, *entity.aliases) for id, entity in entities.items()}
    holders = Counter(each for own in names.values() for each in {name.casefold() for name in own})
    own = {id: [name for name in all_names if holders[name.casefold()] == 1] for id, all_names in names.items()}
    return {id: next((name for name in found if name.startswith("the ")), found[0]) for id, found in own.items() if found}


# -- how relations are put into words, in either direction ---------------------------------------------------------------

_CLAIM = "@"


class RelationWords(Frozen):
    """The wordings of one relation; ``{s}`` stands for a fact's subject, ``{o}`` for its object.

    A clause begins with its pronoun, so that it can follow any noun: "the town *that is home to {s}*".
    """

    subject: tuple[str, ...]
    """Clauses that describe the subject, given the object."""
    object: tuple[str, ...]
    """Clauses that describe the object, given the subject."""
    noun: tuple[str, ...] = ()
    """Noun phrases for the object, given the subject: "the home town of {s}"."""
    value: str = "value"
    """What kind of thing a literal object is: "year", "product"."""
    inquiry: tuple[str, ...] = ()
    """Questions for a literal object, given the subject: "In which year did {s} begin?"."""
    is_numeric: bool = False


class RelationBook:
    """The wordings of every relation: those of a table, and plain ones for all others."""

    def __init__(self, table: Mapping[str, RelationWords] | None = None) -> None:
        self._words = dict(table or {})

    def __getitem__(self, relation: str) -> RelationWords:
        if relation not in self._words:
            base, site = split_claim(relation)
            self._words[relation] = _as_claim(self[base], site) if site else plain_words(relation)
        return self._words[relation]


def encyclopedia_words() -> RelationBook:
    """The wordings of the generated encyclopedia's relations."""
    text = Path(__file__).with_name("relations.toml").read_text(encoding="utf-8")
    return RelationBook({name: RelationWords.model_validate(words) for name, words in tomllib.loads(text).items()})


def plain_words(relation: str) -> RelationWords:
    """Wordings made of a relation's name. Example: ``plain_words("birth_place").noun == ("the birth place of {s}",)``."""
    value = " ".join(relation.replace("_", " ").replace("-", " ").split()).lower()
    label = escaped(value)
    return RelationWords(
        subject=(f"whose {label} is {{o}}",),
        object=(f"that is the {label} of {{s}}",),
        noun=(f"the {label} of {{s}}",),
        value=value,
        inquiry=(f"What is the {label} of {{s}}?",),
    )


def escaped(words: str) -> str:
    """Words as a part of a wording: braces stand for themselves."""
    return words.replace("{", "{{").replace("}", "}}")


def claim_of(relation: str, site: str) -> str:
    """The name of what a site claims of a relation."""
    return f"{relation}{_CLAIM}{site}"


def split_claim(relation: str) -> tuple[str, str]:
    """The relation that a claim is about, and the site. Example: ``split_claim("mayor@gazette") == ("mayor", "gazette")``."""
    base, _, site = relation.partition(_CLAIM)
    return base, site


def is_claim(relation: str) -> bool:
    """Whether a relation is what some other site claims."""
    return _CLAIM in relation


def _as_claim(words: RelationWords, site: str) -> RelationWords:
    said = f" (according to the {escaped(site)})"
    subject, object = (tuple(clause + said for clause in clauses) for clauses in (words.subject, words.object))
    return RelationWords(subject=subject, object=object, value=words.value)
