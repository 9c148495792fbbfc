"""The graph of a generated encyclopedia: all that its atlas holds to be true, and all that its other sites claim.

The truth has the relations of the encyclopedia's schema, and ``occupation``. What the archive or the gazette says, be it the
same or not, is a fact of its own, of the relation ``NAME@archive`` or ``NAME@gazette``: it is true that the page says so. Both
are whole, so uniqueness can be proven. Knows no question.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.synth.graph.contract import Entity, Fact, FactGraph
from sanderling.synth.graph.words.contract import claim_of
from sanderling.world.disk.pages import Intake
from sanderling.world.disk.store import WorldInfo, read_manifest
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Kind, Names, Site, generate_encyclopedia
from sanderling.world.encyclopedia import Entity as Thing

NOUNS: dict[Kind, str] = {
    Kind.PERSON: "person",
    Kind.ORGANISATION: "body",
    Kind.PLACE: "town",
    Kind.WORK: "book",
    Kind.EVENT: "gathering",
}
OCCUPATION = "occupation"
_MADE_FROM = (
    re.compile(r"encyclopedia --size (?P<size>\d+) --seed (?P<seed>\d+)"),
    re.compile(r"encyclopedia-(?P<size>\d+)-(?P<seed>\d+)"),
)
_BOTH_WAYS = frozenset({"spouse", "twin"})
"""Relations that the pages state of both alike ("A and B were husband and wife"), while the world knows one way: read the other
way, their objects are not the only ones."""
_NAMED = re.compile(r"encyclopedia-(?P<names>train|held_out)-(?P<size>\d+)-(?P<seed>\d+)")


def encyclopedia_graph(world: Encyclopedia) -> FactGraph:
    """Everything that the pages of an encyclopedia state."""
    addresses: dict[int, list[str]] = {}
    for page in world.pages:
        addresses.setdefault(page.entity, []).append(page.page.url)
    entities = {str(thing.id): _entity(thing, tuple(addresses[thing.id])) for thing in world.facts.entities}
    return FactGraph(entities, tuple(_facts(world)), complete=True)


def encyclopedia_of(directory: Path) -> Encyclopedia | None:
    """The encyclopedia that a world on disk was generated from; None when its pages are not just those of one.

    Raises UserError when there is no world.
    """
    info = read_manifest(directory)
    made = _made_from(info)
    if made is None:
        return None
    size, seed, names = made
    try:
        world = generate_encyclopedia(size, seed, names)
    except UserError:
        return None
    intake = Intake()
    for page in world.pages:
        intake.take_in(page.page, lambda _: 0)
    return world if intake.fingerprint == info.fingerprint else None


def _made_from(info: WorldInfo) -> tuple[int, int, Names] | None:
    """What the manifest says of size, seed and names; whether it is so, the fingerprint tells."""
    if found := _NAMED.fullmatch(info.name):
        return int(found["size"]), int(found["seed"]), Names(found["names"])
    for pattern in _MADE_FROM:
        if found := pattern.fullmatch(info.source):
            return int(found["size"]), int(found["seed"]), Names.TRAIN
    return None


def _entity(thing: Thing, pages: tuple[str, ...]) -> Entity:
    aliases = tuple(dict.fromkeys((thing.mention, thing.title)))
    return Entity(str(thing.id), thing.name, NOUNS[thing.kind], tuple(alias for alias in aliases if alias != thing.name), pages)


def _facts(world: Encyclopedia) -> Iterator[Fact]:
    for page in world.pages:
        if occupation := world.facts.entities[page.entity].occupation:
            yield _fact(page, OCCUPATION, occupation, _lead(page))
        for relation, value in page.claims.items():
            if relation not in _BOTH_WAYS:
                yield _fact(page, relation, value, page.sentences[relation])


def _fact(page: EncyclopediaPage, relation: str, value: int | str, quote: str) -> Fact:
    """What a page says: of the atlas it is the truth, of another site its claim."""
    name = relation if page.site is Site.ATLAS else claim_of(relation, page.site.name.lower())
    return Fact(str(page.entity), name, str(value), isinstance(value, str), page.page.url, quote)


def _lead(page: EncyclopediaPage) -> str:
    """The sentence that says what somebody was: the first one, behind a note where there is one."""
    return page.page.text.split(". ", 2)[page.site is not Site.ATLAS] + "."
