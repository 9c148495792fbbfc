"""The graph of a world of documents: every page is taken apart, and what its forms state becomes facts.

Two passes: the first finds what has a name (pages, definitions, sections, releases), the second what is said of it. A thing
is kept when a person can name it and something is said of it; a relation when it reads as a sentence. The graph is what was
understood, never all there is: ``complete`` is false.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from sanderling.synth.graph.contract import Entity, Fact, FactGraph
from sanderling.synth.graph.documents.blocks import lines_of
from sanderling.synth.graph.documents.kinds import most_often, noun_in, nouns_behind_links
from sanderling.synth.graph.documents.labels import definitions_in
from sanderling.synth.graph.documents.names_index import NamesIndex
from sanderling.synth.graph.documents.naming import Heading, key_of
from sanderling.synth.graph.documents.outline import Outline, Part, outline
from sanderling.synth.graph.documents.possible import Possible
from sanderling.synth.graph.documents.reading import Reader
from sanderling.synth.graph.documents.releases import Release, releases_in
from sanderling.world.canonical import canonical_url
from sanderling.world.contract import Page

_OF_TEXT = frozenset({"page", "section", "chapter", "appendix", "part"})
_FEWEST_LINKS = 3
"""By so many links is a small word known as a name, such as that of a built-in function."""
Progress = Callable[[int], None]


def documents_graph(pages: Iterable[Page], progress: Progress = lambda _: None) -> FactGraph:
    """The facts of a world's pages."""
    pages = list(pages)
    survey = _Survey()
    for page in pages:
        survey.links_of(page)
    outlines: list[Outline] = []
    for number, page in enumerate(pages):
        progress(number + 1)
        if found := outline(page, survey.confirmed):
            outlines.append(found)
    for found in outlines:
        survey.kinds_of(found)
    for found in outlines:
        survey.name_things(found)
    survey.tell_methods()
    kinds = {id: entity.kind for id, entity in survey.entities.items()}
    reader = Reader(survey.index, survey.releases, survey.version_of_page, kinds, survey.product(), survey.spread())
    for found in outlines:
        reader.read(found, survey.things_of[found.page.url])
    reader.finish()
    possible = Possible(survey.index, kinds, reader.release, survey.version_of_page, reader.facts, survey.spoken())
    for found in outlines:
        possible.read(found, survey.things_of[found.page.url])
    return _kept(survey, reader, possible.found())


@dataclass
class _Survey:
    """What has a name."""

    index: NamesIndex = field(default_factory=NamesIndex)
    entities: dict[str, Entity] = field(default_factory=dict)
    things_of: dict[str, dict[int, str]] = field(default_factory=dict)
    """Page to number of part to thing; -1 is the page itself."""
    releases: dict[str, Release] = field(default_factory=dict)
    """Version to release: those of the product that most pages tell of."""
    version_of_page: dict[str, str] = field(default_factory=dict)
    _anchors: Counter[tuple[str, str]] = field(default_factory=Counter)
    _headings: Counter[str] = field(default_factory=Counter)
    _kinds_of_form: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _nouns: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def links_of(self, page: Page) -> None:
        """Take in the names by which links lead to pages, and the nouns behind them."""
        for line in lines_of(page.text):
            for link in line.links:
                self._anchors[(canonical_url(link.url), key_of(link.words))] += 1
            for words, url, noun in nouns_behind_links(line):
                self._nouns[(canonical_url(url), key_of(words))].append(noun)

    def confirmed(self, url: str, name: str) -> bool:
        """See `outline.Confirmed`."""
        return self._anchors[(canonical_url(url), key_of(name))] >= (_FEWEST_LINKS if name[:1].islower() else 1)

    def kinds_of(self, found: Outline) -> None:
        """Take in all headings, and what kinds the pages of a folder are of, by those that links tell of."""
        heading = found.top.heading
        self._headings.update(key_of(part.heading.name) for part in (found.top, *found.parts) if part.heading)
        if heading and heading.gloss and (kind := most_often(self._nouns[_anchor(found)])):
            self._kinds_of_form[_folder(found)].append(kind)

    def _is_only(self, heading: Heading) -> bool:
        """Whether a numbered heading of one word is the only one of that name in all the world."""
        return bool(heading.number) and self._headings[key_of(heading.name)] == 1

    def name_things(self, found: Outline) -> None:
        """Give everything on a page that can be named its entity."""
        url = found.page.url
        things = self.things_of.setdefault(url, {})
        if found.top.heading is not None and found.top.heading.name:
            things[-1] = self._subject(found)
        counts = Counter(key_of(part.heading.name) for part in found.parts if part.heading)
        for number, part in enumerate(found.parts):
            if part.signatures:
                things[number] = self._definition(url, part)
            elif (
                part.heading
                and counts[key_of(part.heading.name)] == 1
                and (_is_title(part.heading.name) or self._is_only(part.heading))
            ):
                things[number] = self._section(url, part)
        lines = [*found.top.lines, *(line for part in found.parts[:3] for line in part.lines)]
        for release in releases_in(lines):
            self.releases.setdefault(release.version, release)
            if found.top.heading and found.top.heading.name.endswith(release.name):
                self.version_of_page[url] = release.version

    def _subject(self, found: Outline) -> str:
        heading, url = found.top.heading, found.page.url
        if heading is None:
            raise ValueError("an outline that is asked for its subject has a heading")
        kind = self._kind_beside(found) or most_often(self._nouns[_anchor(found)])
        if not kind:
            told = next((one for one in definitions_in(found.top.lines[:3]) if one.name == heading.name), None)
            kind = noun_in(told.what) if told else ""
        if not kind:
            kind = (heading.part or ("section" if "." in heading.number else "chapter")) if heading.number else "page"
        self.index.add_subject(url, heading.name, url)
        spoken = f"the {kind} “{heading.name}”" if kind in _OF_TEXT else f"the {heading.name} {kind}"
        self.entities[url] = Entity(url, heading.name, kind, (spoken,), (url,))
        return url

    def _kind_beside(self, found: Outline) -> str:
        """The kind of most pages in the same folder whose headings have the same form, "NAME — what it is"."""
        if found.top.heading is None or not found.top.heading.gloss:
            return ""
        return most_often(self._kinds_of_form[_folder(found)])

    def product(self) -> str:
        """What most releases are releases of; empty when none is said to be."""
        names = Counter(release.name.rpartition(" ")[0] for release in self.releases.values())
        return names.most_common(1)[0][0] if names else ""

    def spread(self) -> frozenset[str]:
        """What owns definitions on several pages: no page has them all."""
        pages: dict[str, set[str]] = defaultdict(set)
        for id, entity in self.entities.items():
            if "#" in id and (owner := entity.name.removesuffix("()").rpartition(".")[0]):
                pages[owner].add(entity.pages[0])
        return frozenset(owner for owner, urls in pages.items() if len(urls) > 1)

    def spoken(self) -> dict[str, str]:
        """What pages are about, as prose calls it, to its thing."""
        return {name.casefold(): url for url, one in self.entities.items() if "#" not in url for name in one.aliases}

    def _definition(self, url: str, part: Part) -> str:
        first = part.signatures[0]
        id = f"{url}#{first.name}"
        for signature in part.signatures:
            self.index.define(url, signature.name, id)
        kind = most_often(self._nouns[(canonical_url(url), key_of(first.name))]) or first.kind
        bare = first.name.removesuffix("()")
        others = (signature.name for signature in part.signatures[1:])
        aliases = tuple(name for name in (bare, bare.rpartition(".")[2], *others) if name != first.name)
        self.entities.setdefault(id, Entity(id, first.name, kind, tuple(dict.fromkeys(aliases)), (url,)))
        return id

    def tell_methods(self) -> None:
        """What looks like a function, "loop.call()", is a method where nothing that a page is about has its owner's name."""
        subjects = {entity.name for url, entity in self.entities.items() if "#" not in url}
        for id, entity in self.entities.items():
            owner = entity.name.rpartition(".")[0]
            if entity.kind == "function" and owner and "." not in owner and owner not in subjects:
                self.entities[id] = replace(entity, kind="method")

    def _section(self, url: str, part: Part) -> str:
        name = part.heading.name if part.heading else ""
        id = f"{url}#{name}"
        self.index.add(url, name, id)
        self.entities.setdefault(id, Entity(id, name, "section", (f"the section “{name}”",), (url,)))
        return id


def _anchor(found: Outline) -> tuple[str, str]:
    return canonical_url(found.page.url), key_of(found.top.heading.name if found.top.heading else "")


def _folder(found: Outline) -> str:
    return found.page.url.rpartition("/")[0]


def _is_title(name: str) -> bool:
    """Whether a section's heading can stand for it: two words and more."""
    return 2 <= len(name.split()) <= 10 and name[:1].isupper() and "⟦" not in name


def _kept(survey: _Survey, reader: Reader, possible: Iterable[Fact]) -> FactGraph:
    """The facts whose ends are all known, each once for each page that states it, and the entities that they join."""
    entities = {**survey.entities, **reader.entities}
    for id, (name, kind) in survey.index.standards.items():
        entities.setdefault(id, Entity(id, name, kind))
    facts: dict[Fact, None] = {}
    for fact in reader.facts:
        if fact.subject in entities and (fact.is_literal or fact.object in entities) and fact.subject != fact.object:
            facts[fact] = None
    doubts = tuple(dict.fromkeys(fact for fact in possible if fact.subject in entities and fact.object in entities))
    used = {fact.subject for fact in facts} | {fact.object for fact in facts if not fact.is_literal}
    used |= {end for fact in doubts for end in (fact.subject, fact.object)}
    names = {
        key_of(entities[id].name) for id in used
    }  # what nothing is said of, but has the name of something, makes it no name
    known = {id: entity for id, entity in entities.items() if id in used or key_of(entity.name) in names}
    return FactGraph(known, tuple(facts), possible=doubts)
