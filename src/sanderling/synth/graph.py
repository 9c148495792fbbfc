"""A graph of facts, as questions are made from it: entities, statements about them, indexes over both, random parts.

Every fact names the page and the words that state it. The graph of a generated encyclopedia holds all that its atlas holds to
be true and all that its other sites claim: what the archive or the gazette says, be it the same or not, is a fact of its own,
of the relation ``NAME@archive`` or ``NAME@gazette``. It is whole, so uniqueness can be proven.
"""

import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sanderling.core.config import Frozen
from sanderling.core.errors import UserError
from sanderling.world.disk.pages import Intake
from sanderling.world.disk.store import read_manifest
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Kind, Names, Site, generate_encyclopedia

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
        self, entities: dict[str, Entity], facts: Iterable[Fact], words: "RelationBook | None" = None, *, complete: bool = False
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
            if _CLAIM not in fact.relation:
                self.facts_of.setdefault(fact.relation, []).append(fact)
            heads[fact.relation, tail].add(head)
            tails[fact.relation, head].add(tail)
            pages.setdefault((head, fact.relation, tail), set()).add(fact.url)
        self.heads = {key: frozenset(nodes) for key, nodes in heads.items()}
        """(relation, object) to its subjects."""
        self.tails = {key: frozenset(nodes) for key, nodes in tails.items()}
        """(relation, subject) to its objects."""
        self.pages: dict[tuple[Node, str, Node], set[str]] = pages
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
            if _CLAIM not in relation
            for fact, other in (found if len(found) <= _MOST_ALIKE else rng.sample(found, _MOST_ALIKE))
            if other != node
        ]

    def _is_contradicted(self, claim: Fact) -> bool:
        truth = self.tails.get((split_claim(claim.relation)[0], claim.head)) if _CLAIM in claim.relation else None
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

    subject: tuple[str, ...]  # clauses that describe the subject, given the object
    object: tuple[str, ...]  # clauses that describe the object, given the subject
    noun: tuple[str, ...] = ()  # noun phrases for the object, given the subject: "the home town of {s}"
    value: str = "value"  # what kind of thing a literal object is: "year", "product"
    inquiry: tuple[str, ...] = ()  # questions for a literal object, given the subject: "In which year did {s} begin?"
    is_numeric: bool = False


class RelationBook(dict[str, RelationWords]):
    """The wordings of every relation: those of a table, and plain ones, made of its name, for all others."""

    def __missing__(self, relation: str) -> RelationWords:
        base, site = split_claim(relation)
        if site:
            of, said = self[base], f" (according to the {escaped(site)})"
            subject, object = (tuple(clause + said for clause in clauses) for clauses in (of.subject, of.object))
            self[relation] = RelationWords(subject=subject, object=object, value=of.value)
        else:
            value = " ".join(relation.replace("_", " ").replace("-", " ").split()).lower()
            label = escaped(value)
            self[relation] = RelationWords(
                subject=(f"whose {label} is {{o}}",),
                object=(f"that is the {label} of {{s}}",),
                noun=(f"the {label} of {{s}}",),
                value=value,
                inquiry=(f"What is the {label} of {{s}}?",),
            )
        return self[relation]


def escaped(words: str) -> str:
    """Words as a part of a wording: braces stand for themselves."""
    return words.replace("{", "{{").replace("}", "}}")


def split_claim(relation: str) -> tuple[str, str]:
    """The relation that a claim is about, and the site. Example: ``split_claim("mayor@gazette") == ("mayor", "gazette")``."""
    base, _, site = relation.partition(_CLAIM)
    return base, site


# -- the graph of a generated encyclopedia ---------------------------------------------------------------------------------

_NOUNS: dict[Kind, str] = {
    Kind.PERSON: "person",
    Kind.ORGANISATION: "body",
    Kind.PLACE: "town",
    Kind.WORK: "book",
    Kind.EVENT: "gathering",
}
_BOTH_WAYS = frozenset({"spouse", "twin"})
"""Relations that the pages state of both alike ("A and B were husband and wife"), while the world knows one way: read the other
way, their objects are not the only ones."""
_MADE_FROM = re.compile(r"encyclopedia(?: --size |-)(?P<size>\d+)(?: --seed |-)(?P<seed>\d+)(?P<registers>(?: -|)-registers)?")
_NAMED = re.compile(r"encyclopedia-(?P<names>train|held_out)-(?P<size>\d+)-(?P<seed>\d+)(?P<registers>-registers)?")


def open_graph(directory: Path) -> FactGraph:
    """The facts of a generated world on disk. Raises UserError where there is no world, or none whose facts a seed tells."""
    encyclopedia = encyclopedia_of(directory)
    if encyclopedia is None:
        raise UserError(
            f"No facts are known of {directory}, which is no generated encyclopedia: name a --model to read its pages for them."
        )
    return encyclopedia_graph(encyclopedia)


def encyclopedia_of(directory: Path) -> Encyclopedia | None:
    """The encyclopedia that a world on disk was generated from; None when its pages are not just those of one.

    The manifest says of which size, seed and names it may be; whether it is, its fingerprint tells. Raises UserError when there
    is no world.
    """
    info = read_manifest(directory)
    found = _NAMED.fullmatch(info.name) or _MADE_FROM.fullmatch(info.source)
    if found is None:
        return None
    names = Names(found.groupdict().get("names") or Names.TRAIN)
    try:
        world = generate_encyclopedia(int(found["size"]), int(found["seed"]), names, registers=bool(found["registers"]))
    except UserError:
        return None
    intake = Intake()
    for page in world.all_pages():
        intake.take_in(page, lambda _: 0)
    return world if intake.fingerprint == info.fingerprint else None


def encyclopedia_graph(world: Encyclopedia) -> FactGraph:
    """Everything that the pages of an encyclopedia state."""
    entities: dict[str, Entity] = {}
    for thing in world.facts.entities:
        aliases = tuple(alias for alias in dict.fromkeys((thing.mention, thing.title)) if alias != thing.name)
        entities[str(thing.id)] = Entity(str(thing.id), thing.name, _NOUNS[thing.kind], aliases)
    table = tomllib.loads(Path(__file__).with_name("relations.toml").read_text(encoding="utf-8"))
    words = RelationBook({name: RelationWords.model_validate(words) for name, words in table.items()})
    return FactGraph(entities, _facts(world), words, complete=True)


def _facts(world: Encyclopedia) -> Iterator[Fact]:
    for page in world.pages:
        if occupation := world.facts.entities[page.entity].occupation:
            # the sentence that says what somebody was: the first one, behind a note where there is one
            lead = page.page.text.split(". ", 2)[page.site is not Site.ATLAS] + "."
            yield _fact(page, "occupation", occupation, lead)
        for relation, value in page.claims.items():
            if relation not in _BOTH_WAYS:
                yield _fact(page, relation, value, page.sentences[relation])


def _fact(page: EncyclopediaPage, relation: str, value: int | str, quote: str) -> Fact:
    name = relation if page.site is Site.ATLAS else f"{relation}{_CLAIM}{page.site.name.lower()}"
    return Fact(str(page.entity), name, str(value), isinstance(value, str), page.page.url, quote)


# -- random parts of a graph -----------------------------------------------------------------------------------------------

_MOST_VALUES = 2


@dataclass(frozen=True)
class Subgraph:
    """Things, in the order in which they came in, and the facts that join them."""

    nodes: tuple[Node, ...]
    facts: tuple[Fact, ...]

    def touching(self, node: Node) -> Iterator[tuple[Fact, Node]]:
        for fact in self.facts:
            head, tail = fact.head, fact.tail
            if head == node:
                yield fact, tail
            elif tail == node:
                yield fact, head

    def without(self, node: Node) -> "Subgraph":
        facts = (fact for fact in self.facts if node not in (fact.head, fact.tail))
        return Subgraph(tuple(each for each in self.nodes if each != node), tuple(facts))


def sample_subgraph(graph: FactGraph, size: int, rng: random.Random) -> Subgraph:
    """A connected part of ``size`` things; smaller where the surroundings of its first thing are."""
    start = rng.choice(graph.facts_of[rng.choice(list(graph.facts_of))])
    at = Node(start.subject if start.is_literal or rng.random() < 0.5 else start.object)
    inside: dict[Node, None] = {at: None}
    facts: dict[Fact, None] = {}
    rim: dict[Node, list[Fact]] = {}
    values = 0
    while True:
        for fact, other in graph.around(at, rng):
            if other in inside:
                facts[fact] = None
            elif not other.is_literal or values < _MOST_VALUES:
                rim.setdefault(other, []).append(fact)
        if len(inside) == size or not rim:
            return Subgraph(tuple(inside), tuple(facts))
        at = max(rim, key=lambda node: len(rim[node]) + rng.random() / 2)  # chance breaks ties alone
        facts.update(dict.fromkeys(rim.pop(at)))
        inside[at] = None
        values += at.is_literal
        if values == _MOST_VALUES:
            rim = {node: edges for node, edges in rim.items() if not node.is_literal}


def sample_walk(graph: FactGraph, start: Node, size: int, rng: random.Random) -> Subgraph:
    """A part of things in a row, each joined to the one before; fewer where it ends. Other parts rarely have long rows."""
    nodes, facts = [start], list[Fact]()
    while len(nodes) < size:
        near = [(fact, other) for fact, other in graph.around(nodes[-1], rng) if other not in nodes]
        near = [(fact, other) for fact, other in near if not other.is_literal or len(nodes) == size - 1]
        if not near:
            break
        fact, other = rng.choice(near)
        nodes.append(other)
        facts.append(fact)
    return Subgraph(tuple(nodes), tuple(facts))
