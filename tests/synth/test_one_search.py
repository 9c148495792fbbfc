"""One search does not answer a multi-hop question, though this agent reads its one list as well as can be."""

import datetime

import pytest

from sanderling.agent.agent import Agent, Job
from sanderling.core.profiles import get_profile
from sanderling.core.record import Seeds, Trajectory
from sanderling.core.types import Ending, FixedClock
from sanderling.synth.one_search import Asked, OneSearchPolicy, Query, best_guess, read_results, take_apart
from sanderling.synth.questions import Path, chain_questions, split_by_hops
from sanderling.tools.world_tools import world_tools
from sanderling.world.encyclopedia import BY_NAME, Encyclopedia, Names, generate_encyclopedia
from sanderling.world.local import LocalWorld

MIX = {1: 1.0, 2: 1.0, 3: 1.0}


@pytest.fixture(scope="module")
def worlds() -> list[Encyclopedia]:
    return [generate_encyclopedia(160, seed, names) for seed in (1, 2) for names in Names]


async def play(world: Encyclopedia, query: Query) -> list[Trajectory]:
    tiny = get_profile("tiny")
    local = LocalWorld.in_memory((item.page for item in world.pages), name=world.name)
    return await Agent(OneSearchPolicy(query), world_tools(local, tiny), tiny, FixedClock(datetime.date(2026, 1, 1))).run_many(
        [Job(question, Seeds(), question.id) for question in chain_questions(world, 100, 5, MIX)], concurrency=2
    )


@pytest.mark.parametrize("query", Query)
async def test_one_search_answers_few_multi_hop_questions(worlds: list[Encyclopedia], query: Query) -> None:
    found = [trajectory for world in worlds for trajectory in await play(world, query)]
    for trajectory in found:
        assert trajectory.ending is Ending.ANSWERED
        assert [len(node.calls) for node in trajectory.turns()] == [1, 0]
    multi = [t for t in found if (t.question.hops or 0) >= 2]
    single = [t for t in found if t.question.hops == 1]
    assert len(multi) > 200
    assert sum(t.answer in t.question.answers for t in multi) < 0.10 * len(multi)
    # The agent is no straw man: what one list can show, it finds.
    assert sum(t.answer in t.question.answers for t in single) > 0.10 * len(single)


def test_every_question_is_taken_apart_rightly(worlds: list[Encyclopedia]) -> None:
    for world in worlds:
        for hops, questions in split_by_hops(chain_questions(world, 120, 6, {**MIX, 4: 1.0})).items():
            for question in questions:
                asked = take_apart(question.text)
                path = Path.of(question)
                assert asked == Asked(
                    world.facts.entities[path.start].mention, tuple(BY_NAME[name] for name in path.relations)
                ), hops


def test_with_whole_pages_in_the_list_it_is_right(worlds: list[Encyclopedia]) -> None:
    world = worlds[0]
    atlas = {item.entity: item.page for item in world.pages if item.page.source == "atlas"}
    for question in chain_questions(world, 60, 7, MIX):
        path = Path.of(question)
        pages = [atlas[value] for value in (path.start, *path.objects[:-1]) if isinstance(value, int)]
        listed = "\n".join(f"[{number}] {page.title}\n{page.url}\n{page.text}" for number, page in enumerate(pages, 1))
        asked = take_apart(question.text)
        assert asked is not None
        assert best_guess(asked, listed) in question.answers


def test_every_sentence_of_every_page_is_read(worlds: list[Encyclopedia]) -> None:
    world = worlds[1]
    for item in world.pages:
        entity = world.facts.entities[item.entity]
        found = read_results(f"[1] {item.page.title}\n{item.page.url}\n{item.page.text}")
        expected = {(entity.mention, name, world.facts.object_text(value)) for name, value in item.claims.items()}
        assert {(fact.subject, fact.relation, fact.value) for fact in found} == expected


def test_the_right_site_is_believed_first() -> None:
    sites = ("https://gazette.example/item/", "https://atlas.example/wiki/")
    listed = "\n".join(
        f"[{n}] Banbel\n{site}Banbel\nThe town is twinned with {o}."
        for n, site, o in zip((1, 2), sites, ("Tantel", "Zorzel"), strict=True)
    )
    asked = take_apart("Which town is the sister town of Banbel?")
    assert asked is not None
    assert best_guess(asked, listed) == "Zorzel"


def test_an_empty_list_and_a_strange_question_still_get_an_answer() -> None:
    asked = take_apart("What is the famous product of the site of the Banbel Fair?")
    assert asked is not None
    assert best_guess(asked, "No results.")
    assert take_apart("How deep is the sea?") is None
