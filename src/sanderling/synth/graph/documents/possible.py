"""What pages may say besides what was read: no question rests on it, but it counts as a second answer.

Five kinds: what a page's parts refer to, it refers to as well; any box of "See also" may be the page's; a version mark that may
belong to several definitions may be each one's; what a heading on the page of a release names may be new in it; all names of a
class have its bases. Makes no entity but releases.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sanderling.synth.graph.contract import Fact
from sanderling.synth.graph.documents.blocks import Line, Link
from sanderling.synth.graph.documents.names_index import NamesIndex
from sanderling.synth.graph.documents.outline import Outline, Part
from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.documents.releases import marker_in

_OF_TEXT = frozenset({"page", "section", "chapter", "appendix", "part"})
_SPOKEN = re.compile(r"\bthe \S+ \w+", re.IGNORECASE)
_ONCE = frozenset({Relation.NEW, Relation.DEPRECATED})
"""What a thing with a mark of its own is not besides."""


@dataclass
class Possible:
    """Collects what may hold, page by page."""

    index: NamesIndex
    kinds: Mapping[str, str]
    release: Callable[[str], str]
    """From a version to its thing."""
    version_of_page: Mapping[str, str]
    stated: Sequence[Fact]
    """All that was read."""
    spoken: Mapping[str, str]
    """What pages are about, as prose calls it, to its thing."""
    _found: dict[Fact, None] = field(default_factory=dict)
    _marked: frozenset[tuple[str, str]] = field(init=False, repr=False)
    """Things and relations to a release that were read."""

    def __post_init__(self) -> None:
        self._marked = frozenset((fact.subject, fact.relation) for fact in self.stated)

    def read(self, found: Outline, things: Mapping[int, str]) -> None:
        """Read one page; ``things`` as for `reading.Reader.read`."""
        page, subject = found.page.url, things.get(-1)
        open_sections: list[tuple[int, str | None]] = []
        for number, part in enumerate((found.top, *found.parts), -1):
            if part.heading and number >= 0:
                while open_sections and open_sections[-1][0] >= part.level:
                    open_sections.pop()
                open_sections.append((part.level, things.get(number)))
                self._announced(part.heading.name, page)
            around = (subject, *(thing for _, thing in open_sections), things.get(number))
            self._referred(part.lines, {thing for thing in around if thing is not None}, page)
            if subject is not None:
                self._boxes(part.lines, subject, page)
        self._marks(found, things)

    def found(self) -> Iterable[Fact]:
        """All of it, once every page was read."""
        self._of_parts()
        self._of_aliases()
        return self._found

    def _add(self, subject: str, relation: str, object: str, page: str, quote: str) -> None:
        if subject != object:
            self._found[Fact(subject, str(relation), object, False, page, quote)] = None

    def _target(self, link: Link) -> str | None:
        """What a link means; where its words name nothing of its page, the page."""
        return self.index.resolve(link) or self.index.subject(link.url)

    def _referred(self, lines: Sequence[Line], things: set[str], page: str) -> None:
        for line in lines:
            for link in line.links:
                target = self._target(link)
                is_titled = target == self.index.subject(link.url) and len(link.words.split()) > 1
                if target is not None and (is_titled or self.kinds.get(target) in _OF_TEXT):
                    for thing in things:
                        self._add(thing, Relation.REFERS, target, page, line.text)

    def _boxes(self, lines: Sequence[Line], subject: str, page: str) -> None:
        """What is named in the boxes of a part, up to two lines behind one that begins with a link."""
        reads_on = 0
        for line in lines:
            if line.text.rstrip(":") == "See also":
                reads_on = 2
                continue
            if reads_on and line.links:
                reads_on = 3 if line.marked.startswith(("⟦", "Module ⟦")) else reads_on
                for link in line.links:
                    if (target := self._target(link)) is not None:
                        self._add(subject, Relation.SEE, target, page, line.text)
            reads_on = max(reads_on - 1, 0)

    def _announced(self, heading: str, page: str) -> None:
        """A heading on the page of a release that names what some page is about: it may have been new there."""
        version = self.version_of_page.get(page)
        for name in _SPOKEN.findall(heading) if version else ():
            thing = self.spoken.get(name.casefold())
            if version and thing:
                self._add(thing, Relation.NEW, self.release(version), page, heading)

    def _marks(self, found: Outline, things: Mapping[int, str]) -> None:
        parts = found.parts
        everything = range(len(parts))
        self._may_be_of(found.top, (), everything, found, things)
        for number, part in enumerate(parts):
            if part.heading is not None:
                below = (at for at in everything[number + 1 :] if parts[at].heading and parts[at].level <= part.level)
                self._may_be_of(part, (number,), range(number + 1, next(below, len(parts))), found, things)
                continue
            is_last = number + 1 == len(parts) or parts[number + 1].heading is not None
            first = next((at + 1 for at in reversed(range(number)) if parts[at].heading is not None), 0)
            self._may_be_of(part, (number,), range(first, number) if is_last else range(0), found, things)

    def _may_be_of(
        self, part: Part, own: Iterable[int], others: Iterable[int], found: Outline, things: Mapping[int, str]
    ) -> None:
        """Let the marks of a part be its own, or those of definitions beside it."""
        numbers = (*own, *(at for at in others if found.parts[at].signatures))
        for line in part.lines:
            if marker := marker_in(line):
                relation, version = marker
                release = self.release(version)
                for thing in (things.get(number) for number in numbers):
                    if thing is not None and not (relation in _ONCE and (thing, str(relation)) in self._marked):
                        self._add(thing, relation, release, found.page.url, line.text)

    def _of_parts(self) -> None:
        """What a section refers to, what it is a part of refers to as well."""
        above = {one.subject: one.object for one in self.stated if one.relation in (Relation.PART, Relation.WITHIN)}
        for fact in [one for one in (*self.stated, *self._found) if one.relation == Relation.REFERS]:
            whole = above.get(fact.subject)
            while whole is not None:
                self._add(whole, Relation.REFERS, fact.object, fact.url, fact.quote)
                whole = above.get(whole)

    def _of_aliases(self) -> None:
        """All names of a class have the base classes of each."""
        groups: dict[str, set[str]] = {}
        for fact in self.stated:
            if fact.relation == Relation.ALIAS and not fact.is_literal:
                joined = groups.get(fact.subject, {fact.subject}) | groups.get(fact.object, {fact.object})
                groups.update(dict.fromkeys(joined, joined))
        for fact in self.stated:
            if fact.relation == Relation.SUBCLASS:
                for alias in sorted(groups.get(fact.subject, ())):
                    self._add(alias, Relation.SUBCLASS, fact.object, fact.url, fact.quote)
