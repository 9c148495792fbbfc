"""The generated encyclopedia: an invented world whose every fact is known.

Any size, one seed, the same bytes: invented names in two halves that share no word, facts that hold together, and pages that
tell them: an atlas that is right, an archive that is out of date, a gazette that is sometimes wrong.

    world = generate_encyclopedia(size=2_000, seed=7)
    world.pages[0].page.text, world.facts.objects[0, "birthplace"]
"""

import hashlib
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sanderling.core.errors import UserError
from sanderling.world.contract import Page


class Kind(StrEnum):
    """Kinds of entities, and of the literal values that relations may end in."""

    PERSON = "person"
    ORGANISATION = "organisation"
    PLACE = "place"
    WORK = "work"
    EVENT = "event"
    YEAR = "year"
    GOODS = "goods"


@dataclass(frozen=True)
class Relation:
    """One functional relation: a chain of them from a named entity has exactly one answer.

    Page wordings speak of subject ``{s}`` and object ``{o}``, question wordings, which differ, of ``{x}``. Of a relation that
    ``changes``, an old page may truthfully give an older object.
    """

    name: str
    subject: Kind
    object: Kind
    pages: tuple[str, ...]
    questions: tuple[str, ...]
    changes: bool = False


_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_name("encyclopedia.toml").read_text(encoding="utf-8"))
RELATIONS = TypeAdapter(tuple[Relation, ...]).validate_python(_DATA["relations"])
BY_NAME: dict[str, Relation] = {relation.name: relation for relation in RELATIONS}
BY_SUBJECT: dict[Kind, tuple[Relation, ...]] = {
    kind: tuple(relation for relation in RELATIONS if relation.subject is kind) for kind in Kind
}
OCCUPATIONS: tuple[str, ...] = tuple(_DATA["occupations"])
GOODS: tuple[str, ...] = tuple(_DATA["goods"])
ORGANISATION_FORMS: tuple[str, ...] = tuple(_DATA["organisation_forms"])
WORK_FORMS: tuple[str, ...] = tuple(_DATA["work_forms"])
EVENT_FORMS: tuple[str, ...] = tuple(_DATA["event_forms"])
YEARS = tuple(str(year) for year in range(1800, 1960))
QUESTION_FORMS: dict[Kind, tuple[str, ...]] = {Kind(kind): tuple(forms) for kind, forms in _DATA["question_forms"].items()}
# Names are syllables of a fixed inventory, so that a tokenizer that knows the syllables can spell names it never saw.
ONSETS: tuple[str, ...] = tuple(_DATA["onsets"])
VOWELS: tuple[str, ...] = tuple(_DATA["vowels"])
CODAS: tuple[str, ...] = tuple(_DATA["codas"])
SYLLABLES = tuple(onset + vowel + coda for onset in ONSETS for vowel in VOWELS for coda in CODAS)
SYLLABLE_LETTERS = 3
HELD_OUT_SHARE = 0.25


class Names(StrEnum):
    """Which half of all name words a world draws from: for training or for evaluation, whatever the seed."""

    TRAIN = "train"
    HELD_OUT = "held_out"


def half_of(word: str) -> Names:
    """Which half a name word belongs to. Depends on the word alone."""
    digest = hashlib.sha256(word.lower().encode()).digest()
    return Names.HELD_OUT if digest[0] < 256 * HELD_OUT_SHARE else Names.TRAIN


def draw_word(rng: random.Random, names: Names, syllables: int = 2, start: str = "") -> str:
    """One capitalised word of the given half, of so many syllables drawn behind ``start``."""
    while True:
        word = (start + "".join(rng.choice(SYLLABLES) for _ in range(syllables))).capitalize()
        if half_of(word) is names:
            return word


# Of each kind of entity; years and goods have no pages.
SHARES: dict[Kind, float] = {Kind.PERSON: 0.40, Kind.PLACE: 0.16, Kind.ORGANISATION: 0.16, Kind.WORK: 0.16, Kind.EVENT: 0.12}
NAMESAKE_SHARE = 0.35  # of people: they take the full name of somebody before them
FAMILY_SHARE = 0.10  # of people: their name differs from somebody else's in its last syllable only
SHARED_WORD = 0.2  # of other things: they are named with a word already in use
SMALLEST = 40  # in which every relation finds an object
LARGEST: dict[Names, int] = {Names.TRAIN: 1_600_000, Names.HELD_OUT: 560_000}
"""Every place has a word of its own, and about a tenth of each half's words is left over."""


@dataclass(frozen=True)
class Entity:
    """Something with a page; people have an occupation."""

    id: int
    kind: Kind
    name: str
    occupation: str = ""

    @property
    def title(self) -> str:
        """The page's title: unique in the world."""
        return f"{self.name} ({self.occupation})" if self.occupation else self.name

    @property
    def mention(self) -> str:
        """How other pages and questions speak of it: unique in the world."""
        if self.occupation:
            return f"the {self.occupation} {self.name}"
        return f"the {self.name}" if self.kind is not Kind.PLACE else self.name


@dataclass(frozen=True)
class Facts:
    """What is true in one world, what used to be and what some pages wrongly say: the objects of (entity, relation name)."""

    entities: tuple[Entity, ...]
    objects: Mapping[tuple[int, str], int | str]  # the id of an entity, or a literal
    former: Mapping[tuple[int, str], int | str]
    rumoured: Mapping[tuple[int, str], int | str]

    def object_text(self, value: int | str) -> str:
        return value if isinstance(value, str) else self.entities[value].mention

    def answer_text(self, value: int | str) -> str:
        return value if isinstance(value, str) else self.entities[value].name


def check_size(size: int, names: Names = Names.TRAIN) -> None:
    """Raises UserError for too few entities, and for more than there are names for."""
    if not SMALLEST <= size <= LARGEST[names]:
        raise UserError(f"An encyclopedia of {names} names needs {SMALLEST} to {LARGEST[names]} entities, not {size}.")


def generate_facts(size: int, seed: int, names: Names = Names.TRAIN) -> Facts:
    """``size`` entities and their facts. Raises UserError for a size that cannot be made."""
    check_size(size, names)
    rng = random.Random(f"facts:{seed}:{size}:{names}")
    entities = _entities(size, rng, names)
    pools: dict[Kind, Sequence[int | str]] = {Kind.YEAR: YEARS, Kind.GOODS: GOODS}
    for kind in SHARES:
        pools[kind] = [entity.id for entity in entities if entity.kind is kind]
    objects: dict[tuple[int, str], int | str] = {}
    former: dict[tuple[int, str], int | str] = {}
    rumoured: dict[tuple[int, str], int | str] = {}
    for entity in entities:
        for relation in BY_SUBJECT[entity.kind]:
            key = (entity.id, relation.name)
            taken: list[int | str] = [entity.id]  # no two of a subject's objects, present, rumoured and former, are one
            while len(taken) < (4 if relation.changes else 3):
                value = rng.choice(pools[relation.object])
                if value not in taken:
                    taken.append(value)
            objects[key], rumoured[key] = taken[1:3]
            former[key] = taken[3] if relation.changes else objects[key]
    return Facts(entities=tuple(entities), objects=objects, former=former, rumoured=rumoured)


def _entities(size: int, rng: random.Random, names: Names) -> list[Entity]:
    """Entities with titles of their own: many people share a name or nearly do, other things share a word."""
    entities: list[Entity] = []
    kinds = [kind for kind, share in SHARES.items() for _ in range(round(size * share))]
    people: list[Entity] = []
    words: list[str] = []
    used: set[str] = set()
    for index, kind in enumerate((kinds + [Kind.PERSON] * size)[:size]):
        entity, word = None, ""
        while entity is None or entity.title in used:
            if kind is Kind.PERSON:
                draw = rng.random() if people else 1.0
                if draw < NAMESAKE_SHARE:
                    name = rng.choice(people).name
                elif draw < NAMESAKE_SHARE + FAMILY_SHARE:
                    name = draw_word(rng, names, 1, start=rng.choice(people).name[:SYLLABLE_LETTERS])
                else:
                    name = draw_word(rng, names)
                entity = Entity(index, kind, name, rng.choice(OCCUPATIONS))
                continue
            word = rng.choice(words) if words and rng.random() < SHARED_WORD else draw_word(rng, names)
            name = word
            if kind is Kind.ORGANISATION:
                name = f"{word} {rng.choice(ORGANISATION_FORMS)}"
            elif kind is Kind.WORK:
                name = f"{rng.choice(WORK_FORMS)} of {word}"
            elif kind is Kind.EVENT:
                name = f"{word} {rng.choice(EVENT_FORMS)}"
            entity = Entity(index, kind, name)
        if kind is Kind.PERSON:
            people.append(entity)
        else:
            words.append(word)
        used.add(entity.title)
        entities.append(entity)
    return entities


class Site(StrEnum):
    """Where a page stands, and how far to trust it."""

    ATLAS = "https://atlas.example/wiki/"  # current and right
    ARCHIVE = "https://archive.example/copy/"  # old: relations that change have their former objects
    GAZETTE = "https://gazette.example/item/"  # hearsay: each fact is as likely wrong as not


STALE_SHARE = 0.45  # of entities: they have a page in the archive
CONTRADICTING_SHARE = 0.60  # of entities: they have a page in the gazette
RUMOUR_SHARE = 0.6  # of a gazette page's facts: they are wrong; at least one is


@dataclass(frozen=True)
class EncyclopediaPage:
    """A page, and what somebody who reads it believes: the object of each relation, and the sentence that says so."""

    page: Page
    entity: int
    site: Site
    claims: Mapping[str, int | str]
    sentences: Mapping[str, str]


def url_of(site: Site, title: str) -> str:
    """The address of a page; parentheses stay, as on the web."""
    return site.value + title.replace(" ", "_")


def render_pages(facts: Facts, seed: int) -> Iterator[EncyclopediaPage]:
    """All pages of a world, in an order that the seed alone decides."""
    places = [entity.name for entity in facts.entities if entity.kind is Kind.PLACE]
    for entity in facts.entities:
        rng = random.Random(f"pages:{seed}:{entity.id}")
        relations = BY_SUBJECT[entity.kind]
        yield _render(facts, entity, Site.ATLAS, facts.objects, places, rng)
        if rng.random() < STALE_SHARE and any(relation.changes for relation in relations):
            yield _render(facts, entity, Site.ARCHIVE, facts.former, places, rng)
        if rng.random() < CONTRADICTING_SHARE:
            names = [relation.name for relation in relations]
            wrong = {name for name in names if rng.random() < RUMOUR_SHARE} or {rng.choice(names)}
            told = {(entity.id, name): (facts.rumoured if name in wrong else facts.objects)[entity.id, name] for name in names}
            yield _render(facts, entity, Site.GAZETTE, told, places, rng)


def _render(
    facts: Facts,
    entity: Entity,
    site: Site,
    objects: Mapping[tuple[int, str], int | str],
    places: list[str],
    rng: random.Random,
) -> EncyclopediaPage:
    """The page of one entity on one site, which says what ``objects`` has of it."""
    full = entity.name if entity.kind in (Kind.PERSON, Kind.PLACE) else f"the {entity.name}"
    short = f"the {entity.occupation or _DATA['nouns'][entity.kind]}"
    relations = list(BY_SUBJECT[entity.kind])
    rng.shuffle(relations)
    claims = {relation.name: objects[entity.id, relation.name] for relation in relations}
    sentences: dict[str, str] = {}
    for relation in relations:
        subject = full if rng.random() < 0.5 else short
        said = facts.object_text(claims[relation.name])
        sentences[relation.name] = _capitalised(rng.choice(relation.pages).format(s=subject, o=said))
    lead = _capitalised(rng.choice(_DATA["leads"][entity.kind]).format(s=full, job=entity.occupation))
    body = list(sentences.values())
    aside = _capitalised(rng.choice(_DATA["asides"]).format(s=short, p=rng.choice(places)))
    body.insert(rng.randrange(len(body) + 1), aside)
    year = str(rng.randrange(1960, 1990))
    note = _DATA["notes"][site.name.lower()].format(year=year, title=entity.title)
    text = " ".join([lead, *body] if not note else [note, lead, *body])
    links = tuple(url_of(Site.ATLAS, facts.entities[value].title) for value in claims.values() if isinstance(value, int))
    date = year if site is Site.ARCHIVE else ""
    page = Page(url=url_of(site, entity.title), title=entity.title, text=text, links=links, date=date, source=site.name.lower())
    return EncyclopediaPage(page=page, entity=entity.id, site=site, claims=claims, sentences=sentences)


# -- registers: pages that only some worlds have ---------------------------------------------------------------------------

REGISTERS = ("birthplace", "mentor", "employer")
"""Relations of people for which there are registers: those of one town, of one teacher's pupils, of one house."""


@dataclass(frozen=True)
class Register:
    """A page that lists everybody of whom a relation has one object, and the sentence that does so."""

    page: Page
    entity: int  # the object
    relation: str
    members: tuple[int, ...]
    sentence: str


def said_of(relation: str, value: str) -> str:
    """What pages say of a relation's subject: ``said_of("employer", "the Tar Guild") == "worked for the Tar Guild"``."""
    return BY_NAME[relation].pages[0].format(s="", o=value).strip(" .")


def register_url(site: Site, facts: Facts, entity: int) -> str:
    """The address of an entity's register."""
    return url_of(site, f"{facts.entities[entity].title} (register)")


def render_registers(facts: Facts, seed: int) -> Iterator[Register]:
    """The atlas's and the gazette's register of each object that has one; of the gazette's members about half are wrong."""
    for relation in REGISTERS:
        of: dict[int, list[int]] = {}
        rumoured: dict[int, list[int]] = {}
        people = [entity.id for entity in facts.entities if (entity.id, relation) in facts.objects]
        for told, objects in ((of, facts.objects), (rumoured, facts.rumoured)):
            for person in people:
                told.setdefault(int(objects[person, relation]), []).append(person)
        for value, members in of.items():
            rng = random.Random(f"registers:{seed}:{relation}:{value}")
            yield _register(facts, Site.ATLAS, value, relation, members, rng)
            kept = [person for person in members if rng.random() >= RUMOUR_SHARE]
            wrong = [person for person in rumoured.get(value, []) if rng.random() < RUMOUR_SHARE]
            yield _register(facts, Site.GAZETTE, value, relation, [*kept, *wrong], rng)


def _register(facts: Facts, site: Site, value: int, relation: str, members: list[int], rng: random.Random) -> Register:
    rng.shuffle(members := [*members])
    title = f"{facts.entities[value].title} (register)"
    names = ", ".join(facts.entities[person].mention for person in members) or "nobody"
    sentence = f"Who {said_of(relation, facts.entities[value].mention)}: {names}."
    note = _DATA["notes"][site.name.lower()].format(title=title)
    links = tuple(url_of(Site.ATLAS, facts.entities[person].title) for person in members)
    page = Page(url=url_of(site, title), title=title, text=f"{note} {sentence}".lstrip(), links=links, source=site.name.lower())
    return Register(page=page, entity=value, relation=relation, members=tuple(members), sentence=sentence)


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


@dataclass(frozen=True)
class Encyclopedia:
    """A world and the truth about it."""

    size: int
    seed: int
    names: Names
    facts: Facts
    pages: tuple[EncyclopediaPage, ...]
    registers: tuple[Register, ...] = ()

    @cached_property
    def atlas(self) -> dict[int, EncyclopediaPage]:
        """Each entity's page that is right."""
        return {item.entity: item for item in self.pages if item.site is Site.ATLAS}

    def stated(self, entity: int, relation: str) -> dict[str, str]:
        """A fact and where it stands, as in the ``facts`` of questions: for the agent's teacher and gains, never for it."""
        page, facts = self.atlas[entity], self.facts
        subject, told = facts.entities[entity].mention, facts.object_text(facts.objects[entity, relation])
        quote = page.sentences[relation]
        return {"subject": subject, "relation": relation, "object": told, "url": page.page.url, "quote": quote}

    @property
    def name(self) -> str:
        return f"encyclopedia-{self.names}-{self.size}-{self.seed}{'-registers' if self.registers else ''}"

    @cached_property
    def by_url(self) -> Mapping[str, EncyclopediaPage]:
        return {item.page.url: item for item in self.pages}

    @cached_property
    def register_by_url(self) -> Mapping[str, Register]:
        return {item.page.url: item for item in self.registers}

    def all_pages(self) -> Iterator[Page]:
        """Registers last, so that a world that has them is one without, and more."""
        return (item.page for item in (*self.pages, *self.registers))


def generate_encyclopedia(size: int, seed: int, names: Names = Names.TRAIN, *, registers: bool = False) -> Encyclopedia:
    """A whole world. Raises UserError for a size that cannot be made."""
    facts = generate_facts(size, seed, names)
    listed = tuple(render_registers(facts, seed)) if registers else ()
    return Encyclopedia(size, seed, names, facts, tuple(render_pages(facts, seed)), listed)


def generate_pages(size: int, seed: int, names: Names = Names.TRAIN, *, registers: bool = False) -> Iterator[Page]:
    """The pages alone. Raises UserError for a size that cannot be made."""
    facts = generate_facts(size, seed, names)
    return (item.page for item in chain(render_pages(facts, seed), render_registers(facts, seed) if registers else ()))
