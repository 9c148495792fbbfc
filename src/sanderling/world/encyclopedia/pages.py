"""Facts as pages: an atlas that is right, an archive that is out of date, and a gazette that is sometimes wrong.

Every entity has its atlas page. Some have a stale copy in the archive (true once) or a page in the gazette that contradicts
it. Each page remembers what it claims, so a teacher and the tests can tell what a reader of that page would believe.
Wordings, order and asides vary by seed. Knows nothing of questions.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sanderling.world.contract import Page
from sanderling.world.encyclopedia.graph import Entity, Facts
from sanderling.world.encyclopedia.schema import BY_SUBJECT, Kind, Relation


class Site(StrEnum):
    """Where a page stands, and how far to trust it."""

    ATLAS = "https://atlas.example/wiki/"
    """Current and right."""
    ARCHIVE = "https://archive.example/copy/"
    """Old: relations that change have their former objects."""
    GAZETTE = "https://gazette.example/item/"
    """Hearsay: each fact is as likely wrong as not."""


STALE_SHARE = 0.45
"""Share of entities that have a page in the archive."""
CONTRADICTING_SHARE = 0.60
"""Share of entities that have a page in the gazette."""
RUMOUR_SHARE = 0.6
"""Share of a gazette page's facts that are wrong; at least one is."""
LEADS: dict[Kind, tuple[str, ...]] = {
    Kind.PERSON: ("{s} was a {job}.", "{s} earned a living as a {job}.", "{s} is remembered as a {job}."),
    Kind.ORGANISATION: ("{s} is a body of some age.", "{s} is an old house of learning and trade."),
    Kind.PLACE: ("{s} is a town by the water.", "{s} is a market town.", "{s} is a walled town."),
    Kind.WORK: ("{s} is a book.", "{s} is a book in three parts.", "{s} is a slim book."),
    Kind.EVENT: ("{s} is a yearly gathering.", "{s} is a gathering of many trades."),
}
ASIDES = (
    "A letter about {s} is kept in {p}.",
    "{p} has a street named after {s}.",
    "A portrait in {p} recalls {s}.",
    "An inn at {p} tells stories about {s}.",
)
NOTES: dict[Site, str] = {
    Site.ATLAS: "",
    Site.ARCHIVE: "Archived copy from {year}.",
    Site.GAZETTE: "{title}, as told in the gazette.",
}


@dataclass(frozen=True)
class EncyclopediaPage:
    """A page, and what somebody who reads it believes."""

    page: Page
    entity: int
    site: Site
    claims: Mapping[str, int | str]
    """Relation name to the object this page gives."""
    sentences: Mapping[str, str]
    """Relation name to the sentence that says so."""


def url_of(site: Site, title: str) -> str:
    """The address of a page; parentheses stay, as on the web."""
    return site.value + title.replace(" ", "_")


def render_pages(facts: Facts, seed: int) -> Iterator[EncyclopediaPage]:
    """All pages of a world, in an order that the seed alone decides."""
    places = [entity.name for entity in facts.entities if entity.kind is Kind.PLACE]
    for entity in facts.entities:
        rng = random.Random(f"pages:{seed}:{entity.id}")
        yield _render(facts, entity, Site.ATLAS, facts.objects, places, rng)
        if rng.random() < STALE_SHARE and any(relation.changes for relation in BY_SUBJECT[entity.kind]):
            yield _render(facts, entity, Site.ARCHIVE, facts.former, places, rng)
        if rng.random() < CONTRADICTING_SHARE:
            yield _render(facts, entity, Site.GAZETTE, _with_rumour(facts, entity, rng), places, rng)


def _with_rumour(facts: Facts, entity: Entity, rng: random.Random) -> Mapping[tuple[int, str], int | str]:
    """The facts of an entity with some relations, one at least, replaced by rumours."""
    names = [relation.name for relation in BY_SUBJECT[entity.kind]]
    wrong = {name for name in names if rng.random() < RUMOUR_SHARE} or {rng.choice(names)}
    return {(entity.id, name): (facts.rumoured if name in wrong else facts.objects)[(entity.id, name)] for name in names}


def _render(
    facts: Facts,
    entity: Entity,
    site: Site,
    objects: Mapping[tuple[int, str], int | str],
    places: list[str],
    rng: random.Random,
) -> EncyclopediaPage:
    relations = list(BY_SUBJECT[entity.kind])
    rng.shuffle(relations)
    claims = {relation.name: objects[(entity.id, relation.name)] for relation in relations}
    sentences = {relation.name: _sentence(facts, entity, relation, claims[relation.name], rng) for relation in relations}
    lead = _capitalised(rng.choice(LEADS[entity.kind]).format(s=_subject(entity), job=entity.occupation))
    body = [sentences[relation.name] for relation in relations]
    aside = _capitalised(rng.choice(ASIDES).format(s=_short(entity), p=rng.choice(places)))
    body.insert(rng.randrange(len(body) + 1), aside)
    year = str(rng.randrange(1960, 1990))
    note = NOTES[site].format(year=year, title=entity.title)
    text = " ".join([lead, *body] if not note else [note, lead, *body])
    links = tuple(url_of(Site.ATLAS, facts.entities[value].title) for value in claims.values() if isinstance(value, int))
    date = year if site is Site.ARCHIVE else ""
    page = Page(url=url_of(site, entity.title), title=entity.title, text=text, links=links, date=date, source=site.name.lower())
    return EncyclopediaPage(page=page, entity=entity.id, site=site, claims=claims, sentences=sentences)


def _sentence(facts: Facts, entity: Entity, relation: Relation, value: int | str, rng: random.Random) -> str:
    subject = _subject(entity) if rng.random() < 0.5 else _short(entity)
    return _capitalised(rng.choice(relation.pages).format(s=subject, o=facts.object_text(value)))


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _subject(entity: Entity) -> str:
    """The subject in full, as a sentence's subject."""
    if entity.kind in (Kind.PERSON, Kind.PLACE):
        return entity.name
    return f"the {entity.name}"


def _short(entity: Entity) -> str:
    """The subject by a word for its kind."""
    nouns = {Kind.ORGANISATION: "the house", Kind.PLACE: "the town", Kind.WORK: "the book", Kind.EVENT: "the gathering"}
    return f"the {entity.occupation}" if entity.kind is Kind.PERSON else nouns[entity.kind]
