"""Several pages' facts as one graph: things of one name are one thing, and the same statement of several pages stays several.

Names are compared by their words. A name that two pages give to things of different kinds stays two things, and so does the
rest: a graph that takes two for one makes wrong questions, one that takes one for two makes fewer. Pure.
"""

from collections.abc import Sequence

from sanderling.synth.facts.checks import words
from sanderling.synth.graph.contract import Entity, Fact, FactGraph
from sanderling.synth.reading.extraction import PageFacts, ReadEntity
from sanderling.world.contract import Page


def merged(read: Sequence[tuple[Page, PageFacts]]) -> FactGraph:
    """The graph of pages and their facts, in their order; never complete."""
    things: dict[str, list[_Thing]] = {}
    facts: list[Fact] = []
    for page, found in read:
        here = {entity.name: _thing(things, entity) for entity in found.entities}
        for entity in found.entities:
            here[entity.name].see(entity, page)
        for fact in found.facts:
            subject, object = here[fact.subject], here.get(fact.object)
            if page.url not in subject.pages:
                subject.pages.append(page.url)
            target = object.id if object is not None else fact.object
            facts.append(Fact(subject.id, fact.relation, target, object is None, page.url, fact.quote))
    entities = {thing.id: thing.entity() for group in things.values() for thing in group}
    return FactGraph(entities, tuple(dict.fromkeys(facts)))


class _Thing:
    """An entity while pages are still coming."""

    def __init__(self, id: str, entity: ReadEntity) -> None:
        self.id = id
        self.name = entity.name
        self.kind = entity.kind
        self.aliases: dict[str, None] = {}
        self.pages: list[str] = []

    def see(self, entity: ReadEntity, page: Page) -> None:
        """Take in what a further page says of it; a page of its name is its main one."""
        self.kind = self.kind or entity.kind
        self.aliases |= dict.fromkeys((entity.name, *entity.aliases))
        if words(page.title) == words(self.name):
            self.pages = [page.url, *(url for url in self.pages if url != page.url)]

    def entity(self) -> Entity:
        """As it stands."""
        aliases = tuple(name for name in self.aliases if name != self.name)
        return Entity(self.id, self.name, self.kind, aliases, tuple(self.pages))


def _thing(things: dict[str, list[_Thing]], entity: ReadEntity) -> _Thing:
    """The thing that this entity is: of the same name, and not of another kind."""
    key = " ".join(words(entity.name)) or entity.name
    known = things.setdefault(key, [])
    for thing in known:
        if not thing.kind or not entity.kind or thing.kind == entity.kind:
            return thing
    thing = _Thing(key if not known else f"{key}#{len(known) + 1}", entity)
    known.append(thing)
    return thing
