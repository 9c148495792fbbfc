"""Questions from a graph that is not all there is: real steps, each of another kind, no form or fact in too many."""

import random
from collections import Counter
from enum import StrEnum

import pytest

from sanderling.synth.graph.capabilities.direct import direct
from sanderling.synth.graph.checks import fault
from sanderling.synth.graph.contract import Capability, Entity, Fact, FactGraph
from sanderling.synth.graph.draft import Draft, Dropped, Range
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.growing import is_followable
from sanderling.synth.graph.making import Wish, make
from sanderling.synth.graph.query import Node
from sanderling.synth.graph.quotas import Quotas
from sanderling.synth.graph.tree import chain_of
from sanderling.synth.graph.ways import draw_join, draw_way, family, steps
from sanderling.synth.graph.words.contract import RelationWords
from sanderling.synth.graph.words.registry import RelationBook


class Relation(StrEnum):
    """What pages of a manual state."""

    DESCRIPTION = "described as"
    MEMBER = "belongs to"
    SOURCE = "source code"
    AUTHOR = "author"
    RAISES = "raises"
    CHANGED = "changed in"
    NEW = "new in"
    DEPRECATED = "deprecated since"
    SIMILAR = "similar to"
    CONTRIBUTOR = "contributed by"
    USES = "uses"


MANUAL = {
    Relation.DESCRIPTION: RelationWords(("described as “{o}”",), ("that describes {s}",), is_answer=False, is_step=False),
    Relation.MEMBER: RelationWords(
        ("that belongs to {o}",), ("that documents {s}",), is_functional=True, is_exhaustive=True, family="place"
    ),
    Relation.SOURCE: RelationWords(
        ("whose source code is in the file {o}",), ("that holds the source code of {s}",), value="file",
        inquiry=("In which file is the source code of {s}?",), is_functional=True,
    ),
    Relation.AUTHOR: RelationWords(("that was written by {o}",), ("who wrote {s}",), ("the author of {s}",)),
    Relation.RAISES: RelationWords((), ("that can be raised by {s}",), is_weak=True),
    Relation.CHANGED: RelationWords(("that was changed in {o}",), (), is_weak=True, family="version"),
    Relation.NEW: RelationWords(
        ("that was added in {o}",), ("that introduced {s}",), is_functional=True, is_weak=True, family="version"
    ),
    Relation.DEPRECATED: RelationWords(
        ("deprecated since {o}",), ("that deprecated {s}",), is_functional=True, is_weak=True, family="version"
    ),
    Relation.SIMILAR: RelationWords(("that is like {o}",), ("that is named as the like of {s}",)),
    Relation.CONTRIBUTOR: RelationWords(("that was contributed by {o}",), ("who contributed {s}",)),
    Relation.USES: RelationWords(("that uses {o}",), ("that is used by {s}",)),
}  # fmt: skip
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
    return Ground.of(FactGraph(entities, tuple(facts)), RelationBook(MANUAL))


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
    more = Ground.of(FactGraph(entities, (*ground.graph.facts, *facts)), RelationBook(MANUAL))
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
    ground = Ground.of(FactGraph(things, facts), RelationBook(MANUAL))
    chain = chain_of([Node("a"), Node("b"), Node("c")], list(facts))
    assert is_followable(ground, chain) == is_fine


def draft(ground: Ground, *facts: Fact, answer: str = "x") -> Draft:
    return Draft(Capability.DIRECT, "Which one?", (answer,), facts, len(facts), (), True, "chain", touching=facts[:1])


def test_quoted_words_and_a_names_own_beginning_are_no_steps() -> None:
    ground = manual(3)
    member = Fact("f0-a", str(Relation.MEMBER), "m0", False, "m0")
    named = Ground.of(
        FactGraph({"f": Entity("f", "boats.sail()", "function"), "m": Entity("m", "boats", "module")},
                  (Fact("f", str(Relation.MEMBER), "m", False, "x"),)), RelationBook(MANUAL)
    )  # fmt: skip
    assert steps(ground, [member]) == 1
    assert steps(named, named.graph.facts) == 0
    source = Fact("m0", str(Relation.SOURCE), "lib/0", True, "m0")
    told = Fact("m0", str(Relation.DESCRIPTION), "All about boats", True, "other")
    whole = Ground.of(FactGraph(ground.graph.entities, (*ground.graph.facts, told)), RelationBook(MANUAL))
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
    complete = Quotas(Ground.of(FactGraph(ground.graph.entities, ground.graph.facts, True), RelationBook(MANUAL)), 1)
    for fact in facts:
        complete.take(draft(ground, fact))
    assert complete.has_room(draft(ground, facts[0]))


def test_a_run_is_of_many_forms_and_the_same_each_time() -> None:
    ground = manual(20)
    runs = [make(ground, Wish(20, seed=3)) for _ in range(2)]
    assert [one.text for one, _ in runs[0].drafts] == [one.text for one, _ in runs[1].drafts]
    assert len(runs[0].drafts) == 20
    assert len({(one.form, *sorted(fact.relation for fact in one.facts)) for one, _ in runs[0].drafts}) > 6
    assert all(steps(ground, one.facts) >= 2 for one, _ in runs[0].drafts if one.form in ("chain", "tree"))
    assert not any("changed" in one.text and one.form == "chain" for one, _ in runs[0].drafts)


def test_direct_needs_no_part_of_the_graph() -> None:
    ground = manual(12)
    found = Counter(type(direct(ground, None, Range(2, 3), random.Random(seed))) for seed in range(20))  # type: ignore[arg-type]
    assert found[Draft] > 5
