"""Questions from a graph of facts: one answer each by trying everything, evidence on pages, nothing by chance."""

import asyncio
import itertools
import random
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sanderling.core.errors import UserError
from sanderling.core.record import Question
from sanderling.core.types import ToolStatus
from sanderling.data.questions import write_questions
from sanderling.judge.rules import exact_match
from sanderling.runs.progress import Report
from sanderling.synth.capabilities import Capability, Range, list_answers
from sanderling.synth.graph import Entity, Fact, FactGraph, Node, encyclopedia_graph, encyclopedia_of
from sanderling.synth.grow import IN_WORLD, NOT_TEXT, SHORT, GrowthConfig, GrowthReport, grow, grow_world
from sanderling.synth.making import GraphSettings, Made, make
from sanderling.synth.tree import Constraint, QueryNode, answers, canonical, chain_of, is_followable
from sanderling.world.contract import OutageError, Page
from sanderling.world.disk.building import build_world
from sanderling.world.disk.store import open_world
from sanderling.world.encyclopedia import Encyclopedia, Site, generate_encyclopedia
from sanderling.world.local import LocalWorld
from sanderling.world.web.config import LiveConfig
from sanderling.world.web.live import LiveWeb

SETTINGS = GraphSettings(count=300, hops=Range(1, 6), seed=4)
Constraints = tuple[tuple[object, ...], ...]
"""(relation, subject, object) each; a number is a variable, 0 the answer."""


def satisfying(facts: tuple[Fact, ...], wanted: Constraints, asked: int = 0) -> set[Node]:
    """Answers by joining whole relations one after another, all bindings at a time; shares no code with the search."""
    tables = [dict[object, Node]()]
    for relation, *ends in wanted:
        pairs = {(Node(f.subject), Node(f.object, f.is_literal)) for f in facts if f.relation == relation}
        grown = []
        for bound in tables:
            for pair in pairs:
                trial = dict(bound)
                if all(
                    term == node if isinstance(term, Node) else trial.setdefault(term, node) == node
                    for term, node in zip(ends, pair, strict=True)
                ):
                    grown.append(trial)
        tables = [dict(items) for items in {tuple(sorted(trial.items(), key=repr)) for trial in grown}]
    return {bound[asked] for bound in tables}


# the exact search

THINGS, VALUES, RELATIONS = tuple(f"t{number}" for number in range(5)), ("1900", "t1"), ("likes", "made")
some_facts = st.lists(
    st.one_of(
        st.builds(Fact, st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(THINGS)),
        st.builds(Fact, st.sampled_from(THINGS), st.sampled_from(RELATIONS), st.sampled_from(VALUES), st.just(True)),
    ),
    min_size=1,
    max_size=14,
)


@given(some_facts, st.randoms(use_true_random=False))
def test_a_tree_s_answers_are_those_of_trying_everything(facts: list[Fact], rng: random.Random) -> None:
    graph = FactGraph({id: Entity(id, id) for id in THINGS}, facts)
    universe = [Node(id) for id in THINGS] + [Node(value, True) for value in VALUES]

    def grow(node: Node, depth: int) -> QueryNode:
        near = [(fact, other) for fact in facts for node_, other in ((fact.head, fact.tail), (fact.tail, fact.head))
                if node_ == node and other != node]  # fmt: skip
        if depth == 0 or not near:
            return QueryNode(node, is_named=True)
        return QueryNode(
            node, tuple(Constraint(fact, grow(other, depth - 1)) for fact, other in rng.sample(near, min(len(near), 2)))
        )

    root = grow(rng.choice(universe), 2)
    if root.is_named:
        return
    wanted = canonical(root)
    count = 1 + max(term for _, *ends in wanted for term in ends if isinstance(term, int))
    true = {(fact.relation, fact.head, fact.tail) for fact in facts}
    tried = itertools.product(universe, repeat=count) if count < 5 else ()
    found = {v[0] for v in tried if all((r, *(v[t] if isinstance(t, int) else t for t in ends)) in true for r, *ends in wanted)}
    assert answers(graph, root) == satisfying(tuple(facts), wanted)
    assert count > 4 or found == answers(graph, root)
    assert root.node in answers(graph, root)


def test_a_value_is_not_the_thing_of_the_same_name() -> None:
    graph = FactGraph({id: Entity(id, id) for id in THINGS}, [fact := Fact("t0", "likes", "t1", True)])
    assert answers(graph, chain_of([Node("t0"), Node("t1", True)], [fact])) == {Node("t0")}
    assert answers(graph, QueryNode(Node("t0"), (Constraint(fact, QueryNode(Node("t1"), is_named=True)),))) == set()
    with pytest.raises(ValueError, match="constraint"):
        answers(graph, QueryNode(Node("t0")))


# a generated encyclopedia


@pytest.fixture(scope="module")
def world() -> Encyclopedia:
    return generate_encyclopedia(120, 5)


@pytest.fixture(scope="module")
def graph(world: Encyclopedia) -> FactGraph:
    return encyclopedia_graph(world)


@pytest.fixture(scope="module")
def made(graph: FactGraph) -> Made:
    return make(graph, SETTINGS)


def test_no_question_has_a_second_answer(graph: FactGraph, made: Made) -> None:
    """Of trees: the one thing that fits. Of lists and counts: exactly the members."""
    trees = 0
    for draft in made.drafts:
        for root in (root for root in draft.roots if root.constraints):
            found = satisfying(graph.facts, canonical(root))
            if "items" in draft.extra:
                members = sorted(list(graph.answers(node)) for node in found)
                assert members == sorted(draft.extra["items"]), draft.text
            elif draft.form in ("chain", "tree", "quarrel"):
                trees += 1
                assert [graph.answers(node) for node in found] == [draft.answers], draft.text
            else:
                assert len(found) == 1, draft.text
    assert trees > 100


def test_facts_stand_on_their_pages_and_a_question_needs_several_and_does_not_tell_its_answer(
    world: Encyclopedia, made: Made
) -> None:
    text = {item.page.url: item.page.text for item in world.pages}
    for draft in made.drafts:
        assert all(fact.quote and fact.quote.casefold() in text[fact.url].casefold() for fact in draft.facts)
        assert not any(f" {answer.casefold()} " in f" {draft.text.casefold().rstrip('.?')} " for answer in draft.answers)
        assert draft.hops == 1 or len({fact.url for fact in draft.facts}) > 1


def told_by(world: Encyclopedia) -> tuple[Fact, ...]:
    """All that the pages of a world tell, read from the pages' own account and not from a graph."""
    found: list[Fact] = []
    for item in world.pages:
        site = "" if item.site is Site.ATLAS else f"@{item.site.name.lower()}"
        claims = {**item.claims, **({"occupation": job} if (job := world.facts.entities[item.entity].occupation) else {})}
        for relation, value in claims.items():
            found.append(Fact(str(item.entity), f"{relation}{site}", str(value), isinstance(value, str)))
    return tuple(found)


def test_the_graph_has_all_that_the_pages_tell_but_what_they_state_of_both_alike(world: Encyclopedia, graph: FactGraph) -> None:
    told = {(f.subject, f.relation, f.object) for f in told_by(world) if f.relation.partition("@")[0] not in ("spouse", "twin")}
    assert {(f.subject, f.relation, f.object) for f in graph.facts} == told
    text = {item.page.url: item.page.text for item in world.pages}
    assert all(fact.quote and fact.quote in text[fact.url] for fact in graph.facts)


def texts(made: Made) -> list[str]:
    return [draft.text for draft in made.drafts]


def test_equal_seeds_give_equal_questions_and_others_others(graph: FactGraph, made: Made) -> None:
    assert texts(make(graph, SETTINGS)) == texts(made)
    assert texts(make(graph, SETTINGS.model_copy(update={"seed": 5}))) != texts(made)
    assert len(set(texts(made))) == len(made.drafts)


def test_an_encyclopedia_is_known_by_its_pages_not_by_its_name(tmp_path: Path, world: Encyclopedia) -> None:
    pages = [item.page for item in world.pages]
    made_from = "encyclopedia --size 120 --seed 5"
    build_world(tmp_path / "whole", pages, name="encyclopedia-120-5", source=made_from, seed=5)
    build_world(tmp_path / "part", pages[:-1], name="encyclopedia-120-5", source=made_from, seed=5)
    build_world(tmp_path / "other", pages[:3], name="notes", source="folder")
    build_world(tmp_path / "tiny", pages[:3], name="notes", source="encyclopedia --size 1 --seed 5")
    found = encyclopedia_of(tmp_path / "whole")
    assert found is not None and found.facts == world.facts
    assert [encyclopedia_of(tmp_path / name) for name in ("part", "other", "tiny")] == [None] * 3


def test_lists_are_right_in_any_order_and_long_ones_in_alphabetical_order(made: Made) -> None:
    short = list_answers(["Orlo", "Venn", "Kello"])
    assert short[0] == "Orlo, Venn, Kello" and len(short) == 12 and len(list_answers(["a", "b", "c", "d"])) == 48
    for said in ("Kello, Orlo and Venn", "Venn; Orlo; Kello", "kello venn orlo"):
        assert max(exact_match(said, answer) for answer in short) == 1.0
    assert max(exact_match("Orlo, Venn", answer) for answer in short) == 0.0
    assert list_answers(["os_fork", "Venn", "os.walk", "Kello", "orlo"]) == (
        "Kello, orlo, os.walk, os_fork, Venn", "Kello, orlo, os_fork, os.walk, Venn",
        "Kello, orlo, os.walk, os_fork and Venn", "Kello, orlo, os_fork, os.walk and Venn",
    )  # fmt: skip
    lists = [draft for draft in made.drafts if draft.form == "list"]
    assert {len(draft.extra["items"]) for draft in lists} == {2, 3, 4, 5}
    assert all(("in alphabetical order" in draft.text) is (len(draft.extra["items"]) > 4) for draft in lists)


@pytest.mark.parametrize("wrong", [{"size": (6, 5)}, {"hops": (0, 2)}, {"size": (2, 2), "hops": (4, 4)}, {"count": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"does not go upwards|raise size|greater than"):
        GraphSettings(**wrong)


# a graph that is not all there is


def manual(size: int) -> FactGraph:
    """So many modules with two functions each: their authors, what they raise, what they are like, who contributed them."""
    kinds = {"m": "module", "f": "function", "p": "person", "e": "exception"}
    entities: dict[str, Entity] = {}
    facts: list[Fact] = []

    def add(subject: str, relation: str, object: str, page: str, *, is_literal: bool = False) -> None:
        for id in (subject,) if is_literal else (subject, object):
            entities.setdefault(id, Entity(id, f"{kinds[id[0]]} {id}", kinds[id[0]]))
        facts.append(Fact(subject, relation, object, is_literal, page))

    for number in range(size):
        module = f"m{number}"
        add(module, "source file", f"lib/{number}", module, is_literal=True)
        add(module, "author", f"p{number}", module)
        for part in ("a", "b"):
            add(f"f{number}{part}", "module", module, module)
            add(f"f{number}{part}", "exception", f"e{number}{part}", module)
            add(f"f{number}{part}", "release", f"r{number % 3}", "releases", is_literal=True)
        add(f"f{number}a", "maintainer", f"p{number % 4}", "people")
        add(f"f{number}a", "like", f"f{(number + 1) % size}b", f"news{number}")
        add(f"f{number}b", "contributor", f"p{(number + 3) % size}", f"news{number}")
    return FactGraph(entities, facts)


def test_from_what_was_read_questions_are_many_sided_and_the_same_each_time() -> None:
    graph = manual(20)
    runs = [make(graph, GraphSettings(count=20, seed=3)) for _ in range(2)]
    assert texts(runs[0]) == texts(runs[1]) and len(runs[0].drafts) == 20
    assert set(runs[0].kept) == {Capability.DIRECT, Capability.AGGREGATION}, "only a whole graph can be counted"
    assert len({(draft.form, *sorted(fact.relation for fact in draft.facts)) for draft in runs[0].drafts}) > 6


# words


def test_what_has_in_its_name_what_is_hidden_is_not_told() -> None:
    things = {id: Entity(id, name, "module") for id, name in (("a", "os"), ("b", "os.fork()"), ("c", "boats"))}
    facts = (Fact("b", "module", "a", False, "x"), Fact("a", "author", "c", False, "y"))
    hidden = chain_of([Node("c"), Node("a"), Node("b")], (facts[1], facts[0]))
    assert not is_followable(FactGraph(things, facts), hidden)


# -- Growth of a world: what questions find, what is left out and why, and that nothing is done twice ----------------------


def page(name: str, words: str) -> Page:
    return Page(url=f"https://w.example/{name}", title=name, text=f"{words} " * 20)


KNOWN = page("known", "the herring of Orlo")
WEB = [
    KNOWN,
    page("herring", "herring in the harbour of Orlo"),
    page("tower", "the tower and lighthouse of Venn"),
    Page(url="https://w.example/short", title="short", text="herring, in short"),
    Page(url="https://w.example/noise", title="herring of noise", text="herring \x00\x01\x02\x03" * 60),
]
QUESTIONS = [
    Question(id="1", text="Where do the herring of Orlo go?"),
    Question(id="2", text="Who built the lighthouse of Venn?"),
    Question(id="3", text="Which herring are there in the harbour of Orlo?"),
]


class Far(LocalWorld):
    """A larger world; it counts what it is asked, finds a page that is gone, and is down for one query if told so."""

    def __init__(self, down: str = "") -> None:
        self.__dict__ |= vars(LocalWorld.in_memory(WEB, name="web"))
        self.down, self.searches, self.opened = down, list[str](), list[str]()

    async def search(self, query: str, **more):
        self.searches.append(query)
        if self.down and self.down in query:
            raise OutageError("down")
        reply = await super().search(query, **more)
        gone = replace(reply.hits[0], url="https://w.example/gone")
        return replace(reply, hits=(*reply.hits, gone))

    def page(self, url: str) -> Page | None:
        self.opened.append(url)
        return WEB[4].model_copy(update={"url": url}) if url.endswith("gone") and self.down == "noise" else super().page(url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    build_world(tmp_path / "world", [KNOWN], name="small", source="test")
    write_questions(tmp_path / "q.jsonl", QUESTIONS)
    return tmp_path / "world"


def run(directory: Path, source: LocalWorld | LiveWeb, **more) -> GrowthReport:
    given = {"world": directory, "questions": directory.parent / "q.jsonl", "web": True, "least_chars": 100} | more
    return asyncio.run(grow(GrowthConfig.model_validate(given), source, Report(Console(quiet=True))))


def test_every_address_is_a_page_or_has_a_reason(directory):
    far = Far()
    report = run(directory, far)
    assert (report.questions, report.added, report.pages) == (3, 2, 2)
    assert report.left_out[IN_WORLD] >= 1 and report.left_out[SHORT] >= 1 and report.left_out[ToolStatus.NOT_FOUND.value] == 3
    grown = open_world(directory)
    assert grown.page_count == 3 and grown.page("https://w.example/tower") is not None
    assert KNOWN.url not in far.opened


def test_noise_is_no_page(directory):
    assert run(directory, Far("noise")).left_out[NOT_TEXT] > 0


def test_an_outage_is_taken_up_again_and_nothing_is_asked_twice(directory):
    first = run(directory, Far(down="lighthouse"))
    assert (first.outages, first.added) == (1, 1)
    again = Far()
    second = run(directory, again)
    assert second.outages == 0 and again.searches == [QUESTIONS[1].text] and second.added == 1
    idle = Far()
    third = run(directory, idle)
    assert idle.searches == [] and third.added == 0 and third.pages == 2
    with pytest.raises(UserError, match="other settings"):
        run(directory, Far(), results=3)


def test_the_live_web_is_asked_as_its_services_want_it(directory):
    def reply(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/search":
            links = ["https://w.example/a", "https://w.example/gone"]
            return httpx.Response(200, json={"organic": [{"title": "t", "link": link, "snippet": "s"} for link in links]})
        if b"gone" in request.content:
            return httpx.Response(404)
        return httpx.Response(200, json={"data": {"title": "A", "url": "https://w.example/b", "content": "# text " * 60}})

    config = LiveConfig(urls={"serper": "https://search.example", "jina": "https://read.example"})
    report = run(directory, LiveWeb(config, {"SERPER_API_KEY": "x"}, transport=httpx.MockTransport(reply)))
    assert report.added == 1 and report.left_out[ToolStatus.NOT_FOUND.value] == 3
    grown = open_world(directory).page("https://w.example/b")
    assert grown is not None and grown.title == "A"


def test_hosts_of_ones_own_network_may_be_read(directory, monkeypatch):
    def opened(config: LiveConfig, **_: object) -> LiveWeb:
        raise UserError(f"asked with {config.allowed_hosts}")

    monkeypatch.setattr("sanderling.world.web.live.LiveWeb", opened)
    given = {"world": directory, "questions": directory.parent / "q.jsonl", "web": True}
    config = GrowthConfig.model_validate(given | {"live": {"allowed_hosts": ["wiki.internal"]}})
    with pytest.raises(UserError, match=r"asked with \('wiki.internal',\)"):
        asyncio.run(grow_world(config, progress=Report(Console(quiet=True))))


@pytest.mark.parametrize("wrong", [{}, {"web": True, "source": Path("x")}, {"source": Path("w")}])
def test_one_other_place_is_searched(wrong):
    with pytest.raises(ValueError, match=r"one place to search|grow out of itself"):
        GrowthConfig(world=Path("w"), questions=Path("q"), **wrong)
