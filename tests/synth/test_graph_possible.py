"""What may hold besides what was read: it makes no question, and every question that it would make ambiguous is not asked."""

import random
from dataclasses import replace

import pytest

from sanderling.synth.graph.capabilities.statistics import statistics
from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph, Uniqueness
from sanderling.synth.graph.documents.evidence import Evidence
from sanderling.synth.graph.documents.graph import documents_graph
from sanderling.synth.graph.documents.lines import Lines
from sanderling.synth.graph.documents.patterns import introduces
from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import is_unique
from sanderling.synth.graph.making import Wish, make
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.sampling import Subgraph
from sanderling.synth.graph.tree import chain_of
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.contract import Page

BASE = "https://docs.example/"


def page(name: str, text: str) -> Page:
    return Page(url=BASE + name, title=name, text=text)


def link(words: str, name: str) -> str:
    return f"[{words}]({BASE}{name})"


def told(graph: FactGraph, relation: Relation, *, possible: bool = False) -> set[tuple[str, str]]:
    """Names of subjects and objects."""
    name = {id: one.name for id, one in graph.entities.items()}
    facts = graph.possible if possible else graph.facts
    return {(name[one.subject], name[one.object]) for one in facts if one.relation == relation}


HULLS = page(
    "hulls", "# 2. Hulls\n\n## 2.1. Hulls of Oak\n\nFine.\n\n## 2.2. Hulls of Pine\n\nCheap.\n\n## 2.3. Tar\n\nSticky.\n"
)
TAR = page("tar", "# The Tar Page\n\n## Tar\n\nMore of it.\n")


def test_sections_are_whole_only_where_each_has_a_name_of_its_own() -> None:
    assert len(told(documents_graph([HULLS]), Relation.PART)) == 3
    shared = documents_graph([HULLS, TAR])
    assert told(shared, Relation.PART) == set()
    assert told(shared, Relation.WITHIN) == {("Hulls of Oak", "Hulls"), ("Hulls of Pine", "Hulls")}


def counted(*kinds: str, possible: tuple[Fact, ...] = ()) -> Draft | Dropped:
    """The count of what stands directly in a chapter that a page refers to."""
    things = [Entity(f"s{number}", f"Part {number}", kind) for number, kind in enumerate(kinds)]
    others = [Entity("c", "Hulls", "chapter"), Entity("p", "Sailing", "page"), Entity("a", "Bo", "person")]
    parts = [Fact(one.id, str(Relation.PART), "c", False, BASE + one.id) for one in things]
    way = [Fact("p", str(Relation.REFERS), "c", False, BASE + "p"), Fact("p", str(Relation.AUTHOR), "a", False, BASE + "a")]
    graph = FactGraph({one.id: one for one in (*things, *others)}, (*parts, *way), possible=possible)
    ground = Ground.of(graph, RelationBook(DOCUMENTS))
    for seed in range(40):
        found = statistics(ground, Subgraph((Node("c"),), ()), Range(2, 4), random.Random(seed))
        if isinstance(found, Draft):
            return found
    return Dropped.NO_SHAPE


def test_a_section_that_was_taken_for_another_kind_is_not_left_out_of_a_count() -> None:
    found = counted("section", "section", "section")
    assert isinstance(found, Draft)
    assert found.answers[0] == "3"
    assert counted("section", "section", "protocol") is Dropped.NO_SHAPE


def test_a_count_has_no_members_that_are_only_possible() -> None:
    more = Fact("p", str(Relation.PART), "c", False, BASE + "p")
    assert counted("section", "section", possible=(more,)) is Dropped.NO_SHAPE


@pytest.mark.parametrize(
    ("more", "relation"),
    [
        ("", Relation.MEMBER),
        ("boats.wreck(hull)\n\n## Wrecks of Old\n\nThere are many.\n", Relation.APPEARS),
        ("other.wreck(hull)\n\nWreck a hull of a boat.\n", Relation.MEMBER),
        ("boats.keel.cut(hull)\n\nCut the keel of a hull.\n", Relation.LISTED),
    ],
)
def test_functions_are_counted_only_where_all_are_the_pages_own_and_understood(more: str, relation: Relation) -> None:
    text = "# boats — Boats\n\nboats.hull()\n\nReturn the hull of it.\n\nboats.mast()\n\nReturn the mast of it.\n\n"
    keel = page("keel", "# boats.keel — Keels\n\nIt has nothing.\n")
    graph = documents_graph([page("boats", text + more), keel])
    assert ("boats.hull()", "boats") in told(graph, relation)


def test_what_owns_definitions_on_two_pages_is_not_counted() -> None:
    first = page("boats", "# boats — Boats\n\nboats.hull()\n\nReturn the hull of it.\n")
    other = page("more", "# More Boats\n\nboats.mast()\n\nReturn the mast of it.\n")
    assert told(documents_graph([first]), Relation.MEMBER) == {("boats.hull()", "boats")}
    assert ("boats.hull()", "boats") not in told(documents_graph([first, other]), Relation.MEMBER)


def test_one_level_is_said_to_be_one() -> None:
    for relation in (Relation.PART, Relation.WITHIN):
        assert all("direct" in clause for clause in (*DOCUMENTS[relation].subject, *DOCUMENTS[relation].object))


def test_a_chapter_is_no_section_and_a_section_documents_what_stands_in_none_of_its_own() -> None:
    body = "boats.hull()\n\nReturn the hull of it.\n\n## {}. Masts of Wood\n\nboats.mast()\n\nReturn the mast of it.\n"
    chapter = documents_graph([page("boats", "# 3. Boats of Wood\n\n" + body.format("3.1"))])
    section = documents_graph([page("boats", "# 3.1. Boats of Wood\n\n" + body.format("3.1.1"))])
    assert chapter.entities[BASE + "boats"].kind == "chapter"
    assert section.entities[BASE + "boats"].kind == "section"
    placed = [
        {one.subject.partition("#")[2] for one in graph.facts if one.object == BASE + "boats"} for graph in (chapter, section)
    ]
    assert {"boats.hull()", "boats.mast()"} <= placed[0]
    assert "boats.hull()" in placed[1] and "boats.mast()" not in placed[1]


SEA = page(
    "sea",
    f"# sea — The sea\n\nSee also\n\nModule {link('tide', 'tide')}\n\nAll about it.\n\n## Storms of the Sea\n\n"
    f"They are rare.\n\nSee also\n\nModule {link('wind', 'wind')}\n\nsea.calm()\n\n"
    f"Wait for calm, see {link('Rules of the Sea', 'rules')}.\n",
)
NAMED = [
    page(name, f"# {name} — The {name}\n\nclass {name}.{name.title()}\n\nA {name} of a day.\n") for name in ("tide", "wind")
]
RULES = page("rules", "# Rules of the Sea\n\nKeep off.\n")


def test_every_box_may_be_the_pages_and_a_module_is_one_beside_a_class_of_its_name() -> None:
    graph = documents_graph([SEA, *NAMED, RULES])
    assert told(graph, Relation.SEE) == {("sea", "tide")}
    assert told(graph, Relation.SEE, possible=True) == {("sea", "tide"), ("sea", "wind")}
    facts = [one for one in graph.facts if one.relation == Relation.SEE]
    chain = chain_of([Node(BASE + "tide"), Node(BASE + "sea")], facts)
    assert not is_unique(Ground.of(graph, RelationBook(DOCUMENTS)), chain)
    assert is_unique(Ground.of(replace(graph, possible=()), RelationBook(DOCUMENTS)), chain)


def test_what_a_definition_refers_to_its_section_and_page_and_chapter_do() -> None:
    text = f"# 4.1. Storms\n\n## 4.1.1. Calm after Storms\n\nstorms.calm()\n\nWait, see {link('Rules of the Sea', 'rules')}.\n"
    graph = documents_graph([page("part", "# 4. The Sea\n\nIt is wide.\n"), page("storms", text), RULES])
    assert told(graph, Relation.REFERS, possible=True) == {
        (name, "Rules of the Sea") for name in ("storms.calm()", "Calm after Storms", "Storms", "The Sea")
    }


FIRST, SECOND, MARK = "x.a()\n\nReturn one boat.\n\n", "x.b()\n\nReturn two boats.\n\n", "New in version 1.4.\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"## New Boats of Iron\n\n{MARK}{FIRST}{SECOND}", {"x.a()", "x.b()"}),
        (f"{FIRST}{SECOND}{MARK}", {"x.a()", "x.b()"}),
        (f"{FIRST}New in version 1.2.\n\n{SECOND}{MARK}", {"x.b()"}),
        (f"## Old Boats of Oak\n\n{MARK}{FIRST}## Old Boats of Pine\n\n{SECOND}", {"x.a()"}),
    ],
)
def test_a_mark_of_nobodys_may_be_each_ones(text: str, expected: set[str]) -> None:
    graph = documents_graph([page("x", "# x — Boats\n\n" + text)])
    marked = {name for name, release in told(graph, Relation.NEW, possible=True) if name.startswith("x.") and "1.4" in release}
    assert marked == expected
    assert not any("1.4" in release for _, release in told(graph, Relation.NEW))


def test_a_heading_on_a_releases_page_may_tell_what_was_new() -> None:
    news = page(
        "news", "# News in Boats 1.2\n\nBoats 1.2 was released on May 9, 2010.\n\n## The tide Module for Tables\n\nIt is new.\n"
    )
    tide = page("tide", "# tide — Tides\n\nNew in version 1.4.\n")
    use = page("use", f"# Use\n\nThe {link('tide', 'tide')} module is good. The {link('tide', 'tide')} module is small.\n")
    graph = documents_graph([news, tide, use])
    assert told(graph, Relation.NEW) == {("tide", "Boats 1.4")}
    assert ("tide", "Boats 1.2") in told(graph, Relation.NEW, possible=True)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The following functions use it; if it is not there, ⟦0⟧ is raised.", True),
        ("All of the following warning classes raise ⟦0⟧.", True),
        ("These methods below raise ⟦0⟧.", True),
        ("The remaining methods will raise ⟦0⟧.", True),
        ("If the following line is empty, ⟦0⟧ is raised.", False),
        ("The following is raised: ⟦0⟧.", False),
    ],
)
def test_what_introduces_the_next(sentence: str, expected: bool) -> None:
    assert introduces(sentence) is expected


def test_what_introduces_the_next_is_not_said_of_the_one_before() -> None:
    errors = page("errors", "# Errors\n\nexception SinkError\n\nRaised when a boat sinks.\n")
    text = "# x — Boats\n\nx.a()\n\nReturn one boat.\n\n{}if it sinks, {} is raised.\n\nx.b()\n\nReturn two boats.\n"
    for words, expected in (("The following functions use the sea; ", set()), ("The sea is used; ", {("x.a()", "SinkError")})):
        graph = documents_graph([page("x", text.format(words, link("SinkError", "errors"))), errors])
        assert told(graph, Relation.RAISES) == expected


def test_all_names_of_a_class_have_its_bases() -> None:
    text = (
        "# Errors\n\nexception BaseError\n\nThe base of all.\n\nexception LateError\n\n"
        f"A subclass of {link('BaseError', 'errors')}.\n\nexception SlowError\n\nAn alias of {link('LateError', 'errors')}.\n\n"
        f"exception LazyError\n\nAn alias of {link('LateError', 'errors')}.\n"
    )
    graph = documents_graph([page("errors", text)])
    assert told(graph, Relation.SUBCLASS) == {("LateError", "BaseError")}
    assert told(graph, Relation.SUBCLASS, possible=True) == {
        (name, "BaseError") for name in ("LateError", "SlowError", "LazyError")
    }


def test_what_is_on_the_way_has_rivals_too() -> None:
    things = [Entity("a", "x.a()", "function"), Entity("p", "Olav Venn", "person"), Entity("q", "Ada Quill", "person")]
    made = Fact("a", str(Relation.CONTRIBUTOR), "p", url=BASE + "news", quote="New x.a() by Olav Venn.")
    ground = Ground.of(FactGraph({one.id: one for one in things}, (made,)), RelationBook(DOCUMENTS))
    draft = Draft(
        Capability.STATISTICS, "How many?", ("2",), (made,), 2, (), True, "count", between=((Node("p"), (made,)),)
    )  # fmt: skip
    for text, expected in (("New x.a() by Olav Venn.", (draft, Uniqueness.UNCHECKED)), ("x.a(), by Ada Quill.", Dropped.RIVAL)):
        pages = [page("news", text)]
        assert Evidence(ground, Lines.of(pages), lambda query: [BASE + "news"]).verdict(draft) == expected


def test_no_question_rests_on_what_is_only_possible() -> None:
    graph = documents_graph([SEA, *NAMED, RULES])
    ground = Ground.of(graph, RelationBook(DOCUMENTS))
    made = make(ground, Wish(10), lambda one: (one, Uniqueness.UNCHECKED))
    assert graph.possible
    assert all(fact in graph.facts for draft, _ in made.drafts for fact in draft.facts)
