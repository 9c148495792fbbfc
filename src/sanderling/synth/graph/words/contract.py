"""How one relation is spoken of, in either direction. Knows no relation.

Each wording is a relative clause that begins with its pronoun, so that it stands behind any noun: "the town *where {s} was
born*", "a person *who was born in {o}*". What others claim of a relation (``NAME@SITE``) takes the same clauses with the site
behind: "a person who was born in {o} (according to the gazette)".
"""

from dataclasses import dataclass, replace
from typing import Protocol

_CLAIM = "@"


@dataclass(frozen=True, slots=True)
class RelationWords:
    """The wordings of one relation; ``{s}`` stands for the subject, ``{o}`` for the object."""

    subject: tuple[str, ...]
    """Clauses that describe the subject, given the object; none: pages name too few of its subjects to tell one by it."""
    object: tuple[str, ...]
    """Clauses that describe the object, given the subject; none: the other way round alone reads well."""
    noun: tuple[str, ...] = ()
    """Noun phrases for the object, given the subject: "the home town of {s}"."""
    value: str = "value"
    """What kind of thing a literal object is: "year", "version"."""
    inquiry: tuple[str, ...] = ()
    """Questions for a literal object, given the subject: "In which year did {s} open?"."""
    is_functional: bool = False
    """Whether a subject has one object at most."""
    is_exhaustive: bool = False
    """Whether a maker that reads pages finds all facts of it, so that they may be counted and listed."""
    is_of_one_kind: bool = False
    """Whether it says by itself what its subjects are: one that was taken for another kind of thing counts as well."""
    is_answer: bool = True
    """Whether a literal object can be asked for: a description cannot."""
    is_weak: bool = False
    """Whether being its subject says little: it fits very many things, or a maker that reads pages misses some."""
    is_step: bool = True
    """Whether going along it takes finding something out: a quoted description is found by its own words."""
    family: str = ""
    """Relations of one family say much the same: a question from documents has one of them at most. Empty: of its own."""
    is_numeric: bool = False
    """Whether literal objects are numbers that may be compared and subtracted."""


class Words(Protocol):
    """The words of every relation of a graph."""

    def of(self, relation: str) -> RelationWords:
        """Of one relation, by name."""
        ...


def literally(words: str) -> str:
    """Words as a part of a wording: their braces stand for themselves."""
    return words.replace("{", "{{").replace("}", "}}")


def claim_of(relation: str, site: str) -> str:
    """The name of what a site claims of a relation."""
    return f"{relation}{_CLAIM}{site}"


def claimed(relation: str) -> tuple[str, str]:
    """The relation that a claim is about, and the site; the site is empty for what is no claim."""
    base, _, site = relation.partition(_CLAIM)
    return base, site


def is_claim(relation: str) -> bool:
    """Whether a relation is what some site claims."""
    return _CLAIM in relation


def as_claim(words: RelationWords, site: str) -> RelationWords:
    """The words of a relation as a site's saying."""
    return replace(
        words,
        subject=tuple(_said(clause, site) for clause in words.subject),
        object=tuple(_said(clause, site) for clause in words.object),
        noun=(),
        inquiry=(),
        is_numeric=False,
    )


def _said(clause: str, site: str) -> str:
    return f"{clause} (according to the {literally(site)})"
