"""What the words of a world's pages hold against a question: lines that give it away, and things that may be second answers.

A line that names all that a question names, and its answer, is a short cut: on a page that the question needs, the question is
spoilt; on any other page, that page can be hidden. A rival is a thing of the answer's kind that stands in one line with what
each fact about the answer names, on pages that a search for that fact finds; a page on a release speaks of that release in each
line. Names are compared by the words of their last part, releases by their versions.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sanderling.synth.graph.contract import Fact, Uniqueness
from sanderling.synth.graph.documents.lines import Lines, words_in
from sanderling.synth.graph.documents.named_things import NamedThings
from sanderling.synth.graph.documents.naming import last_part
from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.draft import Draft, Dropped
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.query import Node, object_of, subject_of
from sanderling.world.canonical import canonical_url

Search = Callable[[str], Sequence[str]]
"""From a query to the addresses of the best pages."""
_LONGEST_NAME = 8
"""Words of a name; a longer one is a quoted description, which one line alone has."""
_DOTTED = re.compile(r"[^\W\d][\w.]*(?:\(\))?")
_RELEASE = re.compile(r"(?:[^\W\d][\w+-]* ){0,2}v?(\d+(?:\.\d+)+)")
_MOST_HIDDEN = 20
_NEAR = 4
"""Lines before and after one."""


@dataclass
class Evidence:
    """Judges drafts by the words of pages; see the module."""

    ground: Ground
    lines: Lines
    search: Search
    _things: NamedThings = field(init=False, repr=False)
    _covered: dict[str, str] = field(init=False, repr=False)
    """Canonical address to the release that a page is about."""

    def __post_init__(self) -> None:
        entities = self.ground.graph.entities.items()
        self._things = NamedThings(self.lines, ((one.kind, words_of(one.name), id) for id, one in entities if one.kind))
        covers = [fact for fact in self.ground.graph.facts if fact.relation == Relation.COVERS]
        self._covered = {canonical_url(fact.url): fact.object for fact in covers}

    def verdict(self, draft: Draft) -> tuple[Draft, Uniqueness] | Dropped:
        """How sure it is that nothing else answers a draft, and the draft with what must be hidden from it."""
        needed = {canonical_url(fact.url) for fact in draft.facts}
        hidden: dict[str, None] = {}
        for line in self._shortcuts(draft):
            url = self.lines.page_of(line)
            if canonical_url(url) in needed:
                return Dropped.SHORTCUT
            hidden[url] = None
        if len(hidden) > _MOST_HIDDEN:
            return Dropped.SHORTCUT
        draft = replace(draft, hidden=tuple(hidden))
        if any(self._rivals(node, facts) for node, facts in draft.between):
            return Dropped.RIVAL
        if not draft.touching or self._is_value_of_many(draft):
            return draft, Uniqueness.UNCHECKED
        first = draft.touching[0]
        answer = next(node for node in (subject_of(first), object_of(first)) if self.ground.answers(node) == draft.answers)
        return Dropped.RIVAL if self._rivals(answer, draft.touching) else (draft, Uniqueness.SUPPORTED)

    def _is_value_of_many(self, draft: Draft) -> bool:
        """Whether the answer is a value of relations that may have several: no search is made for values."""
        return all(fact.is_literal and not self.ground.words.of(fact.relation).is_functional for fact in draft.touching)

    def _shortcuts(self, draft: Draft) -> list[int]:
        names = [words for name in draft.named if len(words := words_of(name)) <= _LONGEST_NAME]
        answers = draft.answers[:1] if draft.hops > 1 and draft.form in ("chain", "tree") else ()
        if not names or not answers or len(names) < len(draft.named):
            return []
        return self.lines.holding(frozenset().union(*names, words_of(answers[0])))

    def _rivals(self, answer: Node, facts: Sequence[Fact]) -> set[str]:
        """Things of the kind of what is told, be it the answer or on the way, that the words of pages do not tell from it."""
        left: set[str] | None = None
        for fact in facts:
            found = self._beside(answer, fact)
            if found is not None:
                left = found if left is None else left & found
            if left == set():
                break
        return left or set()

    def _beside(self, answer: Node, fact: Fact) -> set[str] | None:
        """What stands in one line with the other end of a fact; nothing where the relation has one object alone."""
        subject, object = subject_of(fact), object_of(fact)
        is_subject = subject == answer
        other = object if is_subject else subject
        if not is_subject and self.ground.words.of(fact.relation).is_functional:
            return set()
        kind = self.ground.kind(answer)
        told = self.ground.name(other) or self.ground.answers(other)[0]
        index = self.ground.index
        known = index.subjects[(fact.relation, object)] if is_subject else index.objects[(fact.relation, subject)]
        found = {node.id for node in known}
        if not is_subject and fact.url in self.ground.graph.entities[subject.id].pages:
            for line in self._around(fact):
                found |= self._things.on(line, kind) - self._told_otherwise(fact, line)
        for url in self.search(f"{told} {fact.relation} {kind}"):
            for line in self.lines.holding(words_of(told), self.lines.of_page(url)):
                found |= self._things.on(line, kind) | self._covered_by(url, kind)
        return found - {answer.id, other.id}

    def _covered_by(self, url: str, kind: str) -> set[str]:
        """The release that a page is about, if releases are looked for."""
        release = self._covered.get(canonical_url(url))
        return {release} if release is not None and self.ground.graph.entities[release].kind == kind else set()

    def _told_otherwise(self, fact: Fact, line: int) -> set[str]:
        """What a whole line was read to say of the same thing in another relation: "New in 3.2" tells of no change in 3.2."""
        words = self.lines.words(line)
        others = (one for one in self.ground.graph.outgoing[fact.subject] if one.relation != fact.relation)
        return {one.object for one in others if self.lines.numbers(words_in(one.quote)) == words}

    def _around(self, fact: Fact) -> range:
        """The lines of a definition near what it says of a fact: they may say the same of something else."""
        page = self.lines.of_page(fact.url)
        at = next(iter(self.lines.holding(words_in(fact.quote), page)), None)
        return range(0) if at is None else range(max(page.start, at - _NEAR), min(page.stop, at + _NEAR + 1))


def words_of(name: str) -> frozenset[str]:
    """The words of the last part of a name; of a release its version alone, which is all that most lines have of it."""
    if found := _RELEASE.fullmatch(name):
        return frozenset((found[1],))
    if _DOTTED.fullmatch(name):
        name = last_part(name) or name
    return frozenset(words_in(name))
