"""A tree of constraints in English: named things by their names, all others by their kind and what is said of them.

A clause after a thing that has several clauses of its own could belong to either, so such things are told in a sentence of
their own before ("Consider the town that …. Which person was born in *that town*?"), and so is all but the last of several
branches. Deterministic by the generator's chance alone. Knows relations by their words only.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.matcher import answers
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.tree import Clause, Spot, to_query
from sanderling.synth.graph.words.contract import literally

_PREFACES = ("Consider {np}.", "Think of {np}.", "Take {np}.")
_ASKED = ("{who} is {np}?", "Name {np}.", "Find {np}.")
_VALUE_ASKED = ("What is {np}?", "Find {np}.")
_PEOPLE = frozenset({"person"})
_DEEPEST = 3
"""Edges below a spot that one sentence takes; deeper ones are split."""


class TangledError(Exception):
    """The tree cannot be told without leaving open what belongs to what."""


@dataclass
class Speaker:
    """Tells one question."""

    ground: Ground
    rng: random.Random
    prefaces: list[str] = field(default_factory=list)
    """Sentences before the question."""
    _referred: set[str] = field(default_factory=set)
    """Kinds that "that KIND" stands for already."""

    def question(self, root: Spot) -> str:
        """The whole question for a tree. Raises TangledError."""
        return self.tell(self._asked(root))

    def tell(self, last: str) -> str:
        """The prefaces, and a last sentence."""
        return " ".join([*self.prefaces, last[0].upper() + last[1:]])

    def phrase(self, spot: Spot) -> str:
        """A thing within a sentence. Raises TangledError."""
        if spot.is_named or not spot.clauses:
            name = self.ground.name(spot.node)
            if name is None:
                raise TangledError
            return name
        if len(spot.clauses) == 1 and (noun := self._noun(spot.clauses[0])):
            return noun
        return f"{self._article(spot)} {self.kind(spot.node)} {self.clauses(spot)}"

    def clauses(self, spot: Spot) -> str:
        """What is said of a thing, as relative clauses; of its branches one stays in the sentence, the last."""
        flat = [clause for clause in spot.clauses if not clause.other.clauses]
        deep = sorted((clause for clause in spot.clauses if clause.other.clauses), key=lambda one: one.other.depth())
        told = [self._clause(clause, self.phrase(clause.other)) for clause in flat]
        for number, clause in enumerate(deep):
            lifted = number < len(deep) - 1 or is_lifted(clause.other)
            told.append(self._clause(clause, self.lift(clause.other) if lifted else self.phrase(clause.other)))
        return " and ".join(told)

    def lift(self, spot: Spot) -> str:
        """Tell of a thing in a sentence of its own, and give the words that then stand for it. Raises TangledError."""
        kind = self.kind(spot.node)
        np = f"{self._article(spot)} {kind} {self.clauses(spot)}"
        if kind in self._referred:
            raise TangledError
        self._referred.add(kind)
        self.prefaces.append(self.rng.choice(_PREFACES).format(np=np))
        return f"that {kind}"

    def kind(self, node: Node) -> str:
        """The word for what something is. Raises TangledError where there is none."""
        kind = self.ground.kind(node)
        if not kind:
            raise TangledError
        return kind

    def _asked(self, root: Spot) -> str:
        if root.node.is_literal:
            return self._value_asked(root)
        kind = self.kind(root.node)
        if len(root.clauses) == 1 and (noun := self._noun(root.clauses[0])):
            asked = _ASKED if kind in noun.split() else (*_ASKED, f"Which {literally(kind)} is {{np}}?")
            return self.rng.choice(asked).format(who=who_asks(kind), np=noun)
        clauses = self.clauses(root)
        if len(root.clauses) == 1 and kind in _PEOPLE and clauses.startswith("who "):
            return f"Who {clauses.removeprefix('who ')}?"
        if len(root.clauses) == 1 and clauses.split(" ", 1)[0] in ("who", "that") and not self._describes_object(root):
            return f"Which {kind} {clauses.split(' ', 1)[1]}?"
        return self.rng.choice(_ASKED).format(who=who_asks(kind), np=f"the {kind} {clauses}")

    def _value_asked(self, root: Spot) -> str:
        """A question for a literal; what it is the value of is its one clause."""
        if len(root.clauses) != 1:
            raise TangledError
        clause = root.clauses[0]
        words = self.ground.words.of(clause.fact.relation)
        subject = self.lift(clause.other) if is_lifted(clause.other) else self.phrase(clause.other)
        if words.inquiry:
            return self.rng.choice(words.inquiry).format(s=subject)
        return self.rng.choice(_VALUE_ASKED).format(np=f"the {words.value} {self._clause(clause, subject)}")

    def _describes_object(self, root: Spot) -> bool:
        return not root.clauses[0].describes_subject

    def _noun(self, clause: Clause) -> str:
        """A noun phrase for what has this clause alone, where its relation has one and chance wants it."""
        words = self.ground.words.of(clause.fact.relation)
        if clause.describes_subject or not words.noun or self.rng.random() < 0.5:
            return ""
        other = self.lift(clause.other) if is_lifted(clause.other) else self.phrase(clause.other)
        return self.rng.choice(words.noun).format(s=other)

    def _clause(self, clause: Clause, other: str) -> str:
        words = self.ground.words.of(clause.fact.relation)
        if clause.describes_subject:
            if not words.subject:
                raise TangledError
            return self.rng.choice(words.subject).format(o=other)
        if not words.object:
            raise TangledError
        return self.rng.choice(words.object).format(s=other)

    def _article(self, spot: Spot) -> str:
        """The definite one where what is said fits one thing alone."""
        if len(answers(self.ground.index, to_query(spot))) == 1:
            return "the"
        return "an" if self.kind(spot.node)[0].lower() in "aeiou" else "a"


def is_lifted(spot: Spot) -> bool:
    """Whether a thing needs a sentence of its own: what is said of it is several clauses, or a long way."""
    return len(spot.clauses) > 1 or spot.depth() >= _DEEPEST


def listed(items: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def who_asks(kind: str) -> str:
    """The word that asks for something of a kind."""
    return "Who" if kind in _PEOPLE else "What"
