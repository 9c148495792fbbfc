"""A tree of constraints in English: named things by their names, all others by their kind and what is said of them.

A clause behind a thing that has several clauses of its own could belong to either, so such things get a sentence of
their own before ("Consider the town that …. Which person was born in *that town*?"), and so is all but the last of several
branches. Knows relations by their words only.
"""

import random
from collections.abc import Sequence

from sanderling.synth.graph.graph import DroppedError, FactGraph, Node, escaped
from sanderling.synth.graph.tree import Constraint, QueryNode, answers

_PREFACES = ("Consider {np}.", "Think of {np}.", "Take {np}.")
_ASKED = ("{who} is {np}?", "Name {np}.", "Find {np}.")
_PERSON = "person"
_DEEPEST = 3
"""Edges below a thing that one sentence takes; deeper ones are split."""


class Speaker:
    """Words one question; each choice among wordings is drawn from ``rng``.

    Its methods raise DroppedError where the words would leave open what belongs to what, or what something is.

    Example: ``Speaker(graph, random.Random(0)).question(root)``
    """

    def __init__(self, graph: FactGraph, rng: random.Random) -> None:
        self.graph, self.rng = graph, rng
        self.prefaces: list[str] = []
        self._referred: set[str] = set()
        """Kinds that "that KIND" stands for already."""

    def question(self, root: QueryNode) -> str:
        return self.after_prefaces(self._asked(root))

    def after_prefaces(self, last: str) -> str:
        return " ".join([*self.prefaces, last[0].upper() + last[1:]])

    def phrase(self, query: QueryNode) -> str:
        """A thing as a part of a sentence; one that needs a sentence of its own gets it."""
        return self._lift(query) if len(query.constraints) > 1 or query.depth() >= _DEEPEST else self._inline(query)

    def clauses(self, query: QueryNode) -> str:
        """What is said of a thing, as relative clauses; of its branches one stays in the sentence, the last."""
        flat = [constraint for constraint in query.constraints if not constraint.other.constraints]
        deep = sorted(
            (constraint for constraint in query.constraints if constraint.other.constraints), key=lambda one: one.other.depth()
        )
        clauses = [self._clause(constraint, self._inline(constraint.other)) for constraint in flat]
        clauses += [self._clause(constraint, self._lift(constraint.other)) for constraint in deep[:-1]]
        clauses += [self._clause(constraint, self.phrase(constraint.other)) for constraint in deep[-1:]]
        return " and ".join(clauses)

    def kind(self, node: Node) -> str:
        kind = self.graph.kind(node)
        if not kind:
            raise DroppedError("ambiguous words")
        return kind

    def _inline(self, query: QueryNode) -> str:
        if query.is_named:
            name = self.graph.name(query.node)
            if name is None:
                raise DroppedError("ambiguous words")
            return name
        return (len(query.constraints) == 1 and self._noun(query.constraints[0])) or self._described(query)

    def _lift(self, query: QueryNode) -> str:
        """Describe a thing in a sentence of its own, and give the words that then stand for it."""
        kind = self.kind(query.node)
        described = self._described(query)
        if kind in self._referred:
            raise DroppedError("ambiguous words")
        self._referred.add(kind)
        self.prefaces.append(self.rng.choice(_PREFACES).format(np=described))
        return f"that {kind}"

    def _described(self, query: QueryNode) -> str:
        kind = self.kind(query.node)
        article = "the" if len(answers(self.graph, query)) == 1 else "an" if kind[0].lower() in "aeiou" else "a"
        return f"{article} {kind} {self.clauses(query)}"

    def _asked(self, root: QueryNode) -> str:
        if root.node.is_literal:
            return self._value_asked(root)
        kind = self.kind(root.node)
        if len(root.constraints) == 1 and (noun := self._noun(root.constraints[0])):
            asked = _ASKED if kind in noun.split() else (*_ASKED, f"Which {escaped(kind)} is {{np}}?")
            return self.rng.choice(asked).format(who=who_asks(kind), np=noun)
        clauses = self.clauses(root)
        pronoun, _, rest = clauses.partition(" ")
        if len(root.constraints) == 1 and kind == _PERSON and pronoun == "who":
            return f"Who {rest}?"
        if len(root.constraints) == 1 and pronoun in ("who", "that") and root.constraints[0].describes_subject:
            return f"Which {kind} {rest}?"
        return self.rng.choice(_ASKED).format(who=who_asks(kind), np=f"the {kind} {clauses}")

    def _value_asked(self, root: QueryNode) -> str:
        if len(root.constraints) != 1:
            raise DroppedError("ambiguous words")
        (constraint,) = root.constraints
        subject = self.phrase(constraint.other)
        return self.rng.choice(self.graph.words[constraint.fact.relation].inquiry).format(s=subject)

    def _noun(self, constraint: Constraint) -> str:
        """A noun phrase for what has this constraint alone, where its relation has one and chance wants it."""
        words = self.graph.words[constraint.fact.relation]
        if constraint.describes_subject or not words.noun or self.rng.random() < 0.5:
            return ""
        other = self.phrase(constraint.other)
        return self.rng.choice(words.noun).format(s=other)

    def _clause(self, constraint: Constraint, other: str) -> str:
        words = self.graph.words[constraint.fact.relation]
        return self.rng.choice(words.subject if constraint.describes_subject else words.object).format(s=other, o=other)


def listed(items: Sequence[str]) -> str:
    """A list in words: "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


def who_asks(kind: str) -> str:
    """The word that asks for something of a kind."""
    return "Who" if kind == _PERSON else "What"
