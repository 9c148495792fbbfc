"""What the encyclopedia talks about: kinds of entities, relations between them, and their wordings.

Pages and questions use different wordings of a relation, so matching words does not replace understanding. A relation is
functional: each subject has one object, hence a chain of relations from a named entity has exactly one answer. Pure data.
"""

from dataclasses import dataclass
from enum import StrEnum


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
    """One functional relation. Page wordings speak of subject ``{s}`` and object ``{o}``, question wordings of ``{x}``."""

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
