"""The facts: entities with invented names, and one object for each of their relations.

Deterministic: the same size, seed and half of the names give the same facts. Some people are namesakes (the same full name,
another occupation). Knows nothing of pages.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from sanderling.core.errors import UserError
from sanderling.world.encyclopedia.names import SYLLABLE_LETTERS, Names, draw_word
from sanderling.world.encyclopedia.schema import (
    BY_SUBJECT,
    EVENT_FORMS,
    GOODS,
    OCCUPATIONS,
    ORGANISATION_FORMS,
    WORK_FORMS,
    YEARS,
    Kind,
    Relation,
)

SHARES: dict[Kind, float] = {Kind.PERSON: 0.40, Kind.PLACE: 0.16, Kind.ORGANISATION: 0.16, Kind.WORK: 0.16, Kind.EVENT: 0.12}
NAMESAKE_SHARE = 0.35
"""Share of people who take the full name of somebody before them."""
FAMILY_SHARE = 0.10
"""Share of people whose name differs from somebody else's in its last syllable only."""
KIN_LETTERS = SYLLABLE_LETTERS
"""Letters that such names have in common."""
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
            name = draw_word(rng, names, 1, start=rng.choice(people).name[:KIN_LETTERS])
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
