"""Questions from a generated encyclopedia: chains of relations from a named entity, in wordings that pages do not use.

Relations are functional, so each chain has exactly one answer in its world: uniqueness is by construction. The path is kept in
the question's ``meta`` for teachers and checks; the agent never sees it.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.world.encyclopedia import BY_NAME, BY_SUBJECT, QUESTION_FORMS, Encyclopedia, Facts

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

    def is_true_in(self, facts: Facts, question: str) -> bool:
        """Whether the facts have this path, from an entity that the question names (ids and worlds may be others)."""
        steps = zip((self.start, *self.objects), self.relations, self.objects, strict=False)
        known = all(facts.objects.get((int(at), relation)) == found for at, relation, found in steps)
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
        relation = rng.choice(BY_SUBJECT[facts.entities[at].kind])
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
        phrase = rng.choice(BY_NAME[relation].questions).format(x=phrase)
    end = path.objects[-1]
    if isinstance(end, str):
        answers: tuple[str, ...] = (end,)
    else:  # the bare name first; the full title and the mention are right as well
        entity = facts.entities[end]
        answers = tuple(dict.fromkeys((entity.name, entity.title, entity.mention)))
    meta = {"start": path.start, "relations": list(path.relations), "objects": list(path.objects), "world": world.name}
    text = rng.choice(QUESTION_FORMS[BY_NAME[path.relations[-1]].object]).format(np=phrase)
    return Question(id=name, text=text, answers=answers, hops=len(path.relations), meta=meta)


def names_its_answer(question: Question) -> bool:
    """Whether an accepted answer stands in the question, word for word, whatever the case."""
    text = question.text.casefold()
    return any(re.search(rf"\b{re.escape(answer.casefold())}\b", text) is not None for answer in question.answers)
