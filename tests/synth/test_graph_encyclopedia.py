"""Questions from an encyclopedia's facts: one answer each by trying everything, evidence on its pages, nothing by chance."""

from collections import Counter
from pathlib import Path

import pytest

from sanderling.judge.rules import exact_match
from sanderling.synth.graph.capabilities.enumeration import list_answers
from sanderling.synth.graph.contract import Capability, Fact, Uniqueness
from sanderling.synth.graph.draft import Draft, Range
from sanderling.synth.graph.encyclopedia import encyclopedia_graph, encyclopedia_of
from sanderling.synth.graph.ground import Ground
from sanderling.synth.graph.making import Made, Wish, make
from sanderling.synth.graph.query import ANSWER, Atom, Node, Query, Variable
from sanderling.synth.graph.records import question_of
from sanderling.synth.graph.words.encyclopedia import ENCYCLOPEDIA
from sanderling.synth.graph.words.registry import RelationBook
from sanderling.world.disk.store import build_world
from sanderling.world.encyclopedia import Encyclopedia, Site, generate_encyclopedia

WISH = Wish(300, Range(5, 7), Range(1, 6), seed=4)


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(120, 5)


@pytest.fixture(scope="module")
def ground(world: Encyclopedia) -> Ground:
    return Ground.of(encyclopedia_graph(world), RelationBook())


@pytest.fixture(scope="module")
def made(ground: Ground) -> Made:
    return make(ground, WISH)


def satisfying(facts: tuple[Fact, ...], query: Query) -> set[Node]:
    """Answers by joining whole relations one after another, all bindings at a time; shares no code with the matcher."""
    tables = [dict[Variable, Node]()]
    for atom in query.atoms:
        pairs = {(Node(f.subject), Node(f.object, f.is_literal)) for f in facts if f.relation == atom.relation}
        grown = []
        for bound in tables:
            for pair in pairs:
                trial = dict(bound)
                ends = zip(atom[1:], pair, strict=True)
                if all(
                    trial.setdefault(term, node) == node if isinstance(term, Variable) else term == node for term, node in ends
                ):
                    grown.append(trial)
        tables = [dict(items) for items in {tuple(sorted(trial.items())) for trial in grown}]
    return {bound[ANSWER] for bound in tables}


def test_every_capability_and_every_number_of_hops_is_there(made: Made) -> None:
    assert set(made.kept) == set(Capability)
    assert set(Counter(draft.hops for draft, _ in made.drafts)) == {1, 2, 3, 4, 5, 6}
    assert {sure for _, sure in made.drafts} == {Uniqueness.PROVEN}


def test_no_question_has_a_second_answer(ground: Ground, made: Made) -> None:
    """Of trees: the one thing that fits. Of lists and counts: exactly the members."""
    trees = 0
    for draft, _ in made.drafts:
        for query in draft.queries:
            found = satisfying(ground.graph.facts, query)
            if "items" in draft.extra:
                members = sorted(list(ground.answers(node)) for node in found)
                assert members == sorted(draft.extra["items"]), draft.text
            elif draft.form in ("chain", "tree", "quarrel"):
                trees += 1
                assert [ground.answers(node) for node in found] == [draft.answers], draft.text
            else:
                assert len(found) == 1, draft.text
    assert trees > 100


def test_every_fact_stands_on_its_page(world: Encyclopedia, made: Made) -> None:
    text = {item.page.url: item.page.text for item in world.pages}
    for draft, _ in made.drafts:
        assert all(fact.quote and fact.quote.casefold() in text[fact.url].casefold() for fact in draft.facts)


def test_a_question_does_not_tell_its_answer_and_needs_more_than_one_page(made: Made) -> None:
    for draft, _ in made.drafts:
        assert not any(f" {answer.casefold()} " in f" {draft.text.casefold().rstrip('.?')} " for answer in draft.answers)
        if draft.hops > 1:
            assert len({fact.url for fact in draft.facts}) > 1


def test_sums_and_counts_are_right(made: Made) -> None:
    forms = Counter(draft.form for draft, _ in made.drafts)
    assert {"count", "difference", "list"} <= set(forms)
    assert {"earliest", "latest"} & set(forms)
    for draft, _ in made.drafts:
        years = [int(fact.object) for fact in draft.facts if fact.relation in ("opened", "printed")]
        if draft.form == "count":
            assert draft.answers[0] == str(len(draft.extra["items"]))
        elif draft.form == "difference":
            first, second = (int(value) for value in draft.extra["values"])
            assert draft.answers == (str(abs(first - second)),)
        elif draft.form in ("earliest", "latest"):
            numbers = years[-len(draft.extra["items"]) :]
            assert draft.answers == (str({"earliest": min, "latest": max}[draft.form](numbers)),)


def test_no_constraint_could_be_left_out(ground: Ground, made: Made) -> None:
    """Of chains and trees: without any name that is given of a thing told by several facts, more things fit."""
    checked = 0
    for draft, _ in made.drafts:
        atoms = draft.queries[0].atoms if draft.form in ("chain", "tree") else ()
        for leaf in atoms:
            told = next((term for term in leaf[1:] if isinstance(term, Variable)), ANSWER)
            others = tuple(atom for atom in atoms if atom is not leaf)
            is_leaf = any(isinstance(term, Node) for term in leaf[1:])
            if is_leaf and sum(told in atom[1:] for atom in others) >= (1 if told == ANSWER else 2):
                assert len(satisfying(ground.graph.facts, Query(others))) > 1, draft.text
                checked += 1
    assert checked > 10


def test_cross_verification_asks_for_what_the_atlas_has(world: Encyclopedia, made: Made) -> None:
    quarrels = [draft for draft, _ in made.drafts if draft.form == "quarrel"]
    assert quarrels
    for draft in quarrels:
        assert draft.facts[0].url.startswith(Site.ATLAS.value)
        assert not draft.extra["claimed_by"].startswith(Site.ATLAS.value)
        assert draft.extra["claimed"] != draft.facts[0].object


def test_equal_seeds_give_equal_questions_and_others_others(ground: Ground, made: Made) -> None:
    assert texts(make(ground, WISH)) == texts(made)
    assert texts(make(ground, Wish(300, WISH.sizes, WISH.hops, seed=5))) != texts(made)
    assert len(set(texts(made))) == len(made.drafts)


def texts(made: Made) -> list[str]:
    return [draft.text for draft, _ in made.drafts]


def test_a_record_carries_what_it_rests_on(ground: Ground, made: Made) -> None:
    draft, sure = made.drafts[0]
    question = question_of(ground, draft, sure, world="w", fingerprint="f", seed=4, number=0)
    assert question.text == draft.text
    assert question.answers == draft.answers
    assert question.masked_urls == ()
    assert question.meta["uniqueness"] == "proven"
    assert [fact["url"] for fact in question.meta["facts"]] == [fact.url for fact in draft.facts]
    assert question.meta["path"][-1] == draft.answers[0] or draft.form not in ("chain", "tree")


def test_a_world_too_small_for_the_wish_gives_what_there_is(ground: Ground) -> None:
    one = Wish(10_000, Range(2, 2), Range(1, 1), (Capability.DIRECT,), seed=1)
    found: list[Draft] = [draft for draft, _ in make(ground, one).drafts]
    assert 0 < len(found) < 10_000
    assert {draft.hops for draft in found} == {1}


def test_an_encyclopedia_is_known_by_its_pages_not_by_its_name(tmp_path: Path, world: Encyclopedia) -> None:
    pages = [item.page for item in world.pages]
    made_from = "encyclopedia --size 120 --seed 5"
    build_world(tmp_path / "whole", pages, name="encyclopedia-120-5", source=made_from, seed=5)
    build_world(tmp_path / "part", pages[:-1], name="encyclopedia-120-5", source=made_from, seed=5)
    build_world(tmp_path / "other", pages[:3], name="notes", source="folder")
    found = encyclopedia_of(tmp_path / "whole")
    assert found is not None
    assert found.facts == world.facts
    assert encyclopedia_of(tmp_path / "part") is None
    assert encyclopedia_of(tmp_path / "other") is None


def test_lists_are_right_in_any_order() -> None:
    answers = list_answers(["Orlo", "Venn", "Kello"])
    assert answers[0] == "Orlo, Venn, Kello" and len(answers) == 12
    for said in ("Kello, Orlo and Venn", "Venn; Orlo; Kello", "kello venn orlo"):
        assert max(exact_match(said, answer) for answer in answers) == 1.0
    assert max(exact_match("Orlo, Venn", answer) for answer in answers) == 0.0
    assert len(list_answers(["Orlo", "Venn", "Kello", "Tarn"])) == 48


def test_a_long_list_is_right_in_alphabetical_order() -> None:
    answers = list_answers(["os_fork", "Venn", "os.walk", "Kello", "orlo"])
    assert answers == (
        "Kello, orlo, os.walk, os_fork, Venn",
        "Kello, orlo, os_fork, os.walk, Venn",
        "Kello, orlo, os.walk, os_fork and Venn",
        "Kello, orlo, os_fork, os.walk and Venn",
    )
    assert max(exact_match("kello orlo os_fork os.walk venn", answer) for answer in answers) == 1.0


def test_long_lists_are_asked_for_in_their_order_and_no_list_has_many_answers(made: Made) -> None:
    lists = [draft for draft, _ in made.drafts if draft.form == "list"]
    assert {len(draft.extra["items"]) for draft in lists} == {2, 3, 4, 5}
    for draft in lists:
        assert ("in alphabetical order" in draft.text) is (len(draft.extra["items"]) > 4)
        assert len(draft.answers) <= 48


def test_what_pages_state_of_both_alike_is_not_called_one_thing_s_alone() -> None:
    graph = encyclopedia_graph(generate_encyclopedia(60, 3))
    assert not {"spouse", "twin"} & {fact.relation.partition("@")[0] for fact in graph.facts}


def test_two_differences_of_named_things_are_two_questions() -> None:
    ground = Ground.of(encyclopedia_graph(generate_encyclopedia(120, 5)), RelationBook(ENCYCLOPEDIA))
    wish = Wish(40, Range(5, 7), Range(2, 2), (Capability.AGGREGATION,), 0)
    forms = [draft.form for draft, _ in make(ground, wish).drafts]
    assert forms.count("difference") > 1
    for draft, _ in make(ground, wish).drafts:
        if draft.form == "difference":
            assert not any(value in draft.text.split() for value in draft.extra["values"])


def told_by(world: Encyclopedia) -> tuple[Fact, ...]:
    """All that the pages of a world tell, read from the pages' own account and not from a graph."""
    found: list[Fact] = []
    for item in world.pages:
        site = "" if item.site is Site.ATLAS else f"@{item.site.name.lower()}"
        claims = {**item.claims, **({"occupation": job} if (job := world.facts.entities[item.entity].occupation) else {})}
        for relation, value in claims.items():
            found.append(Fact(str(item.entity), f"{relation}{site}", str(value), isinstance(value, str)))
    return tuple(found)


def test_what_a_site_claims_fits_one_thing_among_all_that_it_claims(world: Encyclopedia, ground: Ground) -> None:
    wish = Wish(60, Range(5, 7), Range(2, 4), (Capability.CROSS_VERIFICATION,), seed=2)
    quarrels = make(ground, wish).drafts
    assert len(quarrels) == 60
    told = told_by(world)
    for draft, _ in quarrels:
        (atom, *rest) = draft.queries[0].atoms  # the first asks the thing's own page; the others tell the thing
        thing = next(term for term in atom[1:] if isinstance(term, Variable) and term != ANSWER)
        turned = [{thing: ANSWER, ANSWER: thing}.get(term, term) for other in rest for term in other[1:]]
        atoms = tuple(Atom(other.relation, *turned[2 * n : 2 * n + 2]) for n, other in enumerate(rest))
        assert len(satisfying(told, Query(atoms))) == 1, draft.text


def test_the_graph_has_all_that_the_pages_tell(world: Encyclopedia, ground: Ground) -> None:
    both_ways = ("spouse", "twin")
    told = {(f.subject, f.relation, f.object) for f in told_by(world) if f.relation.partition("@")[0] not in both_ways}
    assert {(f.subject, f.relation, f.object) for f in ground.graph.facts} == told
    text = {item.page.url: item.page.text for item in world.pages}
    assert all(fact.quote and fact.quote in text[fact.url] for fact in ground.graph.facts)
