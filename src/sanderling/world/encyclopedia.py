"""The generated encyclopedia: an invented world whose every fact is known.

Any size, one seed, the same bytes: kinds of entities and the relations between them (data), invented names in two halves that
share no word (training worlds draw from one, held-out worlds from the other), facts that hold together, and pages that tell
them: an atlas that is right, an archive that is out of date, a gazette that is sometimes wrong.

    world = generate_encyclopedia(size=2_000, seed=7)
    world.pages[0].page.text, world.facts.objects[0, "birthplace"]
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

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

    @property
    def is_entity(self) -> bool:
        """Whether things of this kind have pages."""
        return self not in (Kind.YEAR, Kind.GOODS)


@dataclass(frozen=True)
class Relation:
    """One functional relation: each subject has one object, so a chain of them from a named entity has exactly one answer.

    Page wordings speak of subject ``{s}`` and object ``{o}``, question wordings, which differ, of ``{x}``.
    """

    name: str
    subject: Kind
    object: Kind
    pages: tuple[str, ...]
    questions: tuple[str, ...]
    changes: bool = False
    """Whether an old page may truthfully give an older object."""


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "birthplace", Kind.PERSON, Kind.PLACE,
        ("{s} was born in {o}.", "{s} was a native of {o}.", "{s} grew up in {o}."),
        ("the home town of {x}", "the place where {x} came into the world"),
    ),
    Relation(
        "spouse", Kind.PERSON, Kind.PERSON,
        ("{s} married {o}.", "{s} shared a household with {o}.", "{o} and {s} were husband and wife."),
        ("the partner of {x}", "the one wed to {x}"), changes=True,
    ),
    Relation(
        "mentor", Kind.PERSON, Kind.PERSON,
        ("{s} studied under {o}.", "{s} was taught by {o}.", "{s} learned the craft from {o}."),
        ("the teacher of {x}", "the mentor of {x}"),
    ),
    Relation(
        "employer", Kind.PERSON, Kind.ORGANISATION,
        ("{s} worked for {o}.", "{s} served at {o}.", "{s} held a post with {o}."),
        ("the employer of {x}", "the body that paid {x}"), changes=True,
    ),
    Relation(
        "founder", Kind.ORGANISATION, Kind.PERSON,
        ("{s} was founded by {o}.", "{o} established {s}.", "{s} was set up by {o}."),
        ("the creator of {x}", "the one who started {x}"),
    ),
    Relation(
        "seat", Kind.ORGANISATION, Kind.PLACE,
        ("{s} has its offices in {o}.", "{s} is based in {o}.", "The halls of {s} stand in {o}."),
        ("the headquarters town of {x}", "the town that is home to {x}"), changes=True,
    ),
    Relation(
        "opened", Kind.ORGANISATION, Kind.YEAR,
        ("{s} opened in {o}.", "{s} dates from {o}.", "The doors of {s} opened in {o}."),
        ("the year in which {x} began", "the first year of {x}"),
    ),
    Relation(
        "mayor", Kind.PLACE, Kind.PERSON,
        ("{s} is governed by {o}.", "{o} runs the council of {s}.", "The affairs of {s} are led by {o}."),
        ("the mayor of {x}", "the head of {x}"), changes=True,
    ),
    Relation(
        "twin", Kind.PLACE, Kind.PLACE,
        ("{s} is twinned with {o}.", "{s} keeps a treaty with {o}.", "A pact of friendship joins {s} and {o}."),
        ("the sister town of {x}", "the town allied to {x}"),
    ),
    Relation(
        "goods", Kind.PLACE, Kind.GOODS,
        ("{s} is known for its {o}.", "Traders come to {s} for {o}.", "The markets of {s} sell {o}."),
        ("the famous product of {x}", "the ware that made {x} rich"),
    ),
    Relation(
        "author", Kind.WORK, Kind.PERSON,
        ("{s} was written by {o}.", "{s} came from the pen of {o}.", "{o} composed {s}."),
        ("the writer of {x}", "the author of {x}"),
    ),
    Relation(
        "setting", Kind.WORK, Kind.PLACE,
        ("{s} takes place in {o}.", "The story of {s} unfolds in {o}.", "{s} paints daily life in {o}."),
        ("the scene of {x}", "the town where {x} is set"),
    ),
    Relation(
        "printed", Kind.WORK, Kind.YEAR,
        ("{s} appeared in {o}.", "{s} was printed in {o}.", "Readers first held {s} in {o}."),
        ("the year when {x} came out", "the publication year of {x}"),
    ),
    Relation(
        "venue", Kind.EVENT, Kind.PLACE,
        ("{s} was held in {o}.", "{o} hosted {s}.", "Crowds came to {o} for {s}."),
        ("the site of {x}", "the town that received {x}"),
    ),
    Relation(
        "winner", Kind.EVENT, Kind.PERSON,
        ("{s} was won by {o}.", "{o} took first prize at {s}.", "The jury of {s} chose {o}."),
        ("the victor of {x}", "the champion of {x}"),
    ),
    Relation(
        "organiser", Kind.EVENT, Kind.ORGANISATION,
        ("{s} was organised by {o}.", "{o} arranged {s}.", "{s} was staged by {o}."),
        ("the body behind {x}", "the host body of {x}"),
    ),
)  # fmt: skip

BY_NAME: dict[str, Relation] = {relation.name: relation for relation in RELATIONS}
BY_SUBJECT: dict[Kind, tuple[Relation, ...]] = {
    kind: tuple(relation for relation in RELATIONS if relation.subject is kind) for kind in Kind
}

OCCUPATIONS = (
    "painter", "chemist", "poet", "sailor", "judge", "weaver", "botanist", "singer",
    "printer", "surgeon", "mason", "potter", "pilot", "baker", "drummer", "jeweller",
)  # fmt: skip
GOODS = (
    "amber", "barley", "candles", "copper", "glass", "honey", "lace", "leather",
    "marble", "paper", "pears", "pottery", "salt", "silk", "tea", "wool",
)  # fmt: skip
ORGANISATION_FORMS = ("Institute", "Guild", "Academy", "Society", "Bank", "Museum", "Press", "Works")
WORK_FORMS = ("Songs", "Letters", "Tales", "Chronicle", "Lamps", "Gardens", "Shadows", "Winters")
EVENT_FORMS = ("Fair", "Regatta", "Congress", "Festival", "Games", "Salon")
YEARS = tuple(str(year) for year in range(1800, 1960))
QUESTION_FORMS: dict[Kind, tuple[str, ...]] = {
    Kind.PERSON: ("Who is {np}?", "Name {np}.", "Which person is {np}?"),
    Kind.ORGANISATION: ("What is {np}?", "Name {np}."),
    Kind.PLACE: ("Which town is {np}?", "Name {np}."),
    Kind.WORK: ("What is {np}?", "Name {np}."),
    Kind.EVENT: ("What is {np}?", "Name {np}."),
    Kind.YEAR: ("What is {np}?", "Give {np}."),
    Kind.GOODS: ("What is {np}?", "Name {np}."),
}


# Names: two syllables of a fixed inventory, so that a tokenizer that knows the syllables can spell names it never saw.

ONSETS = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z")
VOWELS = ("a", "e", "i", "o", "u")
CODAS = ("d", "k", "l", "m", "n", "r", "s", "t")
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


# Facts: entities, and one object for each of their relations.

SHARES: dict[Kind, float] = {Kind.PERSON: 0.40, Kind.PLACE: 0.16, Kind.ORGANISATION: 0.16, Kind.WORK: 0.16, Kind.EVENT: 0.12}
NAMESAKE_SHARE = 0.35
"""Share of people who take the full name of somebody before them."""
FAMILY_SHARE = 0.10
"""Share of people whose name differs from somebody else's in its last syllable only."""
SHARED_WORD = 0.2
"""Share of other things that are named with a word already in use."""
SMALLEST = 40
"""Fewest entities in which every relation finds an object."""
LARGEST: dict[Names, int] = {Names.TRAIN: 1_600_000, Names.HELD_OUT: 560_000}
"""Most entities: every place has a word of its own, and about a tenth of each half's words is left over."""


@dataclass(frozen=True)
class Entity:
    """Something with a page."""

    id: int
    kind: Kind
    name: str
    occupation: str = ""
    """People only."""

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
    """Everything that is true in one world."""

    entities: tuple[Entity, ...]
    objects: Mapping[tuple[int, str], int | str]
    """(entity, relation name) to the id of an entity or to a literal."""
    former: Mapping[tuple[int, str], int | str]
    """What used to be true, for relations that change."""
    rumoured: Mapping[tuple[int, str], int | str]
    """What some pages wrongly say."""

    def object_text(self, value: int | str) -> str:
        """How a page names an object."""
        return value if isinstance(value, str) else self.entities[value].mention

    def answer_text(self, value: int | str) -> str:
        """The bare name of an object, as an answer."""
        return value if isinstance(value, str) else self.entities[value].name


def generate_facts(size: int, seed: int, names: Names = Names.TRAIN) -> Facts:
    """``size`` entities and their facts. Raises UserError when that is too few, or more than there are names for."""
    if not SMALLEST <= size <= LARGEST[names]:
        raise UserError(f"An encyclopedia of {names} names needs {SMALLEST} to {LARGEST[names]} entities, not {size}.")
    rng = random.Random(f"facts:{seed}:{size}:{names}")
    entities = _entities(size, rng, names)
    by_kind = {kind: [entity.id for entity in entities if entity.kind is kind] for kind in SHARES}
    objects: dict[tuple[int, str], int | str] = {}
    former: dict[tuple[int, str], int | str] = {}
    rumoured: dict[tuple[int, str], int | str] = {}
    for entity in entities:
        for relation in BY_SUBJECT[entity.kind]:
            key = (entity.id, relation.name)
            taken: set[int | str] = {entity.id}
            objects[key] = _draw(rng, relation, by_kind, taken)
            rumoured[key] = _draw(rng, relation, by_kind, taken)
            former[key] = _draw(rng, relation, by_kind, taken) if relation.changes else objects[key]
    return Facts(entities=tuple(entities), objects=objects, former=former, rumoured=rumoured)


def _draw(rng: random.Random, relation: Relation, by_kind: Mapping[Kind, list[int]], taken: set[int | str]) -> int | str:
    """An object not drawn before for this subject and relation."""
    pool: list[int] | tuple[str, ...]
    if relation.object is Kind.YEAR:
        pool = YEARS
    elif relation.object is Kind.GOODS:
        pool = GOODS
    else:
        pool = by_kind[relation.object]
    while True:
        value = rng.choice(pool)
        if value not in taken:
            taken.add(value)
            return value


def _entities(size: int, rng: random.Random, names: Names) -> list[Entity]:
    entities: list[Entity] = []
    used: set[str] = set()
    kinds = [kind for kind, share in SHARES.items() for _ in range(round(size * share))]
    kinds = (kinds + [Kind.PERSON] * size)[:size]
    people: list[Entity] = []
    words: list[str] = []
    for index, kind in enumerate(kinds):
        if kind is Kind.PERSON:
            entity = _person(index, people, rng, names, used)
            people.append(entity)
        else:
            entity = _thing(index, kind, rng, names, used, words)
        used.add(entity.title)
        entities.append(entity)
    return entities


def _person(index: int, people: list[Entity], rng: random.Random, names: Names, used: set[str]) -> Entity:
    while True:
        draw = rng.random() if people else 1.0
        if draw < NAMESAKE_SHARE:
            name = rng.choice(people).name
        elif draw < NAMESAKE_SHARE + FAMILY_SHARE:
            name = draw_word(rng, names, 1, start=rng.choice(people).name[:SYLLABLE_LETTERS])
        else:
            name = draw_word(rng, names)
        entity = Entity(index, Kind.PERSON, name, rng.choice(OCCUPATIONS))
        if entity.title not in used:
            return entity


def _thing(index: int, kind: Kind, rng: random.Random, names: Names, used: set[str], words: list[str]) -> Entity:
    while True:
        word = rng.choice(words) if words and rng.random() < SHARED_WORD else draw_word(rng, names)
        if kind is Kind.PLACE:
            name = word
        elif kind is Kind.ORGANISATION:
            name = f"{word} {rng.choice(ORGANISATION_FORMS)}"
        elif kind is Kind.WORK:
            name = f"{rng.choice(WORK_FORMS)} of {word}"
        else:
            name = f"{word} {rng.choice(EVENT_FORMS)}"
        if name not in used:
            words.append(word)
            return Entity(index, kind, name)


# Pages: each remembers what it claims, so that a teacher and the tests can tell what its reader would believe.


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


@dataclass(frozen=True)
class Encyclopedia:
    """A world and the truth about it."""

    size: int
    seed: int
    names: Names
    facts: Facts
    pages: tuple[EncyclopediaPage, ...]

    @property
    def name(self) -> str:
        """Short name for records."""
        return f"encyclopedia-{self.names}-{self.size}-{self.seed}"


def generate_encyclopedia(size: int, seed: int, names: Names = Names.TRAIN) -> Encyclopedia:
    """A whole world. Raises UserError for a size that cannot be made."""
    facts = generate_facts(size, seed, names)
    return Encyclopedia(size=size, seed=seed, names=names, facts=facts, pages=tuple(render_pages(facts, seed)))


def generate_pages(size: int, seed: int, names: Names = Names.TRAIN) -> Iterator[Page]:
    """The pages alone. Raises UserError for a size that cannot be made."""
    return (item.page for item in render_pages(generate_facts(size, seed, names), seed))
