"""Chains of relations over a generated encyclopedia: questions, and the teacher's head that walks them.

Relations are functional, so a chain from a named entity has exactly one answer in its world: uniqueness is by construction. Its
path is kept in the question's ``meta`` for the teacher and checks; the agent never sees it.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.synth.head import EARLY, Head, ModeShares
from sanderling.world import encyclopedia
from sanderling.world.encyclopedia import Encyclopedia, EncyclopediaPage, Entity, Facts

HopShares = Mapping[int, float]
"""Number of hops to its share. A chain that ran into a literal or a circle is drawn again with as many: shares are kept."""


@dataclass(frozen=True)
class Path:
    """A chain: the entity it starts from, the relations to follow, and what each leads to."""

    start: int
    relations: tuple[str, ...]
    objects: tuple[int | str, ...]

    @classmethod
    def of(cls, question: Question) -> "Path":
        """The path of a question made here. Raises UserError for any other question."""
        meta = question.meta
        if "relations" not in meta or "start" not in meta or "objects" not in meta:
            raise UserError(f"Question {question.id} has no answer path: only questions of a generated encyclopedia have one.")
        return cls(int(meta["start"]), tuple(meta["relations"]), tuple(meta["objects"]))

    def steps(self) -> Iterator[tuple[int, str, int | str]]:
        """Each fact: the entity it is of, the relation, and what that leads to."""
        for at, relation, found in zip((self.start, *self.objects), self.relations, self.objects, strict=False):
            yield int(at), relation, found

    def is_true_in(self, facts: Facts, question: str) -> bool:
        """Whether the facts have this path, from an entity that the question names (ids and worlds may be others)."""
        known = all(facts.objects.get((at, relation)) == found for at, relation, found in self.steps())
        return known and facts.entities[self.start].mention in question


def chain_questions(world: Encyclopedia, count: int, seed: int, hops: HopShares) -> list[Question]:
    """``count`` different questions, drawn with the given shares of hops. Deterministic.

    None of them names its answer, which a namesake or a shared word could bring about (`names_its_answer`). Raises UserError
    when the world is too small for that many, and for shares that cannot be drawn from.
    """
    if not hops or min(hops) < 1 or min(hops.values()) < 0 or sum(hops.values()) <= 0:
        raise UserError(f"Hop shares {dict(hops)} cannot be drawn from: give numbers of hops from 1, with shares above 0.")
    rng = random.Random(f"questions:{seed}:{world.name}")
    sizes, shares = list(hops), list(hops.values())
    seen: set[tuple[int, tuple[str, ...]]] = set()
    questions: list[Question] = []
    misses = 0
    wanted = rng.choices(sizes, shares)[0]
    while len(questions) < count:
        path = _draw_path(world.facts, wanted, rng)
        question = _question(world, path, f"{world.name}-{seed}-{len(questions)}", rng) if path is not None else None
        if path is None or question is None or (path.start, path.relations) in seen or names_its_answer(question):
            misses += 1
            if misses > 200 + 50 * count:
                raise UserError(f"World {world.name} has no {count} different questions: make it larger or ask fewer.")
            continue
        seen.add((path.start, path.relations))
        questions.append(question)
        wanted = rng.choices(sizes, shares)[0]
    return questions


def _draw_path(facts: Facts, hops: int, rng: random.Random) -> Path | None:
    start = rng.choice(facts.entities).id
    at: int | str = start
    visited: list[int | str] = [start]
    relations: list[str] = []
    for _ in range(hops):
        if isinstance(at, str):
            return None
        relation = rng.choice(encyclopedia.BY_SUBJECT[facts.entities[at].kind])
        at = facts.objects[(at, relation.name)]
        if at in visited:
            return None
        relations.append(relation.name)
        visited.append(at)
    return Path(start, tuple(relations), tuple(visited[1:]))


def _question(world: Encyclopedia, path: Path, name: str, rng: random.Random) -> Question:
    facts = world.facts
    phrase = facts.entities[path.start].mention
    for relation in path.relations:
        phrase = rng.choice(encyclopedia.BY_NAME[relation].questions).format(x=phrase)
    end = path.objects[-1]
    if isinstance(end, str):
        answers: tuple[str, ...] = (end,)
    else:  # the bare name first; the full title and the mention are right as well
        entity = facts.entities[end]
        answers = tuple(dict.fromkeys((entity.name, entity.title, entity.mention)))
    meta = {"start": path.start, "relations": list(path.relations), "objects": list(path.objects), "world": world.name}
    meta["facts"] = [world.stated(at, relation) for at, relation, _ in path.steps()]
    text = rng.choice(encyclopedia.QUESTION_FORMS[encyclopedia.BY_NAME[path.relations[-1]].object]).format(np=phrase)
    return Question(id=name, text=text, answers=answers, hops=len(path.relations), meta=meta)


def names_its_answer(question: Question) -> bool:
    """Whether an accepted answer stands in the question, word for word, whatever the case."""
    text = question.text.casefold()
    found = (answer for answer in map(str.casefold, question.answers) if answer in text)  # a pattern is dear to compile
    return any(re.search(rf"\b{re.escape(answer)}\b", text) is not None for answer in found)


# -- the teacher -----------------------------------------------------------------------------------------------------------

COMPARE = "Compare the results. The atlas page is right."
FIRST = "The first result will do."
SNIPPET = "The snippet says enough."
AGAIN = "Search once more."
ELSEWHERE = "That page is about something else. The atlas page is right."
NEED = "I need the {plan} of {name}."
NEXT = "I need the {plan}."
THEN = ", then "  # joins the relations that are still to be looked up: each hop's reasoning says the rest of the plan again
FOUND = "The {relation} is {value}."
THOUGHTS = (COMPARE, FIRST, SNIPPET, AGAIN, EARLY, ELSEWHERE, NEED, THEN, FOUND)
"""Everything the teacher ever thinks; it gives its mode away."""


class Step(StrEnum):
    """What the teacher does next."""

    SEARCH = "search"
    CHOOSE = "choose"
    READ = "read"


@dataclass
class ChainHead(Head):
    """One chain in the teacher's head."""

    path: Path
    at: Entity  # the subject of the fact that is looked for
    hop: int = 0
    step: Step = Step.SEARCH
    repeated: bool = False
    said: str = ""  # what it concluded from the last page or snippet; opens the next turn's reasoning

    @classmethod
    def of(cls, question: Question, world: Encyclopedia, shares: ModeShares, rng: random.Random) -> "ChainHead | None":
        """None for a question that is not of this world. Raises UserError for one without a path."""
        path, facts = Path.of(question), world.facts
        return cls(world, shares, rng, path, facts.entities[path.start]) if path.is_true_in(facts, question.text) else None

    @property
    def pages(self) -> Mapping[str, EncyclopediaPage]:
        return self.world.by_url

    @property
    def relation(self) -> str:
        return self.path.relations[self.hop]

    @property
    def _atlas(self) -> str:
        return encyclopedia.url_of(encyclopedia.Site.ATLAS, self.at.title)

    def act(self, observation: str) -> str:
        if self.step is Step.SEARCH:
            return self._search()
        if self.step is Step.CHOOSE:
            return self._choose(observation)
        return self._read(observation)

    def _search(self) -> str:
        self.step = Step.CHOOSE
        plan = THEN.join(self.path.relations[self.hop :])
        return self._call_search(self.said + (NEED if self.hop == 0 else NEXT).format(plan=plan, name=self.at.mention))

    def _choose(self, observation: str) -> str:
        if not self.repeated and self.rng.random() < self.shares.repeat_call:
            self.repeated = True
            return self._call_search(AGAIN)
        self.repeated = False
        found = [line for line in observation.splitlines() if line in self.pages]
        claim = self._claim_in(observation, found)
        if claim is not None and self.rng.random() < self.shares.trust_snippet:
            return self._conclude(SNIPPET, claim)
        self.step = Step.READ
        if found and self.rng.random() < self.shares.first_result:
            return self.visit(FIRST, found[0], self.relation)
        return self.visit(COMPARE, self._atlas, self.relation)

    def _claim_in(self, observation: str, found: list[str]) -> int | str | None:
        """What the snippets seem to say: the relation itself if one is shown, or else anything of the right kind."""
        kind = encyclopedia.BY_NAME[self.relation].object
        shown = [
            (name != self.relation, self.pages[url].claims[name])
            for url in found
            for name, sentence in self.pages[url].sentences.items()
            if encyclopedia.BY_NAME[name].object is kind and sentence.rstrip(".") in observation
        ]
        others = [(wrong, value) for wrong, value in shown if value != self.at.id]
        return min(others, key=lambda pair: pair[0])[1] if others else None

    def _read(self, observation: str) -> str:
        claim = self._shown(observation)
        if claim is None:
            return self.visit(ELSEWHERE, self._atlas, self.relation)
        return self._conclude("", claim)

    def _shown(self, observation: str) -> int | str | None:
        page = self.pages.get(self.visiting)
        sentence = page.sentences.get(self.relation) if page is not None else None
        if page is None or sentence is None or sentence.rstrip(".") not in observation:
            return None
        return page.claims[self.relation]

    def close(self, observation: str) -> str:
        """Answer with what was just read, or else with what is known so far."""
        facts = self.world.facts
        claim = self._shown(observation) if self.step is Step.READ else None
        if claim is None:
            return self.answer(self.said + EARLY, self.at.name)
        known = FOUND.format(relation=self.relation, value=facts.object_text(claim))
        last = self.hop + 1 == len(self.path.relations)
        return self.answer(known if last else f"{known} {EARLY}", facts.answer_text(claim))

    def _conclude(self, opening: str, value: int | str) -> str:
        facts = self.world.facts
        text = facts.object_text(value)
        known = f"{opening} {FOUND.format(relation=self.relation, value=text)} ".lstrip()
        self.hop += 1
        done = self.hop == len(self.path.relations) or isinstance(value, str)
        if done:
            return self.answer(known.rstrip(), facts.answer_text(value))
        if self.rng.random() < self.shares.stop_early:
            return self.answer(known + EARLY, facts.answer_text(value))
        self.at, self.said = facts.entities[int(value)], known
        return self._search()

    def _call_search(self, think: str) -> str:
        return self.call(think, "search", {"query": [f"{self.at.name} {self.at.occupation}".strip()]})
