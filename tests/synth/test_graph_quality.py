"""What questions from documents are worth asking: real steps, each of another kind, and no form or fact in too many of them."""

import random
from collections import Counter

import pytest

from sanderling.synth.graph.capabilities.direct import direct
from sanderling.synth.graph.checks import fault
from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph, Uniqueness
from sanderling.synth.graph.documents.blocks import lines_of
from sanderling.synth.graph.documents.graph import documents_graph
from sanderling.synth.graph.documents.patterns import stated
from sanderling.synth.graph.documents.relations import Relation
from sanderling.synth.graph.documents.releases import marker_in
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import is_followable
from sanderling.synth.graph.making import Wish, make
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.quotas import Quotas
from sanderling.synth.graph.tree import chain_of
from sanderling.synth.graph.ways import draw_join, draw_way, family, steps
from sanderling.synth.graph.words.documents import DOCUMENTS
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.contract import Page

BASE = "https://docs.example/"
KINDS = {"m": "module", "f": "function", "p": "person", "e": "exception"}


def manual(size: int) -> Ground:
    """So many modules with two functions each, their authors, what they raise and which are alike."""
    entities: dict[str, Entity] = {}
    facts: list[Fact] = []

    def add(subject: str, relation: Relation, object: str, page: str, *, is_literal: bool = False) -> None:
        for id in (subject,) if is_literal else (subject, object):
            name = id.replace("-", ".") if id[0] == "f" else id
            entities.setdefault(id, Entity(id, name, KINDS[id[0]], (), (page,)))
        facts.append(Fact(subject, str(relation), object, is_literal, page))

    for number in range(size):
        module, person = f"m{number}", f"p{number}"
        add(module, Relation.SOURCE, f"lib/{number}", module, is_literal=True)
        add(module, Relation.AUTHOR, person, module)
        for part in ("a", "b"):
            function = f"f{number}-{part}"
            add(function, Relation.MEMBER, module, module)
            add(function, Relation.RAISES, f"e{number}{part}", module)
            add(function, Relation.CHANGED, f"m{(number + 1) % size}", module)
        add(f"f{number}-a", Relation.SIMILAR, f"f{(number + 1) % size}-b", f"news{number}")
        add(f"f{number}-b", Relation.CONTRIBUTOR, f"p{(number + 3) % size}", f"news{number}")
    return Ground.of(FactGraph(entities, tuple(facts)), RelationBook(DOCUMENTS))


def test_ways_have_two_steps_each_of_another_kind_and_things_that_are_told_apart() -> None:
    ground = manual(12)
    drawn = [draw_way(ground, hops, random.Random(seed)) for seed in range(100) for hops in (2, 3, 4)]
    ways = [way for way in drawn if way is not None]
    assert len(ways) > 150
    for way in ways:
        facts = tuple(way.facts())
        assert steps(ground, facts) >= 2
        assert len({family(ground, fact) for fact in facts}) == len(facts)
        assert is_followable(ground, way)
        assert all(fact.relation != Relation.CHANGED for fact in facts)


def test_joins_leave_one_answer_that_neither_branch_leaves_alone() -> None:
    ground = manual(12)
    facts = [Fact(f"f{number}-a", str(Relation.NEW), f"r{number % 3}", False, "releases") for number in range(12)]
    entities = {**ground.graph.entities, **{f"r{n}": Entity(f"r{n}", f"Boats {n}", "release") for n in range(3)}}
    more = Ground.of(FactGraph(entities, (*ground.graph.facts, *facts)), RelationBook(DOCUMENTS))
    joins = [join for seed in range(200) if (join := draw_join(more, 3, random.Random(seed))) is not None]
    assert joins
    for join in joins:
        assert len(join.clauses) == 2


@pytest.mark.parametrize(
    ("relations", "is_fine"),
    [
        ((Relation.SIMILAR, Relation.CONTRIBUTOR), True),
        ((Relation.USES, Relation.USES), False),
        ((Relation.NEW, Relation.DEPRECATED), False),
    ],
)
def test_a_chain_says_nothing_twice(relations: tuple[Relation, Relation], is_fine: bool) -> None:
    things = {id: Entity(id, f"thing {id}", "class") for id in "abc"}
    facts = (Fact("b", str(relations[0]), "a", False, "x"), Fact("c", str(relations[1]), "b", False, "y"))
    ground = Ground.of(FactGraph(things, facts), RelationBook(DOCUMENTS))
    chain = chain_of([Node("a"), Node("b"), Node("c")], list(facts))
    assert is_followable(ground, chain) == is_fine


def draft(ground: Ground, *facts: Fact, answer: str = "x") -> Draft:
    return Draft(Capability.DIRECT, "Which one?", (answer,), facts, len(facts), (), True, "chain", touching=facts[:1])


def test_quoted_words_and_a_names_own_beginning_are_no_steps() -> None:
    ground = manual(3)
    member = Fact("f0-a", str(Relation.MEMBER), "m0", False, "m0")
    named = Ground.of(
        FactGraph({"f": Entity("f", "boats.sail()", "function"), "m": Entity("m", "boats", "module")},
                  (Fact("f", str(Relation.MEMBER), "m", False, "x"),)), RelationBook(DOCUMENTS)
    )  # fmt: skip
    assert steps(ground, [member]) == 1
    assert steps(named, named.graph.facts) == 0
    source = Fact("m0", str(Relation.SOURCE), "lib/0", True, "m0")
    told = Fact("m0", str(Relation.DESCRIPTION), "All about boats", True, "other")
    whole = Ground.of(FactGraph(ground.graph.entities, (*ground.graph.facts, told)), RelationBook(DOCUMENTS))
    assert fault(whole, draft(whole, source, told), Range(2, 5)) is Dropped.TOO_PLAIN


def test_no_form_or_fact_is_in_more_questions_than_its_share() -> None:
    ground = manual(40)
    quotas = Quotas(ground, 132)
    facts = [fact for fact in ground.graph.facts if fact.relation == Relation.SOURCE]
    kept = 0
    for number, fact in enumerate(facts):
        each = draft(ground, fact, answer=f"answer {number}")
        if quotas.has_room(each):
            quotas.take(each)
            kept += 1
    assert kept == 4  # one form in thirty-three
    assert quotas.loosen()
    assert quotas.has_room(draft(ground, facts[30], answer="another"))
    complete = Quotas(Ground.of(FactGraph(ground.graph.entities, ground.graph.facts, True), RelationBook(DOCUMENTS)), 1)
    for fact in facts:
        complete.take(draft(ground, fact))
    assert complete.has_room(draft(ground, facts[0]))


def test_a_run_is_of_many_forms_and_the_same_each_time() -> None:
    ground = manual(20)
    runs = [make(ground, Wish(20, seed=3), lambda one: (one, Uniqueness.UNCHECKED)) for _ in range(2)]
    assert [one.text for one, _ in runs[0].drafts] == [one.text for one, _ in runs[1].drafts]
    assert len(runs[0].drafts) == 20
    assert len({(one.form, *sorted(fact.relation for fact in one.facts)) for one, _ in runs[0].drafts}) > 6
    assert all(steps(ground, one.facts) >= 2 for one, _ in runs[0].drafts if one.form in ("chain", "tree"))
    assert not any("changed" in one.text and one.form == "chain" for one, _ in runs[0].drafts)


def test_direct_needs_no_part_of_the_graph() -> None:
    ground = manual(12)
    found = Counter(type(direct(ground, None, Range(2, 3), random.Random(seed))) for seed in range(20))  # type: ignore[arg-type]
    assert found[Draft] > 5


BOOK = """# Chapter 3. Sails

## 3.1. Setting a Sail

See [Section 4.1.2, “Wet Ropes”](https://docs.example/ropes) before you set one.
"""


def test_numbered_sections_are_parts_and_whole_only_where_no_number_is_missing() -> None:
    pages = [
        Page(url=BASE + "sails", title="", text=BOOK),
        Page(url=BASE + "trim", title="", text="# 3.2. Trim\n\n## 3.2.1. Ropes\n\n## 3.2.3. Blocks\n\n## 7. A Rule of Old\n"),
        Page(url=BASE + "ropes", title="", text="# 4.1. Ropes of Hemp\n\n## 4.1.1. Dry Ropes\n\n## 4.1.2. Wet Ropes\n"),
    ]
    graph = documents_graph(pages)
    names = {id: entity.name for id, entity in graph.entities.items()}
    told = {(names[fact.subject], fact.relation, names[fact.object]) for fact in graph.facts if not fact.is_literal}
    assert told == {
        ("Setting a Sail", "part of", "Sails"),
        ("Trim", "part of", "Sails"),
        ("Ropes", "within", "Trim"),
        ("Blocks", "within", "Trim"),
        ("Dry Ropes", "part of", "Ropes of Hemp"),
        ("Wet Ropes", "part of", "Ropes of Hemp"),
        ("Setting a Sail", "refers to", "Wet Ropes"),
    }
    assert graph.entities[BASE + "sails"].kind == "chapter"


def test_what_belongs_to_no_page_by_name_is_a_method() -> None:
    text = "# boats — Boats\n\nboats.build(size)\n\nBuild a boat of a size.\n\nloop.run(boat)\n\nRun the loop with a boat.\n"
    kinds = {one.name: one.kind for one in documents_graph([Page(url=BASE + "boats", title="", text=text)]).entities.values()}
    assert (kinds["boats.build()"], kinds["loop.run()"]) == ("function", "method")


def test_classes_above_one_text_are_several_things_that_share_no_statement() -> None:
    text = "# boats — Boats\n\nclass boats.Cutter\n\nclass boats.Ketch\n\nBoats with one or two masts.\n\nNew in version 1.4.\n"
    graph = documents_graph([Page(url=BASE + "boats", title="", text=text)])
    assert {(graph.entities[f.subject].name, f.relation) for f in graph.facts if f.subject != BASE + "boats"} == {
        ("boats.Cutter", "belongs to"),
        ("boats.Ketch", "belongs to"),
    }


def test_a_heading_that_another_page_has_too_is_no_name() -> None:
    told = f"# News of May\n\n## Changes of Old\n\nSee [Rules of the Sea]({BASE}rules) for all of it.\n"
    other = Page(url=BASE + "june", title="", text="# News of June\n\n## Changes of Old\n\nThere are none at all.\n")
    rules = Page(url=BASE + "rules", title="", text="# Rules of the Sea\n\nKeep off.\n")
    for pages, name in (([rules], "Changes of Old"), ([rules, other], None)):
        graph = documents_graph([Page(url=BASE + "may", title="", text=told), *pages])
        ground = Ground.of(graph, RelationBook(DOCUMENTS))
        assert (ground.name(Node(f"{BASE}may#Changes of Old")) is not None) == (name is not None)


def test_functions_of_one_entry_are_not_counted() -> None:
    text = "# knots — Knots\n\nknots.tie(rope)\n\nTie a knot into a rope.\n\n"
    alias = "knots.untie(rope)\n\nknots.undo(rope)\n\nUndo a knot of a rope.\n"
    for words, relation in ((text, "belongs to"), (text + alias, "appears on")):
        graph = documents_graph([Page(url=BASE + "knots", title="", text=words)])
        assert {fact.relation for fact in graph.facts if fact.object == BASE + "knots"} == {relation}


@pytest.mark.parametrize(
    "sentence",
    [
        "It is seen whether it raises ⟦0⟧ at all.",
        "Its use is partially replaced by ⟦0⟧ in the new one.",
        "Called by ⟦0⟧.get() for keys that are missing.",
        "Uses ⟦0⟧ on land and ⟦1⟧ at sea.",
    ],
)
def test_what_is_asked_or_half_true_states_nothing(sentence: str) -> None:
    assert list(stated(sentence)) == []


def test_new_where_something_else_was_before_is_new() -> None:
    line = lines_of("New in version 3.5: Previously, another error was raised.")[0]
    assert marker_in(line) == (Relation.NEW, "3.5")
    assert marker_in(lines_of("New in version 3.5: The colour.")[0]) == (Relation.CHANGED, "3.5")
