"""Questions from graphs that a model reads: facts that stand in their page, whose names are one thing, drafts, rewordings."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_clients import ScriptedClient

from sanderling.core.types import AskingOutageError
from sanderling.synth.capabilities import Capability, Range
from sanderling.synth.graph import Entity, Fact
from sanderling.synth.making import GraphSettings
from sanderling.synth.pages import Models
from sanderling.synth.reading import COMPARER, READER, REWRITER, PageFacts, crawl, merged, questions_around, read_page, reword
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
        "entities": [{"name": "Orlo", "kind": "Town"}, {"name": "Tower of Orlo", "kind": "tower"},
                     {"name": "Asta Brandt", "kind": "mason"}],
        "facts": [
            {"subject": "Tower of Orlo", "relation": "Builder", "object": "Asta Brandt",
             "quote": "Its tower was built by Asta Brandt in 1412."},
            {"subject": "Tower of Orlo", "relation": "year of building", "object": 1412,
             "quote": "Its tower was built by Asta Brandt in 1412."},
        ],
    },
    BRANDT.url: {
        "entities": [{"name": "Asta Brandt", "kind": "mason", "aliases": ["Meister Brandt"]},
                     {"name": "Nils Ohm", "kind": "mason"}],
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
    return asyncio.run(read_page(page, [ScriptedClient(lambda *_: said)]))


def test_facts_come_with_their_words():
    found = read(ORLO, SAYS[ORLO.url])
    assert found.entities["Orlo"] == Entity("orlo (town)", "Orlo", "town")
    quote = "Its tower was built by Asta Brandt in 1412."
    assert found.facts[0] == Fact("tower of orlo (tower)", "builder", "asta brandt (mason)", False, ORLO.url, quote)
    assert found.facts[1].object == "1412" and found.provenance["prompt"] == "facts-reader"


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "Somebody"}, {"object": "Tower of Orlo"}, {"quote": "The tower was built by Asta Brandt."},
        {"object": "Nils Ohm"}, {"relation": ""}, {"relation": "x" * 500}, {"quote": None},
    ],
)  # fmt: skip
def test_what_does_not_stand_in_the_page_is_not_used(change):
    said = SAYS[ORLO.url]
    assert read(ORLO, {**said, "facts": [said["facts"][0] | change]}).facts == []


def test_a_further_name_of_two_things_is_nobodys():
    entities = [{"name": name, "kind": "town", "aliases": ["the town"]} for name in ("Orlo", "Venn")]
    fact = {"subject": "the town", "relation": "year", "object": "1412", "quote": "Its tower was built by Asta Brandt in 1412."}
    assert read(ORLO, {"entities": entities, "facts": [fact]}).facts == []
    assert len(read(ORLO, {"entities": entities[:1], "facts": [fact]}).facts) == 1


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_no_reply_breaks_the_reader(value):
    for reply in (value, {"entities": value, "facts": value}, {"entities": [value], "facts": [value]}, "Sorry."):
        assert read(ORLO, reply).facts == []


def test_one_name_is_one_thing():
    graph = merged([read(page, SAYS[page.url]) for page in (ORLO, BRANDT)])
    brandt = next(entity for entity in graph.entities.values() if entity.name == "Asta Brandt")
    assert brandt.kind == "mason" and brandt.aliases == ("Meister Brandt",)
    (built,) = graph.incoming[brandt.id]
    (pupil,) = graph.outgoing[brandt.id]
    assert (built.relation, built.url, pupil.relation, pupil.url) == ("builder", ORLO.url, "teacher", BRANDT.url)
    assert not graph.complete


def test_a_crawl_reads_on_from_what_it_found():
    world = LocalWorld.in_memory([OHM, ORLO, BRANDT], name="w")
    client = ScriptedClient(by_page)
    found = asyncio.run(crawl(world, ORLO, [client], 8))
    assert found[0].url == ORLO.url and {page.url for page in found} == {ORLO.url, BRANDT.url, OHM.url}
    assert len(client.asked) == 3
    assert {fact.relation for fact in merged(found).facts} == {"builder", "year of building", "teacher"}
    assert asyncio.run(crawl(world, ORLO, [ScriptedClient(by_page)], 2)) == found[:2]


def test_an_outage_is_not_a_page_without_facts():
    with pytest.raises(AskingOutageError):
        asyncio.run(crawl(LocalWorld.in_memory([ORLO], name="w"), ORLO, [ScriptedClient(lambda *_: None)], 8))


# questions


def town(name: str, builder: str, year: int) -> Page:
    text = f"# {name}\n\nThe tower of {name} was built by {builder} in {year}.\n\n{FILLER}"
    return Page(url=f"https://w.example/{name.lower()}", title=name, text=text)


def person(name: str, teacher: str, home: str) -> Page:
    text = f"# {name}\n\n{name} learnt from {teacher}. {name} was born in {home}.\n\n{FILLER}"
    return Page(url=f"https://w.example/{name.lower()}", title=name, text=text)


PAGES = [
    town("Orlo", "Brandt", 1412), town("Venn", "Lund", 1430), person("Brandt", "Ohm", "Kello"),
    person("Lund", "Ohm", "Tarn"), person("Ohm", "Falk", "Kello"),
]  # fmt: skip


def careful(page: Page) -> dict:
    """What a careful model says of one of these pages."""
    lines = page.text.splitlines()[2]
    parts = lines.replace(".", "").split()
    if parts[0] == "The":
        tower, builder, year = f"tower of {page.title}", parts[7], parts[9]
        entities = [{"name": tower, "kind": "tower"}, {"name": builder, "kind": "mason"}]
        facts = [(tower, "builder", builder), (tower, "year of building", year)]
    else:
        teacher, home = parts[3], parts[8]
        entities = [{"name": n, "kind": "mason"} for n in (page.title, teacher)] + [{"name": home, "kind": "village"}]
        facts = [(page.title, "teacher", teacher), (page.title, "birthplace", home)]
    said = [{"subject": s, "relation": r, "object": o, "quote": _sentence(lines, o)} for s, r, o in facts]
    return {"entities": entities, "facts": said}


def _sentence(line: str, object: str) -> str:
    return next(part.strip() + "." for part in line.split(".") if object in part.split())


def model(system: str, material: str, sample: int) -> str:
    if system == READER.system:
        address = material.partition("Address: ")[2].partition("\n")[0]
        return json.dumps(careful(next(page for page in PAGES if page.url == address)))
    if system == REWRITER.system:
        return json.dumps({"question": "As an expert would ask: " + material.removeprefix("Draft: ")})
    return json.dumps({"same": True, "reason": "word for word"})


def around(say=model):
    world = LocalWorld.in_memory(PAGES, name="w")
    client = ScriptedClient(say)
    two = (Capability.DIRECT, Capability.AGGREGATION)
    wanted = GraphSettings(count=4, size=Range(3, 6), hops=Range(2, 4), capabilities=two)
    about = {"world": world, "settings": wanted, "read_pages": 5}
    return asyncio.run(questions_around(PAGES[0], Models([client], [client]), {"world": "w"}, **about))


def test_a_page_that_leads_nowhere_says_so():
    result = around(lambda *_: json.dumps({"entities": [], "facts": []}))
    assert result.questions == [] and result.rejected == [("no draft", "0 things, 0 facts; draws: ")]


@pytest.mark.parametrize(
    ("said", "same", "problem"),
    [
        ({"question": "Which tower did the mason from Kello build?"}, '{"same": true}', ""),
        ({"question": "Which tower did Brandt of Kello build?"}, '{"same": true}', "names what was hidden"),
        ({"question": "Is it the Tower of Orlo that a mason from Kello built?"}, '{"same": true}', "names its answer"),
        ({"question": "Which tower is it, according to the text?"}, '{"same": true}', "leans on the page"),
        ({"question": "Which tower? " * 200}, '{"same": true}', "too long"),
        ({"question": "Which bridge did the mason from Kello build?"}, '{"same": false}', "not the same"),
        ({"question": "Which tower did the mason from Kello build?"}, "I think so", "unscored"),
        ("no idea", '{"same": true}', "unreadable reply"),
        ({"question": ""}, '{"same": true}', "unreadable reply"),
    ],
)
def test_rewordings(said, same, problem):
    def say(system: str, material: str, sample: int) -> str:
        return (said if isinstance(said, str) else json.dumps(said)) if system == REWRITER.system else same

    client = ScriptedClient(say)
    draft = "Find the tower whose builder is the mason whose birthplace is Kello."
    found = asyncio.run(reword(draft, ("tower of Orlo",), ("Brandt", "Meister Brandt"), Models([client], [client])))
    assert found[1] == problem
    judged = any(system == COMPARER.system for system, _ in client.asked)
    assert judged is (problem in ("", "not the same", "unscored"))
