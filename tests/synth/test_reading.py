"""Facts that a model reads from pages: what stands in the page, whose names are one thing, and where a crawl goes."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_clients import ScriptedClient

from sanderling.core.asking import AskingOutageError
from sanderling.synth.graph.graph import Entity, Fact
from sanderling.synth.reading import PageFacts, ReadingSettings, Unused, crawl, merged, read_page
from sanderling.world.contract import Page
from sanderling.world.local import LocalWorld

FILLER = "The council met on Monday to speak of nets, salt and the weather. " * 4
ORLO = Page(
    url="https://w.example/orlo",
    title="Orlo",
    text=f"# Orlo\n\nOrlo is a town in Venn. Its tower was built by Asta Brandt in 1412.\n\n{FILLER}",
)
BRANDT = Page(
    url="https://w.example/brandt",
    title="Asta Brandt",
    text=f"# Asta Brandt\n\nAsta Brandt (Meister Brandt) was a pupil of Nils Ohm, and died in 1440.\n\n{FILLER}",
)
OHM = Page(url="https://w.example/ohm", title="Nils Ohm", text=f"# Nils Ohm\n\nNils Ohm was a mason in Venn.\n\n{FILLER}")
SAYS = {
    ORLO.url: {
        "entities": [{"name": "Orlo", "kind": "Town"}, {"name": "Tower of Orlo", "kind": "tower"}, {"name": "Asta Brandt"}],
        "facts": [
            {"subject": "Tower of Orlo", "relation": "Builder", "object": "Asta Brandt",
             "quote": "Its tower was built by Asta Brandt in 1412."},
            {"subject": "Tower of Orlo", "relation": "year of building", "object": 1412,
             "quote": "Its tower was built by Asta Brandt in 1412."},
        ],
    },
    BRANDT.url: {
        "entities": [{"name": "Asta Brandt", "kind": "mason", "aliases": ["Meister Brandt"]}, {"name": "Nils Ohm"}],
        "facts": [
            {"subject": "Meister Brandt", "relation": "teacher", "object": "Nils Ohm",
             "quote": "was a pupil of Nils Ohm"},
        ],
    },
    OHM.url: {"entities": [{"name": "Nils Ohm", "kind": "mason"}], "facts": []},
}  # fmt: skip


def by_page(system: str, material: str, sample: int) -> str:
    address = material.partition("Address: ")[2].partition("\n")[0]
    return json.dumps(SAYS[address])


def read(page: Page, reply: object) -> PageFacts:
    said = reply if isinstance(reply, str) else json.dumps(reply)
    return asyncio.run(read_page(page, [ScriptedClient(lambda *_: said)], ReadingSettings()))


def test_facts_come_with_their_words():
    found = read(ORLO, SAYS[ORLO.url])
    assert found.entities[0] == Entity("Orlo", "Orlo", "town")
    quote = "Its tower was built by Asta Brandt in 1412."
    assert found.facts[0] == Fact("Tower of Orlo", "builder", "Asta Brandt", False, ORLO.url, quote)
    assert found.facts[1].object == "1412" and not found.unused
    assert found.provenance["prompt"] == "facts-reader"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"subject": "Somebody"}, Unused.NO_SUCH_SUBJECT),
        ({"object": "Tower of Orlo"}, Unused.ABOUT_ITSELF),
        ({"quote": "The tower was built by Asta Brandt."}, Unused.QUOTE_NOT_IN_PAGE),
        ({"object": "Nils Ohm"}, Unused.OBJECT_NOT_IN_QUOTE),
        ({"relation": ""}, Unused.ODD_FORM),
        ({"relation": "x" * 500}, Unused.ODD_FORM),
        ({"quote": None}, Unused.ODD_FORM),
    ],
)
def test_what_does_not_stand_in_the_page_is_counted_and_not_used(change, reason):
    said = SAYS[ORLO.url]
    found = read(ORLO, {**said, "facts": [said["facts"][0] | change]})
    assert found.facts == [] and found.unused == {reason: 1}


def test_a_further_name_of_two_things_is_nobodys():
    entities = [{"name": "Orlo", "aliases": ["the town"]}, {"name": "Venn", "aliases": ["the town"]}]
    fact = {"subject": "the town", "relation": "year", "object": "1412", "quote": "Its tower was built by Asta Brandt in 1412."}
    assert read(ORLO, {"entities": entities, "facts": [fact]}).unused == {Unused.NO_SUCH_SUBJECT: 1}


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_no_reply_breaks_the_reader(value):
    for reply in (value, {"entities": value, "facts": value}, {"entities": [value], "facts": [value]}):
        assert read(ORLO, reply).facts == []


def test_an_unreadable_reply_is_told():
    assert read(ORLO, "Sorry.").unused == {Unused.UNREADABLE_REPLY: 1}


def test_one_name_is_one_thing_and_its_own_page_comes_first():
    graph = merged([read(page, SAYS[page.url]) for page in (ORLO, BRANDT)])
    brandt = next(entity for entity in graph.entities.values() if entity.name == "Asta Brandt")
    assert brandt.kind == "mason" and brandt.aliases == ("Meister Brandt",)
    (built,) = graph.incoming[brandt.id]
    (pupil,) = graph.outgoing[brandt.id]
    assert (built.relation, built.url, pupil.relation, pupil.url) == ("builder", ORLO.url, "teacher", BRANDT.url)
    assert not graph.complete
    tower = graph.outgoing[built.subject]
    assert (
        Fact(built.subject, "year of building", "1412", True, ORLO.url, "Its tower was built by Asta Brandt in 1412.") in tower
    )


def test_things_of_different_kinds_stay_two():
    one = PageFacts("u1", [Entity("Mercury", "Mercury", "planet")])
    two = PageFacts("u2", [Entity("mercury", "mercury", "element")])
    three = PageFacts("u3", [Entity("The Mercury", "The Mercury", "planet")])
    graph = merged([one, two, three])
    assert [(entity.name, entity.aliases) for entity in graph.entities.values()] == [
        ("Mercury", ("The Mercury",)),
        ("mercury", ()),
    ]


def test_names_that_differ_by_a_sign_are_two_things():
    names = ["C", "C++", "C#", "Orbit -5", "Orbit 5", "Part 1.5", "Part 15", "Area 10²", "Area 102"]
    facts = PageFacts("u", [Entity(name, name) for name in names])
    again = PageFacts("v", [Entity(f"the {name.lower()}", f"the {name.lower()}") for name in names])
    graph = merged([facts, again])
    assert [entity.name for entity in graph.entities.values()] == names


def test_a_crawl_reads_on_from_what_it_found():
    world = LocalWorld.in_memory([OHM, ORLO, BRANDT], name="w")
    client = ScriptedClient(by_page)
    found = asyncio.run(crawl(world, ORLO, [client], ReadingSettings(per_entity=1)))
    assert found[0].url == ORLO.url and {page.url for page in found} == {ORLO.url, BRANDT.url, OHM.url}
    assert len(client.asked) == 3
    assert {fact.relation for fact in merged(found).facts} == {"builder", "year of building", "teacher"}
    two = asyncio.run(crawl(world, ORLO, [ScriptedClient(by_page)], ReadingSettings(pages=2, per_entity=1)))
    assert two == found[:2]


def test_pages_in_scripts_without_blanks_are_read_on_from():
    """They are long enough, whatever blanks they have."""
    pages = [
        Page(url=f"https://w.example/{n}", title="奥洛", text=f"奥洛{n}" + "奥洛的灯塔由布兰特建造。" * 20) for n in range(2)
    ]
    said = json.dumps({"entities": [{"name": "奥洛", "kind": "town"}], "facts": []})
    world = LocalWorld.in_memory(pages, name="w")
    found = asyncio.run(crawl(world, pages[0], [ScriptedClient(lambda *_: said)], ReadingSettings()))
    assert len(found) == 2


def test_an_outage_is_not_a_page_without_facts():
    with pytest.raises(AskingOutageError):
        asyncio.run(crawl(LocalWorld.in_memory([ORLO], name="w"), ORLO, [ScriptedClient(lambda *_: None)], ReadingSettings()))
