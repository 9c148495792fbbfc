"""How relations are put into words, in either direction.

A wording of a fact is a relative clause that begins with its pronoun, so that it can follow any noun: "the town *that is home
to {s}*", "a person *whose teacher was {o}*". `relations.toml` has the wordings of the generated encyclopedia's relations; any
other relation, such as one that a model named, gets plain ones made from its name.

What another site claims of a relation is a relation of its own, ``NAME@SITE``, with the same clauses and the site behind them:
"a person whose teacher was {o} (according to the gazette)".
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from sanderling.core.config import Frozen

_CLAIM = "@"


class RelationWords(Frozen):
    """The wordings of one relation; ``{s}`` stands for a fact's subject, ``{o}`` for its object."""

    subject: tuple[str, ...]
    """Clauses that describe the subject, given the object."""
    object: tuple[str, ...]
    """Clauses that describe the object, given the subject."""
    noun: tuple[str, ...] = ()
    """Noun phrases for the object, given the subject: "the home town of {s}"."""
    value: str = "value"
    """What kind of thing a literal object is: "year", "product"."""
    inquiry: tuple[str, ...] = ()
    """Questions for a literal object, given the subject: "In which year did {s} begin?"."""
    is_numeric: bool = False
    """Whether literal objects are numbers that may be compared and subtracted."""


class RelationBook:
    """The wordings of every relation: those of a table, and plain ones for all others."""

    def __init__(self, table: Mapping[str, RelationWords] | None = None) -> None:
        self._words = dict(table or {})

    def __getitem__(self, relation: str) -> RelationWords:
        if relation not in self._words:
            base, site = split_claim(relation)
            self._words[relation] = _as_claim(self[base], site) if site else plain_words(relation)
        return self._words[relation]


def encyclopedia_words() -> RelationBook:
    """The wordings of the generated encyclopedia's relations."""
    text = Path(__file__).with_name("relations.toml").read_text(encoding="utf-8")
    return RelationBook({name: RelationWords.model_validate(words) for name, words in tomllib.loads(text).items()})


def plain_words(relation: str) -> RelationWords:
    """Wordings made of a relation's name alone.

    Example: ``plain_words("birth_place").noun == ("the birth place of {s}",)``
    """
    value = " ".join(relation.replace("_", " ").replace("-", " ").split()).lower()
    label = escaped(value)
    return RelationWords(
        subject=(f"whose {label} is {{o}}",),
        object=(f"that is the {label} of {{s}}",),
        noun=(f"the {label} of {{s}}",),
        value=value,
        inquiry=(f"What is the {label} of {{s}}?",),
    )


def escaped(words: str) -> str:
    """Words as a part of a wording: braces stand for themselves."""
    return words.replace("{", "{{").replace("}", "}}")


def claim_of(relation: str, site: str) -> str:
    """The name of what a site claims of a relation."""
    return f"{relation}{_CLAIM}{site}"


def split_claim(relation: str) -> tuple[str, str]:
    """The relation that a claim is about, and the site; no site for what is no claim.

    Example: ``split_claim("mayor@gazette") == ("mayor", "gazette")``
    """
    base, _, site = relation.partition(_CLAIM)
    return base, site


def is_claim(relation: str) -> bool:
    """Whether a relation is what some other site claims."""
    return _CLAIM in relation


def _as_claim(words: RelationWords, site: str) -> RelationWords:
    said = f" (according to the {escaped(site)})"
    return RelationWords(
        subject=tuple(clause + said for clause in words.subject),
        object=tuple(clause + said for clause in words.object),
        value=words.value,
    )
