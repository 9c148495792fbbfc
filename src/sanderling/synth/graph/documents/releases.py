"""Releases: which one a definition is new in, when one came out, which page tells of it, and who contributed what.

Pure functions.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sanderling.synth.graph.documents.blocks import BlockKind, Line
from sanderling.synth.graph.documents.relations import Relation

_VERSION = r"v?(?P<version>\d+(?:\.\d+)+)"
_MARKERS = (
    (
        Relation.NEW,
        re.compile(
            rf"(?:New|Added|Introduced|Available) (?:in|since) (?:version |release )?{_VERSION}(?:\.?|: Previously\b.*)"
        ),
    ),
    (Relation.CHANGED, re.compile(rf"(?:Changed|New|Added) in (?:version |release )?{_VERSION}: .*")),
    (
        Relation.DEPRECATED,
        re.compile(
            rf"Deprecated (?:in|since) (?:version |release )?{_VERSION}(?:, will be removed in (?:version |release )?[\d.]+)?"
            r"(?:\.|: (?:Use|This|It|Will|Superseded|The [\w.]+ (?:module|package|class|function|method)) .*)?"
        ),
    ),
)
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = rf"(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?, \d{{4}}|\d{{1,2}} {_MONTH} \d{{4}}|\d{{4}}-\d{{2}}-\d{{2}})"
_RELEASED = re.compile(rf"\b(?P<name>[A-Z][A-Za-z]+(?: [A-Z][A-Za-z]+)?) {_VERSION} was released on (?P<date>{_DATE})")
_CREDIT = re.compile(r"\((?:Contributed|Patch|Written|Implemented) by (?P<people>[^();]+?)(?: in ⟦| and contributed|[;)]|$)")
_PERSON = re.compile(r"[A-Z][\w'’.-]+(?: (?:[A-Z][\w'’.-]*|van|von|de|der|di|da|al)){1,3}")
_ADDED = re.compile(r"^(?:Added |Add |The new |New |There is a new |A new )")
_THINGS = "(?:function|method|class|module|coroutine|coroutine method|context manager|decorator|exception|abstract base class)"
_SUBJECT = re.compile(
    rf"^(?:Added|Add|The|New|There is|A)(?: an?| the| new| public)*(?: {_THINGS})? ?⟦(\d+)⟧(?: {_THINGS})?"
    r"(?:\.|:| to (?!the\b|an?\b|C\b|⟦)[a-z]+| for |, (?:which|that|an?|the)\b"
    r"| (?:has been added|is|was|which|that|can|[a-z]+s)\b(?! (?:now|support)))"
)


@dataclass(frozen=True, slots=True)
class Release:
    """A named version and its day."""

    name: str
    version: str
    date: str
    quote: str


def marker_in(line: Line) -> tuple[Relation, str] | None:
    """The relation and version of a line such as "New in version 3.3."."""
    if line.kind is not BlockKind.PROSE:
        return None
    for relation, regex in _MARKERS:
        if found := regex.fullmatch(line.text):
            return relation, found["version"]
    return None


def releases_in(lines: Sequence[Line]) -> Iterator[Release]:
    """Releases with their days, as prose tells them."""
    for line in lines:
        for sentence in line.sentences():
            if found := _RELEASED.search(line.read(sentence)):
                yield Release(f"{found['name']} {found['version']}", found["version"], found["date"], line.read(sentence))


@dataclass(frozen=True, slots=True)
class Credit:
    """Who added what: the number of the link to it, and the people."""

    link: int
    people: tuple[str, ...]
    quote: str


def credit_in(line: Line) -> Credit | None:
    """What an entry of release notes credits to whom; None unless it tells of one new thing, and names people."""
    found = list(_CREDIT.finditer(line.marked))
    subject = _SUBJECT.match(line.marked)
    if len(found) != 1 or subject is None or not _ADDED.match(line.marked):
        return None
    people = tuple(part.strip().rstrip(".") for part in re.split(r",? and |, ", found[0]["people"]))
    if not all(_PERSON.fullmatch(name) for name in people):
        return None
    return Credit(int(subject[1]), people, line.text)
