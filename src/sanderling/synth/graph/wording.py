"""A tree of constraints in English: named things by their names, all others by their kind and what is said of them.

A clause behind a thing that has several clauses of its own could belong to either, so such things are told in a sentence of
their own before ("Consider the town that …. Which person was born in *that town*?"), and so is all but the last of several
branches. Knows relations by their words only.
"""

import random
from collections.abc import Sequence

from sanderling.synth.graph.graph import FactGraph, Node
from sanderling.synth.graph.relations import escaped
from sanderling.synth.graph.tree import Clause, Spot, answers

_PREFACES = ("Consider {np}.", "Think of {np}.", "Take {np}.")
_ASKED = ("{who} is {np}?", "Name {np}.", "Find {np}.")
_PERSON = "person"
_DEEPEST = 3
"""Edges below a spot that one sentence takes; deeper ones are split."""


class TangledError(Exception):
    """The tree cannot be told without leaving open what belongs to what, or what something is."""


class Speaker:
    """Words one question; each choice among wordings is drawn from ``rng``. Its methods raise TangledError.

    Example: ``Speaker(graph, random.Random(0)).question(root)``
    """

    def __init__(self, graph: FactGraph, rng: random.Random) -> None:
        self.graph, self.rng = graph, rng
        self.prefaces: list[str] = []
        """Sentences before the question."""
        self._referred: set[str] = set()
        """Kinds that "that KIND" stands for already."""

    def question(self, root: Spot) -> str:
        """The whole question for a tree."""
        return self.told(self._asked(root))

    def told(self, last: str) -> str:
        """The prefaces, and a last sentence."""
        return " ".join([*self.prefaces, last[0].upper() + last[1:]])

    def phrase(self, spot: Spot) -> str:
        """A thing as a part of a sentence; one that needs a sentence of its own gets it."""
        return self._lift(spot) if len(spot.clauses) > 1 or spot.depth() >= _DEEPEST else self._inline(spot)

    def clauses(self, spot: Spot) -> str:
        """What is said of a thing, as relative clauses; of its branches one stays in the sentence, the last."""
        flat = [clause for clause in spot.clauses if not clause.other.clauses]
        deep = sorted((clause for clause in spot.clauses if clause.other.clauses), key=lambda one: one.other.depth())
        told = [self._clause(clause, self._inline(clause.other)) for clause in flat]
        for clause in deep[:-1]:
            told.append(self._clause(clause, self._lift(clause.other)))
        for clause in deep[-1:]:
            told.append(self._clause(clause, self.phrase(clause.other)))
        return " and ".join(told)

    def kind(self, node: Node) -> str:
        """The word for what something is."""
        kind = self.graph.kind(node)
        if not kind:
            raise TangledError
        return kind

    def _inline(self, spot: Spot) -> str:
        """A thing within a sentence."""
        if spot.is_named:
            name = self.graph.name(spot.node)
            if name is None:
                raise TangledError
            return name
        return (len(spot.clauses) == 1 and self._noun(spot.clauses[0])) or self._described(spot)

    def _lift(self, spot: Spot) -> str:
        """Tell of a thing in a sentence of its own, and give the words that then stand for it."""
        kind = self.kind(spot.node)
        described = self._described(spot)
        if kind in self._referred:
            raise TangledError
        self._referred.add(kind)
        self.prefaces.append(self.rng.choice(_PREFACES).format(np=described))
        return f"that {kind}"

    def _described(self, spot: Spot) -> str:
        """A thing by its kind and clauses; with the definite article where they fit it alone."""
        kind = self.kind(spot.node)
        article = "the" if len(answers(self.graph, spot)) == 1 else "an" if kind[0].lower() in "aeiou" else "a"
        return f"{article} {kind} {self.clauses(spot)}"

    def _asked(self, root: Spot) -> str:
        if root.node.is_literal:
            return self._value_asked(root)
        kind = self.kind(root.node)
        if len(root.clauses) == 1 and (noun := self._noun(root.clauses[0])):
            asked = _ASKED if kind in noun.split() else (*_ASKED, f"Which {escaped(kind)} is {{np}}?")
            return self.rng.choice(asked).format(who=who_asks(kind), np=noun)
        clauses = self.clauses(root)
        pronoun, _, rest = clauses.partition(" ")
        if len(root.clauses) == 1 and kind == _PERSON and pronoun == "who":
            return f"Who {rest}?"
        if len(root.clauses) == 1 and pronoun in ("who", "that") and root.clauses[0].describes_subject:
            return f"Which {kind} {rest}?"
        return self.rng.choice(_ASKED).format(who=who_asks(kind), np=f"the {kind} {clauses}")

    def _value_asked(self, root: Spot) -> str:
        """A question for a literal; what it is the value of is its one clause."""
        if len(root.clauses) != 1:
            raise TangledError
        clause = root.clauses[0]
        subject = self.phrase(clause.other)
        return self.rng.choice(self.graph.words[clause.fact.relation].inquiry).format(s=subject)

    def _noun(self, clause: Clause) -> str:
        """A noun phrase for what has this clause alone, where its relation has one and chance wants it."""
        words = self.graph.words[clause.fact.relation]
        if clause.describes_subject or not words.noun or self.rng.random() < 0.5:
            return ""
        other = self.phrase(clause.other)
        return self.rng.choice(words.noun).format(s=other)

    def _clause(self, clause: Clause, other: str) -> str:
        words = self.graph.words[clause.fact.relation]
        return self.rng.choice(words.subject if clause.describes_subject else words.object).format(s=other, o=other)


def listed(items: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def who_asks(kind: str) -> str:
    """The word that asks for something of a kind."""
    return "Who" if kind == _PERSON else "What"
