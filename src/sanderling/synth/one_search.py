"""An agent that answers after one search: how far do titles and snippets carry? The floor that a multi-hop question must keep.

It is as strong as reading one list of results can make it: it knows how questions and pages of the encyclopedia are worded,
takes the question apart into a named entity and relations, follows them through every sentence shown, prefers the site that is
right, and otherwise guesses a candidate of the answer's kind. It knows no fact of the world beyond what the list shows.

A text-level policy for the one agent loop, in the words of profile ``tiny``.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sanderling.core.types import Message
from sanderling.policy.contract import SampleKey, ScriptedPolicy
from sanderling.world.encyclopedia import (
    CODAS,
    EVENT_FORMS,
    GOODS,
    OCCUPATIONS,
    ONSETS,
    ORGANISATION_FORMS,
    QUESTION_FORMS,
    RELATIONS,
    SHARES,
    VOWELS,
    WORK_FORMS,
    YEARS,
    Kind,
    Relation,
    Site,
)

_CAPITAL, _SYLLABLE = (
    f"[{''.join(onsets)}][{''.join(VOWELS)}][{''.join(CODAS)}]" for onsets in (map(str.upper, ONSETS), ONSETS)
)
_WORD = rf"{_CAPITAL}{_SYLLABLE}\b"
"""The invented word in every name: other capitalised words are not taken for it."""
_NOT_OF_ANOTHER_KIND = "".join(f"(?<!{before} )" for before in (*OCCUPATIONS, *(f"{form} of" for form in WORK_FORMS)))
_NOT_OF_A_LONGER_NAME = rf"(?! \(| (?:{'|'.join((*ORGANISATION_FORMS, *EVENT_FORMS))}))"
_MENTIONS: dict[Kind, str] = {
    Kind.PERSON: rf"[Tt]he (?:{'|'.join(OCCUPATIONS)}) {_WORD}",
    Kind.ORGANISATION: rf"[Tt]he {_WORD} (?:{'|'.join(ORGANISATION_FORMS)})",
    Kind.WORK: rf"[Tt]he (?:{'|'.join(WORK_FORMS)}) of {_WORD}",
    Kind.EVENT: rf"[Tt]he {_WORD} (?:{'|'.join(EVENT_FORMS)})",
    Kind.PLACE: rf"{_NOT_OF_ANOTHER_KIND}{_WORD}{_NOT_OF_A_LONGER_NAME}",
    Kind.YEAR: r"1[89]\d\d",
    Kind.GOODS: "|".join(GOODS),
}
"""How pages and questions speak of a thing of each kind."""
_TRUST = tuple(site.value for site in (Site.ATLAS, Site.ARCHIVE, Site.GAZETTE))
_ENTRY = re.compile(r"^\[\d+\] (.+)\n(https://\S+)\n(.*)$", re.MULTILINE)
"""A result in a list: title, address, snippet."""
_PARTING = {Kind.YEAR: YEARS[len(YEARS) // 2], Kind.GOODS: GOODS[0]}
"""Guesses when nothing of the kind is shown."""


class Query(StrEnum):
    """What the one search asks for."""

    QUESTION = "question"
    """The question's own text."""
    NAME = "name"
    """The entity that the question names."""


class Asked(NamedTuple):
    """A question taken apart: how it mentions the named entity, and the relations from there outwards."""

    start: str
    relations: tuple[Relation, ...]


class Shown(NamedTuple):
    """One sentence of a result, read: the page's entity as pages mention it, and what it says of it."""

    subject: str
    relation: str
    value: str


def take_apart(text: str) -> Asked | None:
    """The named entity and the relations of a question; None where the wording is unknown."""
    forms = sorted({form for kind_forms in QUESTION_FORMS.values() for form in kind_forms}, key=len, reverse=True)
    phrase = next((found[1] for form in forms if (found := _unwrap(form, "{np}", text))), None)
    relations: list[Relation] = []
    while phrase is not None:
        below = [
            (relation, found[1]) for relation in RELATIONS for w in relation.questions if (found := _unwrap(w, "{x}", phrase))
        ]
        if not below:
            break
        relation, phrase = below[0]
        relations.append(relation)
    return Asked(phrase, tuple(reversed(relations))) if phrase is not None and relations else None


def read_results(observation: str) -> list[Shown]:
    """What the list of results says in so many words, the most trustworthy site first."""

    def rank(url: str) -> int:
        return next((place for place, site in enumerate(_TRUST) if url.startswith(site)), len(_TRUST))

    return [
        Shown(mention_of(title), relation.name, value)
        for title, _, snippet in sorted(_ENTRY.findall(observation), key=lambda entry: rank(entry[1]))
        for sentence in re.split(r"(?<=\.) ", snippet)
        for relation in RELATIONS
        for wording in relation.pages
        if (value := _object(wording, relation.object, sentence)) is not None
    ]


def best_guess(asked: Asked, observation: str) -> str:
    """The answer: a whole chain of sentences; else what is said of the last relation; else the commonest candidate."""
    shown = read_results(observation)
    at, passed = asked.start, [asked.start]
    for depth, relation in enumerate(asked.relations):
        value = next((fact.value for fact in shown if (fact.subject, fact.relation) == (at, relation.name)), None)
        if value is None:
            break
        if depth + 1 == len(asked.relations):
            return bare(value)
        at = value
        passed.append(at)
    last = asked.relations[-1]
    said = [fact.value for fact in shown if fact.relation == last.name and fact.value not in passed]
    candidates = said or _candidates(last.object, observation, passed)
    if candidates:
        return bare(Counter(candidates).most_common(1)[0][0])
    return _PARTING.get(last.object, bare(asked.start))


def mention_of(title: str) -> str:
    """How pages speak of the entity of this title."""
    person = re.fullmatch(r"(.+) \((.+)\)", title)
    if person:
        return f"the {person[2]} {person[1]}"
    return title if " " not in title else f"the {title}"


def bare(mention: str) -> str:
    """The name alone, as an answer."""
    return re.sub(rf"^the (?:(?:{'|'.join(OCCUPATIONS)}) )?", "", mention, flags=re.IGNORECASE)


class OneSearchPolicy(ScriptedPolicy):
    """Searches once, then answers.

    Example: ``OneSearchPolicy(Query.QUESTION)``; an `agent.agent.Agent` runs it over a world's tools.
    """

    def __init__(self, query: Query = Query.QUESTION) -> None:
        super().__init__(self._reply, name=f"one-search-{query}")
        self._query = query

    def _reply(self, messages: Sequence[Message], key: SampleKey) -> str:
        asked = take_apart(messages[1].content)
        if len(messages) == 2:
            query = bare(asked.start) if asked is not None and self._query is Query.NAME else messages[1].content
            body = json.dumps({"name": "search", "arguments": {"query": [query]}}, ensure_ascii=False)
            return f"<think>\nOne search must do.\n</think>\n<tool_call>\n{body}\n</tool_call>"
        guess = "unknown" if asked is None else best_guess(asked, messages[-1].content)
        return f"<think>\nThat is my best guess.\n</think>\n<answer>{guess}</answer>"


def _unwrap(wording: str, hole: str, text: str) -> re.Match[str] | None:
    before, after = (re.escape(part) for part in wording.split(hole))
    return re.fullmatch(f"{before}(.+){after}", text)


def _object(wording: str, kind: Kind, sentence: str) -> str | None:
    """The object that a sentence of this wording gives; the subject is the page's own."""
    pattern = re.escape(wording).replace(r"\{o\}", f"(?P<o>{_MENTIONS[kind]})").replace(r"\{s\}", r"[^.]+?")
    found = re.fullmatch(pattern, sentence) or re.fullmatch(pattern, sentence[:1].lower() + sentence[1:])
    return None if found is None else re.sub("^The ", "the ", found["o"])


def _candidates(kind: Kind, observation: str, passed: Sequence[str]) -> list[str]:
    """Everything of this kind that titles and snippets show, in order, the question's own entity apart."""
    texts = [text for title, _, snippet in _ENTRY.findall(observation) for text in (mention_of(title), snippet)]
    if kind is Kind.PLACE:  # a name word that stands alone, and is not a longer name cut short
        longer = [
            pattern.removeprefix("[Tt]he ") for other, pattern in _MENTIONS.items() if other in SHARES and other is not kind
        ]
        texts = [re.sub("|".join([*longer, f"{_WORD} …"]), " ", text) for text in texts]
    found = [re.sub("^The ", "the ", match) for text in texts for match in re.findall(rf"\b(?:{_MENTIONS[kind]})\b", text)]
    return [mention for mention in found if mention not in passed]
