"""What a page says of the things on it: each form of statement is read, and becomes facts with the page and its words.

Knows names through `NamesIndex`; makes the entities that only statements name (people, releases, rows of tables) itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sanderling.synth.graph.contract import Entity, Fact
from sanderling.synth.graph.documents.bare_names import with_bare_names
from sanderling.synth.graph.documents.blocks import BlockKind, Line, Link
from sanderling.synth.graph.documents.labels import cells_in, definitions_in, gloss_in, labels_in
from sanderling.synth.graph.documents.names_index import NamesIndex
from sanderling.synth.graph.documents.naming import is_telling, standard_in
from sanderling.synth.graph.documents.outline import Outline, Part
from sanderling.synth.graph.documents.patterns import introduces, stated
from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.documents.releases import Release, credit_in, marker_in
from sanderling.synth.graph.words.contract import claim_of

NOTES = "release notes"
_OF_PAGES = frozenset({Relation.REPLACED, Relation.SEE})
"""Relations that the opening of a page may state: its other sentences may be about anything."""
_RELATIONS = frozenset(str(relation) for relation in Relation)
_COUNTED = frozenset({"function", "class", "exception"})
"""Kinds of which a page that was wholly understood tells all there are; others it may list in tables or in passing."""
_LINES_OF_DEFINITION = 12
_CITING_LINES, _FEWEST_WORDS = 4, 5
_NOTICES = frozenset({"Note", "Warning", "Tip", "Caution", "Important", "Attention", "Example", "Examples", "Deprecated"})
_PERSONAL = frozenset({Relation.AUTHOR, Relation.EDITOR, Relation.CONTRIBUTOR, Relation.DEVELOPER})


def _is_term(line: Line) -> bool:
    """Whether a line is one word alone, as the name of an attribute is."""
    return line.kind is BlockKind.PROSE and bool(line.text) and " " not in line.text and line.text[-1] not in ".:;"


def _column(header: str) -> str:
    """The relation of a table's column: never one of those that pages state otherwise, whose words and rules are others."""
    name = header.lower().replace("(s)", "")
    return f"{name} column" if name in _RELATIONS else name


@dataclass
class Reader:
    """Collects facts page by page."""

    index: NamesIndex
    releases: Mapping[str, Release]
    version_of_page: Mapping[str, str]
    kinds: Mapping[str, str]
    """Of the things that have names."""
    product: str
    """What most releases are releases of."""
    spread: frozenset[str] = frozenset()
    """What owns definitions on several pages."""
    facts: list[Fact] = field(default_factory=list)
    entities: dict[str, Entity] = field(default_factory=dict)
    _numbers: dict[tuple[str, str], list[tuple[str | None, str]]] = field(default_factory=dict)
    """(site folder, number of a heading) to things, each with its page; None: what has no name of its own."""

    def read(self, found: Outline, things: Mapping[int, str]) -> None:
        """Read one page; ``things`` has the thing of each of its parts, -1 for the page itself."""
        page = found.page.url
        subject = things.get(-1)
        if subject is not None:
            self._about_page(found, subject)
        counted, is_below = self._counted(found, things), False
        for number, part in enumerate(found.parts):
            thing = things.get(number)
            is_below = is_below or part.heading is not None
            if found.top.heading and part.heading and part.heading.number.startswith(f"{found.top.heading.number}."):
                self._number(part, thing, page)
            if subject is not None and part.heading and is_telling(part.heading.name):
                self._value(subject, Relation.SECTION, part.heading.name, page, part.heading.name)
            if thing is None:
                self._credits(part.lines, page)
                continue
            # What stands in a lower section is not what a reader would call a part of this one.
            if subject is not None and part.signatures and not (is_below and self.kinds.get(subject) == "section"):
                is_counted = self.kinds.get(thing) in counted
                relation = (Relation.MEMBER if is_counted else Relation.LISTED) if found.is_whole else Relation.APPEARS
                self._add(thing, relation, subject, page, "")
            if part.signatures and not part.is_shared:
                following = found.parts[number + 1] if number + 1 < len(found.parts) else None
                self._about_definition(part, thing, page, ends=following is None or not following.signatures)
            elif part.heading:
                self._mentions(part.lines, thing, page)
            self._credits(part.lines, page)
        for part in (found.top, *found.parts):
            self._tables(part.lines, page)

    def _about_page(self, found: Outline, subject: str) -> None:
        page, top = found.page.url, found.top
        if top.heading and top.heading.gloss:
            self._value(subject, Relation.DESCRIPTION, top.heading.gloss, page, f"{top.heading.name} — {top.heading.gloss}")
        for told in labels_in(top.lines):
            for value in told.values:
                self._person(subject, told.relation, value, page, told.quote)
        for told in definitions_in(top.lines[:4]):
            if top.heading and told.name == top.heading.name:
                self._value(subject, Relation.DESCRIPTION, told.what, page, told.quote)
                if told.maker:
                    self._person(subject, Relation.DEVELOPER, told.maker, page, told.quote)
        if version := self.version_of_page.get(page):
            release = self.release(version)
            self._add(subject, Relation.COVERS, release, page, "")
            day = self.releases[version]
            self._value(release, Relation.RELEASED, day.date, page, day.quote)
        self._number(top, subject, page)
        self._statements(top.lines, subject, page)
        self._mentions(top.lines, subject, page)
        self._credits(top.lines, page)

    def _counted(self, found: Outline, things: Mapping[int, str]) -> frozenset[str]:
        """The kinds of which a page has all: each definition was taken for what its line says, and none is another's."""
        name = found.top.heading.name if found.top.heading else ""
        doubted: set[str] = set(_COUNTED) if name in self.spread else set()
        for number, part in enumerate(found.parts):
            if not part.signatures:
                continue
            told, kind = part.signatures[0].kind, self.kinds.get(things.get(number, ""), "")
            if told != kind and not (told == "function" and kind == "method"):
                doubted |= {told, kind}
            if kind == "function" and part.signatures[0].name.rpartition(".")[0] not in ("", name):
                doubted.add(kind)
        return _COUNTED - doubted

    def _about_definition(self, part: Part, thing: str, page: str, *, ends: bool) -> None:
        """``ends``: nothing is defined behind it, so that versions there may be those of what it is a part of."""
        if gloss := gloss_in(part.lines):
            self._value(thing, Relation.DESCRIPTION, gloss[0], page, gloss[1])
        lines = [line for line in part.lines if line.kind is not BlockKind.CODE][:_LINES_OF_DEFINITION]
        for told in labels_in(lines):
            if told.relation is Relation.AVAILABLE:
                self._value(thing, told.relation, told.values[0], page, told.quote)
        self._statements([line for line in lines if not (ends and marker_in(line))], thing, page)

    def _statements(self, lines: Sequence[Line], thing: str, page: str) -> None:
        """Versions, what sentences state, what is recommended for reading, standards."""
        reads_on, is_about_other = 0, False  # lines that may still come before the next recommendation
        for place, line in enumerate(lines):
            is_about_other = is_about_other or (thing == page and _is_term(line) and line.text not in _NOTICES)
            if marker := marker_in(line):
                relation, version = marker
                # Behind a member of the page without a name of its own, or of something on the page: a page says of itself what
                # it is new in, and hardly ever what changed it.
                if is_about_other or (thing == page and relation is Relation.CHANGED):
                    continue
                self._add(thing, relation, self.release(version), page, line.text)
                if relation is not Relation.DEPRECATED:
                    continue
            if thing != page and _is_term(line) and line.text not in _NOTICES:
                break  # a member without a name of its own, and what follows is about that
            if line.text == "See also":
                if thing != page:
                    break  # behind a definition it may be the page's own
                reads_on = 1
                continue
            if line.kind is BlockKind.CODE:
                continue
            if reads_on and line.marked.startswith(("⟦", "Module ⟦")):
                is_subject = line.marked.startswith("Module")
                target = self.index.resolve(line.links[0]) or (self.index.subject(line.links[0].url) if is_subject else None)
                if target is not None:
                    self._add(thing, Relation.SEE, target, page, line.text)
                reads_on = 2  # what it is may stand between it and the next
                continue
            reads_on = max(reads_on - 1, 0)
            line = line if thing == page else with_bare_names(line, page, self.index)
            sentences = list(line.sentences())
            if thing != page and any(introduces(sentence) for sentence in sentences):
                break  # what is defined next
            for sentence in sentences:
                for told in stated(sentence):
                    if thing == page and told.pattern.relation not in _OF_PAGES:
                        continue
                    target = self.index.resolve(line.links[told.link])
                    if target and told.pattern.fits(self.kinds.get(thing, ""), self.kinds.get(target, "")):
                        self._add(thing, told.pattern.relation, target, page, line.read(sentence))
                for link in line.links if thing != page or place < _CITING_LINES else ():
                    if standard_in(link.words) and f"⟦{line.links.index(link)}⟧" in sentence:
                        self._to_link(thing, Relation.CITES, link, page, line.read(sentence))

    def _mentions(self, lines: Sequence[Line], thing: str, page: str) -> None:
        """Prose that sends its reader to another page by that page's own title."""
        for line in lines:
            if line.kind is not BlockKind.PROSE:
                continue
            for sentence in line.sentences():
                if not sentence.endswith(".") or len(sentence.split()) < _FEWEST_WORDS:
                    continue
                for number, link in enumerate(line.links):
                    target = self.index.resolve(link) if f"⟦{number}⟧" in sentence else None
                    is_section = target is not None and self.kinds.get(target) == "section"
                    if target is None or len(link.words.split()) < 2 or target == thing:
                        continue
                    if is_section or self.index.subject(link.url) == target:
                        self._add(thing, Relation.REFERS, target, page, line.read(sentence))

    def _credits(self, lines: Sequence[Line], page: str) -> None:
        for line in lines:
            credit = credit_in(line)
            thing = self.index.resolve(line.links[credit.link]) if credit else None
            if credit is None or thing is None:
                continue
            for name in credit.people:
                self._person(thing, Relation.CONTRIBUTOR, name, page, credit.quote)
            if version := self.version_of_page.get(page):
                self._add(thing, claim_of(Relation.NEW, NOTES), self.release(version), page, credit.quote)

    def _tables(self, lines: Sequence[Line], page: str) -> None:
        for cell in cells_in(lines):
            id = f"{page}#{cell.subject_header}#{cell.subject}"
            self.entities.setdefault(id, Entity(id, cell.subject, cell.subject_header.lower().removesuffix("(s)"), (), (page,)))
            self._value(id, _column(cell.header), cell.value, page, cell.quote)

    def _number(self, part: Part, thing: str | None, page: str) -> None:
        """Remember the number of a section for `finish`."""
        if part.heading is not None and part.heading.number:
            self._numbers.setdefault((page.rpartition("/")[0], part.heading.number), []).append((thing, page))

    def finish(self) -> None:
        """Join numbered sections to what their numbers begin with, where one thing alone has each number."""
        single = {key: (one[0][0], one[0][1]) for key, one in self._numbers.items() if len(one) == 1 and one[0][0] is not None}
        below: dict[tuple[str, str], list[str]] = {}
        for folder, number in self._numbers:
            above, _, last = number.rpartition(".")
            if (folder, above) in single:
                below.setdefault((folder, above), []).append(last)
        for (folder, above), lasts in below.items():
            named = [last for last in lasts if (folder, f"{above}.{last}") in single]
            is_whole = set(named) == {str(number + 1) for number in range(len(lasts))}
            for last in named:
                thing, page = single[(folder, f"{above}.{last}")]
                self._add(thing, Relation.PART if is_whole else Relation.WITHIN, single[(folder, above)][0], page, "")

    def _to_link(self, thing: str, relation: Relation, link: Link, page: str, quote: str) -> None:
        target = self.index.resolve(link)
        if target is not None:
            self._add(thing, relation, target, page, quote)

    def release(self, version: str) -> str:
        id = f"release {version}"
        name = f"{self.product} {version}" if self.product else f"version {version}"
        self.entities.setdefault(id, Entity(id, name, "release", (version,)))
        return id

    def _person(self, thing: str, relation: Relation, name: str, page: str, quote: str) -> None:
        if relation not in _PERSONAL:
            self._value(thing, relation, name, page, quote)
            return
        kind = "organisation" if relation is Relation.DEVELOPER else "person"
        id = f"{kind} {name}"
        self.entities.setdefault(id, Entity(id, name, kind))
        self._add(thing, relation, id, page, quote)

    def _add(self, subject: str, relation: str, object: str, page: str, quote: str) -> None:
        self.facts.append(Fact(subject, str(relation), object, False, page, quote))

    def _value(self, subject: str, relation: str, value: str, page: str, quote: str) -> None:
        self.facts.append(Fact(subject, str(relation), value, True, page, quote))
