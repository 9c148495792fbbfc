"""The graph of a generated encyclopedia: all that its atlas holds to be true, and all that its other sites claim.

What the archive or the gazette says, be it the same or not, is a fact of its own, of the relation ``NAME@archive`` or
``NAME@gazette``: it is true that the page says so. Both are whole, so uniqueness can be proven.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from sanderling.core.errors import UserError
from sanderling.synth.graph.graph import Entity, Fact, FactGraph, claim_of, encyclopedia_words
from sanderling.world.disk.pages import Intake
from sanderling.world.disk.store import read_manifest
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Kind, Names, Site, generate_encyclopedia

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
_MADE_FROM = re.compile(r"encyclopedia(?: --size |-)(?P<size>\d+)(?: --seed |-)(?P<seed>\d+)")
_NAMED = re.compile(r"encyclopedia-(?P<names>train|held_out)-(?P<size>\d+)-(?P<seed>\d+)")


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
        world = generate_encyclopedia(int(found["size"]), int(found["seed"]), names)
    except UserError:
        return None
    intake = Intake()
    for page in world.pages:
        intake.take_in(page.page, lambda _: 0)
    return world if intake.fingerprint == info.fingerprint else None


def encyclopedia_graph(world: Encyclopedia) -> FactGraph:
    """Everything that the pages of an encyclopedia state."""
    entities: dict[str, Entity] = {}
    for thing in world.facts.entities:
        aliases = tuple(alias for alias in dict.fromkeys((thing.mention, thing.title)) if alias != thing.name)
        entities[str(thing.id)] = Entity(str(thing.id), thing.name, _NOUNS[thing.kind], aliases)
    return FactGraph(entities, _facts(world), encyclopedia_words(), complete=True)


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
    name = relation if page.site is Site.ATLAS else claim_of(relation, page.site.name.lower())
    return Fact(str(page.entity), name, str(value), isinstance(value, str), page.page.url, quote)
