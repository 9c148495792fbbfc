"""Elimination over a generated encyclopedia: who of eight people fulfils all conditions? And the teacher's head that finds out.

Each register that it reads rules some of them out, so that the answer becomes likelier page by page, also for somebody who
guesses: in a chain of names nobody has seen, only the last page can do that. Exactly one candidate fulfils all conditions of a
question, by the facts. The *short* form names what the conditions are about: "worked for the Tar Guild". The *long* one
describes it by four facts that have to be looked up before its register can be: "worked for the employer of the mayor of the
home town of the partner of the chemist Zak". ``meta`` has the way's facts with their pages.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.synth.head import EARLY, Head, ModeShares
from sanderling.world.encyclopedia import BY_NAME, REGISTERS, Encyclopedia, Facts, Kind, Site, register_url, said_of, url_of

CANDIDATES = 8
_MOST_BEYOND = 3  # candidates that each condition after the first rules out, at most
_MOST_LURES = 2  # candidates that only the first condition rules out, at most
_THREE = 0.92  # of short draws try three conditions; few of these succeed, so about three questions of ten have three
_DESCRIBED = 4  # facts in a row that describe what each of the long form's two conditions is about


class Form(StrEnum):
    """How long the way is."""

    SHORT = "short"  # two or three registers
    LONG = "long"  # two registers, of things that eight other pages tell


@dataclass(frozen=True)
class Condition:
    """What has to be true of a person: a relation to an object, which facts in a row from ``start`` may describe."""

    relation: str
    object: int
    start: int
    way: tuple[str, ...] = ()

    def holds(self, facts: Facts, person: int) -> bool:
        return facts.objects[person, self.relation] == self.object

    def steps(self, facts: Facts) -> list[tuple[int, str]]:
        """The facts that describe the object, as (subject, relation)."""
        at, found = self.start, list[tuple[int, str]]()
        for relation in self.way:
            found.append((at, relation))
            at = int(facts.objects[at, relation])
        return found

    def text(self, facts: Facts) -> str:
        """Examples: "worked for the Tar Guild", "worked for the body behind the Zak Fair"."""
        described = facts.object_text(self.start)
        for relation in self.way:
            described = BY_NAME[relation].questions[0].format(x=described)
        return said_of(self.relation, described)


@dataclass(frozen=True)
class Case:
    """What a question is about."""

    candidates: tuple[int, ...]
    conditions: tuple[Condition, ...]
    answer: int

    @classmethod
    def of(cls, question: Question) -> "Case":
        meta = question.meta
        conditions = tuple(Condition(relation, end, start, tuple(way)) for relation, end, start, way in meta["conditions"])
        return cls(tuple(meta["candidates"]), conditions, meta["answer"])

    def is_true_in(self, facts: Facts, question: str) -> bool:
        """Whether the question is this one, and the facts have one answer to it (ids and worlds may be others)."""
        if max(*self.candidates, *(max(one.object, one.start) for one in self.conditions)) >= len(facts.entities):
            return False
        if any(facts.entities[person].kind is not Kind.PERSON for person in self.candidates):
            return False
        right = [person for person in self.candidates if all(one.holds(facts, person) for one in self.conditions)]
        return right == [self.answer] and self.text(facts) == question

    def text(self, facts: Facts) -> str:
        *others, last = (facts.entities[person].mention for person in self.candidates)
        conditions = " and ".join(condition.text(facts) for condition in self.conditions)
        return f"Who of {', '.join(others)} and {last} {conditions}?"


def is_elimination(question: Question) -> bool:
    """Whether it was made here."""
    return "candidates" in question.meta


# -- questions -------------------------------------------------------------------------------------------------------------


def elimination_questions(world: Encyclopedia, count: int, seed: int, form: Form) -> list[Question]:
    """``count`` different questions. Deterministic. Raises UserError when the world is too small, or lacks registers."""
    if not world.registers:
        raise UserError("Questions of elimination need registers: build the world from encyclopedia:SIZE/SEED/registers.")
    rng = random.Random(f"elimination:{form}:{seed}:{world.name}")
    questions: dict[Case, Question] = {}
    misses = 0
    while len(questions) < count:
        case = _draw(world.facts, form, rng)
        if case is None or case in questions:
            misses += 1
            if misses > 2_000 + 200 * count:
                raise UserError(f"World {world.name} has no {count} different questions: make it larger or ask fewer.")
            continue
        questions[case] = _question(world, case, form, f"{world.name}-{form}-{seed}-{len(questions)}")
    return list(questions.values())


def _draw(facts: Facts, form: Form, rng: random.Random) -> Case | None:
    """Candidates of whom each condition, in its turn, rules some out and the last one leaves the answer; None: not found."""
    people = [entity.id for entity in facts.entities if entity.kind is Kind.PERSON]
    answer = rng.choice(people)
    relations = rng.sample(REGISTERS, 3 if form is Form.SHORT and rng.random() < _THREE else 2)
    conditions = [Condition(one, end := int(facts.objects[answer, one]), end) for one in relations]
    rng.shuffle(people)
    fulfilling: list[list[int]] = [[] for _ in conditions]  # the first so many, and not the next
    for person in people:
        first = next((at for at, one in enumerate(conditions) if not one.holds(facts, person)), None)
        if first is not None:
            fulfilling[first].append(person)
    outside, *inside = fulfilling
    lures = [person for person in outside if any(one.holds(facts, person) for one in conditions[1:])][:_MOST_LURES]
    chosen = [answer]
    for group in inside:
        before = len(chosen)
        _add(facts, chosen, group, rng.randint(1, _MOST_BEYOND))
        if len(chosen) == before:
            return None
    _add(facts, chosen, [*lures, *outside], CANDIDATES - len(chosen))
    rng.shuffle(chosen)
    given_away = any(one.object in chosen for one in conditions)  # on a page that all look up
    if len(chosen) < CANDIDATES or given_away:
        return None
    described = _described(facts, conditions, chosen, rng) if form is Form.LONG else conditions
    return Case(tuple(chosen), tuple(described), answer) if described else None


def _add(facts: Facts, chosen: list[int], group: Sequence[int], most: int) -> None:
    """Add up to ``most`` people of a group whose bare names nobody chosen has."""
    names, full = {facts.entities[person].name for person in chosen}, len(chosen) + most
    for person in group:
        if len(chosen) < full and facts.entities[person].name not in names:
            chosen.append(person)
            names.add(facts.entities[person].name)


def _described(facts: Facts, conditions: list[Condition], chosen: list[int], rng: random.Random) -> list[Condition] | None:
    """Conditions whose objects are described, each by other things, none of them a candidate; None: not found."""
    leading: dict[int, list[tuple[int, str]]] = {}
    for (subject, relation), value in facts.objects.items():
        if isinstance(value, int):
            leading.setdefault(value, []).append((subject, relation))
    used = {*chosen, *(one.object for one in conditions)}
    found: list[Condition] = []
    for one in conditions:
        way = _way_to(one.object, _DESCRIBED, leading, used, rng)
        if way is None:
            return None
        used |= {subject for subject, _ in way}
        found.append(Condition(one.relation, one.object, way[0][0], tuple(relation for _, relation in way)))
    return found


def _way_to(
    end: int, length: int, leading: Mapping[int, Sequence[tuple[int, str]]], used: set[int], rng: random.Random
) -> list[tuple[int, str]] | None:
    """So many facts in a row that lead to something, as (subject, relation), about unused subjects; None: there are none."""
    if not length:
        return []
    options = list(leading.get(end, ()))
    rng.shuffle(options)
    for subject, relation in options:
        before = None if subject in used else _way_to(subject, length - 1, leading, {*used, subject}, rng)
        if before is not None:
            return [*before, (subject, relation)]
    return None


def _question(world: Encyclopedia, case: Case, form: Form, name: str) -> Question:
    facts, answer = world.facts, world.facts.entities[case.answer]
    meta: dict[str, Any] = {
        "candidates": list(case.candidates),
        "conditions": [[one.relation, one.object, one.start, list(one.way)] for one in case.conditions],
        "answer": case.answer,
        "form": form.value,
        "facts": [fact for one in case.conditions for fact in _told(world, case.answer, one)],
        "world": world.name,
    }
    answers = tuple(dict.fromkeys((answer.name, answer.title, answer.mention)))
    hops = sum(len(one.way) + 1 for one in case.conditions)
    return Question(id=name, text=case.text(facts), answers=answers, hops=hops, meta=meta)


def _told(world: Encyclopedia, answer: int, condition: Condition) -> list[dict[str, str]]:
    """What the pages say on the way to a condition's object, and what its register says of the answer."""
    described = [world.stated(subject, relation) for subject, relation in condition.steps(world.facts)]
    url = register_url(Site.ATLAS, world.facts, condition.object)
    quote = world.register_by_url[url].sentence
    return [*described, {**world.stated(answer, condition.relation), "url": url, "quote": quote}]


# -- the teacher -----------------------------------------------------------------------------------------------------------

HAS = "The register has {names}. Others out."
SAYS = "{name} {said}."
NOBODY = "The register has nobody."
ELSEWHERE = "That page is about something else."
REGISTER = "I need the register of {name}."
NEED = "I need the page of {name}."
HEARSAY = "The gazette will do."
THOUGHTS = (HAS, SAYS, NOBODY, ELSEWHERE, REGISTER, NEED, HEARSAY, EARLY)
"""Everything the teacher ever thinks; it tells which fault it commits."""


@dataclass
class EliminationHead(Head):
    """One question in the teacher's head: who is left, and what it has read.

    An early guess says nothing of the page just read, and picks anybody who is left: so a student learns for every moment how
    likely each of them is.
    """

    case: Case
    left: tuple[int, ...]
    known: Mapping[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """The objects of (subject, relation), as far as it has read. Replaced, never changed."""
    settled: frozenset[str] = frozenset()  # conditions whose register it has read, by their relations
    looking_up: str = ""  # the condition that a page is visited for
    wanted: tuple[int, str] | None = None  # the subject and relation that this page should tell; None: it is the register
    wary: bool = False  # whether the gazette had no such page

    @classmethod
    def of(cls, question: Question, world: Encyclopedia, shares: ModeShares, rng: random.Random) -> "EliminationHead | None":
        """None for a question that is not of this world."""
        case = Case.of(question)
        return cls(world, shares, rng, case, case.candidates) if case.is_true_in(world.facts, question.text) else None

    def act(self, observation: str) -> str:
        note = self._read(observation) if self.visiting else ""
        if self.rng.random() < self.shares.stop_early:
            return self._guess("")
        for condition in self.case.conditions:
            if len(self.left) > 1 and condition.relation not in self.settled:
                return self._visit(note, condition)
        return self._guess(note) if len(self.left) > 1 else self.answer(note, self._names())

    def close(self, observation: str) -> str:
        if self.visiting:
            self._read(observation)
        return self._guess("")

    def _guess(self, note: str) -> str:
        return self.answer(f"{note} {EARLY}".lstrip(), self.world.facts.entities[self.rng.choice(self.left)].name)

    def _visit(self, note: str, condition: Condition) -> str:
        """Look up the first fact of a condition's way that it does not know, and at the end of the way the register."""
        facts, at, self.wanted, self.looking_up = self.world.facts, condition.start, None, condition.relation
        for relation in condition.way:
            if (at, relation) not in self.known:
                self.wanted = at, relation
                break
            at = self.known[at, relation]
        hearsay = not self.wary and self.rng.random() < self.shares.gazette
        site = Site.GAZETTE if hearsay else Site.ATLAS
        if self.wanted is None:
            need, goal, url = REGISTER, condition.relation, register_url(site, facts, at)
        else:
            need, goal, url = NEED, self.wanted[1], url_of(site, facts.entities[at].title)
        need = need.format(name=facts.object_text(at))
        return self.visit(" ".join(filter(None, (note, need, HEARSAY if hearsay else ""))), url, goal)

    def _read(self, observation: str) -> str:
        """What the page says, and whom that rules out."""
        self.wary = False
        if self.wanted is None:
            return self._read_register(observation)
        page, relation = self.world.by_url.get(self.visiting), self.wanted[1]
        if page is None or page.sentences[relation].rstrip(".") not in observation:
            self.wary = True
            return ELSEWHERE
        facts, value = self.world.facts, int(page.claims[relation])
        self.known = {**self.known, self.wanted: value}
        return SAYS.format(name=facts.entities[page.entity].name, said=said_of(relation, facts.object_text(value)))

    def _read_register(self, observation: str) -> str:
        """Of several who are left one may be missed; where it is nobody, those before stay."""
        register = self.world.register_by_url.get(self.visiting)
        if register is None or register.sentence.rstrip(".") not in observation:
            self.wary = True
            if register is None:  # there is none: it was told wrongly what to look up
                self.settled |= {self.looking_up}
            return ELSEWHERE
        left = tuple(person for person in self.left if person in register.members)
        if not left and register.page.source == "gazette":
            self.wary = True  # it looks again, in the atlas
            return NOBODY
        self.settled |= {self.looking_up}
        if not left:
            return NOBODY
        if 1 < len(left) < len(self.left) and self.rng.random() < self.shares.miss:
            missed = self.rng.choice(left)
            left = tuple(person for person in left if person != missed)
        self.left = left
        return HAS.format(names=self._names())

    def _names(self) -> str:
        return ", ".join(self.world.facts.entities[person].name for person in self.left)
