"""Elimination over a generated encyclopedia: who of eight people fulfils all conditions? And the teacher's head that finds out.

Each page rules some of them out, so that the answer becomes likelier page by page, also for somebody who guesses: in a chain of
names nobody has seen, only the last page can do that. Exactly one candidate fulfils all conditions of a question, by the facts.
The *short* form asks in worlds with registers, a page of which rules out several at once; the *long* one is about two facts in
a row, looked up on everybody's own page and those of their houses and teachers. ``meta`` has the way's facts with their pages.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.synth.head import EARLY, Head, ModeShares
from sanderling.world.encyclopedia import REGISTERS, Encyclopedia, Facts, Kind, Site, register_url, said_of, url_of

CANDIDATES = 8
_MOST_BEYOND = 3  # candidates that fulfil the first so many conditions and not the next
_MOST_LURES = 2  # candidates that the first condition rules out, and a later one would not
_ELSE = -1  # what a relation has as its object when a register does not list its subject
_THREE = 0.92  # of short draws are for three conditions; they are found more seldom, and become about two questions of five


class Form(StrEnum):
    """How long the way is."""

    SHORT = "short"  # two or three registers
    LONG = "long"  # 10 to 25 pages of people and what they are linked to


@dataclass(frozen=True)
class Condition:
    """Relations to follow from a person, and where they have to end."""

    relations: tuple[str, ...]
    object: int

    def holds(self, facts: Facts, person: int) -> bool:
        at: int | str = person
        for relation in self.relations:
            at = facts.objects[int(at), relation]
        return at == self.object

    def text(self, facts: Facts) -> str:
        """Example: "worked for one that has its offices in Zaz"."""
        *before, last = self.relations
        text = said_of(last, facts.object_text(self.object))
        for relation in reversed(before):
            text = said_of(relation, f"one that {text}")
        return text


@dataclass(frozen=True)
class Case:
    """What a question is about."""

    candidates: tuple[int, ...]
    conditions: tuple[Condition, ...]
    answer: int

    @classmethod
    def of(cls, question: Question) -> "Case":
        meta = question.meta
        conditions = tuple(Condition(tuple(relations), object) for relations, object in meta["conditions"])
        return cls(tuple(meta["candidates"]), conditions, meta["answer"])

    def is_true_in(self, facts: Facts, question: str) -> bool:
        """Whether the question is this one, and the facts have one answer to it (ids and worlds may be others)."""
        if max(*self.candidates, *(one.object for one in self.conditions)) >= len(facts.entities):
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
    if form is Form.SHORT and not world.registers:
        raise UserError("Short questions of elimination need registers: build the world from encyclopedia:SIZE/SEED/registers.")
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
    conditions = _conditions(facts, answer, form, rng)
    rng.shuffle(people)
    fulfilling: list[list[int]] = [[] for _ in conditions]  # the first so many, and not the next
    for person in people:
        first = next((at for at, one in enumerate(conditions) if not one.holds(facts, person)), None)
        if first is not None:
            fulfilling[first].append(person)
    outside, *inside = fulfilling
    if form is Form.LONG:  # people of one house together: its page rules all of them out
        house = {person: facts.objects[person, "employer"] for person in outside}
        rank = {one: rng.random() for one in dict.fromkeys(house.values())}
        outside.sort(key=lambda person: rank[house[person]])
    lures = [person for person in outside if any(one.holds(facts, person) for one in conditions[1:])][:_MOST_LURES]
    chosen = [answer]
    for group in inside:
        before = len(chosen)
        _add(facts, chosen, group, rng.randint(1, _MOST_BEYOND))
        if len(chosen) == before:
            return None
    _add(facts, chosen, [*lures, *outside], CANDIDATES - len(chosen))
    rng.shuffle(chosen)
    given_away = any(facts.objects[answer, one.relations[0]] in chosen for one in conditions)  # on a page that all look up
    return Case(tuple(chosen), conditions, answer) if len(chosen) == CANDIDATES and not given_away else None


def _add(facts: Facts, chosen: list[int], group: Sequence[int], most: int) -> None:
    """Add up to ``most`` people of a group whose bare names nobody chosen has."""
    names, full = {facts.entities[person].name for person in chosen}, len(chosen) + most
    for person in group:
        if len(chosen) < full and facts.entities[person].name not in names:
            chosen.append(person)
            names.add(facts.entities[person].name)


def _conditions(facts: Facts, answer: int, form: Form, rng: random.Random) -> tuple[Condition, ...]:
    if form is Form.SHORT:
        ways = [(relation,) for relation in rng.sample(REGISTERS, 3 if rng.random() < _THREE else 2)]
    else:
        ways = [("employer", "seat"), (rng.choice(("mentor", "spouse")), rng.choice(("birthplace", "employer")))]
    found: list[Condition] = []
    for way in ways:
        at: int | str = answer
        for relation in way:
            at = facts.objects[int(at), relation]
        found.append(Condition(way, int(at)))
    return tuple(found)


def _question(world: Encyclopedia, case: Case, form: Form, name: str) -> Question:
    facts, answer = world.facts, world.facts.entities[case.answer]
    meta: dict[str, Any] = {
        "candidates": list(case.candidates),
        "conditions": [[list(one.relations), one.object] for one in case.conditions],
        "answer": case.answer,
        "form": form.value,
        "facts": (_registered if form is Form.SHORT else _looked_up)(world, case),
        "world": world.name,
    }
    answers = tuple(dict.fromkeys((answer.name, answer.title, answer.mention)))
    hops = sum(len(one.relations) for one in case.conditions)
    return Question(id=name, text=case.text(facts), answers=answers, hops=hops, meta=meta)


def _registered(world: Encyclopedia, case: Case) -> list[dict[str, str]]:
    """What each register says of the answer."""
    found: list[dict[str, str]] = []
    for one in case.conditions:
        url = register_url(Site.ATLAS, world.facts, one.object)
        quote = world.register_by_url[url].sentence
        found.append({**world.stated(case.answer, one.relations[0]), "url": url, "quote": quote})
    return found


def _looked_up(world: Encyclopedia, case: Case) -> list[dict[str, str]]:
    """What the pages say, condition by condition, of everybody whom those before have not ruled out."""
    left, told = case.candidates, dict[tuple[int, str], None]()
    for one in case.conditions:
        for person in left:
            at = person
            for relation in one.relations:
                told[at, relation] = None
                at = int(world.facts.objects[at, relation])
        left = tuple(person for person in left if one.holds(world.facts, person))
    return [world.stated(subject, relation) for subject, relation in told]


# -- the teacher -----------------------------------------------------------------------------------------------------------

HAS = "The register has {names}. Others out."
SAYS = "{name} {said}"
OUT = ": out. Left: {names}."
FITS = ": fits. Left: {names}."
NOBODY = "The register has nobody."
NONE_LEFT = ": out. Left: nobody."
ELSEWHERE = "That page is about something else."
REGISTER = "I need the register of {name}."
NEED = "I need the page of {name}."
HEARSAY = "The gazette will do."
THOUGHTS = (HAS, SAYS, OUT, FITS, NOBODY, NONE_LEFT, ELSEWHERE, REGISTER, NEED, HEARSAY, EARLY)
"""Everything the teacher ever thinks; it gives its mode away."""


@dataclass
class EliminationHead(Head):
    """One question in the teacher's head: who is left, and what it has read of whom.

    A guess comes without a word on the page before it, and anybody who is left is as likely: what an answer is worth can be
    learnt for every moment.
    """

    case: Case
    left: tuple[int, ...]
    known: Mapping[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """The objects of (subject, relation), as far as it has read. Replaced, never changed."""
    wanted: tuple[int, str] | None = None  # what the page that is being visited should tell
    wary: bool = False  # whether the gazette had no such page

    @classmethod
    def of(cls, question: Question, world: Encyclopedia, shares: ModeShares, rng: random.Random) -> "EliminationHead | None":
        """None for a question that is not of this world."""
        case = Case.of(question)
        return cls(world, shares, rng, case, case.candidates) if case.is_true_in(world.facts, question.text) else None

    def act(self, observation: str) -> str:
        note = self._read(observation) if self.wanted else ""
        if self.rng.random() < self.shares.stop_early:
            return self._guess("")
        self.wanted = self._next()
        if self.wanted is None:
            return self._guess(note) if len(self.left) > 1 else self.answer(note, self._names())
        return self._visit(note, *self.wanted)

    def close(self, observation: str) -> str:
        if self.wanted:
            self._read(observation)
        return self._guess("")

    def _guess(self, note: str) -> str:
        return self.answer(f"{note} {EARLY}".lstrip(), self.world.facts.entities[self.rng.choice(self.left)].name)

    def _next(self) -> tuple[int, str] | None:
        """The first thing that it has to know and does not; None once one is left, or nothing is to be found out."""
        ways = (self._walk(person, one) for one in self.case.conditions for person in self.left if len(self.left) > 1)
        return next(((at, relation) for at, relation in ways if relation), None)

    def _walk(self, person: int, condition: Condition) -> tuple[int, str]:
        """Where a condition leads as far as is known, and the relation that is to be looked up there; empty: it ends there."""
        at = person
        for relation in condition.relations:
            if (at, relation) not in self.known:
                return at, relation
            at = self.known[at, relation]
        return at, ""

    def _visit(self, note: str, subject: int, relation: str) -> str:
        facts, hearsay = self.world.facts, not self.wary and self.rng.random() < self.shares.gazette
        site = Site.GAZETTE if hearsay else Site.ATLAS
        listed = next((one.object for one in self.case.conditions if one.relations == (relation,)), None)
        if listed is not None:
            need, url = REGISTER.format(name=facts.object_text(listed)), register_url(site, facts, listed)
        else:
            need, url = NEED.format(name=facts.object_text(subject)), url_of(site, facts.entities[subject].title)
        return self.visit(" ".join(filter(None, (note, need, HEARSAY if hearsay else ""))), url, relation)

    def _read(self, observation: str) -> str:
        """What the page says, and whom that rules out."""
        register, page = self.world.register_by_url.get(self.visiting), self.world.by_url.get(self.visiting)
        self.wary = False
        if register is not None and register.sentence.rstrip(".") in observation:
            listed = {(one, register.relation): register.entity if one in register.members else _ELSE for one in self.left}
            nobody = set(listed.values()) == {_ELSE}
            self.wary = nobody and register.page.source == "gazette"  # it looks again, in the atlas
            self.known = self.known if self.wary else {**self.known, **listed}
            self._rule_out()
            return NOBODY if nobody else HAS.format(names=self._names())
        shown = [one for one in self._asked() if page is not None and page.sentences[one].rstrip(".") in observation]
        if page is None or not shown:
            self.wary = True
            return ELSEWHERE
        self.known = {**self.known, **{(page.entity, relation): int(page.claims[relation]) for relation in shown}}
        facts = self.world.facts
        said = " and ".join(said_of(relation, facts.object_text(page.claims[relation])) for relation in shown)
        note = SAYS.format(name=facts.entities[page.entity].name, said=said)
        left = self._rule_out()
        if left is None:
            return f"{note}."
        fits = any(self._verdict(person) for person in left)
        return note + (FITS if fits else OUT if left else NONE_LEFT).format(names=self._names())

    def _asked(self) -> list[str]:
        """What it reads for on the page that it visits: of a candidate, where each condition begins."""
        assert self.wanted is not None
        first = [one.relations[0] for one in self.case.conditions]
        return first if self.wanted[1] in first and self.wanted[0] in self.case.candidates else [self.wanted[1]]

    def _rule_out(self) -> tuple[int, ...] | None:
        """Who is left where anybody is ruled out. Of several one may be missed; where it is nobody, those before stay."""
        verdicts = {person: self._verdict(person) for person in self.left}
        best = True if True in verdicts.values() else None
        left = tuple(person for person, verdict in verdicts.items() if verdict is best)
        if len(left) == len(self.left):
            return None
        if len(left) > 1 and self.rng.random() < self.shares.miss:
            missed = self.rng.choice(left)
            left = tuple(person for person in left if person != missed)
        self.left = left or self.left
        return left

    def _verdict(self, person: int) -> bool | None:
        """Whether this is the one, as far as is known."""
        ends = [(*self._walk(person, one), one.object) for one in self.case.conditions]
        if any(at != wanted for at, relation, wanted in ends if not relation):
            return False
        return None if any(relation for _, relation, _ in ends) else True

    def _names(self) -> str:
        return ", ".join(self.world.facts.entities[person].name for person in self.left)
